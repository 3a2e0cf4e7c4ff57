"""Every attack that reads tables finds its canaries, whatever the policy publishes; one that is broken does not."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from deid_assets.assessments import (
    absence,
    attribute_disclosure,
    demographic_risk,
    identified_files,
    kernel_input,
    membership_changes,
    number_of_claims,
    population_estimates,
    provider_graph_attack,
    registry,
)
from deid_assets.assessments.assessment import canaries_measurement
from deid_assets.assessments.earlier_releases import EverReleased
from deid_assets.assessments.identified_files import matched_shares
from deid_assets.assessments.planting import as_certain, plant, planted_store
from deid_assets.assessments.population_estimates import ESTIMATORS, SMALL_CLASSES, UNIQUES, Estimates
from deid_assets.methods.attacks import identified_file, marketer_risk, provider_graph
from deid_assets.methods.attacks.identified_file import match_table, visit_histories
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.disclosure import attribute_disclosure as attributes
from deid_assets.methods.disclosure import membership, ordered_services
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk
from deid_assets.methods.flat import queries
from deid_assets.methods.statistics.population_class_size import minimum_sample_class_size
from deid_assets.methods.statistics.population_uniqueness import Uniqueness
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.store.tables import Table, connect
from deid_assets_tests.assessments.planted_layouts import Canaries, FlatCanaries
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.test_form import claims_values
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.test_dates import dated_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT

ATTACKS = (
    "demographic_risk", "voter_list_attack", "inpatient_attack", "population_estimates", "attribute_disclosure",
    "membership_disclosure", "provider_graph_attack", "inference_channels",
)  # fmt: skip
SLOWEST = "inference_channels"
KERNEL = {"longitudinal_risk", "worst_classes", "neighbor_attack", "attack_sensitivity"}
"""Their canaries are planted in arrays."""
NO_PLACE = {"members": [{"column": "days_in_hospital_y2", "release_as": "DaysInHospital_Y2", "hierarchy": "days_in_hospital"}],
            "claims": [{"column": "specialty", "release_as": "Specialty", "hierarchy": "place"}]}  # fmt: skip


def policy(name: str):
    if name == "small":
        return policy_from(SMALL)
    if name == "neither age nor sex nor place":
        days = [{"name": "days_in_hospital", "columns": ["days_in_hospital_y2"]}]
        return policy_from(changed(SMALL, quasi_identifiers=NO_PLACE, dimensions=days))
    return policy_by_name(name)


def flat(population: bool = False, **changes):
    return policy_from(changed(FLAT, **changes, **({"population": {"file": "population.csv"}} if population else {})))


@pytest.fixture(scope="module")
def store():
    with small_store() as store, connect(store.file):
        yield store


@pytest.fixture(scope="module")
def canaries():
    """In a store of their own: another policy's would be of the same names."""
    with small_store() as own, connect(own.file):
        yield Canaries(own, policy("heritage"), level=1)


def test_every_assessment_has_canaries():
    # Canaries in tables of counts, see release/test_published_counts.py; in two releases, see test_cross_release_risk.py;
    # and in data of which some was lost, see test_utility.py.
    elsewhere = {"count_disclosure_audit", "cross_release_risk", "utility"}
    assert {*ATTACKS, *KERNEL} | elsewhere == {one.name for one in registry.LONGITUDINAL}
    counts = "count_disclosure_audit"
    # Of linked records, see test_record_cross_release_risk.py.
    assert {"record_risk", "record_attribute_disclosure", "record_cross_release_risk", counts} == {
        one.name for one in registry.FLAT
    }
    assert {"cohort_risk", "record_cross_release_risk", counts} == {one.name for one in registry.COHORT}, (
        "see test_cohort_canaries.py"
    )


class TestWorkingAttacks:
    @pytest.mark.parametrize(
        ("name", "attack"),
        [
            pytest.param(name, attack, marks=pytest.mark.matrix if attack == SLOWEST else [])
            for name in ("heritage_public", "claims_dates", "claims_and_fills", "desynpuf", "neither age nor sex nor place")
            for attack in ATTACKS
        ],
    )
    def test_find_all_canaries(self, store, name, attack):
        found = getattr(Canaries(store, policy(name)), attack)()
        assert found.share == 1, found

    @pytest.mark.parametrize("attack", [*(a for a in ATTACKS if a != SLOWEST), pytest.param(SLOWEST, marks=pytest.mark.matrix)])
    def test_find_them_at_coarser_levels(self, canaries, attack):
        assert getattr(canaries, attack)().share == 1

    @pytest.mark.parametrize("in_order", [False, True])
    def test_days_without_dates_have_an_order_too(self, store, in_order):
        dated = dated_policy(in_order)
        dated["dates"]["format"] = "days_since_first_service"
        del dated["quasi_identifiers"]["claims"][1]
        assert Canaries(store, policy_from(dated)).demographic_risk().share == 1

    @pytest.mark.parametrize("known", [1, 2, 5])
    def test_however_many_patterns_are_known(self, store, known):
        own = policy_from(changed(SMALL, provider_graph={"patterns_known": known}))
        assert Canaries(store, own).provider_graph_attack().share == 1

    def test_patterns_of_several_tables_of_events(self, store):
        assert Canaries(store, policy("claims_and_fills")).provider_graph_attack().share == 1

    @pytest.mark.parametrize("limits", [{"sensitive": ["place"]}, {"sensitive": ["place", "charlson"], "l_kind": "entropy"}])
    def test_whichever_attributes_are_sensitive(self, store, limits):
        found = Canaries(store, policy_from(changed(SMALL, attribute_disclosure=limits))).attribute_disclosure()
        assert found.share == 1 and found.draws > 7

    @pytest.mark.parametrize(
        ("own", "sensitive"),
        [
            (lambda: policy("omop"), ("condition", "drug", "sex")),
            (lambda: policy_from(claims_values()), ("race", "plan", "amount", "age")),
        ],
        ids=["tables of events", "declared columns"],
    )
    def test_whatever_is_published_may_be_sensitive(self, store, own, sensitive):
        limits = own().attribute_disclosure.model_copy(update={"sensitive": sensitive})
        planted = Canaries(store, own().model_copy(update={"attribute_disclosure": limits}), level=1)
        found = planted.attribute_disclosure()
        assert planted.policy.sensitive_columns == sensitive and found.share == 1 and found.draws > 7 * len(sensitive)

    @pytest.mark.parametrize("year", ["", ", year VARCHAR"])
    def test_in_tables_that_the_adversary_holds(self, store, year):
        columns = "row_key BIGINT, person BIGINT, weight BIGINT, age VARCHAR, sex VARCHAR"
        visits = f"{columns}, length_of_stay VARCHAR, condition_group VARCHAR, procedure_group VARCHAR{year}"
        assert Canaries(store, policy("heritage"), listed=columns).voter_list_attack().share == 1
        found = Canaries(store, policy("heritage"), listed=visits).inpatient_attack()
        assert found.share == 1 and found.draws > 60

    @pytest.mark.parametrize("population", [False, True])
    @pytest.mark.parametrize("level", [0, 1, 2])
    def test_find_records_in_small_classes(self, store, population, level):
        found = FlatCanaries(store, flat(population), level).record_risk()
        assert found == Findings(9, 9) if population else found == Findings(6, 6)

    @pytest.mark.parametrize("changes", [{}, {"attributes": []}, {"attribute_disclosure": {"ordered": ["Likes"]}}])
    def test_find_what_classes_of_records_tell(self, store, changes):
        found = FlatCanaries(store, flat(**changes)).record_attribute_disclosure()
        assert found.share == 1 and found.draws >= 4


def test_canaries_lie_in_a_file_of_their_own_that_is_gone_afterwards(canaries, monkeypatch):
    file = canaries.tables["release_members"].file
    before = file.read_bytes()
    seen = []
    honest = demographic_risk.demographics_of

    def watched(candidate):
        seen.append(candidate.tables["member_profiles"].file)
        return honest(candidate)

    monkeypatch.setattr(demographic_risk, "demographics_of", watched)
    canaries.demographic_risk()
    assert seen and not seen[0].exists() and seen[0] != file
    assert file.read_bytes() == before


def test_a_column_that_the_layout_lacks_is_an_error(store):
    like = store.table("narrow", "age INTEGER", [])
    with planted_store() as file, pytest.raises(ValueError, match="table narrow has no column sex"):
        plant(file, like, [{"age": 1, "sex": "F"}])


def test_what_was_not_measured_is_not_found():
    one = canaries_measurement(Findings(1, 2))
    assert as_certain({"canaries_found": 0.5, "other": None}, [one]) == Findings(1, 2)
    assert as_certain({"canaries_found": None}, [one]).share == 0


def constant(value):
    return lambda *args, **kwargs: value


class TestBrokenAttacks:
    """Each overlooks something, or reports no risk at all."""

    def broken(self, canaries, attack) -> None:
        assert getattr(canaries, attack)().share < 1

    @pytest.mark.parametrize("column", ["age", "sex", "days_in_hospital_y2", "days_in_hospital_y3", "claims_truncated"])
    @pytest.mark.parametrize("attack", ["demographic_risk", "membership_disclosure", "population_estimates"])
    def test_demographics_that_overlook_a_column(self, canaries, monkeypatch, attack, column):
        module = demographic_risk if attack == "demographic_risk" else kernel_input
        honest = module.demographic_class_sizes
        monkeypatch.setattr(
            module, "demographic_class_sizes", lambda *t: honest(*t[:2], [name for name in t[2] if name != column])
        )
        self.broken(canaries, attack)

    @pytest.mark.parametrize("attack", ["demographic_risk", "membership_disclosure"])
    def test_demographics_counted_in_the_release_only(self, canaries, monkeypatch, attack):
        module = demographic_risk if attack == "demographic_risk" else kernel_input
        honest = module.demographic_class_sizes
        monkeypatch.setattr(module, "demographic_class_sizes", lambda p, r, columns: honest(r, r, columns))
        self.broken(canaries, attack)

    def test_demographics_without_classes(self, canaries, monkeypatch):
        none = DemographicRisk(20, 0, None, 0, 0, ())
        monkeypatch.setattr(demographic_risk, "demographics_of", constant(demographic_risk.MemberRisk(none, {})))
        self.broken(canaries, "demographic_risk")

    def test_a_number_of_claims_that_is_overlooked(self, canaries, monkeypatch):
        honest = number_of_claims.with_bins
        monkeypatch.setattr(number_of_claims, "with_bins", lambda *of: f"SELECT * REPLACE (1 AS n0) FROM ({honest(*of)})")
        self.broken(canaries, "demographic_risk")

    @pytest.mark.parametrize(
        ("part", "instead"),
        [
            (r" AND w(\d)\.place = w0\.place \+ \d", r" AND w\1.place <> w0.place"),
            (r"w0\.place \+ \d", "w0.place + 1"),
            (r"w\d\.gap AS", "1 AS"),
            (r"w\d\.claim AS", "1 AS"),
            (r"ORDER BY d0, .*?\) AS cell", "ORDER BY 1) AS cell"),
            (r"count\(\*\) FILTER \(NOT shown\)", "count(*)"),
            (r"min\(s\.members\)", "max(s.members)"),
            (r"s\.members < \d+", "s.members < 1"),
        ],
    )
    def test_ordered_services_of_which_something_is_overlooked(self, store, monkeypatch, part, instead):
        """Such as their order, the intervals or the claims."""
        honest = ordered_services.ordered_class_sizes

        def broken(*of):
            found, times = re.subn(part, instead, honest(*of))
            assert times
            return found

        monkeypatch.setattr(ordered_services, "ordered_class_sizes", broken)
        self.broken(Canaries(store, policy("claims_dates")), "demographic_risk")

    def test_absence_that_counts_nobody(self, canaries, monkeypatch):
        monkeypatch.setattr(demographic_risk, "absence_numbers", constant((0.0, 0.5)))
        self.broken(canaries, "demographic_risk")

    def test_absence_that_counts_everybody_removed(self, canaries, monkeypatch):
        def everybody(eligible, removed, released):
            return removed.count() / (removed.count() + eligible.count()), released / eligible.count()

        monkeypatch.setattr(demographic_risk, "absence_numbers", everybody)
        self.broken(canaries, "demographic_risk")

    @pytest.mark.parametrize("column", ["age", "sex", "days_in_hospital_y2", "days_in_hospital_y3", "claims_truncated"])
    def test_classes_of_absence_that_overlook_a_column(self, canaries, monkeypatch, column):
        honest = absence.classes_query
        monkeypatch.setattr(
            absence, "classes_query", lambda sql, names: honest(sql, [name for name in names if name != column])
        )
        self.broken(canaries, "demographic_risk")

    def test_absence_from_this_release_alone(self, canaries, monkeypatch):
        monkeypatch.setattr(EverReleased, "contain", lambda self, tags: np.zeros(len(tags), dtype=bool))
        self.broken(canaries, "demographic_risk")

    def test_absence_that_counts_who_is_not_eligible_as_released(self, canaries, monkeypatch):
        honest = absence.absent_query

        def everybody(classes, eligible, removed, released):
            return honest(classes, eligible, removed, released).replace(eligible.sql, f"({classes})")

        monkeypatch.setattr(absence, "absent_query", everybody)
        self.broken(canaries, "demographic_risk")

    def test_absence_of_all_classes_together(self, canaries, monkeypatch):
        honest = absence.absence_by_class
        monkeypatch.setattr(absence, "absence_by_class", lambda classes, *others: honest(0 * classes, *others))
        self.broken(canaries, "demographic_risk")

    def test_earlier_releases_that_are_overlooked(self, canaries, monkeypatch):
        monkeypatch.setattr(membership_changes, "changes_since", constant(()))
        self.broken(canaries, "demographic_risk")

    def test_members_gone_or_come_who_tell_nothing(self, canaries, monkeypatch):
        monkeypatch.setattr(membership_changes, "posterior_of_the_missing", constant(0.0))
        self.broken(canaries, "demographic_risk")

    def test_members_gone_of_all_classes_together(self, canaries, monkeypatch):
        honest = membership_changes.posterior_of_the_missing

        def together(released, other):
            return honest(replace(released, classes=np.minimum(released.classes, 0)), other)

        monkeypatch.setattr(membership_changes, "posterior_of_the_missing", together)
        self.broken(canaries, "demographic_risk")

    @pytest.mark.parametrize("everybody", [False, True])
    def test_newcomers_of_whom_none_or_all_stand_out(self, canaries, monkeypatch, everybody):
        monkeypatch.setattr(membership_changes, "stand_out", lambda tags, *others: np.full(len(tags), everybody))
        self.broken(canaries, "demographic_risk")

    @pytest.mark.parametrize("column", ["age", "sex"])
    def test_a_voter_list_that_overlooks_a_column(self, canaries, monkeypatch, column):
        honest = identified_file.file_class_sizes
        monkeypatch.setattr(
            identified_file, "file_class_sizes", lambda rows, names: honest(rows, [n for n in names if n != column])
        )
        self.broken(canaries, "voter_list_attack")

    def test_a_voter_list_whose_people_do_not_count(self, store, monkeypatch):
        own = Canaries(store, policy("heritage"), listed="person BIGINT, weight BIGINT, age VARCHAR, sex VARCHAR")
        honest = identified_file.listed_people
        monkeypatch.setattr(
            identified_file, "listed_people", lambda *of: f"SELECT * REPLACE (1 AS weight) FROM ({honest(*of)})"
        )
        self.broken(own, "voter_list_attack")

    @pytest.mark.parametrize("attack", ["voter_list_attack", "inpatient_attack"])
    def test_attacks_that_match_nobody(self, canaries, monkeypatch, attack):
        monkeypatch.setattr(marketer_risk, "matched_share", constant(0.0))
        honest = matched_shares
        monkeypatch.setattr(identified_files, "matched_shares", lambda *of: dict.fromkeys(honest(*of), 0.0))
        self.broken(canaries, attack)

    def test_linkage_that_is_never_right(self, canaries, monkeypatch):
        def never(own, classes, match, random, trials, cautious):
            return marketer_risk.Linkage(len(own), 1, np.zeros(trials, np.int64))

        monkeypatch.setattr(identified_files, "simulate_linkage", never)
        self.broken(canaries, "voter_list_attack")

    @pytest.mark.parametrize("column", ["age", "sex", "length_of_stay", "condition_group", "procedure_group"])
    def test_an_inpatient_database_in_which_a_column_is_blank(self, canaries, monkeypatch, column):
        def blank(visits: Table, columns):
            honest = visit_histories(visits, columns)
            return honest.replace(f"coalesce(v.\"{column}\", '')", "''").replace(f"coalesce(\"{column}\", '')", "''")

        monkeypatch.setattr(identified_files, "visit_histories", blank)
        self.broken(canaries, "inpatient_attack")

    def test_an_inpatient_database_without_repeated_visits(self, canaries, monkeypatch):
        def distinct(visits: Table, columns):
            honest = visit_histories(visits, columns).replace("count(*) AS visits", "1 AS visits")
            return honest.replace("list_sort(list(", "list_sort(list(DISTINCT ")

        monkeypatch.setattr(identified_files, "visit_histories", distinct)
        self.broken(canaries, "inpatient_attack")

    def test_an_inpatient_database_without_years(self, canaries, monkeypatch):
        monkeypatch.setattr(
            identified_files, "visit_histories", lambda *of: visit_histories(*of).replace("v.year", "1 AS year")
        )
        self.broken(canaries, "inpatient_attack")

    def test_an_inpatient_database_in_which_nobody_is_found(self, canaries, monkeypatch):
        def nobody(histories: Table, columns):
            return match_table(histories, columns).replace("own / greatest(people, 1)", "0.0")

        monkeypatch.setattr(identified_files, "match_table", nobody)
        self.broken(canaries, "inpatient_attack")

    def test_no_inpatients_at_all(self, canaries, monkeypatch):
        monkeypatch.setattr(identified_files, "inpatient_labels", constant([]))
        self.broken(canaries, "inpatient_attack")

    @pytest.mark.parametrize("presence", [0.0, 1.0])
    def test_presence_that_tells_nothing(self, canaries, monkeypatch, presence):
        found = membership.Membership(presence, presence, (presence,) * 3, 0.0)
        monkeypatch.setattr(membership, "membership", constant(found))
        self.broken(canaries, "membership_disclosure")

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_an_estimator_that_takes_every_class_for_large(self, canaries, monkeypatch, estimator):
        honest = minimum_sample_class_size
        monkeypatch.setattr(
            population_estimates, "minimum_sample_class_size",
            lambda alpha, name, enough: 1 if name == estimator and alpha < 1 else honest(alpha, name, enough),
        )  # fmt: skip
        self.broken(canaries, "population_estimates")

    @pytest.mark.parametrize("counted", [None, (0.0, 0)])
    def test_limits_on_estimates_alone_although_the_population_is_counted(self, canaries, monkeypatch, counted):
        honest = Estimates.measurements

        def without_the_count(self, policy):
            told = {one.name: one for one in honest(self, policy)}
            of_estimates = {one.name: one for one in honest(replace(self, counted=counted), policy)}
            return tuple((told | {name: of_estimates[name] for name in (SMALL_CLASSES, UNIQUES)}).values())

        monkeypatch.setattr(Estimates, "measurements", without_the_count)
        self.broken(canaries, "population_estimates")

    def test_estimates_without_uniques(self, canaries, monkeypatch):
        monkeypatch.setattr(
            population_estimates, "population_uniqueness", constant(Uniqueness(0.0, 0.0, 0.0, 0.0, "zayatz", ()))
        )
        self.broken(canaries, "population_estimates")

    @pytest.mark.parametrize("column", ["age", "sex", "days_in_hospital_y2", "claims_truncated"])
    def test_attributes_that_overlook_a_column(self, canaries, monkeypatch, column):
        for name, place in (("class_value_counts", 1), ("sets_of_values", 2), ("held_counts", 2)):
            honest = getattr(attributes, name)

            def overlooking(*of, honest=honest, place=place):
                return honest(*of[:place], [listed for listed in of[place] if listed != column], *of[place + 1 :])

            monkeypatch.setattr(attributes, name, overlooking)
        self.broken(canaries, "attribute_disclosure")

    @pytest.mark.parametrize("field", ["homogeneous_members", "greatest_distance"])
    def test_attributes_of_which_nothing_is_told(self, canaries, monkeypatch, field):
        for name in ("single_valued", "several_valued"):
            honest = getattr(attributes, name)

            def nothing(*of, honest=honest, **settings):
                found = vars(honest(*of, **settings)) | {field: 0}
                return attributes.ClassDisclosure(**found)

            monkeypatch.setattr(attributes, name, nothing)
        self.broken(canaries, "attribute_disclosure")

    def test_attributes_of_which_only_the_best_is_told(self, canaries, monkeypatch):
        monkeypatch.setattr(attribute_disclosure, "max", min, raising=False)
        self.broken(canaries, "attribute_disclosure")

    def test_a_charlson_index_that_is_any_of_a_member_s(self, canaries, monkeypatch):
        honest = attributes.leading_number
        monkeypatch.setattr(
            attributes, "leading_number",
            lambda value: f"(-{honest(value)})" if value == "CharlsonIndex" else honest(value),
        )  # fmt: skip
        self.broken(canaries, "attribute_disclosure")

    def test_patterns_of_care_that_overlook_their_table(self, store, monkeypatch):
        shown = provider_graph.shown_patterns

        def without(claims, *others):
            return shown(f"(SELECT * REPLACE ('claims' AS event_table) FROM {claims})", *others)

        monkeypatch.setattr(provider_graph, "shown_patterns", without)
        self.broken(Canaries(store, policy("claims_and_fills")), "provider_graph_attack")

    @pytest.mark.parametrize(
        ("name", "column"),
        [
            *(("heritage", column) for column in ("place", "specialty", "procedure_group", "condition_group")),
            *(("claims_and_fills", column) for column in ("condition_group", "drug")),
        ],
    )
    def test_patterns_of_care_that_overlook_a_column(self, store, monkeypatch, name, column):
        own = Canaries(store, policy(name))
        honest = generalized_claims

        def overlooking(claims, domains, levels, *others):
            return f'SELECT * REPLACE (NULL::VARCHAR AS "{column}") FROM ({honest(claims, domains, levels, *others)})'

        monkeypatch.setattr(provider_graph_attack, "generalized_claims", overlooking)
        released = own.policy.claim_names[column]
        shown = provider_graph.shown_patterns

        def without(claims, identifier, patterns, pattern, names=None):
            if names and released in names:
                claims = f'(SELECT * REPLACE (NULL::VARCHAR AS "{released}") FROM {claims})'
            return shown(claims, identifier, patterns, pattern, names)

        monkeypatch.setattr(provider_graph, "shown_patterns", without)
        self.broken(own, "provider_graph_attack")

    def test_providers_of_whom_only_one_pattern_is_known(self, canaries, monkeypatch):
        honest = provider_graph.recognized_by_patterns
        monkeypatch.setattr(
            provider_graph, "recognized_by_patterns",
            lambda register, shown, patterns, known, *others: honest(register, shown, patterns, 1, *others),
        )  # fmt: skip
        self.broken(canaries, "provider_graph_attack")

    @pytest.mark.parametrize(
        ("part", "instead"),
        [
            ("q.largest, count(*)", "NULL AS largest, count(*)"),
            ("floor(log2(p.n))::INTEGER AS a", "0 AS a"),
            ("a.member = b.member AND a.id <> b.id", "false"),
        ],
    )
    def test_a_graph_that_overlooks_what_is_shared(self, canaries, monkeypatch, part, instead):
        honest = provider_graph.graph_classes
        assert part in honest("claims", "member", "identifier")
        monkeypatch.setattr(provider_graph, "graph_classes", lambda *of: honest(*of).replace(part, instead))
        self.broken(canaries, "provider_graph_attack")

    def test_nobody_is_recognized(self, canaries, monkeypatch):
        never = constant(provider_graph.Recognition(1, 0.0, 0.0))
        monkeypatch.setattr(provider_graph, "recognized_by_patterns", never)
        monkeypatch.setattr(provider_graph, "recognized_by_graph", never)
        self.broken(canaries, "provider_graph_attack")


class TestBrokenFlatAttacks:
    @pytest.mark.parametrize(("column", "population"), [*itertools.product(["Town", "Age", "Sex"], [False, True])])
    def test_classes_that_overlook_a_column(self, store, monkeypatch, column, population):
        own, honest = FlatCanaries(store, flat(population)), queries.class_sizes
        monkeypatch.setattr(
            queries, "class_sizes", lambda rows, hiding, names: honest(rows, hiding, [n for n in names if n != column])
        )
        assert own.record_risk().share < 1

    def test_classes_that_are_all_large(self, store, monkeypatch):
        own, honest = FlatCanaries(store, flat()), queries.class_sizes
        monkeypatch.setattr(queries, "class_sizes", lambda *of: f"SELECT * REPLACE (1000 AS class_size) FROM ({honest(*of)})")
        assert own.record_risk().share < 1

    def test_missing_values_that_are_like_nothing(self, store, monkeypatch):
        own, honest = FlatCanaries(store, flat()), queries.class_sizes
        monkeypatch.setattr(queries, "class_sizes", lambda *of: honest(*of).replace("IS NOT DISTINCT FROM", "="))
        assert own.record_risk().share < 1

    def test_a_population_that_is_never_too_small(self, store, monkeypatch):
        own = FlatCanaries(store, flat(population=True))
        monkeypatch.setattr(queries, "classes_beyond", constant("SELECT 0 AS beyond WHERE false"))
        assert own.record_risk().share < 1

    @pytest.mark.parametrize("column", ["Town", "Age", "Sex"])
    def test_attributes_in_classes_that_overlook_a_column(self, store, monkeypatch, column):
        own, honest = FlatCanaries(store, flat()), attributes.class_value_counts
        monkeypatch.setattr(
            attributes, "class_value_counts", lambda rows, names, value: honest(rows, [n for n in names if n != column], value)
        )
        assert own.record_attribute_disclosure().share < 1

    def test_attributes_of_which_nothing_is_told(self, store, monkeypatch):
        own, honest = FlatCanaries(store, flat()), attributes.single_valued

        def nothing(*of):
            return attributes.ClassDisclosure(**(vars(honest(*of)) | {"homogeneous_members": 0}))

        monkeypatch.setattr(attributes, "single_valued", nothing)
        assert own.record_attribute_disclosure().share < 1
