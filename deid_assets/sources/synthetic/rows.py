"""The rows of the files of a synthetic delivery, from the blocks that were drawn, in the canonical columns."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deid_assets.sources.synthetic.claims import ClaimBlock
from deid_assets.sources.synthetic.events import EventBlock, FillBlock, ResultBlock, drugs, tests
from deid_assets.sources.synthetic.further import TEXT, coded
from deid_assets.sources.synthetic.joined import LineBlock, SpanBlock
from deid_assets.sources.synthetic.members import YEAR_STARTS, Members
from deid_assets.sources.synthetic.tables import SEXES, Tables

MEMBER_SCHEMA: Final = pa.schema(
    [
        pa.field("member_id", pa.string(), nullable=False),
        pa.field("sex", TEXT),
        pa.field("age", pa.int32()),
        pa.field("birth_date", pa.date32()),
        pa.field("days_in_hospital_y2", pa.int32()),
        pa.field("days_in_hospital_y3", pa.int32()),
    ]
)
CLAIM_SCHEMA: Final = pa.schema(
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
_EVENT_FIELDS: Final = (
    pa.field("claim_id", pa.int64(), nullable=False),
    pa.field("member_id", TEXT, nullable=False),
    pa.field("provider_id", TEXT),
    pa.field("year", pa.int32(), nullable=False),
    pa.field("service_date", pa.date32(), nullable=False),
)
FILL_SCHEMA: Final = pa.schema(
    [*_EVENT_FIELDS, pa.field("ndc", TEXT, nullable=False), pa.field("days_supply", pa.int32(), nullable=False)]
)
RESULT_SCHEMA: Final = pa.schema(
    [
        *_EVENT_FIELDS,
        pa.field("loinc", TEXT, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("unit", TEXT, nullable=False),
    ]
)
PAID: Final = pa.field("paid", pa.float64())


def first_service(claims: ClaimBlock, members: int) -> np.ndarray:
    """Return each member's first known date of service in year 1; NaT if there is none."""
    counted = np.flatnonzero((claims.year == 0) & (claims.day >= 0))
    none = np.iinfo(np.int64).max
    first = np.full(members, none)
    np.minimum.at(first, claims.member[counted], claims.day[counted])
    return np.where(first == none, np.datetime64("NaT"), YEAR_STARTS[0] + np.where(first == none, 0, first))


def member_rows(members: Members, days_in_hospital: np.ndarray, births: np.ndarray, names: pa.Array) -> pa.Table:
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
    return pa.Table.from_arrays(columns, schema=MEMBER_SCHEMA)


def claim_rows(claims: ClaimBlock, first_claim: int, names: pa.Array, lookups: Tables) -> pa.Table:
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
    return pa.Table.from_arrays(columns, schema=CLAIM_SCHEMA)


def as_spans(members: pa.Table, spans: SpanBlock) -> pa.Table:
    """Return the members of a block with a row for each of their spans of enrolment."""
    found = members.take(pa.array(spans.member))
    return found.append_column("enrolled_from", _dates(spans.first)).append_column("enrolled_until", _dates(spans.last))


def as_lines(claims: pa.Table, lines: LineBlock, first_claim: int, places: Sequence[str]) -> pa.Table:
    """Return the claims of a block as lines: under the numbers of their claims, and with their places."""
    own = {"claim_id": pa.array(lines.claim + first_claim), "place": coded(lines.place, pa.array(places))}
    for name, column in own.items():
        position = claims.schema.get_field_index(name)
        claims = claims.set_column(position, claims.schema.field(position), column)
    return claims.append_column("line", _whole(lines.number))


def fill_rows(fills: FillBlock, first_fill: int, names: pa.Array) -> pa.Table:
    """Return the fills of a block as rows of `fills.parquet`."""
    columns = [coded(fills.drug, pa.array(drugs().codes)), _whole(drugs().days_supply[fills.drug])]
    return pa.Table.from_arrays([*_event_columns(fills, first_fill, names), *columns], schema=FILL_SCHEMA)


def result_rows(results: ResultBlock, first_result: int, names: pa.Array) -> pa.Table:
    """Return the laboratory results of a block as rows of `results.parquet`."""
    units, unit = np.unique(tests().units, return_inverse=True)
    columns = [
        coded(results.test, pa.array(tests().codes)),
        pa.array(results.value),
        coded(unit[results.test], pa.array(units)),
    ]
    return pa.Table.from_arrays([*_event_columns(results, first_result, names), *columns], schema=RESULT_SCHEMA)


def _event_columns(events: EventBlock, first: int, names: pa.Array) -> list[pa.Array]:
    """The columns that fills and results have alike."""
    return [
        pa.array(np.arange(first, first + len(events.member))),
        coded(events.member, names),
        _numbered(events.provider, "P"),
        _whole(events.year + 1),
        _dates(events.day),
    ]


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
