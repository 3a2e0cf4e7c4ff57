"""Inference channels: what is measured, what refuses, what the public may see, and canaries that a broken model misses."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.assessments import inference_rows, kernel_input
from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.inference_channels import (
    ALL,
    FEWER_TRIALS,
    INFERENCE_CHANNELS,
    LARGEST,
    SUREST,
    TRIALS,
    Line,
    inference_figure,
    inference_measurements,
    inference_metadata,
    lines,
    report_table,
)
from deid_assets.assessments.inference_rows import (
    BLANK,
    LINKED,
    OTHERS,
    SAMPLE,
    WITHOUT_IDENTIFIERS,
    ChannelRows,
    Inferred,
    channel_rows,
    channels_of,
    inferred,
)
from deid_assets.assessments.planting import plant
from deid_assets.errors import PolicyError
from deid_assets.methods.inference.cases import Cases, CasesToGuess, Guesses
from deid_assets.methods.inference.gain import Outcome, naive_bayes
from deid_assets.methods.inference.rows import CLAIM, MEMBER, Channel
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.reference.known_columns import EVENT_TABLE
from deid_assets.release.manifest.public_numbers import PublicNumbers
from deid_assets.reports.plain_words import explain
from deid_assets_tests.assessments.planted_layouts import Canaries
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.policy.test_form import claims_values
from deid_assets_tests.scenarios.policies import SMALL, changed

EVERY = ["diagnosis", "provider", "vendor", "pcp", "length_of_stay", "age", "claims_truncated"]
MARGIN = {"at_most": 0.1}
NO_PROFILES = np.empty((10_000, 0), dtype=np.int32)


def policy(**section):
    return policy_from(changed(SMALL, inference=section))


def stream(purpose: str) -> np.random.Generator:
    return np.random.default_rng([*purpose.encode()])


def channel(members: int, tells: float, groups: int = 1) -> ChannelRows:
    """Claims, three of each member, with two codes and a field that tells the code of a share of the members."""
    rng = np.random.default_rng(1)
    people = np.repeat(np.arange(members), 3)
    codes = rng.integers(0, 2, members)[people]
    told = (rng.random(members) < tells)[people]
    field = np.where(told, codes, 2)
    return ChannelRows(
        Channel("diagnosis_3", "", ""),
        tuple(f"group {n}" for n in range(groups)),
        people % groups,
        codes,
        people,
        {"f0": field},
        [],
        NO_PROFILES[:members],
    )


def measured(members: int, tells: float, groups: int = 1, number: int = 1, **section) -> dict[str, Measurement]:
    own = policy(**section)
    found = inferred(own, [channel(members, tells, groups)], members, stream)
    return {one.name: one for one in inference_measurements(own, found, members, stream, "c" * 64, number)}


class TestGate:
    def test_a_channel_refuses(self):
        found = measured(1_000, 0.5, gain=MARGIN)[LARGEST]
        assert found.gating and not found.passed and found.value == pytest.approx(0.25, abs=0.04)
        assert found.bound > found.value and found.confidence == 0.995

    def test_none_passes(self):
        found = measured(2_000, 0.0, gain=MARGIN)[LARGEST]
        assert found.passed and abs(found.value) < 0.03

    def test_a_channel_in_one_group_of_many_refuses(self):
        rows = [channel(2_000, 0.0, groups=4), channel(2_000, 0.9)]
        own = policy(gain=MARGIN)
        (largest, *_) = inference_measurements(own, inferred(own, rows, 2_000, stream), 2_000, stream, "c" * 64, 1)
        assert largest.value > 0.3 and not largest.passed

    def test_too_few_members_to_be_sure_refuse(self):
        found = measured(60, 0.0, gain=MARGIN)[LARGEST]
        assert found.value < 0.1 < found.bound and not found.passed and found.failed_by_chance

    def test_an_estimate_is_compared_if_the_policy_says_so(self):
        assert measured(1_000, 0.1, gain=MARGIN | {"statistic": "estimate"})[LARGEST].statistic == "value"

    def test_more_groups_and_later_tries_make_bounds_wider(self):
        assert measured(2_000, 0.0, number=3)[LARGEST].bound > measured(2_000, 0.0)[LARGEST].bound
        one, four = (measured(4_000, 0.0, groups)[LARGEST] for groups in (1, 4))
        assert four.bound - four.value > one.bound - one.value

    def test_nothing_that_could_be_predicted_is_no_proof(self):
        own = policy(gain=MARGIN)
        found = inferred(
            own, [ChannelRows(Channel("age", ""), ("",), *[np.zeros(3, int)] * 2, np.arange(3), {}, [], NO_PROFILES)], 3, stream
        )
        (largest, surest, groups, single, judged, small, *_) = inference_measurements(own, found, 3, stream, "c" * 64, 1)
        assert largest.value is None and largest.gating and not largest.passed
        assert (surest.name, surest.value) == (SUREST, None)
        assert (groups.value, single.value, judged.value, small.value) == (0, 1, 0, 0)

    def test_without_a_margin_it_is_reported(self):
        assert not measured(300, 0.5)[LARGEST].gating
        assert INFERENCE_CHANNELS.required(policy())[1:] == ()
        assert INFERENCE_CHANNELS.required(policy(gain=MARGIN))[1].threshold == 0.1


class TestGroups:
    def test_small_ones_are_judged_together(self):
        own = policy(members_in_group=100)
        (found,) = inferred(own, [channel(230, 0.5, groups=4)], 230, stream)
        assert set(found.outcomes) == {OTHERS} or len(found.outcomes[OTHERS]["naive_bayes"].members) > 0
        assert sum(len(group["naive_bayes"].members) for group in found.outcomes.values()) == 230 * 3

    def test_a_blank_label_has_a_name(self):
        rows = channel(300, 0.5)
        (found,) = inferred(policy(), [replace(rows, labels=("",))], 300, stream)
        assert set(found.outcomes) == {BLANK}

    def test_those_of_few_members_are_not_shown(self):
        told = measured(150, 0.5)
        assert f"diagnosis_3/{ALL}/most_frequent" not in told and LARGEST in told
        assert told["diagnosis_3/groups_too_small_to_show"].value == 1

    @pytest.mark.parametrize(("members", "shown"), [(150, False), (200, True)])
    def test_a_policy_that_judges_smaller_groups_does_not_show_them(self, members, shown):
        """500 trials tell a share of 20 members to half a member."""
        own = policy(members_in_group=20)
        found = inferred(own, [channel(members, 0.5)], members, stream)
        told = {one.name for one in inference_measurements(own, found, members, stream, "c" * 64, 1)}
        assert (f"diagnosis_3/{ALL}/most_frequent" in told) == shown and LARGEST in told

    def test_better_ones_are_counted(self):
        told = measured(4_000, 0.9, groups=3)
        assert told["diagnosis_3/groups"].value == told["diagnosis_3/shown_better/naive_bayes"].value == 3
        none = measured(4_000, 0.0, groups=3)
        assert none["diagnosis_3/shown_better/naive_bayes"].value == 0


def test_both_models_guess_the_same_cases():
    own = policy(models=["naive_bayes", "gradient_boosting"])
    (found,) = inferred(own, [channel(300, 0.6)], 300, stream)
    one, other = next(iter(found.outcomes.values())).values()
    assert (one.members == other.members).all() and (one.right_by_majority == other.right_by_majority).all()
    assert other.right.mean() > other.right_by_majority.mean() + 0.2


class TestIdentifiers:
    """Six identifiers that all tell the same, and little: Naive Bayes believes them six times."""

    def rows(self, identifying) -> ChannelRows:
        rng = np.random.default_rng(2)
        own = channel(1_000, 0.0)
        told, misled = (np.where(rng.random(1_000)[own.members] < right, own.values, 1 - own.values) for right in (0.8, 0.6))
        return replace(own, fields={"f0": told} | {f"f{n}": misled for n in range(1, 7)}, identifying=identifying)

    def test_naive_bayes_guesses_without_them_too_and_the_better_counts(self):
        (found,) = inferred(policy(), [self.rows([1, 2, 3, 4, 5, 6])], 1_000, stream)
        assert found.models == ("naive_bayes", WITHOUT_IDENTIFIERS)
        both = {model: outcome.right.mean() for model, outcome in found.together.items()}
        assert both[WITHOUT_IDENTIFIERS] > both["naive_bayes"] + 0.1
        rows = self.rows([])
        (alone,) = inferred(policy(), [replace(rows, fields={"f0": rows.fields["f0"]})], 1_000, stream)
        assert alone.models == ("naive_bayes",), "without such columns there is nothing to leave out"
        assert both[WITHOUT_IDENTIFIERS] == alone.together["naive_bayes"].right.mean()
        measured = {one.name: one for one in inference_measurements(policy(), [found], 1_000, stream, "c" * 64, 1)}
        gain = both[WITHOUT_IDENTIFIERS] - found.together["naive_bayes"].right_by_majority.mean()
        assert measured[LARGEST].value == pytest.approx(gain)

    def test_bounds_are_those_of_as_many_comparisons_as_there_are_models(self):
        """Else the best of them would be judged as if it had been the only one."""
        (found,) = inferred(policy(), [channel(1_000, 0.8)], 1_000, stream)
        (outcome,) = found.together.values()
        one = Inferred("diagnosis_3", ("a",), 1, 0, {"group": {"a": outcome}})
        three = Inferred("diagnosis_3", ("a", "b", "c"), 1, 0, {"group": dict.fromkeys(("a", "b", "c"), outcome)})
        alone, best = (inference_measurements(policy(), [given], 1_000, stream, "c" * 64, 1)[0] for given in (one, three))
        assert best.value == alone.value and best.bound > alone.bound


def test_profiles_tell_boosting_what_no_field_of_a_claim_tells():
    rows = channel(600, 0.0)
    profiles = np.bincount(rows.members, weights=rows.values).astype(np.int32)[:, None]
    own = policy(models=["naive_bayes", "gradient_boosting"])
    (found,) = inferred(own, [replace(rows, profiles=profiles)], 600, stream)
    assert found.together["gradient_boosting"].right.all()
    assert found.together["naive_bayes"].right.mean() < 0.6


class TestSurestTenth:
    def test_it_is_of_all_groups_and_of_each_and_the_model_that_does_best_there_counts(self):
        rng = np.random.default_rng(1)
        members, none = np.arange(10_000), np.zeros(10_000, bool)
        sure = rng.random(10_000)
        knowing = Outcome(members, rng.random(10_000) < sure**4, none, sure)
        frequent = Outcome(members, rng.random(10_000) < 0.4, none, np.full(10_000, 0.4))
        groups = {"a": {"one": knowing, "other": frequent}, "b": {"one": frequent, "other": frequent}}
        found = Inferred("diagnosis_3", ("one", "other"), 2, 0, groups)
        told = {one.name: one for one in inference_measurements(policy(), [found], 10_000, stream, "c" * 64, 1)}
        group, other, both = (told[f"diagnosis_3/{name}/{SUREST}"] for name in ("a", "b", ALL))
        assert group.value == pytest.approx(np.mean(np.linspace(0.9, 1, 1_000) ** 4), abs=0.05)
        assert other.value == pytest.approx(0.4, abs=0.05)
        assert both.value == pytest.approx(np.mean(np.linspace(0.8, 1, 1_000) ** 4), abs=0.05)
        assert told[SUREST].value == both.value and told[SUREST].sample_size == TRIALS
        assert not any(one.gating for one in told.values())

    @pytest.mark.parametrize(
        ("members", "trials"), [(1_900, None), (2_100, FEWER_TRIALS), (4_400, FEWER_TRIALS), (4_600, TRIALS)]
    )
    def test_fewer_members_have_fewer_trials_or_no_number(self, members, trials):
        """2,500 trials would tell how many of forty members were guessed."""
        outcome = Outcome(
            np.arange(members), np.arange(members) % 2 == 0, np.zeros(members, bool), np.arange(members) / members
        )
        found = Inferred("age", ("one",), 1, 0, {"group": {"one": outcome}})
        told = {one.name: one for one in inference_measurements(policy(), [found], members, stream, "c" * 64, 1)}
        tenth = told[f"age/{ALL}/{SUREST}"]
        assert tenth.sample_size == trials and (tenth.value is None) == (trials is None)
        assert told[SUREST].value == tenth.value
        table = report_table({name: one.to_json() for name, one in told.items()})
        assert table.rows[0][-2:] == (
            ("too few members", "") if trials is None else (f"{100 * tenth.value:.3g} %", f"{trials:,}")
        )


@pytest.mark.parametrize(("members", "trials"), [(200, 500), (449, 500), (450, 2_500)])
def test_a_row_says_how_many_trials_it_rests_on(members, trials):
    told = measured(members, 0.5)
    assert {one.sample_size for name, one in told.items() if name.startswith(f"diagnosis_3/{ALL}/naive")} == {trials}
    table = report_table({name: one.to_json() for name, one in told.items()})
    assert table.rows[0][[heading for heading, _ in table.columns].index("Trials")] == f"{trials:,}"


def test_the_standard_error_of_a_share_is_at_most_one_point():
    assert np.sqrt(0.5 * 0.5 / TRIALS) <= 0.01


class TestPublic:
    def test_only_shares_of_trials_and_numbers_of_groups_are_shown(self):
        def nothing(*cell):
            raise AssertionError(f"{cell} would be a noisy number that nobody planned")

        public = PublicNumbers(nothing, {})
        for one in measured(1_000, 0.5, groups=2, gain=MARGIN).values():
            told = public._measurement(one, [])
            if one.name == LARGEST:
                assert told["value"] is told["bound"] is told["sample_size"] is None and told["passed"] is False
            else:
                assert one.unit in ("groups", "share of trials") and told["value"] == one.value

    def test_the_table_has_all_groups_first_and_then_those_with_the_largest_gain(self):
        told = {name: one.to_json() for name, one in measured(1_000, 0.5, groups=2).items()}
        table = report_table(told)
        assert table.rows[0][:2] == ("three-digit diagnosis code", ALL)
        assert {row[1] for row in table.rows} == {ALL, "group 0", "group 1"}
        assert [heading for heading, _ in table.columns] == [
            "Withheld", "Within", "Most frequent", "Naive bayes", "Trials", "Surest tenth", "Trials of the tenth",
        ]  # fmt: skip
        assert "2 groups, of which 0 have a single value. Of the 2 that were judged" in table.text
        assert "naive bayes was right more often in 2 (beyond chance in 2)." in table.text

    def test_without_rows_there_is_no_table(self):
        assert report_table({}).rows == ()

    def test_lines_of_names_with_slashes(self):
        found = lines(
            {"age/0/9/most_frequent": 0.5, "age/0/9/naive_bayes": 0.7, "age/groups": 3.0, "age/better/naive_bayes": 1.0,
             f"age/0/9/{SUREST}": 0.9, SUREST: 0.9}
        )  # fmt: skip
        assert found == [Line("age", "0/9", {"most_frequent": 0.5, "naive_bayes": 0.7}, 0.9)]
        assert found[0].gain == pytest.approx(0.2)

    def test_the_figure_and_the_table_of_the_user_interface(self):
        shown = inference_metadata(list(measured(1_000, 0.5, groups=2).values()))
        assert len(shown["guesses"]) == 3 and shown["diagnosis_3_by_group"].image.startswith(b"<?xml")
        assert b"naive bayes" in inference_figure([Line("age", "all", {"most_frequent": 0.5, "naive_bayes": 0.7})])


class TestPolicy:
    def test_diagnoses_are_predicted_within_their_published_group(self):
        assert [one.group for one in channels_of(policy())] == [None, None], "not published"
        own = policy_from(public_values())
        assert [one.name for one in channels_of(own)][:2] == ["diagnosis_3", "diagnosis_5"]
        assert channels_of(own)[0].group == 'l."PrimaryConditionGroup"'

    @pytest.mark.parametrize(
        ("section", "message"),
        [
            ({"columns": ["age", "age"]}, "age is listed twice"),
            ({"models": ["naive_bayes", "naive_bayes"]}, "naive_bayes is listed twice"),
            ({"columns": ["zip"]}, "zip cannot be predicted"),
            ({"columns": ["place"]}, "place cannot be predicted"),
            ({"columns": []}, "columns"),
            ({"gain": {"at_most": 0.25}}, "at most 0.2499"),
            ({"gain": {"at_most": 0.1, "confidence": 0.8}}, "at least 0.9"),
            ({"codes_at_most": 10}, "at least 64"),
            ({"members_in_group": 5_000}, "at most 1000"),
        ],
    )  # fmt: skip
    def test_what_could_not_refuse_is_refused(self, section, message):
        with pytest.raises(PolicyError, match=message):
            policy(**section)

    def test_what_is_published_as_it_is_leaves_nothing_to_predict(self, store):
        """Within each published value there is only that value."""
        own = policy_by_name("heritage")
        assert {one.name: one.group for one in channels_of(own)}["claims_truncated"] == 'p."claims_truncated"'
        found = Canaries(store, own.model_copy(update={"inference": policy(columns=EVERY).inference}))
        assert found.inference_channels().share == 1

    def test_it_is_explained(self):
        told = explain(policy(columns=["diagnosis", "age"], gain=MARGIN))
        assert "naive bayes guess what is withheld (diagnosis, age)" in told and "(limit 0.1, judged by" in told


@pytest.fixture(scope="module")
def canaries():
    with small_store() as store:
        yield Canaries(store, policy(columns=EVERY))


class TestCanaries:
    def test_every_channel_is_found_through_every_field(self, canaries):
        found = canaries.inference_channels()
        assert found.share == 1 and found.draws == 88

    @pytest.mark.matrix
    def test_gradient_boosting_finds_them_too(self, store):
        own = policy_from(public_values(inference={"columns": EVERY, "models": ["naive_bayes", "gradient_boosting"]}))
        assert Canaries(store, own).inference_channels().share == 1

    @pytest.mark.parametrize("field", range(6))
    def test_a_model_that_overlooks_a_field(self, canaries, monkeypatch, field):
        honest = inference_rows.naive_bayes

        def blind(train: Cases, asked: CasesToGuess):
            # Members have fewer fields than claims.
            kept = np.arange(len(train.sizes)) != field
            seen = CasesToGuess(asked.features * kept, asked.members)
            return honest(replace(train, features=train.features * kept), seen)

        monkeypatch.setattr(inference_rows, "naive_bayes", blind)
        assert canaries.inference_channels().share < 1

    def test_a_model_that_always_names_the_most_frequent_value(self, canaries, monkeypatch):
        monkeypatch.setattr(inference_rows, "naive_bayes", lambda train, asked: Guesses.constant(0, 1.0, len(asked.members)))
        assert canaries.inference_channels().share < 1

    def test_a_model_that_has_seen_the_answers(self, canaries, monkeypatch):
        honest = inference_rows.predictions

        def leaking(groups, folds, models):
            return [
                {name: replace(one, right=np.ones_like(one.right)) for name, one in found.items()}
                for found in honest(groups, folds, models)
            ]

        monkeypatch.setattr(inference_rows, "predictions", leaking)
        assert canaries.inference_channels().share < 1, "none is found where there is no channel"

    def test_identifiers_that_are_not_left_out(self, canaries, monkeypatch):
        monkeypatch.setattr(inference_rows, "_without", lambda places, train, asked: naive_bayes(train, asked))
        assert canaries.inference_channels().share < 1

    def test_values_joined_to_other_claims(self, canaries, monkeypatch):
        honest = inference_rows.inference_rows.claim_rows
        monkeypatch.setattr(
            inference_rows.inference_rows, "claim_rows",
            lambda *of: honest(*of).replace("o.claim_id = l.claim_id", "o.claim_id = 'claim ' || (hash(l.claim_id) % 100)"),
        )  # fmt: skip
        assert canaries.inference_channels().share < 1

    def test_groups_that_are_lost(self, canaries, monkeypatch):
        honest = inference_rows.groups_of
        monkeypatch.setattr(inference_rows, "groups_of", lambda *of: list(honest(*of))[:0])
        assert canaries.inference_channels().share < 1


def test_rows_other_than_the_released_ones_are_an_error(monkeypatch, store):
    """The released claims of the store were changed since they were made."""
    own = policy()
    tables = Canaries(store, own).tables
    store.table("release_members", '"MemberID" BIGINT', [(7,)])
    columns = ", ".join(f'"{name}" {kind}' for name, kind in tables["release_claims"].columns().items())
    row = [7 if name == "MemberID" else None for name in tables["release_claims"].columns()]
    store.table("release_claims", columns, [tuple(row)])
    monkeypatch.setattr(kernel_input, "chosen_levels", lambda *of: {})
    monkeypatch.setattr(
        inference_rows.ReleasedRows, "claims",
        lambda *of, **how: f"SELECT 'c' AS claim_id, * FROM {tables['release_claims'].sql} WHERE false",
    )  # fmt: skip
    named = {**tables, "chosen_generalization": None, "suppressed_members": None}
    with pytest.raises(inference_rows.StoreError, match="1 row of release_claims differs"):
        inference_rows.linked_tables(own, named, stream("members"))


class TestOtherTablesOfEvents:
    """Fills of drugs tell of diagnoses; the same channel from claims alone says how much."""

    def of_people(self, store, own, people: int = 600):
        """The channels of people with a claim each, half of diabetes and half of hypertension, and a fill that tells which."""
        layouts = Canaries(store, own).tables
        told = [{CLAIM: f"{n}", MEMBER: n, EVENT_TABLE: "claims", "Year": "Y1"} for n in range(people)]
        drugs = ("Diabetes", "Lipids")
        told += [
            {CLAIM: f"fills {n}", MEMBER: n, EVENT_TABLE: "fills", "Year": "Y1", "DrugGroup": drugs[n % 2]}
            for n in range(people)
        ]
        rows = {
            SAMPLE: [{MEMBER: n, "position": n} for n in range(people)],
            LINKED: told,
            "pseudonym_crosswalk": [{"kind": "member", "original_id": f"m{n}", "pseudonym": n} for n in range(people)],
            "member_profiles": [{"member_id": f"m{n}"} for n in range(people)],
            "eligible_claims": [{CLAIM: f"{n}", "diagnosis_1": ("icd10cm:E119", "icd10cm:I10")[n % 2]} for n in range(people)]
            + [{CLAIM: f"fills {n}"} for n in range(people)],
            "release_members": [{MEMBER: n} for n in range(people)],
        }
        return channel_rows(own, {name: plant(store.file, like, rows.get(name, ()), name) for name, like in layouts.items()})

    def test_what_drugs_give_away_is_the_difference_from_claims_alone(self, store):
        own = policy_by_name("claims_and_fills")
        found = {one.name: one.together for one in inferred(own, self.of_people(store, own), 600, stream) if one.outcomes}
        with_drugs, alone = found["diagnosis_3"], found["diagnosis_3_of_claims"]
        assert [len(one["naive_bayes"].right) for one in (with_drugs, alone)] == [600, 600], "fills have no diagnosis"
        for model in ("naive_bayes", "gradient_boosting"):
            assert with_drugs[model].right.all() and alone[model].right.mean() < 0.6

    def test_canaries_find_out_that_claims_alone_see_another_table(self, store, monkeypatch):
        asked = policy(columns=["diagnosis"]).inference
        own = policy_by_name("claims_and_fills").model_copy(update={"inference": asked})
        assert Canaries(store, own).inference_channels().share == 1
        monkeypatch.setattr(inference_rows, "claims_alone", lambda policy, linked: linked)
        assert Canaries(store, own).inference_channels().share < 1

    @pytest.mark.parametrize(
        ("own", "columns", "groups"),
        [
            (lambda: policy_by_name("omop"), ["condition", "drug"], ['l."ConditionGroup"', 'l."DrugGroup"']),
            (lambda: policy_from(claims_values()), ["plan", "race"], ['l."Plan"', 'p."race"']),
        ],
        ids=["tables of events", "declared columns"],
    )
    def test_declared_columns_are_predicted_within_their_labels(self, store, own, columns, groups):
        asked = own().model_copy(
            update={"inference": policy(columns=["age"]).inference.model_copy(update={"columns": columns})}
        )
        assert [(one.name, one.group) for one in channels_of(asked)] == list(zip(columns, groups, strict=True))
        found = Canaries(store, asked, level=1).inference_channels()
        assert found.share == 1 and found.draws >= 20

    def test_policies_with_claims_only_have_no_such_channel(self):
        names = {one.name for one in channels_of(policy_by_name("claims_2026"))}
        assert {one.name for one in channels_of(policy_by_name("claims_and_fills"))} - names == {"diagnosis_3_of_claims"}

    def test_the_same_cases_are_tried_from_claims_alone(self):
        """Where drugs tell nothing, the shares are the same, and not only about the same."""
        (found,) = inferred(policy(), [channel(1_000, 0.6)], 1_000, stream)
        alone = replace(found, name=f"{found.name}_of_claims")
        told = {one.name: one.value for one in inference_measurements(policy(), [found, alone], 1_000, stream, "c" * 64, 1)}
        for what in ("most_frequent", "naive_bayes", SUREST):
            assert told[f"diagnosis_3/{ALL}/{what}"] == told[f"diagnosis_3_of_claims/{ALL}/{what}"]
