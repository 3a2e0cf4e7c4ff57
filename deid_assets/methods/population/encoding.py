"""Encode tables of the restricted store as the integer arrays that the kernel reads.

Values move from DuckDB to NumPy as the codes assigned by `value_domains`; no text about a person leaves the store.

Every value of every quasi-identifier is numbered once, with its label and class at every level. This is the only place where a
policy's hierarchies are applied to a delivery's values. The kernel reads the codes and the release reads the labels; both come
from the same rows, so they cannot disagree.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from deid_assets.errors import how_many
from deid_assets.methods.population.longitudinal_data import Domain, Histories, as_codes
from deid_assets.store.tables import Table, quoted

MISSING = ""
"""Value of a missing member-level quasi-identifier: a category like any other, released as a blank."""

_CLOSED = re.compile(r"(\d+)(-\d+)?\Z")
_SINGLE = re.compile(r"(\d+)\+?\Z")
_FEWEST = 2
"""Largest number of labels that keep their '+': '0' and '1+' mean none or any, whereas '1' would mean one."""

COLUMNS = ("quasi_identifier", "base_code", "value", "level", "level_code", "label")


def distinct_values(table: Table, column: str) -> list:
    """Return the distinct non-missing values of a column in ascending order."""
    found = table.query(
        f"SELECT DISTINCT {quoted(column)} AS value FROM {table.sql} WHERE {quoted(column)} IS NOT NULL ORDER BY 1"
    )
    return found["value"].tolist()


def value_domain(
    quasi_identifier: str,
    values: Sequence,
    labels: Sequence[np.ndarray],
    codes: Sequence[np.ndarray],
    with_missing: bool,
    top_code: int | None = None,
    missing_labels: Sequence[str | None] = (),
) -> pd.DataFrame:
    """Return the rows of `value_domains` for one quasi-identifier.

    Parameters
    ----------
    quasi_identifier
        Its column name.
    values
        (V,) distinct non-missing values.
    labels, codes
        One array (V,) per level: the released text, and the class as 0, 1, ..
    with_missing
        Whether a missing value is a category, as it is at member level; it is then the last code of every level.
    top_code
        A number that represents itself and everything above it. Its class is open-ended, and its label says so: '8-14'
        becomes '8+'. If every class is a single number, the largest is also written as a number, as 15 is in the
        Heritage files, so that the column is read as numeric.
    missing_labels
        For each level, the label of the class that missing values join, or None if they are their own; empty: none joins.

    Returns
    -------
    pandas.DataFrame
        quasi_identifier, base_code, value (text), level, level_code, label (None where missing).
    """
    values = list(values)
    # A claim-level column without any value has a domain too: a single, empty class.
    with_missing = with_missing or not values
    frames = []
    for level, (own_labels, own_codes) in enumerate(zip(labels, codes, strict=True)):
        text, number = list(own_labels), np.asarray(own_codes, dtype=np.int32)
        joined = missing_labels[level] if missing_labels else None
        missing_code = int(number[text.index(joined)]) if joined in text else int(number.max(initial=-1)) + 1
        opened = text
        if top_code is not None and top_code in values:
            opened = _opened(text, text[values.index(top_code)])
        if top_code is not None and _counts(text):
            opened = [label.removesuffix("+") for label in opened]
        missing_label = opened[text.index(joined)] if joined in text else joined
        extra = [None] if with_missing else []
        frames.append(
            pd.DataFrame(
                {
                    "quasi_identifier": quasi_identifier,
                    "base_code": np.arange(len(values) + len(extra)),
                    "value": [*(str(value) for value in values), *(MISSING for _ in extra)],
                    "level": level,
                    "level_code": [*number.tolist(), *(missing_code for _ in extra)],
                    "label": [*opened, *(missing_label for _ in extra)],
                }
            )
        )
    rows = pd.concat(frames, ignore_index=True)
    # Text columns have pandas' str type, so that DuckDB reads text even if every value is missing.
    types = dict.fromkeys(("quasi_identifier", "value", "label"), "str")
    return rows.astype(types | dict.fromkeys(("base_code", "level", "level_code"), "int32"))


def _opened(labels: list[str], label: str) -> list[str]:
    closed = _CLOSED.match(label)
    if not closed:
        return labels
    return [f"{closed.group(1)}+" if text == label else text for text in labels]


def _counts(labels: list[str]) -> bool:
    """Whether the labels of a level are single numbers, the last possibly open-ended.

    '0' and '1+' are not: they mean none or any.

    Examples
    --------
    >>> _counts(["0", "1", "15+"]), _counts(["0", "7", "8-14"]), _counts(["0", "1+"])
    (True, False, False)
    """
    return len(set(labels)) > _FEWEST and all(map(_SINGLE.match, labels))


def level_maps(domains: pd.DataFrame, quasi_identifier: str) -> tuple[np.ndarray, ...]:
    """Return, for each level of a quasi-identifier, the class of each class of the finest level.

    The kernel has no values below the finest level, which may already merge some (stays of 0 and of 1 day, for example).
    """
    own = domains[domains["quasi_identifier"] == quasi_identifier].sort_values(["level", "base_code"])
    maps = [rows["level_code"].to_numpy() for _, rows in own.groupby("level")]
    _, first = np.unique(maps[0], return_index=True)
    return tuple(codes[first] for codes in maps)


def label_joins(
    domains: Table,
    levels: Mapping[str, int],
    types: Mapping[str, str],
    of: str,
    missing_is_value: bool,
    what: str = "label",
) -> tuple[list[str], str]:
    """Return the expressions, in order, and the joins of a SELECT that shows quasi-identifiers at their levels.

    Parameters
    ----------
    levels
        Level of each quasi-identifier, by its column.
    types
        DuckDB type of each column.
    of
        Alias of the rows.
    missing_is_value
        Whether a missing value has a class, as at member level; a missing value of a claim has none.
    what
        'label', or 'level_code' for the number of the class.
    """
    equal = "IS NOT DISTINCT FROM" if missing_is_value else "="
    joins = [
        f"LEFT JOIN ({labels_query(domains, column, level, types[column])}) AS d{number}"
        f" ON d{number}.value {equal} {of}.{quoted(column)}"
        for number, (column, level) in enumerate(levels.items())
    ]
    return [f"d{number}.{what}" for number in range(len(levels))], " ".join(joins)


def labels_query(domains: Table, quasi_identifier: str, level: int, value_type: str) -> str:
    """SELECT value (in the column's own type), label, base_code, level_code of one quasi-identifier at one level."""
    return (
        f"SELECT CAST(nullif(value, '') AS {value_type}) AS value, label, base_code, level_code FROM {domains.sql}"
        f" WHERE quasi_identifier = '{quasi_identifier}' AND level = {int(level)}"
    )


def domains_of(domains: Table, columns: Sequence[str]) -> tuple[Domain, ...]:
    """Return the kernel's domain of each quasi-identifier."""
    frame = domains.frame()
    return tuple(Domain(level_maps(frame, column)) for column in columns)


def demographic_codes(profiles: Table, domains: Table, columns: Sequence[str]) -> np.ndarray:
    """Return (N, d) int32: base codes of the member-level quasi-identifiers, ordered by member_number."""
    return _coded(profiles, domains, columns, "member_number")


def record_codes(records: Table, domains: Table, columns: Sequence[str]) -> np.ndarray:
    """Return (n, m) int32: codes of the quasi-identifiers of a flat table's records, ordered by record number."""
    return _coded(records, domains, columns, "record")


def _coded(table: Table, domains: Table, columns: Sequence[str], order: str) -> np.ndarray:
    """Return one code per row and column; missing values have the code that `value_domains` assigned."""
    codes, joins = label_joins(domains, dict.fromkeys(columns, 0), table.columns(), "t", True, "level_code")
    selects = ", ".join(f"{code} AS c{number}" for number, code in enumerate(codes))
    arrays = table.arrays(f"SELECT {selects} FROM {table.sql} AS t {joins} ORDER BY t.{quoted(order)}")
    return np.stack([_complete(arrays[f"c{number}"]) for number in range(len(columns))], axis=1).astype(np.int32)


def _complete(codes: np.ndarray) -> np.ndarray:
    """Return the codes after checking that every row has a value in the domain."""
    lacking = int(np.count_nonzero(np.ma.getmaskarray(codes))) if isinstance(codes, np.ma.MaskedArray) else 0
    if lacking:
        raise ValueError(f"{how_many(lacking, 'value has', 'values have')} no class; value_domains is of another delivery")
    return np.asarray(codes)


_MEMBERS_AT_ONCE = 250_000
"""So many members' claims are read at a time: their rows take several times the memory of the histories."""


def histories(
    claims: Table, profiles: Table, domains: Table, columns: Sequence[str], members: int, released_only: bool = False
) -> tuple[Histories, ...]:
    """Return the values of each claim-level quasi-identifier by member.

    Parameters
    ----------
    claims
        Claims with member_id and the columns.
    profiles
        member_id, member_number, released.
    members
        Number of members: all of them or, with `released_only`, the released ones, ordered by member_number.
    released_only
        Whether to include only released members; member i is then the i-th released one.

    Returns
    -------
    tuple of Histories
        One per column; missing values are left out, because they are not knowledge.
    """
    found_codes, joins = label_joins(domains, dict.fromkeys(columns, 0), claims.columns(), "c", False, "level_code")
    largest = int(domains.query(f"SELECT coalesce(max(base_code), 0) AS code FROM {domains.sql}")["code"].iloc[0])
    kind = "SMALLINT" if largest <= np.iinfo(np.int16).max else "INTEGER"
    # A value that is present but has no class becomes -2 and raises an error below.
    selects = [
        f"CASE WHEN c.{quoted(column)} IS NULL THEN -1 ELSE coalesce({code}, -2) END::{kind} AS c{number}"
        for number, (column, code) in enumerate(zip(columns, found_codes, strict=True))
    ]
    rank = "row_number() OVER (ORDER BY member_number) - 1" if released_only else "member_number"
    where = "WHERE released" if released_only else ""
    found: list[list[Histories]] = [[] for _ in columns]
    for first in range(0, members, _MEMBERS_AT_ONCE):
        end = min(first + _MEMBERS_AT_ONCE, members)
        arrays = claims.arrays(
            f"WITH positions AS (FROM (SELECT member_id, ({rank})::INTEGER AS position FROM {profiles.sql} {where})"
            f" WHERE position >= {first} AND position < {end}) SELECT position - {first} AS position, {', '.join(selects)}"
            f" FROM {claims.sql} AS c JOIN positions USING (member_id) {joins}"
        )
        position = np.asarray(arrays["position"]).astype(np.int64)
        for number, column in enumerate(columns):
            codes = arrays.pop(f"c{number}")
            unknown = int(np.count_nonzero(codes == -2))
            if unknown:
                text = how_many(unknown, "value")
                raise ValueError(f"{text} of {column} without a class; value_domains is of another delivery")
            found[number].append(_by_member(position, codes, end - first))
    return tuple(Histories.one_after_another(of_column) for of_column in found)


def _by_member(position: np.ndarray, codes: np.ndarray, members: int) -> Histories:
    """Create histories from (member, code) pairs in any order.

    Codes of a member are sorted, because a multi-threaded query returns rows in any order, and draws are positions in this
    array.
    """
    present = codes >= 0
    width = int(codes.max(initial=0)) + 1
    keys = position[present] * width + codes[present]
    if members * width < 2**32:
        keys = keys.astype(np.uint32)  # sorted twice as fast
    keys.sort()
    member, code = np.divmod(keys, keys.dtype.type(width))
    counts = np.bincount(member, minlength=members)
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return Histories(offsets, as_codes(code))


CODED = pa.schema(
    [
        ("quasi_identifier", pa.dictionary(pa.int8(), pa.string())), ("held", pa.bool_()), ("member_number", pa.int32()),
        ("code", pa.int32()), ("times", pa.int32()),
    ]
)  # fmt: skip
"""Columns of coded histories while they are written; their table has plain text in place of the dictionary."""


def rows_of_histories(
    columns: Sequence[str], known: Sequence[Histories], held: Sequence[Histories], targets: np.ndarray
) -> pa.RecordBatchReader:
    """Return histories as rows, from which `coded_histories` makes them again without reading a claim.

    Parameters
    ----------
    columns
        The H claim-level quasi-identifiers.
    known, held
        H `histories` of the released members, and of all members.
    targets
        (n,) int: member_number of the released members.

    Returns
    -------
    pyarrow.RecordBatchReader
        Of the columns `CODED`: how many times a member has a code of a quasi-identifier, among the claims that are held or
        among those that are known. One batch for each quasi-identifier and kind of claims, ordered by member and code.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for place, column in enumerate(columns):
            for is_held, of in ((False, known[place]), (True, held[place])):
                begins = np.ones(len(of.codes), dtype=bool)
                begins[1:] = of.codes[1:] != of.codes[:-1]
                begins[of.offsets[:-1][of.counts > 0]] = True
                first = np.flatnonzero(begins)
                member = np.searchsorted(of.offsets, first, side="right") - 1
                arrays = [
                    pa.DictionaryArray.from_arrays(np.zeros(len(first), dtype=np.int8), [column]),
                    np.full(len(first), is_held),
                    (member if is_held else targets[member]).astype(np.int32),
                    of.codes[first].astype(np.int32),
                    np.diff(first, append=len(of.codes)).astype(np.int32),
                ]
                yield pa.record_batch([pa.array(one) for one in arrays], schema=CODED)

    return pa.RecordBatchReader.from_batches(CODED, batches())


def coded_histories(coded: Table, columns: Sequence[str], held: bool, members: np.ndarray) -> Iterator[Histories]:
    """Yield the same as `histories` returns, from their rows.

    Parameters
    ----------
    coded
        `rows_of_histories`.
    held
        Whether to yield values of claims that are held, or of those that are known.
    members
        (n,) int: member_number of the members to include, ascending; member i is then the i-th of them.
    """
    for column in columns:
        arrays = coded.arrays(
            f"SELECT member_number, code, times FROM {coded.sql} WHERE quasi_identifier = ? AND held = ?", [column, held]
        )
        number, code, times = (np.asarray(arrays[name]) for name in ("member_number", "code", "times"))
        position = np.full(max(number.max(initial=-1), members.max(initial=-1)) + 1, -1, dtype=np.int64)
        position[members] = np.arange(len(members))
        position = position[number]
        width = int(code.max(initial=0)) + 1
        # A multi-threaded query may return rows in any order; a stable sort of rows in order takes one pass.
        order = np.argsort(position * width + code, kind="stable")
        order = order[position[order] >= 0]
        position, code, times = position[order], code[order], times[order]
        counts = np.bincount(position, weights=times, minlength=len(members)).astype(np.int64)
        yield Histories(np.concatenate([[0], np.cumsum(counts)]), np.repeat(as_codes(code), times))


def numbers_taken(profiles: Table) -> int:
    """Return how many numbers from 0 on the members need; of everybody, as many as there are members."""
    (number,) = profiles.arrays(f"SELECT coalesce(max(member_number) + 1, 0) AS n FROM {profiles.sql}")["n"]
    return int(number)


def released_members(profiles: Table) -> np.ndarray:
    """Return (n,) int64: member_number of the released members, ascending."""
    arrays = profiles.arrays(f"SELECT member_number FROM {profiles.sql} WHERE released ORDER BY member_number")
    return np.asarray(arrays["member_number"], dtype=np.int64)


def released_ids(profiles: Table) -> str:
    """SELECT the member_id of the released members, in the order of `released_members`."""
    return f"SELECT member_id FROM {profiles.sql} WHERE released ORDER BY member_number"


def sorted_released_ids(profiles: Table) -> str:
    """SELECT the member_id of the released members, in ascending order, however members are numbered."""
    return f"SELECT member_id FROM {profiles.sql} WHERE released ORDER BY member_id"


def nobody_of(profiles: Table) -> str:
    """SELECT no member_id."""
    return f"SELECT member_id FROM {profiles.sql} WHERE false"


def events_of_released(profiles: Table, numbers: Sequence[str]) -> np.ndarray:
    """Return (n,) integers: number of events of the released members, in the order of `released_members`.

    Parameters
    ----------
    numbers
        Columns of numbers of events, which are added: those of the tables that are counted.
    """
    arrays = profiles.arrays(
        f"SELECT {' + '.join(numbers)} AS events FROM {profiles.sql} WHERE released ORDER BY member_number"
    )
    return np.asarray(arrays["events"])


def powers(power: Table, profiles: Table, columns: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Return (n,) int8 for each claim-level quasi-identifier: the adversary's power, in the order of released members."""
    found = []
    for column in columns:
        arrays = power.arrays(
            f"SELECT power FROM {power.sql} JOIN {profiles.sql} USING (member_id)"
            f" WHERE quasi_identifier = ? AND released ORDER BY member_number",
            [column],
        )
        found.append(np.asarray(arrays["power"], dtype=np.int8))
    return tuple(found)
