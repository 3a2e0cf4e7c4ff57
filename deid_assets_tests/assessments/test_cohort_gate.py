"""What the gate of a cohort decides by, rule by rule, on the tables of an intake; whole runs are in the scenarios."""

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.cohort_demographics import attribute_leaks, finding_refusals
from deid_assets.assessments.cohort_risk import COHORT_RISK, measured_risk
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.loading import policy_from
from deid_assets.release.cumulative import Made
from deid_assets.release.same_delivery import _shown, other_cohort_refusals, other_release_refusals
from deid_assets.release.staged_files import people_to_release
from deid_assets.sources.cohort import read_cohort_delivery
from deid_assets.sources.delivery import Delivery
from deid_assets.store.tables import Table
from deid_assets_tests.methods.small_tables import SmallStore
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_cohort_release import (
    BORN_AND_ADMITTED,
    DISGUISES,
    SAFE_HARBOR,
    beneficiaries,
    by_zip,
    crowded,
    dated,
    deliver,
    disguised,
    many_in_washington,
    people,
    policy_of_beneficiaries,
    since_birth,
    with_level,
    with_old_ages,
)

KEY = bytes(32)


@dataclass(frozen=True)
class Judged:
    """A cohort taken in and generalized under a policy, and what the gate says of it."""

    policy: CohortPolicy
    people: Table
    population: Table
    rows: pd.DataFrame
    released: Table

    @property
    def failed_checks(self) -> set[str]:
        """Checks of the risk that do not pass."""
        found = {one.name: one for one in measured_risk(self.policy, self.released, self.people, self.population)}
        gating = [gate for gate in COHORT_RISK.gates if gate.applies(self.policy) and gate.limit(self.policy) is not None]
        assert {gate.measurement for gate in gating} == {one.name for one in found.values() if one.gating}
        return {gate.check for gate in gating if not found[gate.measurement].passed}

    @property
    def reasons(self) -> str:
        """Why columns may not be published."""
        _, leaking = attribute_leaks(self.policy, self.released, self.people, self.population)
        return " ".join(one.text for one in (*finding_refusals(self.policy, self.released), *leaking))


def judged(store: SmallStore, values: dict[str, Any], folder: Path) -> Judged:
    policy = policy_from(values)
    assert isinstance(policy, CohortPolicy)
    delivery = Delivery("patients", "cohort", (folder,))
    read = read_cohort_delivery(delivery, policy.layout, policy.population.below(Path()), folder / "store")
    days = {name: read.cohort.people[name].dt.date for name in policy.layout.dates}
    taken_in = store.write("cohort_people", read.cohort.people.assign(**days))
    population = store.write("population_cells", read.population.people.assign(note="; ".join(read.population.warnings)))
    rows = people_to_release(policy, taken_in, population, KEY)
    return Judged(policy, taken_in, population, rows, store.write("release_people", rows))


class TestRisk:
    def test_safe_harbor_is_no_riskier_than_itself(self, store, tmp_path):
        assert judged(store, SAFE_HARBOR, deliver(tmp_path)).failed_checks == set()

    def test_a_finer_policy_that_is_no_riskier_passes(self, store, tmp_path):
        finer = with_level(demographics__policy="5_year", risk={"measures": ["total"]})
        assert judged(store, finer, deliver(tmp_path)).failed_checks == set()

    @pytest.mark.parametrize("measures", [["total"], ["total", "largest"]])
    def test_a_riskier_policy_does_not(self, store, tmp_path, measures):
        riskier = with_level(demographics__policy="gen_eth", risk={"measures": measures})
        assert judged(store, riskier, deliver(tmp_path)).failed_checks == {"no_riskier_than_safe_harbor"}

    @pytest.mark.parametrize(("level", "failed"), [("10_year", set()), ("gen_eth", {"largest_record_risk_within_threshold"})])
    def test_a_policy_may_be_judged_by_its_largest_record_risk_alone(self, store, tmp_path, level, failed):
        values = with_level(demographics__policy=level, risk={"no_riskier_than": None, "largest_at_most": 0.05})
        assert judged(store, values, deliver(tmp_path)).failed_checks == failed

    def test_zip_codes_pass_where_the_population_carries_them(self, store, tmp_path):
        values, cohort, table = by_zip()
        found = judged(store, values, deliver(tmp_path, cohort, table))
        assert found.failed_checks == set() and set(found.rows["Place"]) == {"98101", "04101"}

    def test_a_population_that_is_smaller_than_the_cohort(self, store, tmp_path):
        found = judged(store, SAFE_HARBOR, deliver(tmp_path, table=crowded()))
        assert "population_holds_the_cohort" in found.failed_checks

    def test_a_population_in_which_safe_harbor_protects_nobody_is_no_comparison(self, store, tmp_path):
        lax = with_level(risk={"crowded_at_most": 0.2}, demographics__policy="10_year")
        assert "safe_harbor_within_threshold" in judged(store, lax, deliver(tmp_path, table=crowded())).failed_checks

    def test_old_ages_are_finer_where_the_population_carries_them(self, store, tmp_path):
        found = judged(store, with_old_ages(), deliver(tmp_path, table=many_in_washington()))
        told = set(found.rows["Age"])
        assert found.failed_checks == set()
        assert "80-89" in told and told & {"90-94", "90+"} and "100-109" not in told

    @pytest.mark.matrix
    @pytest.mark.parametrize(("compared", "failed"), [("expected", set()), ("upper_bound", {"no_riskier_than_safe_harbor"})])
    def test_the_model_of_old_ages_in_estimates_may_be_taken_for_the_truth(self, store, tmp_path, compared, failed):
        """Beneficiaries of DE-SynPUF in bands of five years, against the Bureau's estimates."""
        found = judged(store, policy_of_beneficiaries("5_year", compared), beneficiaries(tmp_path))
        assert found.failed_checks == failed


class TestDates:
    def test_a_date_is_published_at_its_level(self, store, tmp_path):
        coarse, cohort = dated("10_year", "year")
        found = judged(store, coarse, deliver(tmp_path, cohort))
        assert found.failed_checks == set() and found.reasons == "" and set(found.rows["Admitted"]) == {"2008"}

    def test_days_are_riskier_than_years(self, store, tmp_path):
        fine, cohort = dated("safe_harbor", "day")
        assert judged(store, fine, deliver(tmp_path, cohort)).failed_checks == {"no_riskier_than_safe_harbor"}

    def test_birth_dates_become_ages_and_dates_of_attributes_become_years(self, store, tmp_path):
        cohort = since_birth()
        rows = judged(store, BORN_AND_ADMITTED, deliver(tmp_path, cohort)).rows
        assert set(rows["Admitted"]) == {"2008"}
        assert {int(age) for age in rows["Age"] if age != "90+"} == {p["age"] for p in people() if p["age"] < 90}


class TestAttributes:
    def test_a_year_that_implies_an_age_over_89(self, store, tmp_path):
        cohort = [person | {"since": str(2008 - person["age"]), "extra": str(2008 - person["age"])} for person in people()]
        values = with_level(
            columns__age={"birth_year": "since", "reference": "2008-12-31"},
            attributes=[{"column": "extra", "release_as": "Extra", "role": "year"}],
            reviewed_attributes={"Extra": "we looked at all years, and they stay"},
        )
        found = judged(store, values, deliver(tmp_path, cohort))
        assert "year of birth that implies an age over 89" in found.reasons

    @pytest.mark.matrix
    @pytest.mark.parametrize("disguise", DISGUISES)
    def test_identifiers_in_disguise(self, store, tmp_path, disguise):
        values, cohort, because = disguised(disguise)
        assert because in judged(store, values, deliver(tmp_path, cohort)).reasons

    def test_likes_are_no_identifiers(self, store, tmp_path):
        assert judged(store, SAFE_HARBOR, deliver(tmp_path)).reasons == ""


class TestTheSameDelivery:
    """A release of it as it is recorded, and what the gate says of a second one."""

    def refusals(self, tmp_path: Path, values: dict[str, Any], digest: str = "of the delivery") -> list[str]:
        first, own = policy_from(SAFE_HARBOR), policy_from(values)
        assert isinstance(first, CohortPolicy) and isinstance(own, CohortPolicy)
        manifest = tmp_path / "0001.json"
        manifest.write_text(json.dumps({"policy": {"text": json.dumps(first.content())}}))
        made = Made(manifest, "cohort", "patients", "of the delivery", "", np.array([], dtype=np.uint64), None, None)
        return [one.text for one in other_release_refusals(own, digest, [made])]

    def test_with_other_columns(self, tmp_path):
        (reason,) = self.refusals(tmp_path, SAFE_HARBOR | {"policy": "another", "attributes": []})
        assert "cohort/0001 published this delivery with other columns or levels" in reason

    def test_with_the_same_under_another_name(self, tmp_path):
        assert self.refusals(tmp_path, SAFE_HARBOR | {"policy": "another", "title": "The same under another name"}) == []

    def test_after_somebody_opted_out(self, tmp_path):
        (reason,) = self.refusals(tmp_path, SAFE_HARBOR | {"opt_outs": {"members": ["patient 1"]}})
        assert "before somebody opted out" in reason and "patient 1" not in reason
        assert self.refusals(tmp_path, SAFE_HARBOR | {"opt_outs": {"members": ["patient 1"]}}, "of another delivery") == []

    def test_another_delivery_with_other_columns(self, tmp_path):
        assert self.refusals(tmp_path, SAFE_HARBOR | {"attributes": []}, "of another delivery") == []


class TestAnotherDelivery:
    """An earlier release of the cohort's people, and what the gate says of one of another delivery."""

    OWN = np.array([3, 5], dtype=np.uint64)

    def refusals(self, tmp_path: Path, values: dict[str, Any], **told: Any) -> list[str]:
        own = policy_from(values)
        assert isinstance(own, CohortPolicy)
        manifest = tmp_path / "0001.json"
        manifest.write_text(json.dumps({"policy": {"text": json.dumps(policy_from(SAFE_HARBOR).content())}}))
        tags = np.array(told.pop("tags", [5, 9]), dtype=np.uint64)
        fields = {"delivery_digest": "of the first", "commitment": "ours", "kind": "cohort"} | told
        made = Made(
            manifest, "cohort", "patients", tags=tags, removal_digest=None, roll_digest=None, **fields
        )  # fmt: skip
        found = other_cohort_refusals(own, "of the second", [made], self.OWN, "ours")
        assert all(one.rule == "released_differently" and one.is_judgement for one in found)
        return [one.text for one in found]

    def test_with_other_columns_of_common_people(self, tmp_path):
        (reason,) = self.refusals(tmp_path, SAFE_HARBOR | {"attributes": []})
        assert "cohort/0001 has people of this release" in reason and "or people who are not in it" in reason

    def test_with_the_same_columns_and_levels(self, tmp_path):
        renamed = SAFE_HARBOR | {"policy": "another", "title": "The same of the next year"}
        assert self.refusals(tmp_path, renamed) == []

    @pytest.mark.parametrize(
        "changes",
        [
            {"columns__age": {"column": "age", "release_as": "Age", "birth_year": "born", "reference": "2010-12-31"}},
            {"columns__race__values": {}},
            {"columns__sex__column": "gender"},
            {"attributes": [{"column": "likes", "release_as": "Likes", "role": "year"}]},
            {"attributes": [{"column": "dislikes", "release_as": "Likes"}]},
        ],
    )
    def test_with_other_values_under_the_same_names(self, changes):
        content = json.loads(json.dumps(policy_from(SAFE_HARBOR).content()))
        other = changed(content, **changes)
        assert other != content and _shown(other) != _shown(content)

    @pytest.mark.parametrize("told", [{"kind": "flat"}, {"kind": "longitudinal"}, {"delivery_digest": "of the second"}])
    def test_of_another_kind_or_the_same_delivery(self, tmp_path, told):
        assert self.refusals(tmp_path, SAFE_HARBOR | {"attributes": []}, **told) == []

    @pytest.mark.parametrize("told", [{"tags": []}, {"commitment": "another", "tags": [9]}, {"tags": [9]}])
    def test_of_people_whom_nobody_knows_or_who_seem_to_be_others(self, tmp_path, told):
        """Nobody in common may also mean that identifiers are spelled otherwise."""
        (reason,) = self.refusals(tmp_path, SAFE_HARBOR | {"attributes": []}, **told)
        assert "may have people of this release" in reason and "releases.other_people" in reason

    @pytest.mark.parametrize("named", ["cohort", "cohort/0001"])
    def test_of_people_who_are_stated_to_be_others(self, tmp_path, named):
        stated = SAFE_HARBOR | {"attributes": [], "releases": {"other_people": {named: "another country"}}}
        for told in ({"tags": []}, {"commitment": "another"}, {"tags": [9]}):
            assert self.refusals(tmp_path, stated, **told) == []
        (reason,) = self.refusals(tmp_path, stated)
        assert "cohort/0001 has people of this release, and shows other columns, levels or attributes of them" in reason
        assert "publish the columns, levels and attributes of that release, or people who are not in it" in reason


def test_days_that_are_rare_to_nobody_are_still_not_safe_harbor(store, tmp_path):
    """Nothing is compared with Safe Harbor, and nobody is alone on a day."""
    values, cohort, table = dated("safe_harbor", "day", alike=True)
    found = judged(store, values, deliver(tmp_path, cohort, table))
    assert found.failed_checks == set()
    assert "column Admitted breaks element (C) of Safe Harbor" in found.reasons
    assert datetime.date.fromisoformat(sorted(found.rows["Admitted"])[0]).year == 2008
