"""Three-digit ZIP prefixes by census year (methods#safe-harbor)."""

import pytest

from deid_assets.reference.geography import (
    CENSUS_YEARS,
    kept_by_population,
    kept_prefixes,
    people_by_prefix,
    restricted_prefixes,
)

LISTS = {
    2000: "036 059 063 102 203 556 692 790 821 823 830 831 878 879 884 890 893",
    2010: "036 059 102 203 205 369 556 692 821 823 878 879 884 893",
    2020: "036 059 102 202 203 204 205 369 556 692 753 772 821 823 878 879 884 893",
}


@pytest.mark.parametrize("year", CENSUS_YEARS)
def test_restricted_prefixes_are_the_published_ones(year):
    assert sorted(restricted_prefixes(year)) == LISTS[year].split()


def test_2020_is_the_default():
    assert restricted_prefixes() == restricted_prefixes(2020)
    assert kept_prefixes() == kept_prefixes(2020)


def test_people_add_up_to_the_total_of_the_census():
    assert (len(people_by_prefix()), sum(people_by_prefix().values())) == (894, 334_726_586)


@pytest.mark.parametrize("year", CENSUS_YEARS)
def test_kept_and_restricted_prefixes_are_all_that_are_known(year):
    assert kept_prefixes(year) | restricted_prefixes(year) == frozenset(people_by_prefix())
    assert not kept_prefixes(year) & restricted_prefixes(year)


def test_prefixes_without_a_tabulation_area_are_unknown():
    for prefix in ("000", "055", "090", "340", "962", "213"):
        assert all(prefix not in kept_prefixes(year) for year in CENSUS_YEARS)


def test_more_than_20000_people_are_needed():
    assert kept_by_population({"100": 20_000, "101": 20_001, "000": 50_000}) == {"101"}


@pytest.mark.parametrize("people", [{"10": 5}, {"1a0": 5}, {"１００": 5}, {"100": -1}])
def test_a_table_that_is_no_population_of_zip_codes_is_refused(people):
    with pytest.raises(ValueError, match="three digits"):
        kept_by_population(people)


def test_a_year_without_a_list_is_refused():
    with pytest.raises(ValueError, match="no list of restricted ZIP prefixes for 1990"):
        restricted_prefixes(1990)
