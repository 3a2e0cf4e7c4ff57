"""Encode tables of the restricted store as the integer arrays that the kernel reads.

Values move from DuckDB to NumPy as the codes assigned by `value_domains`; no text about a person leaves the store.
"""

from collections.abc import Sequence

import numpy as np

from deid_assets.methods.population.longitudinal_data import Domain, Histories, as_codes
from deid_assets.methods.population.value_domains import label_joins, level_maps
from deid_assets.store.tables import Table, quoted


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
        raise ValueError(f"{lacking} values have no class; value_domains is of another delivery")
    return np.asarray(codes)


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
    arrays = claims.arrays(
        f"WITH positions AS (SELECT member_id, ({rank})::INTEGER AS position FROM {profiles.sql} {where}) SELECT position, "
        f"{', '.join(selects)} FROM {claims.sql} AS c JOIN positions USING (member_id) {joins}"
    )
    position = np.asarray(arrays["position"]).astype(np.int64)
    found = []
    for number, column in enumerate(columns):
        codes = arrays.pop(f"c{number}")
        unknown = int(np.count_nonzero(codes == -2))
        if unknown:
            raise ValueError(f"{unknown} values of {column} have no class; value_domains is of another delivery")
        found.append(_by_member(position, codes, members))
    return tuple(found)


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


def claims_of_released(profiles: Table) -> np.ndarray:
    """Return (n,) integers: number of claims of the released members, in the order of `released_members`."""
    arrays = profiles.arrays(f"SELECT claims FROM {profiles.sql} WHERE released ORDER BY member_number")
    return np.asarray(arrays["claims"])


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
