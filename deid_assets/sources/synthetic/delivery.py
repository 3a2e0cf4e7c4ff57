"""A synthetic delivery with the published shape of the Heritage data before de-identification.

All its people are fictitious. Claims per member, ages, sexes, lengths of stay, days since first claim and missing
values follow published figures (`shape`). Codes are real (`tables`), members have recurring conditions (`members`), and
claims follow from conditions (`claims`). So histories differ like real ones: they are neither independent draws nor
designed to be found. What else may be asked for (`Contents`) follows from them, and leaves them as they are. See
methods#synthetic-deliveries.

Members are drawn in blocks of `BLOCK`, each from its own counter-based random stream. Memory does not grow with the
delivery, and the same seed, number of members and package versions give the same bytes.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deid_assets.errors import DeliveryError
from deid_assets.sources.synthetic import amounts, rows
from deid_assets.sources.synthetic.claims import ClaimBlock, Providers, draw_claims
from deid_assets.sources.synthetic.events import draw_fills, draw_results
from deid_assets.sources.synthetic.further import CLAIM_FIELDS, MEMBER_FIELDS, further_of_claims, further_of_members
from deid_assets.sources.synthetic.joined import draw_lines, draw_spans, months_in_use
from deid_assets.sources.synthetic.members import Members, birth_dates, draw_members
from deid_assets.sources.synthetic.tables import in_icd10, tables

BLOCK: Final = 1 << 13
MEMBERS_FILE: Final = "members.parquet"
CLAIMS_FILE: Final = "claims.parquet"
FILLS_FILE: Final = "fills.parquet"
RESULTS_FILE: Final = "results.parquet"
_LARGEST_SEED: Final = (1 << 64) - 1
_TWELVE_YEARS: Final = pa.scalar(4383, pa.int32())  # days of `YEARS_LATER`
_STREAMS: Final = ("members_and_claims", "further", "fills", "results", "spans", "lines", "paid_for_claims", "paid_for_fills")
"""What has random numbers of its own; the place of each is part of its counter."""


@dataclass(frozen=True)
class Contents:
    """What a synthetic delivery has besides members and claims; whatever is left out, all else stays the same.

    Attributes
    ----------
    further
        Members and claims have the columns of `further`, for a policy that declares columns.
    icd10cm
        Diagnoses are of ICD-10-CM, and not of ICD-9-CM; the same people have the same histories twelve years later.
    fills, results
        There are fills of drugs in `fills.parquet`, laboratory results in `results.parquet`.
    spans
        The rows of members are spans of enrolment.
    lines
        The rows of claims are lines, of which a claim may have several.
    amounts
        Claims and fills have a column `paid`, in dollars.
    """

    fills: bool = False
    results: bool = False
    spans: bool = False
    lines: bool = False
    amounts: bool = False
    further: bool = False
    icd10cm: bool = False

    @property
    def named(self) -> dict[str, bool]:
        """Those that are asked for, by name, as parameters of a delivery.

        Examples
        --------
        >>> Contents(icd10cm=True, fills=True).named
        {'fills': True, 'icd10cm': True}
        """
        return {name: True for name, asked in asdict(self).items() if asked}

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> "Contents":
        """Those that are among the parameters of a delivery."""
        return cls(**{field.name: bool(parameters.get(field.name)) for field in fields(cls)})


@dataclass(frozen=True)
class SyntheticDelivery:
    """The written delivery: the folder, the numbers of members and claims (or lines of them), and the seed."""

    folder: Path
    members: int
    claims: int
    seed: int


def write_delivery(
    folder: Path,
    members: int,
    seed: int,
    contents: Contents = Contents(),
    progress: Callable[[int, int], None] | None = None,
) -> SyntheticDelivery:
    """Write a synthetic delivery: `members.parquet`, `claims.parquet`, and the other tables of events that are asked for.

    Columns are the canonical ones (`schemas/longitudinal.py`) except `days_since_first_claim`, which intake
    computes from the dates of service. `claim_id` is a whole number; the other identifiers are text.

    Parameters
    ----------
    folder
        Where to write; created if missing. Files of the same names are replaced, whole and at the end.
    members
        Number of members, at least 1.
    seed
        0 to 2**64 - 1. Anyone who knows it can reproduce the delivery.
    contents
        What there is besides members and claims.
    progress
        Called after every block with the number of members written and their total.

    Returns
    -------
    SyntheticDelivery

    Raises
    ------
    DeliveryError
        If members or seed are out of range.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     delivery = write_delivery(Path(folder), members=100, seed=1)
    ...     delivery.members, pq.read_metadata(delivery.folder / CLAIMS_FILE).num_rows == delivery.claims
    (100, True)
    """
    if members < 1:
        raise DeliveryError("a synthetic delivery needs at least one member")
    if not 0 <= seed <= _LARGEST_SEED:
        raise DeliveryError("the seed of a synthetic delivery is a whole number from 0 to 2**64 - 1")
    folder.mkdir(parents=True, exist_ok=True)
    claims = 0
    writers: dict[str, pq.ParquetWriter] = {}
    with contextlib.ExitStack() as stack:
        for done, written in _blocks(members, seed, contents):
            for file, of_block in written.items():
                if file not in writers:
                    writers[file] = stack.enter_context(_written_at_the_end(folder / file, of_block.schema))
                writers[file].write_table(of_block)
            claims += written[CLAIMS_FILE].num_rows
            if progress:
                progress(done, members)
    return SyntheticDelivery(folder, members, claims, seed)


@contextlib.contextmanager
def _written_at_the_end(file: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Open a Parquet file that is renamed into place when complete; after an error, the unfinished file is deleted.

    Increasing numbers are stored as differences, unique texts as they are, and everything else with dictionaries.
    """
    unfinished = file.with_name(f"{file.name}.part")
    unique = schema.names[0]
    counts_up = pa.types.is_integer(schema.field(unique).type)
    try:
        with pq.ParquetWriter(
            unfinished,
            schema,
            use_dictionary=[name for name in schema.names if name != unique],
            column_encoding={unique: "DELTA_BINARY_PACKED" if counts_up else "PLAIN"},
            compression="zstd",
            compression_level=1,
            store_schema=False,
        ) as writer:
            yield writer
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Block:
    """What was drawn of a block of members; `names` are their identifiers."""

    members: Members
    claims: ClaimBlock
    births: np.ndarray
    names: pa.Array


def _blocks(members: int, seed: int, contents: Contents) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield for each block the number of members so far, and its rows of each file."""
    lookups = tables()
    providers = Providers.of(members, lookups)
    firsts = dict.fromkeys((CLAIMS_FILE, FILLS_FILE, RESULTS_FILE), 1)
    for number, first in enumerate(range(0, members, BLOCK)):
        streams = {
            name: np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, place, number]))
            for place, name in enumerate(_STREAMS)
        }
        own = streams["members_and_claims"]
        drawn = draw_members(own, min(BLOCK, members - first), lookups)
        claims = draw_claims(own, drawn, providers, lookups)
        births = birth_dates(own, drawn, rows.first_service(claims, len(drawn.age)))
        names = pa.array([f"M{one:09d}" for one in range(first + 1, first + 1 + len(drawn.age))])
        written = _rows(_Block(drawn, claims, births, names), streams, contents, firsts)
        yield first + len(drawn.age), written
        for file in firsts.keys() & written.keys():
            firsts[file] += written[file].num_rows


def _rows(
    block: _Block, streams: Mapping[str, np.random.Generator], contents: Contents, firsts: Mapping[str, int]
) -> dict[str, pa.Table]:
    """Return the rows of each file; `firsts` are the first numbers of its claims and other events."""
    lookups, claims = tables(), block.claims
    further = streams["further"]
    paid = amounts.paid_for_claims(streams["paid_for_claims"], claims, lookups) if contents.amounts else None
    of_members = rows.member_rows(block.members, claims.days_in_hospital, block.births, block.names)
    of_claims = rows.claim_rows(claims, firsts[CLAIMS_FILE], block.names, in_icd10(lookups) if contents.icd10cm else lookups)
    if contents.lines:
        lines = draw_lines(streams["lines"], claims, lookups)
        of_claims = rows.as_lines(of_claims, lines, firsts[CLAIMS_FILE], lookups.places)
    if contents.further:
        of_members = _with(of_members, MEMBER_FIELDS, further_of_members(further, len(block.names)))
        of_claims = _with(of_claims, CLAIM_FIELDS, further_of_claims(further, claims.length_of_stay >= 0, paid))
    elif paid is not None:
        of_claims = _with(of_claims, [rows.PAID], [pa.array(paid)])
    found = {MEMBERS_FILE: of_members, CLAIMS_FILE: of_claims}
    if contents.fills or contents.spans:
        fills = draw_fills(streams["fills"], block.members, claims)
    if contents.spans:
        used = months_in_use(block.members, [(claims.member, claims.day), (fills.member, fills.day)])
        found[MEMBERS_FILE] = rows.as_spans(of_members, draw_spans(streams["spans"], block.members, used))
    if contents.fills:
        found[FILLS_FILE] = rows.fill_rows(fills, firsts[FILLS_FILE], block.names)
    if contents.fills and contents.amounts:
        paid_for_fills = pa.array(amounts.paid_for_fills(streams["paid_for_fills"], fills))
        found[FILLS_FILE] = _with(found[FILLS_FILE], [rows.PAID], [paid_for_fills])
    if contents.results:
        results = draw_results(streams["results"], block.members, claims)
        found[RESULTS_FILE] = rows.result_rows(results, firsts[RESULTS_FILE], block.names)
    return {file: _twelve_years_later(one) for file, one in found.items()} if contents.icd10cm else found


def _with(table: pa.Table, own: Sequence[pa.Field], columns: Sequence[pa.Array]) -> pa.Table:
    for field, column in zip(own, columns, strict=True):
        table = table.append_column(field, column)
    return table


def _twelve_years_later(table: pa.Table) -> pa.Table:
    """Return the rows with their dates in years of which the second is a leap year, too."""
    for position, column in enumerate(table.schema):
        if pa.types.is_date(column.type):
            days = pc.add(table.column(position).cast(pa.int32()), _TWELVE_YEARS)
            table = table.set_column(position, column, days.cast(column.type))
    return table
