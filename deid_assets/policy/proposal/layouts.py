"""Recognize tables by their headers, and guess the roles of others by names and contents (`layouts.yaml`)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from deid_assets.policy.proposal.looking import PERSON, SEX_DIGITS, SEX_WORDS, DeliveredColumn, DeliveredTable, Look
from deid_assets.sources.delivery import DELIVERED_CLAIM_COLUMNS, MEMBER_COLUMNS

Role = Literal["members", "claims"]
_SEXES = 0.95
_RELATED = 0.9


@dataclass(frozen=True)
class KnownTable:
    """What a layout says of a table: its columns by canonical name, how it codes sex, columns to declare, and further codes."""

    columns: Mapping[str, str] = field(default_factory=dict)
    sex_values: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unsearched: Sequence[str] = ()


@dataclass(frozen=True)
class KnownEvents:
    """What a layout says of another table of events.

    Attributes
    ----------
    name
        What the policy calls it.
    columns
        Canonical column -> its name, or names of which a table has one.
    same_as_claims
        Columns of providers who are those of the claims.
    codes
        Its column of codes; see `layouts.yaml`.
    unsearched
        Further columns of codes, which no list searches.
    """

    name: str
    columns: Mapping[str, str | Sequence[str]]
    same_as_claims: Sequence[str]
    codes: Mapping[str, str]
    unsearched: Sequence[str] = ()


@dataclass(frozen=True)
class Further:
    """A table that is neither: what it holds, and why a release goes without it, if the layout says."""

    table: DeliveredTable
    holds: str
    left_out: str | None = None


@dataclass(frozen=True)
class Recognized:
    """The tables of a delivery by role.

    Attributes
    ----------
    layout
        Name of the layout; None: it is unknown.
    like
        The shipped policy that reads the layout; None: there is none.
    members, claims
        Each a table with what the layout says of it; None: there is none.
    further
        Tables of spans or other things.
    also
        More tables of members or claims, each with its role: a shipped policy may read several.
    events
        Other tables of events, each with what the layout says of it.
    vocabulary
        The tables that say what concepts mean, by name.
    dates
        How dates of all events are drawn anew; empty: no dates are proposed.
    """

    layout: str | None
    like: str | None
    members: tuple[DeliveredTable, KnownTable] | None
    claims: tuple[DeliveredTable, KnownTable] | None
    further: tuple[Further, ...]
    also: tuple[tuple[DeliveredTable, str], ...] = ()
    events: tuple[tuple[DeliveredTable, KnownEvents], ...] = ()
    vocabulary: Mapping[str, DeliveredTable] = field(default_factory=dict)
    dates: Mapping[str, Any] = field(default_factory=dict)


@cache
def signatures() -> Mapping[str, Any]:
    """Contents of `layouts.yaml`."""
    return yaml.safe_load(Path(__file__).with_name("layouts.yaml").read_text("utf-8"))


def recognize(look: Look) -> Recognized:
    """Return the tables of a delivery by role: by the layout whose headers most tables have, or else by what they contain."""
    best = max((_by_headers(look.tables, layout) for layout in signatures()["layouts"]), key=_certainty)
    return best if _certainty(best) > 0 else _by_contents(look)


def _certainty(found: Recognized) -> int:
    return (
        0
        if found.members is None or found.claims is None
        else 2 + len(found.further) + len(found.events) + len(found.vocabulary)
    )


def _by_headers(tables: Sequence[DeliveredTable], layout: Mapping[str, Any]) -> Recognized:
    roles: dict[str, tuple[DeliveredTable, KnownTable]] = {}
    events: dict[str, tuple[DeliveredTable, KnownEvents]] = {}
    vocabulary: dict[str, DeliveredTable] = {}
    further, also = [], []
    for table in tables:
        names = {column.name.lower() for column in table.columns}
        fits = (one for one in layout["tables"] if {header.lower() for header in one["headers"]} <= names)
        found = next(fits, None)
        if found is None:
            continue
        role, name = found["role"], found.get("name", found["role"])
        if role == "further" or name in {*events, *vocabulary}:
            further.append(Further(table, found.get("holds", f"more {name}"), found.get("left_out")))
        elif role == "events":
            same, further_codes = found.get("same_as_claims", ()), found.get("unsearched", ())
            events[name] = table, KnownEvents(name, found["columns"], same, found["codes"], further_codes)
        elif role == "vocabulary":
            vocabulary[name] = table
        elif role in roles:
            also.append((table, role))
        else:
            columns, sexes, declared = (found.get(key, {}) for key in ("columns", "sex_values", "declared"))
            roles[role] = (table, KnownTable(columns, sexes, declared, found.get("unsearched", ())))
    return Recognized(
        layout["name"], layout.get("like"), roles.get("members"), roles.get("claims"), tuple(further), tuple(also),
        tuple(events[name] for name in sorted(events)), vocabulary, layout.get("dates", {}),
    )  # fmt: skip


def _by_contents(look: Look) -> Recognized:
    """Members have a sex and an age or a birth, and keys that another table of dates contains: that of the claims."""
    nothing = Recognized(None, None, None, None, ())
    for (own, key, other, theirs), _ in sorted(look.related.items(), key=lambda item: _preferred(item[0], item[1])):
        members, claims = (next(one for one in look.tables if one.shown == name) for name in (own, other))
        guessed = guess(members, "members", {})
        dated = guess(claims, "claims", {"member_id": theirs})
        if "sex" not in guessed or not {"age", "birth_date"} & set(guessed) or not {"service_date", "year"} & set(dated):
            continue
        own_key = {"claim_id": dated["claim_id"][0]} if "claim_id" in dated else {}
        return Recognized(
            None, None, (members, KnownTable({"member_id": key})), (claims, KnownTable({**own_key, "member_id": theirs})), ()
        )
    return nothing


def _preferred(relation: tuple[str, str, str, str], share: float) -> tuple[object, ...]:
    """Nearly complete relations first, those whose names say a person before others."""
    named = sum(PERSON.search(name) is not None for name in (relation[1], relation[3]))
    return (share < _RELATED, -named, -share, relation)


def guess(table: DeliveredTable, role: Role, taken: Mapping[str, str], first_year: int | None = None) -> dict[str, list[str]]:
    """Return canonical column -> the columns that it may be, the most probable first.

    Parameters
    ----------
    taken
        Canonical columns that are known already.
    first_year
        Calendar year of year 1, for names such as those of days in hospital of a year; None: it is not known.
    """
    years = {f"y{number}": str(first_year + number - 1) if first_year else "(?!)" for number in (2, 3)}
    used = {name.lower() for name in taken.values()}
    canonical = MEMBER_COLUMNS if role == "members" else DELIVERED_CLAIM_COLUMNS
    found: dict[str, list[str]] = {}
    for name in canonical:
        column = table.column(name)
        if name not in taken and column is not None and column.kind != "blank" and name.lower() not in used:
            found[name] = [column.name]
            used.add(column.name.lower())
    for name, wanted in signatures()["names"][role].items():
        pattern = re.compile(wanted["name"].format(**years) if "{y" in wanted["name"] else wanted["name"])
        free = [one for one in table.columns if one.name.lower() not in used and name not in {*taken, *found}]
        fitting = [one.name for one in free if pattern.search(plain_name(one.name)) and _contains(one, name, wanted)]
        if fitting:
            found[name] = sorted(fitting, key=lambda one: _rank(pattern, one))
            used.add(found[name][0].lower())
    return found


def _rank(pattern: re.Pattern[str], name: str) -> int:
    """Position of the first alternative of the pattern that fits."""
    alternatives = re.split(r"\|(?![^()]*\))", pattern.pattern)
    return next((place for place, one in enumerate(alternatives) if re.search(one, plain_name(name))), len(alternatives))


def _contains(column: DeliveredColumn, name: str, wanted: Mapping[str, Any]) -> bool:
    if name == "sex":
        return max(column.share(SEX_WORDS), column.share(SEX_DIGITS)) >= _SEXES
    if "system" in wanted:  # most codes of procedures are digits: by its cells alone, the column would be one of numbers
        return column.kind not in ("date", "blank") and column.share(wanted["system"]) >= _RELATED
    return column.kind in wanted["kinds"]


def plain_name(name: str) -> str:
    """A name in lower case, with an underscore for what is no letter or digit, and between words.

    Examples
    --------
    >>> plain_name("ServiceDay"), plain_name("DIAGNOSIS1"), plain_name("zip-code")
    ('service_day', 'diagnosis1', 'zip_code')
    """
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")
