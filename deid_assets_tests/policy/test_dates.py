"""The sections long_tail and dates, and the rules of a policy that releases dates."""

import pytest

from deid_assets.assessments.number_of_claims import HIGH_RISK
from deid_assets.assessments.registry import required_measurements
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.release.public_cells import shape
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import public_values, refusal

DATES = {"derived": "recompute"}
BINS = {"method": "bins", "unit": "member"}
BY_PERCENTILE = {"percentile": 95, "unit": "member"}
JUDGED = [
    {"column": "service_interval", "release_as": "DaysSinceLastService", "hierarchy": "as_it_is"},
    {"column": "service_period", "release_as": "ServicePeriod", "hierarchy": "as_it_is"},
]


def with_dates(judged=JUDGED, without=(), hierarchy=None, **changes) -> dict:
    """Changes of the default policy to one that releases dates."""
    values = public_values()
    claims = [qi for qi in values["quasi_identifiers"]["claims"] if qi["column"] not in without]
    found = {
        "dates": DATES | changes,
        "long_tail": BINS,
        "quasi_identifiers__claims": [*claims, *judged],
        "hierarchies__as_it_is": hierarchy or {"kind": "fixed"},
    }
    if without:
        found["dimensions"] = [d for d in values["dimensions"] if not set(d["columns"]) & set(without)]
    return found


class TestLongTail:
    def test_what_ships_without_bins_means_the_same(self):
        tail = policy_by_name("heritage").long_tail
        assert (tail.method, tail.percentile, tail.unit, tail.score) == ("percentile", 95, "member_year", "support")

    def test_bins_have_s1s_numbers_by_default(self):
        tail = policy_from(public_values(long_tail=BINS)).long_tail
        assert (tail.width, tail.risk, tail.cap, tail.lowest_bin) == (5, 0.1, None, "widen")

    @pytest.mark.parametrize(
        ("tail", "message"),
        [
            ({"unit": "member"}, "method percentile needs percentile"),
            (BINS | {"percentile": 95}, "percentile goes with method percentile"),
            (BINS | {"cap": 5}, "the open bin begins above the first bin"),
            (BINS | {"width": 0}, "0 is not allowed: it must be at least 1"),
            (BINS | {"risk": 1.0}, "must be below 1"),
            (BINS | {"score": "mean"}, "'support' or 'balanced'"),
            (BINS | {"method": "optimal"}, "did you mean optimal_bins?"),
            (BY_PERCENTILE | {"width": 9}, "width has no effect with method percentile"),
            (BY_PERCENTILE | {"risk": 0.5}, "risk has no effect with method percentile"),
            (BY_PERCENTILE | {"cap": 40}, "cap has no effect with method percentile"),
            (BY_PERCENTILE | {"lowest_bin": "drop"}, "lowest_bin has no effect with method percentile"),
            (BINS | {"method": "optimal_bins", "lowest_bin": "drop"}, "lowest_bin has no effect with method optimal_bins"),
        ],
    )
    def test_what_does_not_go_together(self, tail, message):
        (found,) = refusal(long_tail=tail)
        assert found.startswith("long_tail") or "long_tail" in found
        assert message in found

    def test_it_is_explained(self):
        text = explain(policy_from(public_values(long_tail=BINS | {"method": "optimal_bins", "cap": 500, "score": "balanced"})))
        assert "each bin of 5 numbers of claims per member, with one bin from 500 on is empty or contains at least 10" in text


class TestDates:
    def test_a_policy_with_dates_is_accepted_and_explained(self):
        policy = policy_from(public_values(**with_dates(narrower={"width": 5, "class_size_at_least": 1000})))
        assert policy.dates.narrowest == 5 and policy.dates.columns == ("service_interval", "service_period")
        text = explain(policy)
        assert "a random day of its month" in text and "bins of 5 days for members" in text

    def test_without_dates_nothing_is_judged_that_is_not_released(self):
        changes = with_dates()
        del changes["dates"]
        found = refusal(**changes)
        assert len(found) == 2 and all("this policy has no section dates" in line for line in found)

    def test_dates_that_nobody_judges_are_refused(self):
        (found,) = refusal(**with_dates(judged=JUDGED[:1]))
        assert (
            "service_period is missing" in found
            and "because otherwise no gate judges what an adversary may know of released dates" in found
        )

    def test_days_tell_no_period(self):
        (found,) = refusal(**with_dates(format="days_since_first_service"))
        assert "service_period would disclose dates" in found
        assert policy_from(public_values(**with_dates(judged=JUDGED[:1], format="days_since_first_service")))

    @pytest.mark.parametrize(
        "hierarchy",
        [{"kind": "codes", "level_names": ["a", "b"], "values": {"1": ["any"]}}, {"kind": "fixed", "values": ["1"]}],
    )
    def test_no_level_is_judged_that_is_coarser_than_the_dates(self, hierarchy):
        found = refusal(**with_dates(hierarchy=hierarchy))
        assert sum("a coarser level would be judged while the released dates disclose more" in line for line in found) == 2

    def test_what_is_dropped_is_no_quasi_identifier(self):
        found = refusal(**with_dates(derived="drop"))
        assert [line.split(":")[0].split()[0] for line in found] and len(found) == 2
        assert all("is dropped by dates.derived" in line for line in found)
        assert policy_from(public_values(**with_dates(without=("length_of_stay", "days_since_first_claim"), derived="drop")))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"width": 1}, "1 is not allowed: it must be at least 2"),
            ({"narrower": {"width": 7, "class_size_at_least": 10}}, "it must be below width, 7"),
            ({"anchor": "week"}, "'week' is not allowed"),
            ({"release_as": "PlaceSvc"}, "already has a column PlaceSvc"),
            ({"release_as": "PayDelay"}, "already has a column PayDelay"),
            ({"study_end": "cut"}, "'redraw' or 'clip'"),
        ],
    )
    def test_what_a_field_may_not_be(self, changes, message):
        (found,) = refusal(**with_dates(**changes))
        assert message in found

    @pytest.mark.parametrize("format", ["dates", "days_since_first_service"])
    @pytest.mark.parametrize("tail", [BY_PERCENTILE, BINS, BINS | {"method": "optimal_bins"}])
    def test_claims_are_not_cut_within_years_that_are_made_anew(self, tail, format):
        judged = JUDGED if format == "dates" else JUDGED[:1]
        changes = with_dates(judged=judged, format=format) | {
            "long_tail": tail | {"unit": "member_year"},
            "number_of_claims": None,
        }
        (found,) = refusal(**changes)
        assert "long_tail.unit: is member_year" in found and "with dates, use member" in found
        assert policy_from(public_values(**changes | {"long_tail": tail})).long_tail.unit == "member"

    def test_stays_are_not_computed_from_clipped_dates(self):
        (found,) = refusal(**with_dates(study_end="clip"))
        assert "dates.study_end: clip joins days" in found and "use redraw, or derived: drop" in found
        without = ("length_of_stay", "days_since_first_claim")
        assert policy_from(public_values(**with_dates(without=without, study_end="clip", derived="drop")))

    def test_how_derived_columns_are_treated_has_no_default(self):
        changes = with_dates()
        changes["dates"] = {}
        (found,) = refusal(**changes)
        assert "dates.derived" in found and "is missing" in found

    def test_the_order_of_intervals_is_judged_where_a_policy_says_that_it_is_known(self):
        order = {"column": "service_order", "release_as": "LastTwoIntervals", "hierarchy": "as_it_is"}
        silent = policy_from(public_values(**with_dates()))
        assert "intervals_known" not in silent.content()["dates"]
        known = policy_from(public_values(**with_dates(judged=[*JUDGED, order], intervals_known="in_order")))
        assert known.dates.columns == ("service_interval", "service_period", "service_order")
        assert known.hash != silent.hash and "which interval followed which" in explain(known)
        (found,) = refusal(**with_dates(intervals_known="in_order"))
        assert "service_order is missing" in found
        (found,) = refusal(**with_dates(judged=[*JUDGED, order]))
        assert "goes with dates.intervals_known: in_order" in found
        (found,) = refusal(**with_dates(judged=[*JUDGED, order], intervals_known="in_order", width=6))
        assert "in_order compares pairs of bins" in found and "at least 7 days" in found

    def test_connected_dates_need_a_released_distance_and_a_name_of_their_own(self):
        discharge = {"offset": "length_of_stay", "release_as": "DischargeDate"}
        policy = policy_from(
            public_values(**with_dates(connected=[discharge, {"offset": "pay_delay", "release_as": "PaidDate"}]))
        )
        assert [one.release_as for one in policy.dates.connected] == ["DischargeDate", "PaidDate"]
        assert "connected" not in policy_from(public_values(**with_dates())).content()["dates"]
        assert "DischargeDate follows the date of service" in explain(policy)
        without = ("length_of_stay", "days_since_first_claim")
        for changes in ({"derived": "drop", "without": without}, {"without": without[:1]}):
            (found,) = refusal(**with_dates(connected=[discharge], **changes))
            assert "dates.connected[0].offset: length_of_stay is not released" in found
        for name in ("LengthOfStay", "ServiceDate", "paydelay"):
            (found,) = refusal(**with_dates(connected=[discharge | {"release_as": name}]))
            assert f"the release already has a column {name}" in found

    def test_a_limit_on_ordered_services_is_a_gate_and_its_absence_changes_no_hash(self):
        silent, limited = (
            policy_from(public_values(**with_dates(**changes))) for changes in ({}, {"ordered_services_at_most": 0.1})
        )
        assert "ordered_services_at_most" not in silent.content()["dates"]
        assert silent.hash != limited.hash
        gates = [{r.measurement: r.threshold for r in required_measurements(one)} for one in (silent, limited)]
        assert HIGH_RISK not in gates[0] and gates[1][HIGH_RISK] == 0.1
        assert shape(silent, "dates") == shape(limited, "dates"), "a limit that only refuses draws no fresh noise"
        twice = [{"offset": "pay_delay", "release_as": name} for name in ("Paid", "PaidAgain")]
        (found,) = refusal(**with_dates(connected=twice))
        assert "dates.connected[1].offset: another connected date has pay_delay" in found
        renamed = policy_from(public_values(**with_dates(release_as="DayOfService")))
        assert shape(silent, "dates") == shape(renamed, "dates"), "nor does another name"
        assert "of the members may share demographics and any three consecutive" in explain(limited)
        (found,) = refusal(**with_dates(ordered_services_at_most=0.5))
        assert "ordered_services_at_most: 0.5 is not allowed" in found


@pytest.mark.parametrize(
    ("table", "column", "refused"),
    [
        ("claims", {"kind": "days_since_first", "from": "SENT"}, True),
        ("claims", {"kind": "days_between", "from": "SENT", "until": "PAID"}, True),
        ("claims", {"kind": "text", "from": "service_date"}, True),
        ("members", {"kind": "any_of_claims", "from": "paid_date", "with_values": ["2008-01-01"]}, True),
        ("claims", {"kind": "text", "from": "network"}, False),
        ("members", {"kind": "days_between", "from": "ENROLLED", "until": "LEFT"}, False),
    ],
)
def test_a_declared_column_must_not_tell_the_true_days_of_redrawn_dates(table, column, refused):
    listed = {"column": "told", "release_as": "Told", "hierarchy": "told"}
    values = with_dates()
    values |= {"columns": {table: {"told": column | {"meaning": "days"}}}, "hierarchies__told": {"kind": "fixed"}}
    values[f"quasi_identifiers__{table}"] = [
        *values.get(f"quasi_identifiers__{table}", public_values()["quasi_identifiers"][table]), listed
    ]  # fmt: skip
    if refused:
        assert any("would undo the drawing of dates" in line for line in refusal(**values))
    else:
        assert policy_from(public_values(**values)).dates is not None
