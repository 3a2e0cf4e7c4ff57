"""What a column tells beyond generalized ones: by hand, against brute force, and on the Adult table."""

import csv
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure.attribute_leaks import (
    EncodedColumn,
    Told,
    Withheld,
    most_made_of,
    most_told,
    singled_out,
    told_by,
    told_together,
    withheld_labels,
)
from deid_assets_tests import examples
from deid_assets_tests.public_data import public_data


def column(codes, blank=None) -> EncodedColumn:
    codes = np.asarray(codes)
    return EncodedColumn(codes, np.zeros(len(codes), dtype=bool) if blank is None else np.asarray(blank))


def withheld(shown, label, person=None) -> Withheld:
    return Withheld("label", np.asarray(shown), np.asarray(label), None if person is None else np.asarray(person))


def fall(values, shown, label) -> float:
    return told_by(np.asarray(values), withheld(shown, label), 2).fall


class TestByHand:
    """Twelve people of one released label: six a, three b, three c. Who guesses a errs six times in twelve."""

    label = np.repeat([0, 1, 2], [6, 3, 3])
    shown = np.zeros(12, dtype=int)

    def test_a_copy_tells_all(self):
        assert fall(self.label, self.shown, self.label) == 1

    def test_a_constant_tells_nothing(self):
        assert fall(np.zeros(12, dtype=int), self.shown, self.label) == 0

    def test_a_column_that_tells_c_from_the_others_halves_the_errors(self):
        # Among nine a is guessed and errs three times; three of c are right.
        assert fall(self.label // 2, self.shown, self.label) == 0.5

    def test_a_column_of_unique_values_predicts_nothing(self):
        """Counted with the record itself it would predict everything."""
        assert told_by(np.arange(12), withheld(self.shown, self.label), 2) == Told(0.0, 0.0)

    def test_labels_that_tie_are_right_by_chance(self):
        # Without one of its own three, the first label ties with the two of the second: half of three are right.
        label, values = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2]), np.array([0] * 5 + [1] * 6)
        # At first 2 is guessed: six are right and five are wrong. Then six are right, and 1.5 of five.
        assert fall(values, np.zeros(11, dtype=int), label) == pytest.approx(1.5 / 5)

    def test_what_the_release_shows_is_no_news(self):
        assert fall(self.label, self.label, self.label) == 0

    def test_a_copy_for_some_is_found_among_many_blanks(self):
        generator = np.random.default_rng(1)
        label = generator.integers(0, 10, 3_000)
        blank = generator.random(3_000) < 0.9
        values = np.where(blank, 10, label)
        assert fall(values, label * 0, label) < 0.2
        refines, _ = most_told(column(values, blank), [withheld(label * 0, label)], 5)
        assert refines.fall > 0.99

    def test_a_copy_for_some_among_another_filler_is_told_for_sure(self):
        generator = np.random.default_rng(1)
        label = generator.integers(0, 10, 3_000)
        values = np.where(generator.random(3_000) < 0.7, 10, label)
        refines, sure = most_told(column(values), [withheld(label * 0, label)], 5)
        assert refines.fall < 0.5 and sure.sure == pytest.approx(0.3, abs=0.03)

    def test_records_of_one_person_do_not_confirm_each_other(self):
        people = np.repeat(np.arange(40), 10)
        label, values = people % 7, people  # a value of each person's own
        assert told_by(values, withheld(people * 0, label), 5).fall > 0.99
        assert told_by(values, withheld(people * 0, label, people), 5).fall == 0


class TestMadeOf:
    """Bands between two levels of a hierarchy tell little of the values, and follow from them."""

    ages = np.random.default_rng(6).integers(20, 70, 4_000)
    labels = (withheld(ages // 10, ages),)

    @pytest.mark.parametrize("width", [3, 5])
    def test_bands_between_two_levels(self, width):
        bands = column(self.ages // width)
        assert most_told(bands, self.labels, 5)[0].fall < 0.5
        assert most_made_of(bands, self.labels, 5) > 0.99

    def test_bands_for_some_among_blanks_or_another_filler(self):
        some = np.random.default_rng(7).random(4_000) < 0.2
        bands = np.where(some, self.ages // 5, 0)
        for blank in (~some, None):
            assert most_made_of(column(bands, blank), self.labels, 5) > 0.99

    def test_what_the_release_shows_and_what_chance_gives_is_made_of_nothing(self):
        for values in (self.ages // 10, self.ages // 20, np.random.default_rng(8).integers(0, 9, 4_000), self.ages * 0):
            assert most_made_of(column(values), self.labels, 5) < 0.05


def lambda_by_brute_force(values, shown, label) -> float:
    def chance(record: int, alike: list[int]) -> float:
        counts = Counter(label[one] for one in alike)
        most = [name for name, n in counts.items() if n == max(counts.values())]
        return (label[record] in most) / len(most)

    def wrong(known: bool) -> float:
        total = 0.0
        for record in range(len(label)):
            same = [n for n in range(len(label)) if n != record and shown[n] == shown[record]]
            alike = [n for n in same if values[n] == values[record]] if known else same
            alike = alike or same
            total += 1 - (chance(record, alike) if alike else 0.0)
        return total

    before = wrong(False)
    return max(0.0, 1 - wrong(True) / before) if before else 0.0


@settings(max_examples=examples.of(150), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=25))
def test_lambda_is_that_of_brute_force(rows):
    values, shown, label = (np.array(part) for part in zip(*rows, strict=True))
    assert fall(values, shown, label) == pytest.approx(lambda_by_brute_force(values, shown, label))


def test_a_blank_singles_nobody_out_and_a_rare_value_does():
    found = singled_out(np.array([0, 0, 1, 2, 2]), np.array([False, False, False, True, True]), 3)
    assert found.tolist() == [True, True, True, False, False]


class TestTogether:
    ages = np.random.default_rng(3).integers(0, 60, 5_000)
    labels = (withheld(ages * 0, ages),)

    def sets_beyond(self, **columns) -> set[tuple[str, ...]]:
        found = told_together({name: column(codes) for name, codes in columns.items()}, self.labels, 0.6, 0.5, 5)
        return {one.columns for one in found if one.fall > 0.6}

    def test_tens_and_units(self):
        assert self.sets_beyond(tens=self.ages // 10, units=self.ages % 10, sex=self.ages * 0) == {("tens", "units")}

    def test_a_number_and_the_same_number_added_to_the_age(self):
        """Neither tells anything of the age alone."""
        noise = np.random.default_rng(4).integers(0, 60, 5_000)
        assert self.sets_beyond(noise=noise, sum=(noise + self.ages) % 60) == {("noise", "sum")}

    def test_three_remainders(self):
        found = self.sets_beyond(three=self.ages % 3, four=self.ages % 4, five=self.ages % 5)
        assert {frozenset(one) for one in found} == {frozenset(("three", "four", "five"))}

    def test_two_columns_that_are_blank_for_most(self):
        generator = np.random.default_rng(5)
        blank, noise = generator.random(5_000) < 0.75, generator.integers(0, 20, 5_000)
        ages = self.ages // 3
        parts = {"noise": np.where(blank, 20, noise), "sum": np.where(blank, 20, (noise + ages) % 20)}
        columns = {name: column(codes, blank) for name, codes in parts.items()}
        found = told_together(columns, (withheld(ages * 0, ages),), 0.6, 0.5, 5)
        assert [one.columns for one in found if one.fall > 0.6] == [("noise", "sum")]

    def test_columns_that_tell_alone_are_judged_alone(self):
        assert self.sets_beyond(copy=self.ages, other=self.ages % 2) == set()


def adult() -> tuple[list[str], list[tuple[str, ...]], dict[str, list[np.ndarray]]]:
    folder = public_data("adult")
    with (folder / "adult.csv").open() as file:
        names, *rows = csv.reader(file, delimiter=";")
    columns = list(zip(*rows, strict=True))
    levels = {}
    for name, values in zip(names, columns, strict=True):
        with (folder / f"adult_hierarchy_{name}.csv").open() as file:
            by_value = {row[0]: row for row in csv.reader(file, delimiter=";")}
        height = len(next(iter(by_value.values())))
        levels[name] = [np.unique([by_value[v][level] for v in values], return_inverse=True)[1] for level in range(height)]
    return names, columns, levels


def labels_of(name: str, levels: list[np.ndarray]):
    """All labels withheld at every level that may be released."""
    return [one for level in range(1, len(levels)) for one in withheld_labels(name, ["?"] * len(levels), levels, level)]


@pytest.fixture(scope="module")
def table():
    return adult()


class TestAdult:
    def test_benign_columns_stay_far_below_the_limit(self, table):
        names, columns, levels = table
        codes = {name: np.unique(values, return_inverse=True)[1] for name, values in zip(names, columns, strict=True)}
        found = [
            told_by(codes[other], one, 5)
            for name in names
            for one in labels_of(name, levels[name])
            for other in names
            if other != name
        ]
        assert max(one.fall for one in found) == pytest.approx(0.377, abs=5e-4)
        assert max(one.sure for one in found) < 0.1

    def test_benign_columns_are_not_made_of_finer_quasi_identifiers(self, table):
        names, columns, levels = table
        codes = {name: column(np.unique(values, return_inverse=True)[1]) for name, values in zip(names, columns, strict=True)}
        found = [
            most_made_of(codes[other], labels_of(name, levels[name]), 5) for name in names for other in names if other != name
        ]
        assert max(found) == pytest.approx(0.478, abs=5e-4)

    def test_leaks_of_the_age_are_far_above_it(self, table):
        names, columns, levels = table
        ages = np.array(columns[names.index("age")], dtype=int)
        bands = {"10 years": 2, "20 years": 3, "any": 4}
        for released in bands.values():
            labels = withheld_labels("age", ["?"] * 5, levels["age"], released)
            assert most_told(column(ages // 5), labels, 5)[0].fall > 0.75
            assert most_told(column(ages), labels, 5)[0].fall == pytest.approx(1, abs=1e-3)
            assert most_told(column(2026 - ages), labels, 5)[0].fall == pytest.approx(1, abs=1e-3)

    def test_pairs_of_benign_columns_stay_below_the_limit_of_pairs(self, table):
        names, columns, levels = table
        codes = {name: column(np.unique(values, return_inverse=True)[1]) for name, values in zip(names, columns, strict=True)}
        for name in ("marital-status", "age"):
            others = {other: codes[other] for other in names if other != name}
            labels = labels_of(name, levels[name])[-2:]
            assert all(one.fall < 0.6 for one in told_together(others, labels, 0.6, 0.5, 5))
