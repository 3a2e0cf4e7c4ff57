"""Small crafted deliveries for the tests of the sources."""

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

from deid_assets.policy.sections.columns import DeclaredColumns
from deid_assets.sources.delivery import ClaimsMap, Delivery, DiagnosisCodes, MembersMap, TablesSource, Years
from deid_assets.sources.derivations import NOTHING, Declared, Derivation
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.sources.report import IntakeReport
from deid_assets.store.tables import Table

MEMBER_FIELDS = ("member_id", "sex", "age", "birth_date", "death_date", "days_in_hospital_y2", "days_in_hospital_y3")
CLAIM_FIELDS = (
    "claim_id", "member_id", "provider_id", "service_date", "specialty", "place", "cpt", "length_of_stay",
    "admission_date", "discharge_date", "paid_date", "diagnosis_1", "diagnosis_2",
)  # fmt: skip
SOURCE = TablesSource(
    members=MembersMap(file="members.csv", columns={name: name for name in MEMBER_FIELDS}),
    claims=ClaimsMap(file="claims.csv", columns={name: name for name in CLAIM_FIELDS}),
    years=Years(first=2008),
)


SOME_CODES = {
    "diagnosis": ("4280", "25000", "V5789"),
    "procedure": ("99213", "J1100"),
    "place": ("01", "11", "21", "22"),
    "specialty": ("06", "Hospital"),
}


def some_codes(codes, kind):
    return pd.DataFrame({"known": [code in SOME_CODES[kind] for code in codes]})


@dataclass
class Taken:
    """What an intake left in its store."""

    report: IntakeReport
    store: Path

    def frame(self, name: str, order_by: str | None = None):
        return Table(self.store, "intake", name).frame(order_by)


def member(member_id: str, **fields: str) -> dict[str, str]:
    return {"member_id": member_id, "sex": "F", "age": "50", **fields}


def claim(claim_id: str, member_id: str = "m1", **fields: str) -> dict[str, str]:
    return {"claim_id": claim_id, "member_id": member_id, "service_date": "2008-03-05", **fields}


def csv_text(fields: tuple[str, ...], rows: list[dict[str, str]], delimiter: str = ",") -> str:
    lines = [delimiter.join(fields), *(delimiter.join(row.get(name, "") for name in fields) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def write_tables(folder: Path, members: list[dict[str, str]], claims: list[dict[str, str]]) -> Path:
    """Write members.csv and claims.csv into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "members.csv").write_text(csv_text(MEMBER_FIELDS, members))
    (folder / "claims.csv").write_text(csv_text(CLAIM_FIELDS, claims))
    return folder


def take_in(
    folder: Path,
    source=SOURCE,
    at_most: float = 1.0,
    codes=some_codes,
    store: Path | None = None,
    declared: Declared = NOTHING,
    diagnosis_codes: DiagnosisCodes = "icd9cm",
):
    """Read a folder, or several, and return what is in the store afterwards."""
    folders = folder if isinstance(folder, tuple) else (folder,)
    store = store or folders[0].parent / "store" / "delivery.duckdb"
    delivery = Delivery("test", source.kind, folders)
    report = read_delivery(store, delivery, Reading(source, at_most, declared=declared, diagnosis_codes=diagnosis_codes), codes)
    return Taken(report, store)


def write_parquet(path: Path, select: str) -> None:
    connection = duckdb.connect()
    name = str(path).replace("'", "''")
    connection.execute(f"COPY ({select}) TO '{name}' (FORMAT parquet)")
    connection.close()


def made(table: str, kind: str, column: str | None = None, **keys: object) -> Derivation:
    """How a column is made that a policy declares of a table, from a column of the delivery."""
    of = {} if column is None else {"from": column}
    declared = DeclaredColumns.model_validate({table: {"one": {"kind": kind, "meaning": "a column", **of, **keys}}})
    return declared.all["one"].made(table)
