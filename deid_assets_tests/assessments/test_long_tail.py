"""How a policy's section long_tail is carried out: in each year by itself, with wider bins or with members dropped."""

import numpy as np
import pytest

from deid_assets.assessments.long_tail import bin_refusals, members_left, require_bins, units_kept
from deid_assets.errors import DeliveryError
from deid_assets.methods.long_tail.bins import ClaimNumberBins, bin_sizes
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes
from deid_assets.policy.sections.longitudinal import LongTail
from deid_assets.policy.sections.sensitivity import NumberOfClaims
from deid_assets.store.tables import ALL_EVENTS
from deid_assets_tests.methods.small_tables import small_store

SEED = bytes(16)


def tail(**changes) -> LongTail:
    return LongTail(**{"method": "bins", "unit": "member"} | changes)


def units(counts, years=None) -> dict:
    found = {"member_id": np.array([f"m{i:03}" for i in range(len(counts))]), "claims": np.array(counts)}
    return found if years is None else found | {"year": np.array(years)}


def kept(section: LongTail, counts, years=None) -> tuple[np.ndarray, ClaimNumberBins]:
    return units_kept(section, units(counts, years), np.array(counts), SEED)


def test_a_small_lowest_bin_widens_the_bins_or_is_dropped():
    counts = [3] * 4 + [8] * 30
    left, bins = kept(tail(), counts)
    assert bins.width == 8 and np.array_equal(left, counts)
    left, bins = kept(tail(lowest_bin="drop"), counts)
    assert bins.width == 5 and left[:4].tolist() == [0] * 4 and np.array_equal(left[4:], counts[4:])


def test_the_optimum_fills_the_lowest_bin_with_others():
    left, bins = kept(tail(method="optimal_bins"), [3] * 4 + [6] * 30)
    assert bins.width == 5 and bin_sizes(left, bins).tolist() == [10, 24] and left.sum() == 12 + 180 - 6


@pytest.mark.parametrize("method", ["bins", "optimal_bins"])
def test_years_are_cut_by_themselves(method):
    counts, years = [12] * 10 + [3] * 20 + [12] * 5 + [3] * 20, [1] * 30 + [2] * 25
    left, bins = kept(tail(method=method, unit="member_year"), counts, years)
    assert left[:10].tolist() == [12] * 10, "ten in the bin of 11 to 15 are enough in year 1"
    assert np.all(left[30:35] <= 5), "five are not in year 2"
    for year in (1, 2):
        sizes = bin_sizes(left[np.array(years) == year], bins)
        assert np.all((sizes == 0) | (sizes >= 10))


@pytest.mark.parametrize("method", ["bins", "optimal_bins"])
def test_too_few_members_are_refused_with_what_to_do(method):
    with pytest.raises(DeliveryError, match=r"1 of 2 tables .* \(10 at risk 0.1\).*deliver more members"):
        kept(tail(method=method, unit="member_year"), [3] * 20 + [3] * 4, [1] * 20 + [2] * 4)
    with pytest.raises(DeliveryError, match="no claims"):
        kept(tail(method=method), [])


def refused(section: LongTail, counts, left, years=None) -> list:
    """Refusals where members of these numbers of claims keep others."""
    years = [1] * len(counts) if years is None else years
    with small_store() as store:

        def table(name, numbers):
            rows = [(f"m{i:03}", year) for i, (n, year) in enumerate(zip(numbers, years, strict=True)) for _ in range(n)]
            return store.table(name, "member_id VARCHAR, year INTEGER", rows)

        return bin_refusals(section, table("grouped_claims", counts), table("truncated_claims", left))


@pytest.mark.matrix
@pytest.mark.parametrize("method", ["bins", "optimal_bins"])
def test_the_gate_counts_the_bins_again(method):
    counts = [33] * 11 + [28] * 4 + [23] * 7 + [3] * 50
    section = tail(method=method)
    cut, _ = kept(section, counts)
    assert refused(section, counts, cut.tolist()) == []
    (one,) = refused(section, counts, counts)
    assert (one.rule, one.name, one.measured, one.threshold, one.unit) == ("small_bin", "truncated_claims", 4, 10, "members")
    assert not any(figure.isdigit() for figure in one.text)
    one_less = [cut[0] - 3, *cut[1:]]
    assert refused(section, counts, one_less)[0].measured == 1, "he is alone in a bin"
    nobody_left = [0] * len(counts)
    assert refused(section, counts, nobody_left)[0].measured == 0
    assert refused(tail(method="percentile", percentile=95), counts, counts) == []


@pytest.mark.matrix
def test_the_gate_counts_in_bins_as_wide_as_they_were_made_and_in_each_year():
    counts = [3] * 4 + [8] * 30
    assert refused(tail(), counts, counts) == [], "bins of 8 hold all"
    dropped, _ = kept(tail(lowest_bin="drop"), counts)
    assert refused(tail(lowest_bin="drop"), counts, dropped.tolist()) == []
    assert refused(tail(lowest_bin="drop"), counts, counts)[0].measured == 4
    years = [1] * 30 + [2] * 25
    counts = [12] * 10 + [3] * 20 + [12] * 5 + [3] * 20
    section = tail(unit="member_year")
    assert refused(section, counts, kept(section, counts, years)[0].tolist(), years) == []
    assert refused(section, counts, counts, years)[0].measured == 5


def test_members_without_claims_left_are_not_released(store):
    sample = store.table("sample", "member_id VARCHAR", [("a",), ("b",)])
    truncated = store.table("truncated", "member_id VARCHAR", [("b",)])
    dropping, widening = (members_left(tail(lowest_bin=how), None, sample, truncated) for how in ("drop", "widen"))
    assert store.rows(dropping) == [("b",)] and len(store.rows(widening)) == 2
    for per, of, left in (("member", "claims", 2), ("member_year", "claims", 1), ("member", ALL_EVENTS, 1)):
        numbers = NumberOfClaims(of=(of,), per=per, width=5, reference={})
        found = members_left(tail(lowest_bin="widen"), numbers, sample, truncated)
        assert len(store.rows(found)) == left, (
            "whole years may go, or claims before other events, and so all claims of a member"
        )


def cut_twice(section: LongTail, counts, classes, width: int) -> np.ndarray:
    """Claims left once bins of the delivery, and then bins of every demographic class, were made safe."""
    once, _ = kept(section, counts)
    return truncate_within_classes(once[:, None], np.array(classes), width, 20, SEED)[:, 0]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("section", "counts", "classes"),
    [
        # Seven of a class of 30 and three of a class of three fill the bin [21, 25]. The seven are moved on.
        (tail(method="optimal_bins"), [23] * 10 + [3] * 60, [0] * 7 + [1] * 3 + [0] * 60),
        # The open bin from 33 on begins within [31, 35], which sixteen of one class leave;
        # of the other's twenty two are beyond 33.
        (
            tail(method="optimal_bins", cap=33),
            [34] * 8 + [31] * 8 + [34] * 2 + [31] * 18 + [3] * 60,
            [0] * 16 + [1] * 20 + [0] * 60,
        ),
    ],
    ids=["a class of too few members", "an open bin that begins within another"],
)
def test_bins_that_the_second_cut_empties_are_told_before_the_search(section, counts, classes, store):
    left = cut_twice(section, counts, classes, 5)
    assert len(refused(section, counts, left.tolist())) == 1, "the gate would refuse, whatever is materialized again"
    rows = [(f"m{i:03}", 1) for i, n in enumerate(counts) for _ in range(n)]
    claims = store.table("grouped_claims", "member_id VARCHAR, year INTEGER", rows)
    with pytest.raises(
        DeliveryError,
        match=r"fewer than the 10 that risk 0[.]1 requires; .* {method: percentile, .*unit: member, .*reference",
    ):
        require_bins(section, claims, units(left))
    require_bins(LongTail(method="percentile", percentile=95, unit="member", score="support"), claims, units(left))
    once, _ = kept(section, counts)
    require_bins(section, claims, units(once))
