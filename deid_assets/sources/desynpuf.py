"""CMS 2008-2010 DE-SynPUF as downloaded: beneficiary summaries, inpatient, outpatient and carrier claims.

Decisions:

* Year 1 is 2008. A claim belongs to the year of CLM_FROM_DT; stays that began in 2007 are quarantined.
* Members are the beneficiaries of the 2008 summary. Days in hospital of year 2 and 3 are the days of the stays admitted
  in 2009 and 2010, if the beneficiary is in that year's summary and the inpatient file is present, else NULL.
* There is one canonical claim per inpatient claim, per HCPCS line of an outpatient claim (one if it has none) and per
  line of a carrier claim. CLM_ID identifies an inpatient claim, CLM_ID and line the others.
* A second segment repeats the number of an inpatient or outpatient claim without a date of service or days, often with
  another provider (all 128 that were seen). The stay is that of the first segment; a date, and so the year, would have
  to be guessed. A second segment is therefore quarantined and counted under its own rule, not silently merged.
* Length of stay is CLM_UTLZTN_DAY_CNT; if that is 0 or absent, the days from admission to discharge, at least 1.
* Prescription drug events are read if the policy names them (`events: {prescriptions: {}}`): PDE_ID, beneficiary, date and the
  columns that it declares.
* Place of service is derived from the setting (21, 22, 11), and the specialty of facilities is "Hospital": the files
  contain neither.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deid_assets.errors import DeliveryError, how_many
from deid_assets.sources.csv_files import stage_csv
from deid_assets.sources.delivery import DATE_COLUMNS, Delivery, DesynpufEvents, DesynpufSource, Years
from deid_assets.sources.derivations import Declared
from deid_assets.sources.files import LINE_BITS, Columns, IntakeState, SourceTable
from deid_assets.sources.layout import Delivered, RowRule, parsed_day
from deid_assets.store.tables import quoted

FIRST_YEAR = 2008
_FILE = re.compile(
    r"DE1_0_(?:(?P<year>2008|2009|2010)_Beneficiary_Summary_File"
    r"|2008_to_2010_(?P<claims>Inpatient|Outpatient|Carrier)_Claims"
    r"|2008_to_2010_(?P<events>Prescription)_Drug_Events)_Sample_\w+.*\.(?:csv|zip)\Z",
    re.IGNORECASE,
)
_PRESCRIPTIONS, _PRESCRIPTION = "prescriptions", "prescription"
_NEEDED = "missing file DE1_0_2008_{}_Sample_<number>.csv (or .zip)"
_DATE = "%Y%m%d"
_OUTPATIENT_LINES = 45
_CARRIER_LINES = 13

_NAMES = {"claim_id": "CLM_ID", "member_id": "DESYNPUF_ID", "service_date": "CLM_FROM_DT"}
_PHYSICIAN_DIAGNOSES = {f"diagnosis_{number}": f"ICD9_DGNS_CD_{number}" for number in range(1, 9)}
_FACILITY_DIAGNOSES = {
    **{f"diagnosis_{number}": f"ICD9_DGNS_CD_{number}" for number in range(1, 11)},
    "admitting_diagnosis": "ADMTNG_ICD9_DGNS_CD",
}
_FACILITY = {"provider_id": "AT_PHYSN_NPI", "vendor_id": "PRVDR_NUM"}
_PERSON = {"member_id": "DESYNPUF_ID", "birth_date": "BENE_BIRTH_DT", "death_date": "BENE_DEATH_DT"}
_BENEFICIARY: Columns = {**_PERSON, "sex_code": "BENE_SEX_IDENT_CD"}
_STAY = {
    "admission_date": "CLM_ADMSN_DT",
    "discharge_date": "NCH_BENE_DSCHRG_DT",
    "length_of_stay": "CLM_UTLZTN_DAY_CNT",
}
_INPATIENT: Columns = {**_NAMES, **_FACILITY_DIAGNOSES, **_FACILITY, **_STAY, "segment": "SEGMENT"}
_OUTPATIENT: Columns = {
    **_NAMES,
    **_FACILITY_DIAGNOSES,
    **_FACILITY,
    "segment": "SEGMENT",
    "procedures": [f"HCPCS_CD_{line}" for line in range(1, _OUTPATIENT_LINES + 1)],
}
_CARRIER: Columns = {
    **_NAMES,
    **_PHYSICIAN_DIAGNOSES,
    "procedures": [f"HCPCS_CD_{line}" for line in range(1, _CARRIER_LINES + 1)],
    "line_diagnoses": [f"LINE_ICD9_DGNS_CD_{line}" for line in range(1, _CARRIER_LINES + 1)],
    "providers": [f"PRF_PHYSN_NPI_{line}" for line in range(1, _CARRIER_LINES + 1)],
    "vendors": [f"TAX_NUM_{line}" for line in range(1, _CARRIER_LINES + 1)],
}

_CLAIMS = {"inpatient": _INPATIENT, "outpatient": _OUTPATIENT, "carrier": _CARRIER}

_DAYS = "CASE WHEN length_of_stay > 0 THEN length_of_stay ELSE greatest(1, discharge - admission) END"
_SECOND_SEGMENT = "coalesce(trim(segment) <> '1', false) AS second_segment"
SECOND_SEGMENT = RowRule("second segment of a claim", "segment", "second_segment")


# CMS gives the month of death as its first day; the last day leaves no service of that month after it.
_MONTH_END = f"""coalesce(strftime(last_day({parsed_day("trim(death_date)", f"'{_DATE}'")}), '{_DATE}'), death_date)"""

_MISSING = {
    "2009": "no beneficiary summary of 2009: days in hospital of year 2 are unknown",
    "2010": "no beneficiary summary of 2010: days in hospital of year 3 are unknown",
    "inpatient": "no inpatient claims: days in hospital are unknown",
    "outpatient": "no outpatient claims",
    "carrier": "no carrier claims",
}


@dataclass
class _Staged:
    """Names of the temporary tables with the files, by kind; for beneficiaries, whether days are known."""

    beneficiaries: dict[str, list[str]] = field(default_factory=lambda: {"2008": [], "2009": [], "2010": []})
    claims: dict[str, list[str]] = field(default_factory=lambda: {"inpatient": [], "outpatient": [], "carrier": []})
    events: list[str] = field(default_factory=list)
    without_stays: set[str] = field(default_factory=set)


def lay_out_desynpuf(staging: IntakeState, delivery: Delivery, source: DesynpufSource, declared: Declared) -> Delivered:
    """Map DE-SynPUF files (CSV, or the zip files of CMS) of one or several folders to canonical names.

    Required are a 2008 beneficiary summary and at least one claims file per folder; other missing files give a warning.
    Declared columns are those of the beneficiaries of 2008.

    Raises
    ------
    DeliveryError
        If a required file is missing, or if a file is empty, unreadable, has no rows or lacks a column.
    """
    staged = _Staged()
    for folder in delivery.paths:
        _stage_folder(staging, folder, staged, declared, _PRESCRIPTIONS in source.events)
    _lay_members(staging, staged, list(declared.delivered("members")))
    _lay_claims(staging, staged)
    events: dict[str, str] = {name: f"delivered_{name}" for name in source.events}
    for name in events.values():
        staging.connection.execute(
            f"CREATE TEMP VIEW {name} AS SELECT * EXCLUDE (staged_table) FROM ({_united(staged.events)})"
        )
    return Delivered(
        "delivered_members",
        "delivered_claims",
        claim_rules=(SECOND_SEGMENT,),
        column_names={
            "members": {**_PERSON, "sex": "BENE_SEX_IDENT_CD"},
            "claims": {**_NAMES, **_FACILITY_DIAGNOSES, **_STAY, "segment": "SEGMENT", "cpt": "HCPCS_CD"},
            **{name: one.columns for name, one in source.events.items()},
        },
        date_formats={table: dict.fromkeys(DATE_COLUMNS, (_DATE,)) for table in ("members", "claims", *events)},
        years=Years(first=FIRST_YEAR),
        unknown_codes=source.unknown_codes,
        declared=declared,
        events=events,
    )


def _stage_folder(staging: IntakeState, folder: Path, staged: _Staged, declared: Declared, with_prescriptions: bool) -> None:
    """Read the files of one folder as text."""
    if not folder.is_dir():
        raise DeliveryError(f"{folder.name}: missing folder, which should contain DE-SynPUF files")
    found = {
        name: (kind, path) for name, (kind, path) in _recognized(staging, folder) if kind != _PRESCRIPTION or with_prescriptions
    }
    kinds = {kind for kind, _ in found.values()}
    if with_prescriptions and _PRESCRIPTION not in kinds:
        raise DeliveryError(f"{folder.name}: {_NEEDED.format('to_2010_Prescription_Drug_Events')}")
    if "2008" not in kinds:
        raise DeliveryError(f"{folder.name}: {_NEEDED.format('Beneficiary_Summary_File')}")
    if not kinds & set(staged.claims):
        raise DeliveryError(f"{folder.name}: {_NEEDED.format('to_2010_Inpatient_Claims')}")
    for missing in ("2009", "2010", "inpatient", "outpatient", "carrier"):
        if missing not in kinds:
            staging.warnings.append(f"{folder.name}: {_MISSING[missing]}")
    summaries: dict[str, list[str]] = {}
    for kind, path in found.values():
        table = f"desynpuf_{len(staging.file_names)}"
        if kind in _CLAIMS:
            stage_csv(staging, SourceTable(path), table, "claims", _CLAIMS[kind])
            staged.claims[kind].append(table)
        elif kind == _PRESCRIPTION:
            columns = {**DesynpufEvents().columns, **declared.delivered(_PRESCRIPTIONS)}
            stage_csv(staging, SourceTable(path), table, _PRESCRIPTIONS, columns)
            staged.events.append(table)
        else:
            stage_csv(staging, SourceTable(path), table, "members", {**_BENEFICIARY, **declared.delivered("members")})
            staged.beneficiaries[kind].append(table)
            summaries.setdefault(kind, []).append(table)
    if "inpatient" not in kinds:
        staged.without_stays.update(summaries["2008"])
    _warn_of_strangers(staging, folder.name, summaries)


def _warn_of_strangers(staging: IntakeState, folder: str, summaries: dict[str, list[str]]) -> None:
    """Warn of a 2009 or 2010 summary that belongs to another sample; CMS once linked sample 20's under sample 1."""
    for year in sorted(summaries.keys() - {"2008"}):
        strangers = staging.connection.execute(
            f"SELECT count(*) FROM ({_united(summaries[year])}) AS later WHERE NOT EXISTS"
            f" (SELECT 1 FROM ({_united(summaries['2008'])}) AS first WHERE first.member_id = later.member_id)"
        ).fetchall()[0][0]
        if strangers:
            staging.warnings.append(
                f"{folder}: {how_many(strangers, 'beneficiary', 'beneficiaries')} of the {year} summary not in that of 2008: "
                "it may belong to another sample"
            )


def _recognized(staging: IntakeState, folder: Path) -> Iterator[tuple[str, tuple[str, Path]]]:
    """Yield each file's name without suffix, its kind and its path; a CSV file takes precedence over its zip file."""
    for path in sorted(folder.iterdir(), key=lambda path: (path.suffix.lower() == ".csv", path.name)):
        match = _FILE.search(path.name)
        if match and path in staging.received:
            yield path.stem.lower(), ((match["year"] or match["claims"] or match["events"]).lower(), path)


def _united(tables: Sequence[str]) -> str:
    """SQL of the rows of all tables of one kind; there is at least one."""
    return " UNION ALL ".join(f"SELECT *, '{table}' AS staged_table FROM {quoted(table)}" for table in tables)


def _lay_members(staging: IntakeState, staged: _Staged, declared: Sequence[str]) -> None:
    """Create `delivered_members`: the beneficiaries of 2008 with their days in hospital of 2009 and 2010, and deaths."""
    connection = staging.connection
    connection.execute("CREATE TEMP TABLE desynpuf_stays (member_id VARCHAR, year INTEGER, days INTEGER)")
    if staged.claims["inpatient"]:
        # One row per claim number, so a claim delivered twice is one stay.
        connection.execute(
            f"""
            INSERT INTO desynpuf_stays
            SELECT member_id, date_part('year', admission)::INTEGER, sum({_DAYS})::INTEGER
            FROM (
                SELECT DISTINCT ON (claim_id) trim(member_id) AS member_id, {_day("admission_date")} AS admission,
                    {_day("discharge_date")} AS discharge, TRY_CAST(length_of_stay AS INTEGER) AS length_of_stay
                FROM ({_united(staged.claims["inpatient"])})
                WHERE segment = '1'
                ORDER BY claim_id, row_key
            )
            WHERE discharge >= admission
            GROUP BY ALL
            """
        )
    columns = []
    for year, name in (("2009", "days_in_hospital_y2"), ("2010", "days_in_hospital_y3")):
        enrolled = _enrolled(staged, year)
        stays = f"SELECT days FROM desynpuf_stays AS s WHERE s.member_id = trim(b.member_id) AND s.year = {year}"
        columns.append(f"CASE WHEN {enrolled} THEN coalesce(({stays}), 0) END AS {name}")
    # A summary lists those alive in its year, so most deaths are in a later summary than that of 2008.
    summaries = " UNION ALL ".join(_united(tables) for tables in staged.beneficiaries.values() if tables)
    connection.execute(
        f"CREATE TEMP TABLE desynpuf_deaths AS SELECT trim(member_id) AS member_id, max({_MONTH_END}) AS death_date"
        f" FROM ({summaries}) GROUP BY ALL"
    )
    columns.append("(SELECT death_date FROM desynpuf_deaths AS d WHERE d.member_id = trim(b.member_id)) AS death_date")
    sex = "CASE trim(sex_code) WHEN '1' THEN 'M' WHEN '2' THEN 'F' ELSE sex_code END AS sex"
    connection.execute(
        "CREATE TEMP TABLE delivered_members AS"
        f" SELECT row_key, member_id, {sex}, birth_date, {', '.join([*columns, *map(quoted, declared)])}"
        f" FROM ({_united(staged.beneficiaries['2008'])}) AS b"
    )


def _day(column: str) -> str:
    return parsed_day(column, f"'{_DATE}'")


def _enrolled(staged: _Staged, year: str) -> str:
    """SQL that is true for a beneficiary b who is in the summary of `year` and whose stays were delivered."""
    if not staged.beneficiaries[year]:
        return "false"
    enrolled = f"trim(b.member_id) IN (SELECT trim(member_id) FROM ({_united(staged.beneficiaries[year])}))"
    for table in sorted(staged.without_stays):
        enrolled += f" AND b.staged_table <> '{table}'"
    return enrolled


def _lay_claims(staging: IntakeState, staged: _Staged) -> None:
    """Create `delivered_claims`: the lines of all claims, one canonical claim each."""
    selects = {"inpatient": _inpatient, "outpatient": _outpatient, "carrier": _carrier}
    parts = [selects[kind](_united(tables)) for kind, tables in staged.claims.items() if tables]
    staging.progress("laying out claim lines")
    staging.connection.execute("CREATE TEMP TABLE delivered_claims AS " + " UNION ALL BY NAME ".join(parts))


def _inpatient(claims: str) -> str:
    diagnoses = ", ".join(_FACILITY_DIAGNOSES)
    return f"""
        SELECT row_key, claim_id, member_id, provider_id, vendor_id, service_date, 'Hospital' AS specialty,
            '21' AS place, admission_date, discharge_date,
            CASE WHEN TRY_CAST(length_of_stay AS INTEGER) = 0 THEN NULL ELSE length_of_stay END AS length_of_stay,
            {diagnoses}, {_SECOND_SEGMENT}
        FROM ({claims})
    """


def _outpatient(claims: str) -> str:
    """Lines with a HCPCS code, or one line without a code if there is none."""
    diagnoses = ", ".join(_FACILITY_DIAGNOSES)
    lines = _filled_lines("procedures[line] IS NOT NULL", _OUTPATIENT_LINES)
    return f"""
        SELECT {_line_key()}, {_line_claim_id()}, member_id, provider_id, vendor_id, service_date,
            'Hospital' AS specialty, '22' AS place, procedures[line] AS cpt, {diagnoses}, {_SECOND_SEGMENT}
        FROM (SELECT *, unnest({lines}) AS line FROM ({claims}))
    """


def _carrier(claims: str) -> str:
    """Lines with a HCPCS code or a diagnosis; the line's diagnosis comes first, then the claim's others."""
    claim_diagnoses = (
        f"list_filter([{', '.join(_PHYSICIAN_DIAGNOSES)}], lambda code: code <> coalesce(line_diagnoses[line], ''))"
    )
    lines = _filled_lines("procedures[line] IS NOT NULL OR line_diagnoses[line] IS NOT NULL", _CARRIER_LINES)
    ordered = f"list_concat(list_filter([line_diagnoses[line]], lambda code: code IS NOT NULL), {claim_diagnoses})"
    columns = ", ".join(f"ordered[{number}] AS diagnosis_{number}" for number in range(1, len(_PHYSICIAN_DIAGNOSES) + 2))
    return f"""
        SELECT * EXCLUDE (ordered), {columns}
        FROM (
            SELECT {_line_key()}, {_line_claim_id()}, member_id, providers[line] AS provider_id,
                vendors[line] AS vendor_id, service_date, '11' AS place, procedures[line] AS cpt,
                false AS second_segment, {ordered} AS ordered
            FROM (SELECT *, unnest({lines}) AS line FROM ({claims}))
        )
    """


def _filled_lines(condition: str, lines: int) -> str:
    """SQL of the list of non-empty line numbers; [0] if there are none, because a claim is never dropped."""
    filled = f"[line FOR line IN range(1, {lines + 1}) IF {condition}]"
    return f"CASE WHEN len({filled}) = 0 THEN [0::BIGINT] ELSE {filled} END"


def _line_key() -> str:
    assert _OUTPATIENT_LINES < 1 << LINE_BITS  # noqa: S101 - two constants
    return "row_key | line AS row_key"


def _line_claim_id() -> str:
    return "claim_id || '-' || line AS claim_id"
