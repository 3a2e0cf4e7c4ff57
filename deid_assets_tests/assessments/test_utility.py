"""What a release is good for: canaries, the ledger's end, numbers that may be published, floors, and questions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments import compared_tables, utility
from deid_assets.assessments.assessment import CANARIES, canaries_measurement
from deid_assets.assessments.evidence import LEFT_OUT, exposure_of, rounded, rounded_up
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.registry import required_measurements
from deid_assets.methods.utility import distributions, gains, prediction
from deid_assets.methods.utility.ledger import ledger_frame, row_account
from deid_assets.methods.utility.prediction import Examples
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import public_values, refusal
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

KEY = b"0123456789abcdef"
PLAN = compared_tables.PredictionPlan("ridge", 5, 200, 1_000)
FLOORS = {"score_loss_at_most": 0.1, "distance_at_most": 0.2, "association_change_at_most": 0.3, "members_lost_at_most": 0.05}


class TestCanaries:
    @pytest.mark.matrix
    @pytest.mark.parametrize("model", ["ridge", "gradient_boosting"])
    def test_lost_data_show_their_loss_and_equal_data_none(self, model):
        found = utility.utility_canaries(replace(PLAN, model=model), KEY)
        assert found.share == 1 and found.draws == 14

    @pytest.mark.parametrize(
        ("module", "name", "broken"),
        [
            (distributions, "total_variation", lambda before, after: 0.0),
            (distributions, "associations", lambda codes, sizes: np.eye(len(sizes))),
            (distributions, "largest_and_mean_change", lambda before, after: (0.0, 0.0)),
            (prediction, "out_of_fold", lambda examples, fold, model: examples.truth),
            (prediction, "resampled_differences", lambda *given: np.ones(10)),
            (prediction, "rmsle", lambda predicted, truth: 0.3),
            (utility, "member_losses", lambda targets, features, member, folds: [np.ones((len(member), 5))]),
            (gains, "share_kept", lambda without, released, delivered: np.ones(np.shape(without))),
            (gains, "in_standard_errors", lambda difference, drawn: 0.0),
        ],
    )
    def test_a_broken_measure_misses_some(self, monkeypatch, module, name, broken):
        monkeypatch.setattr(module, name, broken)
        found = canaries_measurement(utility.utility_canaries(PLAN, KEY))
        assert found.gating and not found.passed


def ledger(remaining: int = 3, bits: float = 1.5) -> pd.DataFrame:
    """A ledger of claims: 5 delivered, 2 not drawn; of PlaceSvc, 3 are left."""
    rows = row_account("claims", ["sample"], {"released": 3, "sample": 2}, 0)
    of_place = [
        ("claims", "place", "PlaceSvc", 0, "delivered", "", 0, 0, 0, 5, None),
        ("claims", "place", "PlaceSvc", 1, "unreadable", "", 0, 0, 0, 5, 2.0),
        ("claims", "place", "PlaceSvc", 2, "sample", "", 2, 0, 0, 3, 2.0),
        ("claims", "place", "PlaceSvc", 3, "grouping", "", 3 - remaining, 3, 0, remaining, bits),
    ]
    withheld = [
        ("claims", "cpt", "", 0, "unreadable", "", 0, 0, 0, 5, 1.0),
        ("claims", "cpt", "", 1, "withheld", "", 5, 0, 0, 0, 0.0),
    ]
    return ledger_frame([*rows, *of_place, *withheld])


CONTENTS = [("claims", "", 3, 0.0), ("claims", "PlaceSvc", 3, 1.5), ("claims", "CharlsonIndex", 3, 1.0)]


class TestLedgersEnd:
    def test_of_the_released_rows_nothing_disagrees(self):
        assert utility.unaccounted(ledger(), CONTENTS, {"CharlsonIndex"}) == 0

    @pytest.mark.parametrize(
        ("made", "contents"),
        [
            (ledger(), [("claims", "", 2, 0.0), *CONTENTS[1:]]),
            (ledger(remaining=2), CONTENTS),
            (ledger(bits=1.4), CONTENTS),
            (ledger(), [CONTENTS[0], *CONTENTS[2:]]),
            (ledger(), [*CONTENTS, ("claims", "Address", 3, 1.0)]),
            (ledger().replace({"step": {"sample": "unaccounted"}}), CONTENTS),
        ],
        ids=["a row more", "a value less", "other values", "no such column", "a column of nothing", "no rule"],
    )
    def test_each_difference_counts(self, made, contents):
        assert utility.unaccounted(made, contents, {"CharlsonIndex"}) > 0

    def test_information_left_is_that_of_the_columns_together(self):
        """15 bits are delivered, 5 times 2 + 1; 11 are sampled, and of these 4.5 are released."""
        found = {one.name: one.value for one in utility.ledger_measurements(ledger(), 25_000)}
        assert found["of_delivered/sample"] == pytest.approx(11 / 15, abs=0.001)
        assert found["of_sampled/withheld"] == pytest.approx(6 / 11, abs=0.001)
        assert found["of_sampled/grouping"] == pytest.approx(4.5 / 11, abs=0.001)
        assert found["PlaceSvc/bits_delivered"] == 2 and found["PlaceSvc/bits_released"] == 1.5
        assert found["cpt/bits_delivered"] == 1 and found["cpt/bits_released"] == 0


class TestNumbers:
    def test_none_tells_less_than_25_members_apart(self):
        """Every number is a multiple of the step that 25 members make, or derived from noisy counts."""
        scores = compared_tables.Scores(0.412345, 0.456789, 0.5, 0.49, 0.0444, 0.0512, True, 900, 1_700)
        policy = policy_from(public_values())
        measured = [*utility._scores(policy, scores, 20_000, "c" * 64), *utility.ledger_measurements(ledger(), 20_000)]
        for one in measured:
            step = 0.02 if one.unit == "bits" else 0.002
            for number in (one.value, one.bound):
                assert number is None or abs(number / step - round(number / step)) < 1e-6, one.name
            assert not exposure_of(one.unit).counts_people

    def test_the_error_of_one_group_is_told_in_whole_standard_errors(self):
        found = pd.DataFrame({"standard_errors": [0.31, -1.23, 4.01, np.nan]})
        told = {one.name: one.value for one in utility._questions(found, 20_000)}
        assert told == {"questions_compared": 3, "median_answer_error": 1.3, "largest_answer_error": 5}

    @pytest.mark.parametrize("answers", [[45.17], [1.21, 45.17]])
    def test_of_one_or_two_groups_the_median_is_as_coarse_as_the_largest(self, answers):
        told = {one.name: one.value for one in utility._questions(pd.DataFrame({"standard_errors": answers}), 20_000)}
        assert told["median_answer_error"] == np.ceil(np.median(answers)) and told["largest_answer_error"] == 46

    def test_a_loss_never_looks_smaller_than_it_is(self):
        assert rounded_up(0.0444, 20_000) == 0.046 and rounded(0.0444, 20_000) == 0.044
        scores = compared_tables.Scores(0, 0, 0, 0, 0.0459, 0.0459, True, 9, 9)
        found = {one.name: one for one in utility._scores(policy_from(public_values()), scores, 20_000, "c" * 64)}
        assert found[utility.SCORE_LOSS].bound >= found[utility.SCORE_LOSS].value >= 0.0459 - 0.001

    def test_where_nothing_could_be_predicted_a_limit_refuses(self):
        policy = policy_from(changed(SMALL, utility={"score_loss_at_most": 0.5}))
        (loss,) = [one for one in utility._scores(policy, None, 600, "c" * 64) if one.name == utility.SCORE_LOSS]
        assert loss.gating and loss.value is None and not loss.passed

    def test_where_the_delivery_teaches_nothing_a_limit_refuses_however_small_the_loss(self):
        policy = policy_from(changed(SMALL, utility={"score_loss_at_most": 0.5}))
        scores = compared_tables.Scores(0.4, 0.4, 0.4, 0.4, 0.0, 0.0, False, 40, 40)
        (loss,) = [one for one in utility._scores(policy, scores, 600, "c" * 64) if one.name == utility.SCORE_LOSS]
        assert loss.gating and loss.value == 0 and loss.bound is None and not loss.passed

    @pytest.mark.parametrize("members", [12, 60])
    def test_too_few_members_teach_nothing(self, members):
        """Eight features of chance, and days that have nothing to do with them: the release may say anything."""
        generator = np.random.default_rng(1)
        truth, member = np.log1p(np.arange(members) % 4), np.arange(members)
        delivered = Examples(member, generator.normal(size=(members, 8)), member % 4, truth)
        shown = Examples(member, np.zeros((members, 1)), np.zeros(members, dtype=np.int64), truth)
        found = compared_tables.measured_scores(PLAN, delivered, shown, np.zeros(members, dtype=np.int64), generator)
        assert found is not None and not found.learned and found.loss < 0.05


class TestFloors:
    def test_by_default_only_the_ledger_and_the_canaries_gate(self):
        for policy in (policy_by_name("heritage_public"), policy_from(SMALL)):
            required = {one.measurement for one in required_measurements(policy) if one.asset == "utility"}
            assert required == {CANARIES, utility.UNACCOUNTED}

    def test_every_floor_of_the_policy_is_required(self):
        policy = policy_from(changed(SMALL, utility=FLOORS))
        required = {one.measurement: one.threshold for one in required_measurements(policy) if one.asset == "utility"}
        floors = {utility.SCORE_LOSS: 0.1, utility.DISTANCE: 0.2, utility.ASSOCIATIONS: 0.3, utility.MEMBERS_LOST: 0.05}
        assert required == {CANARIES: 1.0, utility.UNACCOUNTED: 0.0} | floors

    @pytest.mark.parametrize(("loss", "bound", "passed"), [(0.05, 0.09, True), (0.05, 0.11, False), (0.2, 0.3, False)])
    def test_the_bound_of_the_loss_decides(self, loss, bound, passed):
        policy = policy_from(changed(SMALL, utility=FLOORS))
        scores = compared_tables.Scores(0.4, 0.4 + loss, 0.5, 0.5, loss, bound, True, 9_000, 9_000)
        (found,) = [one for one in utility._scores(policy, scores, 50_000, "c" * 64) if one.name == utility.SCORE_LOSS]
        assert found.gating and found.passed == passed

    def test_the_share_of_members_lost_is_public_as_the_attrition_shows_it(self, store):
        profiles = store.table("profiles", "member_id VARCHAR, released BOOLEAN", [(str(n), n < 20) for n in range(40)])
        (lost,) = utility._lost(policy_from(changed(SMALL, utility=FLOORS)), profiles, 18)
        assert lost.value == 0.1 and lost.unit == LEFT_OUT and lost.gating and not lost.passed

    def test_a_limit_on_what_is_not_predicted_is_refused(self):
        assert "nothing is predicted" in "; ".join(refusal(utility={"model": None, "score_loss_at_most": 0.1}))

    def test_flat_tables_and_cohorts_have_no_such_section(self):
        with pytest.raises(Exception, match="utility: this section does not apply to policies of kind flat"):
            policy_from(FLAT | {"utility": {}})

    def test_they_are_explained(self):
        said = explain(policy_from(changed(SMALL, utility=FLOORS)))
        assert "from the delivery (limit 0.1)" in said and "is left out of the release (limit 0.05)" in said


def compared(store, before: list[tuple], after: list[tuple], conditions=((), ())) -> compared_tables.Compared:
    members = "member BIGINT, sex VARCHAR, days_in_hospital_y2 VARCHAR"
    claims = 'member BIGINT, year INTEGER, "PrimaryConditionGroup" VARCHAR'
    return compared_tables.Compared(
        store.table("members_before", members, before), store.table("members_after", members, after),
        store.table("claims_before", claims, conditions[0]), store.table("claims_after", claims, conditions[1]),
        ("sex", "days_in_hospital_y2"), ("PrimaryConditionGroup",),
    )  # fmt: skip


def domains(store, *rows: tuple):
    columns = "quasi_identifier VARCHAR, value VARCHAR, level INTEGER, label VARCHAR, base_code INTEGER, level_code INTEGER"
    return store.table("domains", columns, [("days_in_hospital_y2", value, 0, label, 0, 0) for value, label in rows])


QUASI_IDENTIFIERS = {
    "members": [{"column": "sex", "release_as": "Sex", "hierarchy": "sex"},
                {"column": "days_in_hospital_y2", "release_as": "DaysInHospital_Y2", "hierarchy": "days_in_hospital"}],
    "claims": [{"column": "condition_group", "release_as": "PrimaryConditionGroup", "hierarchy": "place"}],
}  # fmt: skip


def test_a_blank_year_is_compared_as_a_value(store):
    """A claim without a date has no year where days since the first service are released."""
    people, claims = [(0, "F", "0"), (1, "F", "1+")], ([(0, 1, "INFEC4")], [(1, None, "INFEC4")])
    made = replace(compared(store, people, people, claims), claim_columns=("year",))
    (before, after), sizes = compared_tables.codes_of(made)
    codes = [batch[-1].tolist() for side in (before, after) for batch in side]
    assert sizes[-1] == 2 and codes == [[1], [0]]


class TestQuestions:
    POLICY = policy_from(
        changed(
            SMALL, quasi_identifiers=QUASI_IDENTIFIERS,
            dimensions=[{"name": "days_in_hospital", "columns": ["days_in_hospital_y2"]}],
        )
    )  # fmt: skip
    LEVELS = {"sex": 0, "days_in_hospital_y2": 0, "condition_group": 0}

    def test_worked_rates(self, store):
        """Of 100 women delivered, 50 were in hospital; of 40 released, 30."""
        made = compared(
            store,
            [(n, "F", "1+" if n < 50 else "0") for n in range(100)] + [(200, "M", None)],
            [(n, "F", "1+" if n < 30 else "0") for n in range(40)],
            ([(n, 1, "MSC2a3") for n in range(20)] * 2, [(n, 1, "MSC2a3") for n in range(10)]),
        )
        labels = domains(store, ("0", "0"), ("1", "1+"), ("9", "1+"), ("", None))
        found = compared_tables.analyst_questions_of(Candidate(self.POLICY, self.LEVELS, {"value_domains": labels}), made)
        rows = {(row.question, row.group): row for row in found.itertuples()}
        women = rows["hospitalized_y2", "F"]
        assert (women.delivered, women.of_delivered, women.released, women.of_released) == (50, 100, 30, 40)
        assert women.standard_errors == pytest.approx(0.25 / np.sqrt(0.25 / 40), rel=1e-3)
        assert ("hospitalized_y2", "M") not in rows, "nobody knows about them"
        condition = rows[compared_tables.HAS_CONDITION, "MSC2a3"]
        assert (condition.delivered, condition.of_delivered, condition.released, condition.of_released) == (20, 101, 10, 40)
        stays = rows["hospitalized_by_condition_y2", "MSC2a3"]
        assert (stays.delivered, stays.of_delivered, stays.released) == (20, 20, 10)

    @pytest.mark.parametrize(
        "rows", [[("0", "any"), ("1", "any")], [("0", "0"), ("1", "1+"), ("", "0")], [("", None)]],
        ids=["one class", "blanks among those without", "no value"],
    )  # fmt: skip
    def test_classes_that_mean_both_answer_nothing(self, rows, store):
        assert compared_tables.stays_of(self.POLICY, self.LEVELS, domains(store, *rows), "days_in_hospital_y2") is None
