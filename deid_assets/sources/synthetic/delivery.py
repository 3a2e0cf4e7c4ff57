"""A synthetic delivery with the published shape of the Heritage data before de-identification.

All its people are fictitious. Claims per member, ages, sexes, lengths of stay, days since first claim and missing
values follow published figures (`shape`). Codes are real (`tables`), members have recurring conditions (`members`), and
claims follow from conditions (`claims`). So histories differ like real ones: they are neither independent draws nor
designed to be found. Fills of drugs, if they are asked for, follow from diagnoses (`fills`). See methods#synthetic-deliveries.

Members are drawn in blocks of `BLOCK`, each from its own counter-based random stream. Memory does not grow with the
delivery, and the same seed, number of members and package versions give the same bytes.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deid_assets.errors import DeliveryError
from deid_assets.reference.codes import DiagnosisSystem
from deid_assets.sources.synthetic import further as further_columns
from deid_assets.sources.synthetic.claims import ClaimBlock, Providers, draw_claims
from deid_assets.sources.synthetic.fills import FillBlock, draw_fills, drugs
from deid_assets.sources.synthetic.further import TEXT, coded
from deid_assets.sources.synthetic.members import YEAR_STARTS, Members, birth_dates, draw_members
from deid_assets.sources.synthetic.tables import SEXES, Tables, in_icd10, tables

BLOCK: Final = 1 << 13
MEMBERS_FILE: Final = "members.parquet"
CLAIMS_FILE: Final = "claims.parquet"
FILLS_FILE: Final = "fills.parquet"
_LARGEST_SEED: Final = (1 << 64) - 1
_TWELVE_YEARS: Final = pa.scalar(4383, pa.int32())  # days

_MEMBER_SCHEMA: Final = pa.schema(
    [
        pa.field("member_id", pa.string(), nullable=False),
        pa.field("sex", TEXT),
        pa.field("age", pa.int32()),
        pa.field("birth_date", pa.date32()),
        pa.field("days_in_hospital_y2", pa.int32()),
        pa.field("days_in_hospital_y3", pa.int32()),
    ]
)
_CLAIM_SCHEMA: Final = pa.schema(
    [
        pa.field("claim_id", pa.int64(), nullable=False),
        pa.field("member_id", TEXT, nullable=False),
        *(pa.field(name, TEXT) for name in ("provider_id", "vendor_id", "pcp_id")),
        pa.field("year", pa.int32(), nullable=False),
        pa.field("service_date", pa.date32()),
        *(pa.field(name, TEXT) for name in ("specialty", "place", "cpt")),
        pa.field("length_of_stay", pa.int32()),
        pa.field("pay_delay", pa.int32()),
        *(pa.field(f"diagnosis_{place}", TEXT) for place in range(1, 5)),
    ]
)
_FILL_SCHEMA: Final = pa.schema(
    [
        pa.field("claim_id", pa.int64(), nullable=False),
        pa.field("member_id", TEXT, nullable=False),
        pa.field("provider_id", TEXT),
        pa.field("year", pa.int32(), nullable=False),
        pa.field("service_date", pa.date32(), nullable=False),
        pa.field("ndc", TEXT, nullable=False),
        pa.field("days_supply", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True)
class SyntheticDelivery:
    """The written delivery: the folder, the numbers of members and claims, and the seed."""

    folder: Path
    members: int
    claims: int
    seed: int


def write_delivery(
    folder: Path,
    members: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    further: bool = False,
    diagnosis_codes: DiagnosisSystem = "icd9cm",
    fills: bool = False,
) -> SyntheticDelivery:
    """Write a synthetic delivery: `members.parquet` and `claims.parquet`, and `fills.parquet` if asked for.

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
    progress
        Called after every block with the number of members written and their total.
    further
        Whether members and claims have the columns of `further`, for a policy that declares columns. All others stay the same.
    diagnosis_codes
        The coding system of the diagnoses. In ICD-10-CM, the same people have the same histories twelve years later.
    fills
        Whether there are fills of drugs, too. The other files stay the same.

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
    schemas = {
        MEMBERS_FILE: _schema(_MEMBER_SCHEMA, further_columns.MEMBER_FIELDS, further),
        CLAIMS_FILE: _schema(_CLAIM_SCHEMA, further_columns.CLAIM_FIELDS, further),
    } | ({FILLS_FILE: _FILL_SCHEMA} if fills else {})
    with contextlib.ExitStack() as stack:
        writers = {file: stack.enter_context(_written_at_the_end(folder / file, schema)) for file, schema in schemas.items()}
        for done, rows in _blocks(members, seed, further, diagnosis_codes, fills):
            for file, writer in writers.items():
                writer.write_table(rows[file])
            claims += rows[CLAIMS_FILE].num_rows
            if progress:
                progress(done, members)
    return SyntheticDelivery(folder, members, claims, seed)


def _schema(own: pa.Schema, fields: tuple[pa.Field, ...], further: bool) -> pa.Schema:
    return pa.schema([*own, *fields]) if further else own


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


def _blocks(
    members: int, seed: int, further: bool, diagnosis_codes: DiagnosisSystem, fills: bool
) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield for each block the number of members so far, and its rows of each file."""
    lookups, later = tables(), diagnosis_codes == "icd10cm"
    coded_in = in_icd10(lookups) if later else lookups
    providers = Providers.of(members, lookups)
    first_claim = first_fill = 1
    for block, first in enumerate(range(0, members, BLOCK)):
        random = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, block]))
        drawn = draw_members(random, min(BLOCK, members - first), lookups)
        claims = draw_claims(random, drawn, providers, lookups)
        births = birth_dates(random, drawn, _first_service(claims, len(drawn.age)))
        names = pa.array([f"M{number:09d}" for number in range(first + 1, first + 1 + len(drawn.age))])
        rows = {
            MEMBERS_FILE: _member_rows(drawn, claims.days_in_hospital, births, names),
            CLAIMS_FILE: _claim_rows(claims, first_claim, names, coded_in),
        }
        if fills:
            filled = draw_fills(np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 2, block])), drawn, claims)
            rows[FILLS_FILE] = _fill_rows(filled, first_fill, names)
            first_fill += len(filled.member)
        if later:
            rows = {file: _twelve_years_later(table) for file, table in rows.items()}
        if further:
            own = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 1, block]))
            of_members = further_columns.of_members(own, len(drawn.age))
            of_claims = further_columns.of_claims(own, claims.length_of_stay >= 0)
            rows[MEMBERS_FILE] = _with(rows[MEMBERS_FILE], further_columns.MEMBER_FIELDS, of_members)
            rows[CLAIMS_FILE] = _with(rows[CLAIMS_FILE], further_columns.CLAIM_FIELDS, of_claims)
        yield first + len(drawn.age), rows
        first_claim += len(claims.member)


def _with(rows: pa.Table, fields: tuple[pa.Field, ...], columns: list[pa.Array]) -> pa.Table:
    for field, column in zip(fields, columns, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _twelve_years_later(rows: pa.Table) -> pa.Table:
    """Return the rows with their dates in years of which the second is a leap year, too."""
    for position, column in enumerate(rows.schema):
        if pa.types.is_date(column.type):
            days = pc.add(rows.column(position).cast(pa.int32()), _TWELVE_YEARS)
            rows = rows.set_column(position, column, days.cast(column.type))
    return rows


def _first_service(claims: ClaimBlock, members: int) -> np.ndarray:
    """Return each member's first known date of service in year 1; NaT if there is none."""
    counted = np.flatnonzero((claims.year == 0) & (claims.day >= 0))
    none = np.iinfo(np.int64).max
    first = np.full(members, none)
    np.minimum.at(first, claims.member[counted], claims.day[counted])
    return np.where(first == none, np.datetime64("NaT"), YEAR_STARTS[0] + np.where(first == none, 0, first))


def _member_rows(members: Members, days_in_hospital: np.ndarray, births: np.ndarray, names: pa.Array) -> pa.Table:
    """Return the members of a block as rows of `members.parquet`."""
    days = np.where(members.enrolled, days_in_hospital, -1)
    columns = [
        names,
        coded(np.where(members.female, SEXES.index("F"), SEXES.index("M")), pa.array(SEXES)),
        _whole(members.age),
        pa.array(births.astype("datetime64[D]")),
        _whole(days[:, 1]),
        _whole(days[:, 2]),
    ]
    return pa.Table.from_arrays(columns, schema=_MEMBER_SCHEMA)


def _claim_rows(claims: ClaimBlock, first_claim: int, names: pa.Array, lookups: Tables) -> pa.Table:
    """Return the claims of a block as rows of `claims.parquet`."""
    # A code can be a condition twice, general and newborn. A dictionary that contains a text twice would be written in
    # full, not as a dictionary, and with bytes that differ from run to run.
    codes, place = np.unique(lookups.conditions, return_inverse=True)
    columns = [
        pa.array(np.arange(first_claim, first_claim + len(claims.member))),
        coded(claims.member, names),
        _numbered(claims.provider, "P"),
        _numbered(claims.vendor, "V"),
        _numbered(claims.pcp, "P"),
        _whole(claims.year + 1),
        _dates(claims.day),
        coded(claims.specialty, pa.array(lookups.specialties[:-1])),
        coded(claims.place, pa.array(lookups.places)),
        coded(claims.procedure, pa.array(lookups.procedures)),
        _whole(claims.length_of_stay),
        _whole(claims.pay_delay),
        *(coded(_numbers_into(place, numbers), pa.array(codes)) for numbers in claims.diagnoses),
    ]
    return pa.Table.from_arrays(columns, schema=_CLAIM_SCHEMA)


def _fill_rows(fills: FillBlock, first_fill: int, names: pa.Array) -> pa.Table:
    """Return the fills of a block as rows of `fills.parquet`."""
    columns = [
        pa.array(np.arange(first_fill, first_fill + len(fills.member))),
        coded(fills.member, names),
        _numbered(fills.provider, "P"),
        _whole(fills.year + 1),
        _dates(fills.day),
        coded(fills.drug, pa.array(drugs().codes)),
        _whole(drugs().days_supply[fills.drug]),
    ]
    return pa.Table.from_arrays(columns, schema=_FILL_SCHEMA)


def _whole(values: np.ndarray) -> pa.Array:
    """Return whole numbers as a column; negative ones are missing."""
    return pa.array(values.astype(np.int32), mask=values < 0)


def _numbers_into(place: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the position of each number; negative ones stay."""
    return np.where(numbers < 0, -1, place[numbers])


def _dates(days: np.ndarray) -> pa.Array:
    """Return days since the first day of year 1 as dates; negative ones are missing."""
    epoch = int(YEAR_STARTS[0].astype(np.int64))
    return pa.array((days + epoch).astype(np.int32), mask=days < 0).view(pa.date32())


def _numbered(numbers: np.ndarray, prefix: str) -> pa.DictionaryArray:
    """Return numbers as identifiers with a prefix; only those that occur enter the block's dictionary."""
    occurs = np.zeros(int(numbers.max(initial=0)) + 1, dtype=bool)
    occurs[numbers[numbers >= 0]] = True
    place = np.cumsum(occurs) - 1
    texts = pa.array([f"{prefix}{number + 1:07d}" for number in np.flatnonzero(occurs)], pa.string())
    return coded(_numbers_into(place, numbers), texts)
