"""Which columns look like direct identifiers, so that the review of one person does not publish them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments import attribute_leaks
from deid_assets.assessments.attribute_leaks import (
    PublishedAttributes,
    Remedy,
    TableOfEvents,
    judge_attributes,
    told_in_tables,
)
from deid_assets.assessments.evidence import Measurement
from deid_assets.methods.disclosure.attribute_leaks import EncodedColumn, Withheld, column_of
from deid_assets.policy.loading import policy_from
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.policy_texts import example_policy
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

ROWS = 200
REASON = "The recipients work under a contract."
TWO = {"by": ["Anna Muster"]}
IDENTIFYING: dict[str, Callable[[int], str]] = {
    "nine digits": lambda row: str(123_450_000 + 97 * row),
    "nine digits apart": lambda row: " ".join(str(123_450_000 + 97 * row)),
    "nine digits of another script": lambda row: str(123_450_000 + 97 * row).translate({48 + n: 0x660 + n for n in range(10)}),
    "nine digits with decimals": lambda row: f"{123_450_000 + 97 * row}.0",
    "nine digits among fillers": lambda row: str(123_450_000 + 97 * row) if row % 10 == 0 else "see file",
    "seven digits": lambda row: str(1_000_000 + 37 * row),
    "place in the file": lambda row: str(row),
    "a number with a sign": lambda row: f"-{1_000_000 + 37 * row}",
    "a fraction": lambda row: f"0.{1_000_000 + 37 * row}",
    "telephone": lambda row: f"(0{30 + row % 5}) {100_000 + row // 5}",
    "e-mail": lambda row: f"p{row // 2} at example dot org",
}
OTHERS: dict[str, Callable[[int], str]] = {
    "ZIP codes": lambda row: str(10_000 + row // 3),
    "dates": lambda row: str(pd.Timestamp("2001-01-01") + pd.Timedelta(days=row))[:10],
    "amounts that some share": lambda row: f"{row // 3}.25",
}


def judged(values: list[str], **changes: object) -> tuple[dict[str, Measurement], list[str]]:
    """The measurements of a reviewed column of these values, and the refusals."""
    policy = policy_from(changed(FLAT, reviewed_attributes={"Likes": REASON}, **changes))
    columns = {"Likes": column_of(pd.Series(values), 4)}
    with small_store() as store:
        staged = store.table("t", '"Likes" VARCHAR', [(value,) for value in values])
        published = PublishedAttributes(columns, columns, (), {})
        measured, refusals = judge_attributes(policy, staged, published, 4, Remedy("Do not publish it", "Declare them"))
    return {one.name: one for one in measured}, [one.text for one in refusals]


@pytest.mark.parametrize("kind", IDENTIFYING)
def test_numbers_of_persons_need_a_second_person_whatever_their_form(kind):
    values = [IDENTIFYING[kind](row) for row in range(ROWS)]
    (refusal,) = judged(values)[1]
    assert "a second person has to approve the release, too" in refusal and not any(value in refusal for value in values[10:])
    assert judged(values, approval=TWO)[1] == []


@pytest.mark.parametrize("kind", OTHERS)
def test_for_others_a_reason_suffices(kind):
    measured, refusals = judged([OTHERS[kind](row) for row in range(ROWS)])
    assert refusals == [] and measured["Likes/singled_out"].value > 0.9 and not measured["Likes/singled_out"].gating


@pytest.mark.parametrize(
    ("by", "second"),
    [
        (["Anna Muster"], True),
        (["Privacy"], False),
        (["team:privacy"], False),
        (["PRIVACY Team"], False),
        (["Prívacy"], False),
        (["Anna Muster", "privacy"], False),
    ],
)
def test_an_owner_by_another_spelling_is_no_second_person(by, second):
    assert policy_from(changed(FLAT, approval={"by": by})).needs_second_person is second


@pytest.mark.parametrize("name", ["Anna Muster", "Muster, Anna", "anna.muster@example.org", "ANNA_MUSTER", "annamuster"])
def test_an_owner_who_is_an_address_is_known_by_the_name_in_it(name):
    policy = policy_from(changed(FLAT, owners=["anna.muster@example.org"], approval={"by": [name]}))
    assert not policy.needs_second_person


def test_a_policy_without_approval_has_no_second_person():
    assert not policy_from(FLAT).needs_second_person


def of_table(first: np.ndarray, second: np.ndarray, half: np.ndarray) -> TableOfEvents:
    """Rows of people of their own with two columns, 0 where a value is missing, and the half of their ten years."""
    columns = {name: EncodedColumn(codes, codes == 0) for name, codes in (("First", first), ("Second", second))}
    everybody = np.arange(len(half))
    label = Withheld("Age: 5 years", np.zeros_like(everybody), half, everybody)
    return TableOfEvents(columns, [(np.ones(len(half), dtype=bool), (label,))])


def test_a_table_that_lacks_columns_does_not_hide_what_they_tell_together_in_another():
    """Which of two columns is filled says the half, together alone: where both are, or neither is, it is the upper one."""
    generator = np.random.default_rng(3)
    first, second = generator.integers(0, 2, (2, 2_000))
    claims = of_table(first, second, first ^ second)
    nothing = np.zeros(20_000, dtype=np.int64)
    others = of_table(nothing, nothing, generator.integers(0, 2, 20_000))
    _, (found, *_) = told_in_tables([claims, TableOfEvents({}, others.withheld)], 5)
    assert found.columns == ("First", "Second") and found.fall > 0.9
    both = [np.concatenate([one.columns[name].codes for one in (claims, others)]) for name in ("First", "Second")]
    half = np.concatenate([one.withheld[0][1][0].label for one in (claims, others)])
    _, (hidden,) = told_in_tables([of_table(*both, half)], 5)
    assert hidden.fall < 0.2, "among the rows of both tables it goes under"


def test_what_a_column_tells_alone_is_the_most_that_it_tells_in_any_table():
    half = np.arange(200) % 2
    tells, does_not = of_table(half, half * 0, half), of_table(half * 0 + 1, half * 0, half)
    for tables in ([tells, does_not], [does_not, tells]):
        told, _ = told_in_tables(tables, 5)
        assert told["First"][0].fall == 1 and told["Second"][0].fall == 0


@pytest.mark.parametrize(("singled", "worst"), [((0, 0), (0, 900)), ((1, 0), (1, 40)), ((0, 9), (9, 900))])
def test_claims_singled_out_are_those_of_the_worst_table_and_of_the_largest_if_there_are_none(monkeypatch, singled, worst):
    """Where no claim is singled out, it is none of many, not none of none."""
    policy, numbers = example_policy(), {"claims": (singled[0], 40), "fills": (singled[1], 900)}
    monkeypatch.setattr(type(policy), "event_tables", (*numbers,))
    monkeypatch.setattr(type(policy), "columns_of_file", lambda _, table, names: names)
    monkeypatch.setattr(attribute_leaks, "rows_of", lambda table, name: name)
    monkeypatch.setattr(
        attribute_leaks, "_by_value", lambda table, *_: dict(zip(("singled_claims", "claims"), numbers[table], strict=True))
    )
    assert attribute_leaks._worst_table(policy, None, None, ["DaysOfSupply"], {}) == worst
