"""Broken Parquet and DuckDB files."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from deid_assets_tests.matrices.deliveries import CLAIMS, NUMBER, VALUE
from deid_assets_tests.matrices.malformed_inputs import Case

_PARQUET = "claims.parquet: unreadable file"


def _bytes(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes())) and None


def _rewritten(select: str, file: str = "claims", options: str = "", to: str | None = None) -> Callable[[Path], None]:
    """Write a table anew, as a SELECT from t gives it."""

    def breaks(folder: Path) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t AS FROM '{folder}/{file}.parquet'")
            connection.execute(f"COPY ({select}) TO '{folder}/{to or file}.parquet' (FORMAT parquet {options})")

    return breaks


def _with_column(name: str, sql: str) -> Callable[[Path], None]:
    return _rewritten(f"SELECT * REPLACE ({sql} AS {name}) FROM t")


def _arrow(change: Callable[[pa.Table], pa.Table], **options) -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        pq.write_table(change(pq.read_table(folder / "claims.parquet")), folder / "claims.parquet", **options)

    return breaks


def _corrupt_pages(folder: Path) -> None:
    """Packed pages are damaged, and the footer is not."""
    file = folder / "claims.parquet"
    pq.write_table(pq.read_table(file), file, compression="gzip", use_dictionary=False)
    content = file.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[:4] + bytes(byte ^ 0x55 for byte in content[4:end]) + content[end:])


def _empty_groups(folder: Path) -> None:
    table = pq.read_table(folder / "claims.parquet")
    with pq.ParquetWriter(folder / "claims.parquet", table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 20), table.slice(0, 0), table.slice(20), table.slice(0, 0)):
            writer.write_table(part)


def _encrypted(folder: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        connection.execute("PRAGMA add_parquet_key('k', '0123456789112345')")
        connection.execute(f"CREATE TABLE t AS FROM '{folder}/claims.parquet'")
        connection.execute(f"COPY t TO '{folder}/claims.parquet' (FORMAT parquet, ENCRYPTION_CONFIG {{footer_key: 'k'}})")


def _not_utf8(table: pa.Table) -> pa.Table:
    raw = pa.array([b"\xff\xfe" + VALUE.encode()] * len(table), pa.binary())
    broken = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    return table.set_column(table.schema.get_field_index("dx"), "dx", broken)


def _twice(table: pa.Table) -> pa.Table:
    return table.append_column("day", table["day"])


def _cells(name: str, column: str, sql: str, rule: str) -> Case:
    return Case(name, "parquet", _with_column(column, sql), (f"claims.parquet: column {column}: {CLAIMS} lines: {rule}",))


_FOOTER = b"PAR1"
PARQUET = (
    Case("as it should be", "parquet", lambda folder: None),
    Case("no file", "parquet", lambda folder: (folder / "claims.parquet").unlink(), ("claims*.parquet: missing file",)),
    Case("empty", "parquet", _bytes("claims.parquet", lambda content: b""), ("claims.parquet: empty file",)),
    Case("a CSV file", "parquet", _bytes("claims.parquet", lambda content: b"no,member\n1,2\n"), (_PARQUET,)),
    Case("the magic only", "parquet", _bytes("claims.parquet", lambda content: _FOOTER), (_PARQUET,)),
    Case("two magics only", "parquet", _bytes("claims.parquet", lambda content: _FOOTER * 2), (_PARQUET,)),
    Case("a cut end", "parquet", _bytes("claims.parquet", lambda content: content[:-1]), (_PARQUET,)),
    Case("a cut half", "parquet", _bytes("claims.parquet", lambda content: content[: len(content) // 2]), (_PARQUET,)),
    Case("a cut beginning", "parquet", _bytes("claims.parquet", lambda content: content[200:]), (_PARQUET,)),
    Case("another magic", "parquet", _bytes("claims.parquet", lambda content: content[:-4] + b"PARE"), (_PARQUET,)),
    Case("a footer longer than the file", "parquet",
         _bytes("claims.parquet", lambda content: content[:-8] + b"\xff\xff\xff\x7f" + _FOOTER), (_PARQUET,)),
    Case("a footer of no length", "parquet",
         _bytes("claims.parquet", lambda content: content[:-8] + b"\0\0\0\0" + _FOOTER), (_PARQUET,)),
    Case("a damaged footer", "parquet",
         _bytes("claims.parquet", lambda content: content[:-200] + b"\xaa" * 100 + content[-100:]), (_PARQUET,)),
    Case("damaged pages", "parquet", _corrupt_pages, (_PARQUET, "cannot be read to its end")),
    Case("encrypted", "parquet", _encrypted, (_PARQUET, "encrypted")),
    Case("no rows", "parquet", _rewritten("FROM t LIMIT 0"), ("claims.parquet: no rows",)),
    Case("groups without rows", "parquet", _empty_groups),
    Case("a missing column", "parquet", _rewritten("SELECT * EXCLUDE (day) FROM t"), ("claims.parquet: missing column day",)),
    Case("a column in capitals", "parquet", _rewritten('SELECT * RENAME (day AS "DAY") FROM t'), ("missing column day",)),
    Case("a column twice", "parquet", _arrow(_twice), ("column day (to be read as service_date) occurs twice",)),
    Case("a column of lists", "parquet", _with_column("dx", "[dx]"), ("claims.parquet: column dx", "the type LIST")),
    Case("a column of structures", "parquet", _with_column("dx", "{'a': dx}"), ("column dx", "the type STRUCT")),
    Case("a column of maps", "parquet", _with_column("dx", "map([dx], [1])"), ("column dx", "the type MAP")),
    Case("a column of bytes", "parquet", _with_column("dx", "dx::BLOB"), ("column dx", "the type BLOB")),
    Case("a structure that nobody reads", "parquet", _with_column("note", "{'no': 'a', 'day': 'b'}")),
    Case("a column by the name of the row's number", "parquet", _rewritten("SELECT *, 1 AS file_row_number FROM t"),
         ("claims.parquet: column file_row_number has the name that is used",)),
    Case("columns by the names of a file", "parquet",
         _rewritten("SELECT *, 1 AS file_index, 2 AS rowid, 'x' AS filename FROM t")),
    _cells("days as numbers", "day", "date_diff('day', DATE '1970-01-01', day)", "unparseable date"),
    _cells("days as text of another order", "day", "strftime(day, '%d.%m.%Y')", "unparseable date"),
    _cells("infinite days", "day", "'infinity'::DATE", "unparseable date"),
    _cells("days of the year 0", "day", "DATE '0001-01-01 (BC)'", "year outside 1 to 3"),
    _cells("days as truth values", "day", "true", "unparseable date"),
    _cells("lengths of stay that are not whole", "los", "1.5::DOUBLE", "wrong type"),
    _cells("lengths of stay that are no number", "los", "'nan'::DOUBLE", "wrong type"),
    _cells("infinite lengths of stay", "los", "'inf'::FLOAT", "wrong type"),
    _cells("lengths of stay beyond 32 bits", "los", f"{NUMBER}99::BIGINT", "wrong type"),
    _cells("negative lengths of stay", "los", "(-1)::TINYINT", "negative length of stay"),
    _cells("lengths of stay as text", "los", f"'{VALUE}'", "wrong type"),
    _cells("identifiers that are missing", "member", "NULL::VARCHAR", "null member id"),
    _cells("unknown codes", "place", f"'{VALUE}'", "unknown place code"),
    Case("days with a time", "parquet", _with_column("day", "day::TIMESTAMP + INTERVAL 10 HOUR")),
    Case("days with a time zone", "parquet", _with_column("day", "day::TIMESTAMPTZ")),
    Case("numbers as decimals", "parquet", _with_column("los", "2::DECIMAL(9, 2)")),
    Case("text that is not UTF-8", "parquet", _arrow(_not_utf8), ("claims.parquet",)),
    Case("two files with other types", "parquet", _rewritten("SELECT * REPLACE (day::VARCHAR AS day, 'd' || no AS no) FROM t",
         to="claims2"), ("claims*.parquet: column day (to be read as service_date) is ",)),
    Case("two files of which one lacks a column", "parquet", _rewritten("SELECT * EXCLUDE (day) FROM t", to="claims2"),
         ("claims2.parquet: missing column day",)),
    Case("two files with their columns in another order", "parquet",
         _rewritten("SELECT day, place, 'd' || no AS no, * EXCLUDE (day, place, no) FROM t", to="claims2")),
    Case("a name that is a pattern", "parquet", _rewritten("SELECT * REPLACE ('d' || no AS no) FROM t", to="claims[1]?*")),
)  # fmt: skip


def _database(*statements: str) -> Callable[[Path], None]:
    """Change the delivered database."""

    def breaks(folder: Path) -> None:
        with duckdb.connect(str(folder / "delivery.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement)

    return breaks


def _leaking(folder: Path) -> None:
    """A view that reads a file of this host into a column that is published."""
    secret = folder.parent / f"{folder.name}.secret"
    secret.write_text(VALUE)
    _database(
        "ALTER TABLE claims RENAME TO own",
        f"CREATE VIEW claims AS SELECT * REPLACE ((SELECT content FROM read_text('{secret}')) AS specialty) FROM own",
    )(folder)


def _log(folder: Path) -> None:
    (folder / "delivery.duckdb.wal").write_bytes(b"not empty")


def _newer(content: bytes) -> bytes:
    """The number of the format stands behind the checksum and the magic."""
    return content[:12] + (9999).to_bytes(8, "little") + content[20:]


def _sqlite(content: bytes) -> bytes:
    return b"SQLite format 3\0" + content[16:]


def _flip_blocks(content: bytes) -> bytes:
    """Every block behind the headers is damaged."""
    return content[:12288] + bytes(byte ^ 0x55 for byte in content[12288:])


def _locked(folder: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        connection.execute(f"ATTACH '{folder}/delivery.duckdb' AS plain")
        connection.execute(f"ATTACH '{folder}/locked.duckdb' AS locked (ENCRYPTION_KEY 'secret')")
        connection.execute("COPY FROM DATABASE plain TO locked")
    (folder / "locked.duckdb").rename(folder / "delivery.duckdb")


def _linked(folder: Path) -> Path:
    link = folder.with_name(f"{folder.name}.duckdb")
    link.symlink_to(folder / "delivery.duckdb")
    return link


_DUCKDB = "delivery.duckdb: unreadable file: not a DuckDB file"
_OTHER = "write its rows into a table"
DUCKDB = (
    Case("as it should be", "duckdb", lambda folder: None),
    Case("no file", "duckdb", lambda folder: (folder / "delivery.duckdb").unlink(), ("delivery.duckdb: missing file",)),
    Case("empty", "duckdb", _bytes("delivery.duckdb", lambda content: b""), ("delivery.duckdb: empty file",)),
    Case("a text file", "duckdb", _bytes("delivery.duckdb", lambda content: b"no,member\n" * 9999), (_DUCKDB,)),
    Case("an SQLite file", "duckdb", _bytes("delivery.duckdb", _sqlite), (_DUCKDB,)),
    Case("a cut half", "duckdb", _bytes("delivery.duckdb", lambda content: content[: len(content) // 2]), ("delivery.duckdb",)),
    Case("the header only", "duckdb", _bytes("delivery.duckdb", lambda content: content[:12288]), ("delivery.duckdb",)),
    Case("damaged blocks", "duckdb", _bytes("delivery.duckdb", _flip_blocks), ("delivery.duckdb",)),
    Case("a newer format", "duckdb", _bytes("delivery.duckdb", _newer), (_DUCKDB,)),
    Case("encrypted", "duckdb", _locked, (_DUCKDB, "encrypted")),
    Case("a log beside it", "duckdb", _log, ("delivery.duckdb.wal is next to it",)),
    Case("a folder in its place", "duckdb",
         lambda folder: (folder / "delivery.duckdb").unlink() or (folder / "delivery.duckdb").mkdir(),
         ("delivery.duckdb: missing file",)),
    Case("a link to it", "duckdb", _linked, ("a symbolic link",)),
    Case("no table", "duckdb", _database("DROP TABLE claims"), ("delivery.duckdb:claims: missing table",)),
    Case("the table in another schema", "duckdb",
         _database("CREATE SCHEMA s; CREATE TABLE s.claims AS FROM claims; DROP TABLE claims"),
         ("delivery.duckdb:claims: missing table",)),
    Case("no rows", "duckdb", _database("DELETE FROM claims"), ("delivery.duckdb:claims: no rows",)),
    Case("a view", "duckdb", _database("ALTER TABLE claims RENAME TO own", "CREATE VIEW claims AS FROM own"),
         ("a view", _OTHER)),
    Case("a view that reads a file of this host", "duckdb", _leaking, ("a view", _OTHER)),
    Case("a view that nobody reads", "duckdb", _database("CREATE VIEW leak AS FROM read_text('/etc/hostname')")),
    Case("a macro", "duckdb", _database("ALTER TABLE claims RENAME TO own", "CREATE MACRO claims() AS TABLE FROM own"),
         ("a macro", _OTHER)),
    Case("macros by the names of functions", "duckdb", _database("CREATE MACRO trim(x) AS 'x'", "CREATE MACRO count(x) AS 0")),
    Case("a sequence", "duckdb", _database("DROP TABLE claims", "CREATE SEQUENCE claims"), ("missing table",)),
    Case("a generated column", "duckdb", _database("CREATE OR REPLACE TABLE claims AS SELECT * EXCLUDE (dx) FROM claims",
         "CREATE TABLE other (no VARCHAR, member VARCHAR, provider VARCHAR, day DATE, specialty VARCHAR, place VARCHAR,"
         " cpt VARCHAR, los INTEGER, admitted VARCHAR, \"left\" VARCHAR, note VARCHAR, paid VARCHAR,"
         " dx VARCHAR GENERATED ALWAYS AS (upper(cpt)) VIRTUAL)",
         "INSERT INTO other BY NAME FROM claims", "DROP TABLE claims", "ALTER TABLE other RENAME TO claims"),
         ("column dx (to be read as diagnosis_1) is generated",)),
    Case("a default that computes", "duckdb", _database("ALTER TABLE claims ALTER note SET DEFAULT upper('x')")),
    Case("a type of its own", "duckdb",
         _database("CREATE TYPE sexes AS ENUM ('F', 'M')", "ALTER TABLE members ALTER sex TYPE sexes")),
    Case("a type that lists a person", "duckdb", _database(f"CREATE TYPE kinds AS ENUM ('4280', '{VALUE}')",
         f"ALTER TABLE claims ALTER dx TYPE kinds USING '{VALUE}'"), ("column dx: 40 lines: unknown diagnosis code",)),
    Case("a column of lists", "duckdb", _database("ALTER TABLE claims ALTER dx TYPE VARCHAR[] USING [dx]"), ("the type LIST",)),
    Case("a column of unions", "duckdb",
         _database("ALTER TABLE claims ALTER dx TYPE UNION(a VARCHAR) USING union_value(a := dx)"),
         ("column dx", "the type UNION")),
    Case("a missing column", "duckdb", _database("ALTER TABLE claims DROP place"),
         ("delivery.duckdb:claims: missing column place",)),
    Case("a column by the name of the row's number", "duckdb",
         _database("ALTER TABLE claims ADD COLUMN rowid BIGINT DEFAULT 7")),
    Case("numbers of 128 bits", "duckdb",
         _database("ALTER TABLE claims ALTER los TYPE HUGEINT USING 170141183460469231731687303715884105727"),
         ("column los: 40 lines: wrong type",)),
    Case("an index", "duckdb", _database("CREATE UNIQUE INDEX i ON claims(no)")),
    Case("unparseable days", "duckdb", _database(f"ALTER TABLE claims ALTER day TYPE VARCHAR USING '{VALUE}'"),
         ("delivery.duckdb:claims: column day: 40 lines: unparseable date",)),
)  # fmt: skip

COLUMNAR = (*PARQUET, *DUCKDB)
