"""Questions of analysts, answered from the delivery and from the release (methods#utility)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.assessments.compared_tables import Compared
from deid_assets.methods.attacks.inpatient_classes import MEMBER_LEVEL
from deid_assets.methods.utility.questions import standard_errors
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import GROUPED, YEARS
from deid_assets.store.tables import Table, quoted

COLUMNS = ("question", "group", "delivered", "of_delivered", "released", "of_released", "standard_errors")
HAS_CONDITION, HOSPITALIZED, HOSPITALIZED_BY_CONDITION = "has_condition", "hospitalized", "hospitalized_by_condition"


def analyst_questions(policy: Policy, levels: Mapping[str, int], domains: Table, compared: Compared) -> pd.DataFrame:
    """Rates by group in delivery and release, and how far they differ.

    Returns
    -------
    pandas.DataFrame
        Columns COLUMNS: share of members with a claim of each condition group; share hospitalized in a year by age and sex,
        and by condition group of the year before. Questions that the released columns cannot answer are left out.
    """
    frames = [pd.DataFrame([], columns=list(COLUMNS))]
    condition = policy.claim_names.get(GROUPED["diagnosis"])
    if condition is not None:
        frames.append(_rates(HAS_CONDITION, *(_with_condition(side, condition) for side in _sides(compared))))
    for days in YEARS.values():
        stays = stays_of(policy, levels, domains, days)
        if stays is None:
            continue
        year = int(days[-1])
        demographics = [column for column in MEMBER_LEVEL if policy.publishes(column)]
        frames.append(
            _rates(f"{HOSPITALIZED}_y{year}", *(_by_demographics(side, days, demographics, stays) for side in _sides(compared)))
        )
        if condition is not None:
            found = (_by_condition(side, days, condition, year - 1, stays) for side in _sides(compared))
            frames.append(_rates(f"{HOSPITALIZED_BY_CONDITION}_y{year}", *found))
    numbers = dict.fromkeys(COLUMNS[2:6], "int64")
    return pd.concat(frames, ignore_index=True).astype(
        {"question": "str", "group": "str", **numbers, "standard_errors": "float64"}
    )


@dataclass(frozen=True)
class Stays:
    """The labels of days in hospital that mean none, and those that mean any."""

    none: tuple[str, ...]
    some: tuple[str, ...]


def stays_of(policy: Policy, levels: Mapping[str, int], domains: Table, days: str) -> Stays | None:
    """Which labels say whether a member was in hospital; None if one label can mean both, or nothing is published."""
    if not policy.publishes(days):
        return None
    found = domains.query(
        "SELECT label, min(nullif(value, '')::INTEGER) AS least, max(nullif(value, '')::INTEGER) AS most,"
        f" count(*) FILTER (value = '') AS blanks FROM {domains.sql}"
        " WHERE quasi_identifier = ? AND level = ? AND label IS NOT NULL GROUP BY label ORDER BY label",
        [days, levels[days]],
    )
    of_days = found[found["most"].notna()]
    none, some = of_days["most"] == 0, of_days["least"] > 0
    if not len(of_days) or not (none | some).all() or of_days["blanks"].any():
        return None
    return Stays(tuple(of_days.loc[none, "label"]), tuple(of_days.loc[some, "label"]))


@dataclass(frozen=True)
class _Side:
    members: Table
    claims: Table


def _sides(compared: Compared) -> Iterator[_Side]:
    yield _Side(compared.members_before, compared.claims_before)
    yield _Side(compared.members_after, compared.claims_after)


def _with_condition(side: _Side, condition: str) -> pd.DataFrame:
    """Members with a claim of each condition group, of all members."""
    return side.claims.query(
        f"SELECT {quoted(condition)} AS grp, count(DISTINCT member) AS x, (SELECT count(*) FROM {side.members.sql}) AS n"
        f" FROM {side.claims.sql} WHERE {quoted(condition)} IS NOT NULL GROUP BY ALL"
    )


def _stayed(days: str) -> str:
    """SQL: 1 for members who were in hospital, 0 for those who were not, NULL for those who were not enrolled."""
    return f"CASE WHEN list_contains(?, m.{quoted(days)}) THEN 1 WHEN list_contains(?, m.{quoted(days)}) THEN 0 END"


def _by_demographics(side: _Side, days: str, columns: list[str], stays: Stays) -> pd.DataFrame:
    group = " || ', ' || ".join(f"coalesce({quoted(column)}, 'unknown')" for column in columns) or "'all'"
    return side.members.query(
        f"SELECT {group} AS grp, sum(stayed)::BIGINT AS x, count(*) AS n"
        f" FROM (SELECT m.*, {_stayed(days)} AS stayed FROM {side.members.sql} AS m) WHERE stayed IS NOT NULL GROUP BY ALL",
        [list(stays.some), list(stays.none)],
    )


def _by_condition(side: _Side, days: str, condition: str, year: int, stays: Stays) -> pd.DataFrame:
    return side.members.query(
        f"SELECT grp, sum(stayed)::BIGINT AS x, count(*) AS n"
        f" FROM (SELECT c.grp, {_stayed(days)} AS stayed"
        f" FROM (SELECT DISTINCT member, {quoted(condition)} AS grp FROM {side.claims.sql} WHERE year = ?) AS c"
        f" JOIN {side.members.sql} AS m USING (member) WHERE c.grp IS NOT NULL) WHERE stayed IS NOT NULL GROUP BY ALL",
        [list(stays.some), list(stays.none), year],
    )


def _rates(question: str, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Both sides joined by group; a group that one side lacks has nobody there."""
    both = before.merge(after, on="grp", how="outer", suffixes=("", "_after")).sort_values("grp")
    numbers = both[["x", "n", "x_after", "n_after"]].fillna(0).to_numpy(dtype=np.int64).T.copy()
    if question == HAS_CONDITION:
        # Of a group that one side lacks, all its members are without it.
        numbers[1], numbers[3] = numbers[1].max(initial=0), numbers[3].max(initial=0)
    errors = standard_errors((numbers[0], numbers[1]), (numbers[2], numbers[3]))
    return pd.DataFrame(
        dict(zip(COLUMNS, (question, both["grp"].to_numpy(), *numbers, errors), strict=True)), columns=list(COLUMNS)
    )
