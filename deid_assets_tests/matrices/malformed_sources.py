"""Broken synthetic deliveries, DE-SynPUF files and flat tables."""

import io
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb

from deid_assets_tests.matrices.deliveries import VALUE
from deid_assets_tests.matrices.malformed_inputs import Case
from deid_assets_tests.sources.test_desynpuf import NAMES


def _synthetic(select: str, file: str = "claims") -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t AS FROM '{folder}/{file}.parquet'")
            connection.execute(f"COPY ({select}) TO '{folder}/{file}.parquet' (FORMAT parquet)")

    return breaks


def _cut(file: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / file, 1000)


SYNTHETIC = (
    Case("as it should be", "synthetic", lambda folder: None),
    Case("no claims", "synthetic", lambda folder: (folder / "claims.parquet").unlink(), ("claims.parquet: missing file",)),
    Case("cut claims", "synthetic", _cut("claims.parquet"), ("claims.parquet: unreadable file",)),
    Case("cut members", "synthetic", _cut("members.parquet"), ("members.parquet: unreadable file",)),
    Case("a missing column", "synthetic", _synthetic("SELECT * EXCLUDE (sex) FROM t", "members"),
         ("members.parquet: missing column sex",)),
    Case("ages that are text", "synthetic", _synthetic(f"SELECT * REPLACE ('{VALUE}' AS age) FROM t", "members"),
         ("members.parquet: column age: 300 lines: wrong type",)),
    Case("ages above 120", "synthetic", _synthetic("SELECT * REPLACE (121 AS age) FROM t", "members"),
         ("members.parquet: column age: 300 lines: age outside 0 to 120",)),
    Case("every member twice", "synthetic", _synthetic("FROM t UNION ALL FROM t", "members"),
         ("members.parquet: column member_id: 300 lines: duplicate member",)),
    Case("claims of a fourth year", "synthetic", _synthetic("SELECT * REPLACE (4 AS year) FROM t"),
         ("claims.parquet: column", "year outside 1 to 3")),
    Case("members instead of claims", "synthetic",
         lambda folder: (folder / "members.parquet").replace(folder / "claims.parquet") and None,
         ("members.parquet: missing file",)),
    Case("a CSV file by the name of a Parquet file", "synthetic",
         lambda folder: (folder / "claims.parquet").write_text("a,b\n1,2\n") and None,
         ("claims.parquet: unreadable file",)),
    Case("its claims as the delivery", "synthetic", lambda folder: folder / "claims.parquet",
         ("members.parquet: missing file",)),
)  # fmt: skip

_BENEFICIARIES, _STAYS = NAMES["2008"], NAMES["inpatient"]


def _replaced(name: str, old: str, new: str, count: int = -1) -> Callable[[Path], None]:
    """Replace text in a file of DE-SynPUF."""
    return lambda folder: (folder / name).write_text((folder / name).read_text().replace(old, new, count)) and None


def _zipped(change: Callable[[bytes], bytes] = lambda content: content, **entries: str) -> Callable[[Path], None]:
    """Put the stays into a zip file, and change that; `entries` are packed too, or in their place."""

    def breaks(folder: Path) -> None:
        content = (folder / _STAYS).read_text()
        (folder / _STAYS).unlink()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in entries or {_STAYS: ""}:
                archive.writestr(name, content)
        (folder / _STAYS).with_suffix(".zip").write_bytes(change(packed.getvalue()))

    return breaks


def _zip_of(entry: zipfile.ZipInfo, content: bytes) -> Callable[[Path], None]:
    def pack(_: bytes) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
        return packed.getvalue()

    return _zipped(pack)


def _link_entry() -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("stays.csv")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def _encrypted(content: bytes) -> bytes:
    """Say of every entry that it is encrypted."""
    content = bytearray(content)
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + offset] |= 1
    return bytes(content)


_ZIP = f"{Path(_STAYS).stem}.zip"
_BAD_ZIP = f"{_ZIP}: unreadable file: not a zip file, damaged"
DESYNPUF = (
    Case("as it should be", "desynpuf", lambda folder: None),
    Case("no beneficiaries of 2008", "desynpuf", lambda folder: (folder / _BENEFICIARIES).unlink(),
         ("missing file DE1_0_2008_Beneficiary_Summary_File",)),
    Case("no claims", "desynpuf",
         lambda folder: [(folder / NAMES[kind]).unlink() for kind in ("inpatient", "outpatient")] and None,
         ("missing file DE1_0_2008_to_2010_Inpatient_Claims",)),
    Case("no beneficiaries of 2010", "desynpuf", lambda folder: (folder / NAMES["2010"]).unlink()),
    Case("beneficiaries of another sample", "desynpuf", _replaced(NAMES["2010"], VALUE, "Z")),
    Case("a file as the delivery", "desynpuf", lambda folder: folder / _BENEFICIARIES, ("missing folder",)),
    Case("empty stays", "desynpuf", lambda folder: os.truncate(folder / _STAYS, 0), (f"{_STAYS}: empty file",)),
    Case("stays without rows", "desynpuf",
         lambda folder: (folder / _STAYS).write_text((folder / _STAYS).read_text().split("\n")[0] + "\n") and None,
         (f"{_STAYS}: no rows",)),
    Case("a missing column", "desynpuf", _replaced(_STAYS, "CLM_UTLZTN_DAY_CNT", "DAYS"),
         (f"{_STAYS}: missing column CLM_UTLZTN_DAY_CNT",)),
    Case("a missing line of procedures", "desynpuf", _replaced(NAMES["outpatient"], "HCPCS_CD_45", "X"),
         ("missing column HCPCS_CD_45 (to be read as procedures)",)),
    Case("unparseable days of birth", "desynpuf", _replaced(_BENEFICIARIES, "19400601", VALUE),
         (f"{_BENEFICIARIES}: column BENE_BIRTH_DT: 40 lines: unparseable date",)),
    Case("an unknown sex", "desynpuf", _replaced(_BENEFICIARIES, ",2,", ",3,", 1), quarantined=3),
    Case("days of another order", "desynpuf", _replaced(_STAYS, "20080601", "01062008"),
         (f"{_STAYS}: column CLM_FROM_DT: 40 lines: unparseable date",)),
    Case("discharge before admission", "desynpuf", _replaced(_STAYS, "20080603", "20080503"),
         (f"{_STAYS}: column NCH_BENE_DSCHRG_DT: 40 lines: discharge before admission",)),
    Case("a second segment", "desynpuf", _replaced(_STAYS, ",1,2008", ",2,2008", 1), quarantined=1),
    Case("a stay before 2008", "desynpuf", _replaced(_STAYS, "20080601", "20071201", 1), quarantined=1),
    Case("a stay twice", "desynpuf", lambda folder: (folder / _STAYS).write_text(
        (folder / _STAYS).read_text() + (folder / _STAYS).read_text().split("\n")[1] + "\n") and None, quarantined=1),
    Case("an unknown diagnosis, which is blanked", "desynpuf", _replaced(NAMES["outpatient"], ",N1,", f",{VALUE},")),
    Case("packed, as it should be", "desynpuf", _zipped()),
    Case("packed, with a file beside", "desynpuf", _zipped(**{_STAYS: "", "read me.txt": ""})),
    Case("packed, a wrong checksum", "desynpuf",
         _zipped(lambda content: _flipped(_flipped(content, 14), content.index(b"PK\x01\x02") + 16)),
         (_BAD_ZIP,)),
    Case("packed, damaged", "desynpuf", _zipped(lambda content: _flipped(content, 200)), (_BAD_ZIP,)),
    Case("packed, cut", "desynpuf", _zipped(lambda content: content[:-30]), (_BAD_ZIP,)),
    Case("packed, empty", "desynpuf", _zipped(lambda content: b""), (f"{_ZIP}: empty file",)),
    Case("packed, not a zip file", "desynpuf", _zipped(lambda content: b"a,b\n1,2\n"), (_BAD_ZIP,)),
    Case("packed, encrypted", "desynpuf", _zipped(_encrypted), (_BAD_ZIP, "encrypted")),
    Case("packed, two tables", "desynpuf", _zipped(**{_STAYS: "", "more.csv": ""}), (f"{_ZIP}: contains 2 CSV files",)),
    Case("packed, no table", "desynpuf", _zipped(**{"stays.txt": ""}), (f"{_ZIP}: contains 0 CSV files",)),
    Case("packed, a link", "desynpuf", _zip_of(_link_entry(), b"/etc/passwd"), (f"{_ZIP}: contains a link",)),
    Case("packed, a path out of the folder", "desynpuf", _zip_of(zipfile.ZipInfo("../stays.csv"), b"a"),
         (f"{_ZIP}: contains a link",)),
    Case("packed, a path from the root", "desynpuf", _zip_of(zipfile.ZipInfo("/etc/stays.csv"), b"a"),
         (f"{_ZIP}: contains a link",)),
    Case("packed, nothing in it", "desynpuf", _zip_of(zipfile.ZipInfo("stays.csv"), b""), (f"{_ZIP}: empty file",)),
    Case("packed, a bomb", "desynpuf", _zip_of(zipfile.ZipInfo("stays.csv"), bytes(1 << 27)),
         (f"{_ZIP}: unreadable file: far larger",)),
    Case("a link in the place of stays", "desynpuf",
         lambda folder: (folder / _STAYS).rename(folder.parent / f"{folder.name}.csv")
         and (folder / _STAYS).symlink_to(folder.parent / f"{folder.name}.csv"), (f"{_STAYS}: a symbolic link",)),
)  # fmt: skip


def _table(old: str, new: str, count: int = -1) -> Callable[[Path], None]:
    return _replaced("people.csv", old, new, count)


def _to(path: str) -> Callable[[Path], Path]:
    return lambda folder: Path(path)


def _linked(folder: Path) -> Path:
    link = folder.with_name(f"{folder.name}.csv")
    link.symlink_to(folder / "people.csv")
    return link


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


FLAT = (
    Case("as it should be", "flat", lambda folder: None),
    Case("the file itself", "flat", lambda folder: folder / "people.csv"),
    Case("no file", "flat", lambda folder: (folder / "people.csv").unlink(), ("people.csv: missing file",)),
    Case("another file", "flat", lambda folder: (folder / "people.csv").rename(folder / "persons.csv"),
         ("persons.csv, but the policy names people.csv",)),
    Case("a folder in its place", "flat", lambda folder: (folder / "people.csv").unlink() or (folder / "people.csv").mkdir(),
         ("people.csv: missing file",)),
    Case("empty", "flat", lambda folder: os.truncate(folder / "people.csv", 0), ("people.csv: empty file",)),
    Case("a missing column", "flat", _table("home town", "town"),
         ("people.csv: missing column home town (to be read as Town)",)),
    Case("a column twice", "flat", _table("secret", "sex", 1), ("people.csv: column sex (to be read as Sex) occurs twice",)),
    Case("values outside the hierarchy", "flat", _table("town 0", VALUE), ("column home town", "value outside the hierarchy")),
    Case("one value outside the hierarchy", "flat", _table("town 0", VALUE, 1), quarantined=1),
    Case("no header", "flat", lambda folder: (folder / "people.csv").write_text(
        (folder / "people.csv").read_text().partition("\n")[2]) and None, ("people.csv: missing column",)),
    Case("UTF-16", "flat",
         lambda folder: (folder / "people.csv").write_text((folder / "people.csv").read_text(), encoding="utf-16") and None,
         ("people.csv: unreadable file: the first line is not a header in UTF-8",)),
    Case("a cut last line", "flat",
         lambda folder: os.truncate(folder / "people.csv", (folder / "people.csv").stat().st_size - 14), quarantined=1),
    Case("a link to it", "flat", _linked, ("a symbolic link",)),
    Case("a pipe", "flat", _pipe, ("pipe.csv: not a file or folder",)),
    Case("the source of random bytes", "flat", _to("/dev/urandom"), ("urandom: not a file or folder",)),
    Case(
        "two folders", "flat", lambda folder: [folder, folder.parent / "csv-as-it-should-be"],
        ("one folder that contains it",),
    ),
)  # fmt: skip

SOURCES = (*SYNTHETIC, *DESYNPUF, *FLAT)
