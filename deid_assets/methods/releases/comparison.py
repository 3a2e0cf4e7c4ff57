"""What one release hides and another shows, and who is missing from the later one (methods#meet, methods#disappearance).

How many members can be linked by their rows alone is told as well (methods#linkability): the adversary generalizes both
releases until values that any of them joins are one class, and compares whole records: demographics, and how often each class
occurs in each history. A record that equals exactly one record of the other release is linked. Records that also differ by new
claims could be linked too, so the share is a lower bound.

`kept_rows` are what a release shows of every delivered member, in the form in which later releases are compared with it.

One row is a value of one quasi-identifier of one member, as delivered and as released. Members are named by keyed tags,
which are the same in every delivery. The rows never leave the restricted store.

==================  ===================================================================================================
column              content
==================  ===================================================================================================
tag                 UBIGINT: keyed tag of the member
quasi_identifier    VARCHAR: its column, or what a declared column is
service_day         INTEGER: day of service since 1970 or, if unknown, minus the year; NULL: a member-level quasi-identifier
value, label        VARCHAR: the value, and its label in the release; NULL if missing
known, held         UINTEGER: how often a member's claims of that day have the value, before and after the long tail is cut
released            BOOLEAN: whether the member is released
==================  ===================================================================================================

`known` is 0 for members who are not released: what is known about them is never needed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import itemgetter
from types import MappingProxyType

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from deid_assets.methods.population.encoding import labels_query
from deid_assets.reference.known_columns import EVENT_TABLE
from deid_assets.store.tables import Table, literal, quoted, scratch_table


@dataclass(frozen=True)
class ComparedReleases:
    """The members and values of two releases.

    Attributes
    ----------
    members
        Members of both releases.
    added, withdrawn
        Members of the later release only, and of the earlier one only.
    values
        Values of claims of members of both releases that either release shows and that both deliveries contain.
    hidden_by_earlier, hidden_by_later
        How many of these values the one release hides and the other shows.
    """

    members: int
    added: int
    withdrawn: int
    values: int
    hidden_by_earlier: int
    hidden_by_later: int

    @property
    def hidden_share(self) -> float:
        """Share of the values that one of the releases hides and the other shows; 0 if there are none."""
        return (self.hidden_by_earlier + self.hidden_by_later) / max(self.values, 1)


def compared(earlier: Table, later: Table) -> ComparedReleases:
    """Compare what two releases show.

    Parameters
    ----------
    earlier, later
        Their kept rows (`comparison.kept_rows`), in one file.
    """
    members = later.query(
        f"""WITH a AS (SELECT DISTINCT tag FROM {earlier.sql} WHERE released),
              b AS (SELECT DISTINCT tag FROM {later.sql} WHERE released)
            SELECT count(*) FILTER (a.tag IS NOT NULL AND b.tag IS NOT NULL) AS both_of_them,
              count(*) FILTER (a.tag IS NULL) AS added, count(*) FILTER (b.tag IS NULL) AS withdrawn
            FROM a FULL JOIN b USING (tag)"""
    ).iloc[0]
    # A value that a delivery lacks is not hidden by its release.
    values = later.query(
        f"""SELECT coalesce(sum(greatest(a.held, b.held)), 0) AS shown,
              coalesce(sum(greatest(least(a.known, b.held) - least(a.held, b.held), 0)), 0) AS by_earlier,
              coalesce(sum(greatest(least(b.known, a.held) - least(a.held, b.held), 0)), 0) AS by_later
            FROM (SELECT tag, quasi_identifier, service_day, value, known::BIGINT AS known, held::BIGINT AS held
                  FROM {earlier.sql} WHERE released AND service_day IS NOT NULL) AS a
            JOIN (SELECT tag, quasi_identifier, service_day, value, known::BIGINT AS known, held::BIGINT AS held
                  FROM {later.sql} WHERE released AND service_day IS NOT NULL) AS b
              USING (tag, quasi_identifier, service_day, value)"""
    ).iloc[0]
    return ComparedReleases(
        int(members["both_of_them"]), int(members["added"]), int(members["withdrawn"]),
        int(values["shown"]), int(values["by_earlier"]), int(values["by_later"]),
    )  # fmt: skip


def withdrawn_standing_out(earlier: Table, later: Table, k: int) -> int:
    """Count the members of an earlier release whom the later one lacks, and who stand out as missing.

    They could be recognized as one of fewer than k: of their demographic class in the earlier release, fewer than k delivered
    members are missing from the later release, released before or not. Members of classes smaller than k are at risk without
    a later release, and are counted elsewhere.

    Parameters
    ----------
    earlier, later
        Their kept rows, in one file.
    k
        Smallest class size that is large enough, 1 / threshold.
    """
    found = later.arrays(
        f"""SELECT dense_rank() OVER (ORDER BY shown) - 1 AS class, e.released,
              e.tag NOT IN (SELECT tag FROM {later.sql} WHERE released) AS missing
            FROM (SELECT tag, bool_and(released) AS released,
                    list({{'column': quasi_identifier, 'label': label}} ORDER BY quasi_identifier) AS shown
                  FROM {earlier.sql} WHERE service_day IS NULL GROUP BY tag) AS e"""
    )
    class_of = np.asarray(found["class"])
    missing, released = (np.asarray(found[name], dtype=bool) for name in ("missing", "released"))
    size, lacking = np.bincount(class_of), np.bincount(class_of, missing)
    return int((released & missing & (lacking[class_of] < k) & (size[class_of] >= k)).sum())


def linkable_share(release: Table, other: Table) -> float:
    """Return the share of the members of one release whose record equals exactly one record of another release.

    Parameters
    ----------
    release, other
        Their kept rows (`comparison.kept_rows`), in one file.

    Returns
    -------
    float
        In [0, 1]; 0 if nobody is released.
    """
    joined = scratch_table(release, "classes_joined", joined_classes(release, other))
    found = release.query(
        f"""WITH own AS ({_records(release, joined, 0)}), others AS ({_records(other, joined, 1)})
            SELECT count(*) AS all_records, count(*) FILTER (n = 1) AS linked
            FROM own LEFT JOIN (SELECT record, count(*) AS n FROM others GROUP BY record) USING (record)"""
    ).iloc[0]
    return float(found["linked"] / max(found["all_records"], 1))


def joined_classes(release: Table, other: Table) -> pd.DataFrame:
    """Return the coarsest classes that both releases show: quasi_identifier, release (0 or 1), label, joined.

    Labels are joined if one of the releases does not tell them apart. Quasi-identifiers that only one release shows,
    and labels of values that only one delivery has, are left out.
    """
    pairs = release.query(
        f"""SELECT a.quasi_identifier, a.label AS first, b.label AS second
            FROM (SELECT DISTINCT quasi_identifier, value, label FROM {release.sql}) AS a
            JOIN (SELECT DISTINCT quasi_identifier, value, label FROM {other.sql}) AS b
              ON a.quasi_identifier = b.quasi_identifier AND a.value IS NOT DISTINCT FROM b.value
            ORDER BY ALL"""
    )
    found = []
    for name, own in pairs.groupby("quasi_identifier"):
        first, first_labels = pd.factorize(own["first"], use_na_sentinel=False)
        second, second_labels = pd.factorize(own["second"], use_na_sentinel=False)
        size = len(first_labels) + len(second_labels)
        edges = coo_array((np.ones(len(own)), (first, second + len(first_labels))), shape=(size, size))
        _, component = connected_components(edges, directed=False)
        labels = [(0, label) for label in first_labels] + [(1, label) for label in second_labels]
        found += [(name, number, label, int(own_class)) for (number, label), own_class in zip(labels, component, strict=True)]
    frame = pd.DataFrame(found, columns=["quasi_identifier", "release", "label", "joined"])
    return frame.astype({"quasi_identifier": "str", "label": "str", "release": "int64", "joined": "int64"})


def _records(release: Table, joined: Table, number: int) -> str:
    """SELECT a record of each released member: a sum of hashes, the same for equal multisets of classes, in any order."""
    return f"""SELECT sum(hash(r.quasi_identifier, coalesce(j.joined, -1))::HUGEINT * r.held) AS record
        FROM {release.sql} AS r
        JOIN (SELECT DISTINCT quasi_identifier FROM {joined.sql}) USING (quasi_identifier)
        LEFT JOIN {joined.sql} AS j
          ON j.release = {int(number)} AND j.quasi_identifier = r.quasi_identifier AND j.label IS NOT DISTINCT FROM r.label
        WHERE r.released GROUP BY r.tag"""


COLUMNS = ("tag", "quasi_identifier", "service_day", "value", "label", "known", "held", "released")
ORDER = ("quasi_identifier", "tag", "service_day", "value")
"""The order of the rows in a file; no two rows are equal in it."""

_DAY = "date_diff('day', DATE '1970-01-01', d.service_date)"


@dataclass(frozen=True)
class MemberTables:
    """The tables of the restricted store that say what a release shows of its members.

    Attributes
    ----------
    profiles
        member_id, released, and the member-level quasi-identifiers of the population.
    suppressed
        member_id of sampled members who are left out.
    known, held
        Claims before and after the long tail is cut: claim_id, member_id, year and the claim-level quasi-identifiers.
    dates
        claim_id, member_id and service_date as delivered.
    domains
        The table `value_domains`.
    """

    profiles: Table
    suppressed: Table
    known: Table
    held: Table
    dates: Table
    domains: Table


def kept_rows(
    tables: MemberTables,
    tags: Table,
    members: Mapping[str, int],
    claims: Mapping[str, int],
    released_only: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    events: Mapping[str, str] = MappingProxyType({}),
) -> pa.RecordBatchReader:
    """Return the kept rows of a release, in the order of `ORDER`.

    Claims are read once, as integers. Rows are then made of one quasi-identifier after the other and in parts, and text is
    only a dictionary of each part, so that neither all rows nor their texts are in memory at once.

    Parameters
    ----------
    tags
        member_id and tag of every member of the population.
    members, claims
        Level of each member-level and of each claim-level quasi-identifier in the release.
    released_only
        Whether the released members are the population, because classes are estimated from the release.
    names
        Quasi-identifier -> its name in the rows, if it has another one there.
    events
        Claim-level quasi-identifier -> its table, where there are several tables of events: rows of other tables tell nothing
        of it, not even a blank. Those that are not listed are of all tables.

    Returns
    -------
    pyarrow.RecordBatchReader
        Of the columns `COLUMNS`, in the types of `KEPT`. The tables have been read when it is returned.
    """
    of_members, of_claims = tables.profiles.columns(), tables.known.columns()
    values = {column: _numbered(tables, column, level, of_members[column], True) for column, level in members.items()}
    values |= {column: _numbered(tables, column, level, of_claims[column], False) for column, level in claims.items()}
    shown = f"""SELECT p.*, t.tag, p.released AND p.member_id NOT IN (SELECT member_id FROM {tables.suppressed.sql}) AS shown
        FROM {tables.profiles.sql} AS p JOIN {tags.sql} AS t USING (member_id)"""
    people = f"""SELECT *, row_number() OVER (ORDER BY tag) - 1 AS rank
        FROM ({shown}){" WHERE shown" if released_only else ""}"""
    codes, joins = _codes({column: values[column] for column in members}, "p")
    found = tables.profiles.arrays(f"SELECT tag, shown{codes} FROM ({people}) AS p{joins} ORDER BY rank")
    visits = [
        _Visits.of(tables.profiles.arrays(_claims(tables, some, {column: values[column] for column in claims}, events)))
        for some in (
            f"SELECT * FROM ({people}) WHERE rank >= {first} AND rank < {first + _PEOPLE_AT_ONCE}"
            for first in range(0, len(found["tag"]), _PEOPLE_AT_ONCE)
        )
    ]
    columns = {names.get(column, column): (column, _Texts.of(table)) for column, table in values.items()}
    batches = (
        _batch(name, texts, found, part)
        for name, (column, texts) in sorted(columns.items(), key=itemgetter(0))
        for part in (
            _of_members(found[column])
            if column in members
            else chain.from_iterable(own.counted(column, events.get(column)) for own in visits)
        )
    )
    return pa.RecordBatchReader.from_batches(KEPT, batches)


_TEXT = pa.dictionary(pa.int32(), pa.string())
KEPT = pa.schema(
    [
        ("tag", pa.uint64()), ("quasi_identifier", _TEXT), ("service_day", pa.int32()), ("value", _TEXT), ("label", _TEXT),
        ("known", pa.uint32()), ("held", pa.uint32()), ("released", pa.bool_()),
    ]
)  # fmt: skip
"""The types of kept rows while they are written; a file or a table has plain text in place of dictionaries."""

_PART = 1 << 18
"""Claims whose rows are made at a time: large enough for NumPy, and small beside the claims themselves."""

_PEOPLE_AT_ONCE = 250_000
"""People whose claims are read and sorted at a time, which takes several times the memory of what is kept of them."""

_NO_DAY = 2**31 - 1
"""Day of a claim that has none; the last in order."""


def _numbered(tables: MemberTables, column: str, level: int, kind: str, of_members: bool) -> Table:
    """Write each value of a quasi-identifier, its label, and its code in the order of the texts; a missing value is last."""
    sources = (tables.profiles,) if of_members else (tables.known, tables.held)
    found = " UNION ".join(f"SELECT DISTINCT {quoted(column)} AS value FROM {source.sql}" for source in sources)
    # A missing value of a member is a value, and may have a label.
    same = "IS NOT DISTINCT FROM" if of_members else "="
    sql = f"""SELECT v.value, d.label, row_number() OVER (ORDER BY v.value::VARCHAR NULLS LAST) - 1 AS code
        FROM ({found}) AS v
        LEFT JOIN ({labels_query(tables.domains, column, level, kind)}) AS d ON d.value {same} v.value"""
    return scratch_table(tables.profiles, f"kept_values_of_{column}", sql)


_KINDS = {"UTINYINT": 1 << 8, "USMALLINT": 1 << 16, "UINTEGER": 1 << 32}
"""Types of codes, and how many values each has numbers for."""


def _codes(values: Mapping[str, Table], rows: str) -> tuple[str, str]:
    """SQL of the code of each column's value, and of the joins that find it."""
    codes, joins = "", ""
    for number, (column, table) in enumerate(values.items()):
        kind = next(kind for kind, most in _KINDS.items() if table.count() <= most)
        codes += f", v{number}.code::{kind} AS {quoted(column)}"
        joins += f" LEFT JOIN {table.sql} AS v{number} ON v{number}.value IS NOT DISTINCT FROM {rows}.{quoted(column)}"
    return codes, joins


def _claims(tables: MemberTables, people: str, values: Mapping[str, Table], events: Mapping[str, str]) -> str:
    """SELECT every claim of some people that is known or held: the number of its member, its day, and the code of each value.

    Of several tables of events, each has a column `of <table>` that says whether a row is of it.
    """
    shown = ", ".join(("claim_id", "member_id", "year", *((EVENT_TABLE,) if events else ()), *map(quoted, values)))
    own = "".join(f", c.{EVENT_TABLE} = {literal(table)} AS {_own(table)}" for table in sorted(set(events.values())))
    codes, joins = _codes(values, "c")
    return f"""WITH people AS MATERIALIZED ({people})
        SELECT p.rank::UINTEGER AS rank, coalesce({_DAY}, -c.year, {_NO_DAY})::INTEGER AS day, c.held{own}{codes}
        FROM (SELECT {shown}, false AS held FROM {tables.known.sql}
              WHERE member_id IN (SELECT member_id FROM people WHERE shown)
              UNION ALL SELECT {shown}, true FROM {tables.held.sql}) AS c
        JOIN people AS p USING (member_id)
        LEFT JOIN (SELECT claim_id, service_date FROM {tables.dates.sql}
                   WHERE member_id IN (SELECT member_id FROM people)) AS d USING (claim_id){joins}"""


def _own(table: str) -> str:
    return f"of_{table}"


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of a quasi-identifier: of whom, when (None at member level), which value, and how often known and held."""

    person: np.ndarray
    day: np.ndarray | None
    code: np.ndarray
    known: np.ndarray
    held: np.ndarray


def _of_members(codes: np.ndarray) -> Iterator[_Part]:
    for start in range(0, len(codes), _PART):
        code = codes[start : start + _PART]
        once = np.ones(len(code), dtype=np.uint32)
        yield _Part(np.arange(start, start + len(code)), None, code, once, once)


@dataclass(frozen=True, eq=False)
class _Visits:
    """Claims in the order of members and days.

    Attributes
    ----------
    person, day
        (v,): whose and when, of each day on which a member has claims.
    first
        (v + 1,): the first claim of each of these days, and the number of claims.
    claims
        (n,) held, and the code of each value by column; in this order.
    """

    person: np.ndarray
    day: np.ndarray
    first: np.ndarray
    claims: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, claims: dict[str, np.ndarray]) -> "_Visits":
        """Sort what `_claims` selects."""
        person, day = claims.pop("rank"), claims.pop("day")
        earliest = int(day.min(initial=_NO_DAY))
        key = person.astype(np.int64) * (_NO_DAY - earliest + 1) + (day.astype(np.int64) - earliest)
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        in_order = {name: claims[name][order] for name in claims}
        return cls(person[order[first]], day[order[first]], np.append(first, len(order)), in_order)

    def counted(self, column: str, table: str | None) -> Iterator[_Part]:
        """How often each value is known and held on each of the days, in the rows of a table of events; None: in all rows."""
        code, held = self.claims[column], self.claims["held"]
        size = int(code.max(initial=0)) + 1
        cuts = np.unique(np.append(np.searchsorted(self.first, np.arange(0, self.first[-1], _PART)), len(self.person)))
        for start, end in pairwise(cuts):
            of_visits = self.first[start : end + 1]
            claims = slice(of_visits[0], of_visits[-1])
            visit = np.repeat(np.arange(start, end), np.diff(of_visits))
            key = (visit * size + code[claims]) * 2 + held[claims]
            if table is not None:
                key = key[self.claims[_own(table)][claims]]
            if not len(key):
                continue
            key.sort(kind="stable")  # visits are in order, which it makes use of
            each = np.flatnonzero(np.diff(key >> 1, prepend=-1))
            times_held = np.add.reduceat(key & 1, each)
            visit, value = np.divmod(key[each] >> 1, size)
            known = np.diff(each, append=len(key)) - times_held
            yield _Part(self.person[visit], self.day[visit], value, known.astype(np.uint32), times_held.astype(np.uint32))


@dataclass(frozen=True, eq=False)
class _Texts:
    """The text and the label of each value, by its code, as dictionaries."""

    values: tuple[np.ndarray, pa.Array]
    labels: tuple[np.ndarray, pa.Array]

    @classmethod
    def of(cls, numbered: Table) -> "_Texts":
        """Read what `_numbered` wrote."""
        found = numbered.query(f"SELECT value::VARCHAR AS value, label FROM {numbered.sql} ORDER BY code")
        return cls(*(_dictionary(found[column]) for column in ("value", "label")))


def _dictionary(texts: pd.Series) -> tuple[np.ndarray, pa.Array]:
    codes, distinct = pd.factorize(texts)
    return codes.astype(np.int32), pa.array(distinct.tolist(), pa.string())


def _batch(name: str, texts: _Texts, found: Mapping[str, np.ndarray], part: _Part) -> pa.RecordBatch:
    """The kept rows of a part."""

    def text(numbers: np.ndarray, distinct: pa.Array) -> pa.DictionaryArray:
        own = numbers[part.code]
        return pa.DictionaryArray.from_arrays(pa.array(own, mask=own < 0), distinct)

    rows = len(part.person)
    day = pa.nulls(rows, pa.int32()) if part.day is None else pa.array(part.day, mask=part.day == _NO_DAY)
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([name]))
    return pa.record_batch(
        [
            found["tag"][part.person], column, day, text(*texts.values), text(*texts.labels), part.known, part.held,
            found["shown"][part.person],
        ],
        schema=KEPT,
    )  # fmt: skip
