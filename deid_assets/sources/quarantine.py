"""Quarantine: rows that break a rule are counted and kept with the rule's name; never dropped silently."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from deid_assets.sources.files import IntakeState, count_rows, key_parts
from deid_assets.sources.joining import OF_A_PERSON, joined_rows
from deid_assets.sources.layout import OUTSIDE, UNPARSEABLE, WRONG_TYPE, Delivered, RowRule
from deid_assets.sources.report import RuleCount, shape_sql, told
from deid_assets.store.tables import quoted

_OF_EVENTS = (("member_id",), "the same events delivered twice")
_REPEATED = {
    "members": (OF_A_PERSON, "spans of enrolment or yearly records, which source.members.unit: span joins"),
    "claims": (("member_id",), "claim lines, which source.claims.unit: line joins"),
}
"""By table: the columns that rows of one person or claim share, and what rows with one identifier then look like."""
_REPEATED_AT_LEAST = 0.01
_ALIKE_AT_LEAST = 0.9
# A refused delivery lists enough rows to correct it, not all rows of a file with a wrong column map.
_REFUSED_LISTED = 100_000


def _identifier(table: str) -> str:
    return "member_id" if table == "members" else "claim_id"


class Quarantine:
    """The broken rows of one intake, by table and rule, in the temporary tables `broken_<table>`."""

    def __init__(self, staging: IntakeState, delivered: Delivered) -> None:
        self._connection = staging.connection
        self._delivered = delivered
        self._relations = delivered.relations
        self._rules: dict[str, tuple[RowRule, ...]] = {}
        self._connection.execute(
            "CREATE TEMP TABLE judged_rules"
            " (source_table VARCHAR, number INTEGER, rule VARCHAR, source_column VARCHAR, canonical_column VARCHAR)"
        )

    def judge(self, table: str, rules: Sequence[RowRule]) -> None:
        """Find the rows that break a single-row rule; a row is listed under the first rule that it breaks."""
        self._rules[table] = tuple(rules)
        judged = [
            (table, number, rule.name, self._delivered.shown(table, rule.column), rule.column)
            for number, rule in enumerate(rules)
        ]
        # In one statement: a statement takes longer than its rows.
        self._connection.execute(
            f"INSERT INTO judged_rules VALUES {', '.join(['(?, ?, ?, ?, ?)'] * len(judged))}", [*chain.from_iterable(judged)]
        )
        cases = " ".join(f"WHEN {rule.broken} THEN {number}" for number, rule in enumerate(rules))
        self._connection.execute(
            f"CREATE TEMP TABLE broken_{table} AS SELECT row_key, number"
            f" FROM (SELECT row_key, CASE {cases} END::INTEGER AS number FROM typed_{table} AS t)"
            " WHERE number IS NOT NULL"
        )

    def judge_duplicates(self, table: str, rule: RowRule) -> None:
        """Find the rows whose identifier occurs in an earlier row; the first otherwise valid row stays.

        Hashes are grouped instead of identifiers, which takes a third of the memory; identifiers decide among equal
        hashes.
        """
        identifier = _identifier(table)
        self._connection.execute(
            f"""
            INSERT INTO broken_{table}
            SELECT row_key, (SELECT number FROM judged_rules WHERE source_table = ? AND rule = ?)
            FROM (
                SELECT row_key, row_number() OVER (PARTITION BY {identifier} ORDER BY row_key) AS occurrence
                FROM typed_{table} AS t
                WHERE {self.kept(table)} AND hash({identifier}) IN (
                    SELECT hash({identifier}) FROM typed_{table} GROUP BY hash({identifier}) HAVING count(*) > 1
                )
            )
            WHERE occurrence > 1
            """,
            [table, rule.name],
        )

    def every_reason(self, table: str) -> tuple[str, ...]:
        """How many rows break each rule, also where another rule found them first; what repeated rows look like comes first."""
        rules = self._rules[table]
        counted = self._connection.execute(
            f"SELECT {', '.join(f'count(*) FILTER ({rule.broken})' for rule in rules)} FROM typed_{table} AS t"
        ).fetchall()[0]
        found = sorted(zip(counted, rules, strict=True), key=lambda one: -one[0])
        listed = [f"{rule.name} ({self._delivered.shown(table, rule.column)}): {rows:,}" for rows, rule in found if rows]
        repeated = self._repeated(table)
        return (*repeated, f"rows by every rule that they break: {'; '.join(listed)}") if listed else repeated

    def _repeated(self, table: str) -> tuple[str, ...]:
        """What rows with an identifier that occurred before look like; nothing if they are few."""
        identifier, (same, looks) = _identifier(table), _REPEATED.get(table, _OF_EVENTS)
        rows, named, alike, groups = self._connection.execute(
            f"""SELECT coalesce(sum(n), 0)::BIGINT, count(*), count_if(n > 1 AND alike), count_if(n > 1) FROM (
                SELECT count(*) AS n, {" AND ".join(f"count(DISTINCT {column}) <= 1" for column in same)} AS alike
                FROM typed_{table} AS t WHERE {identifier} IS NOT NULL GROUP BY {identifier})"""
        ).fetchall()[0]
        if rows - named <= _REPEATED_AT_LEAST * rows:
            return ()
        what = (
            looks if alike >= _ALIKE_AT_LEAST * groups else f"rows that share an identifier and differ in {' or '.join(same)}"
        )
        shown = self._delivered.shown(table, identifier)
        return (f"{rows - named:,} of {rows:,} rows repeat {shown}: they look like {what}",)

    def kept(self, table: str) -> str:
        """SQL that is true for rows of the view `typed_<table>`, named t, that have broken no rule so far."""
        if not self._count(f"broken_{table}"):
            return "true"
        return f"NOT EXISTS (SELECT 1 FROM broken_{table} AS b WHERE b.row_key = t.row_key)"

    def rows_read(self) -> dict[str, int]:
        """Members or claims, and rejected lines, per table."""
        rejected = dict(self._connection.execute("SELECT source_table, count(*) FROM rejected_lines GROUP BY ALL").fetchall())
        return {table: laid + rejected.get(table, 0) for table, (laid, _) in self._rows.items()}

    def rows_left_out(self) -> dict[str, int]:
        """Rows per table that were left out before anything was judged, because they are of other years."""
        return {table: laid - judged for table, (laid, judged) in self._rows.items()}

    def rows_kept(self) -> dict[str, int]:
        """Rows per table that broke no rule."""
        return {table: judged - self._count(f"broken_{table}") for table, (_, judged) in self._rows.items()}

    @cached_property
    def _rows(self) -> dict[str, tuple[int, int]]:
        """Rows per table: all that were read, and those to be judged; both are views, which read every cell."""
        return {table: (self._count(f"laid_{table}"), self._count(f"typed_{table}")) for table in self._relations}

    def counts(self) -> tuple[RuleCount, ...]:
        """Broken rows and rejected lines by table, file, column and rule, most frequent first, with the expected format."""
        file_number, _ = key_parts("row_key")
        broken = " UNION ALL ".join(
            f"SELECT '{table}' AS source_table, {file_number} AS file_number, number FROM broken_{table}"
            for table in self._relations
        )
        counted = self._connection.execute(
            f"""
            SELECT source_table, name, source_column, rule, count(*) AS rows, file_number, number, canonical_column
            FROM (
                SELECT source_table, file_number, source_column, rule, number, canonical_column
                FROM ({broken}) JOIN judged_rules USING (source_table, number)
                UNION ALL
                SELECT source_table, file_number, '', rule, NULL, NULL FROM rejected_lines
            )
            JOIN delivered_files USING (file_number)
            GROUP BY ALL
            ORDER BY rows DESC, source_table, name, source_column, rule
            """
        ).fetchall()
        return tuple(
            RuleCount(table, file, column, rule, rows, self._expected(table, rule, number, *judged))
            for table, file, column, rule, rows, number, *judged in counted
        )

    def _expected(self, table: str, rule: str, file_number: int, number: int | None, column: str | None) -> str:
        """The expected format of a column's values, and how many have which shape; empty if no value is at fault."""
        years = self._delivered.years
        if years is not None and rule.startswith(OUTSIDE):
            last = years.first + years.count - 1
            return f"expected {years.first} to {last}; source.years can leave out other years of a longer history"
        if column is None or rule not in (UNPARSEABLE, WRONG_TYPE):
            return ""
        if rule == UNPARSEABLE:
            formats = self._delivered.formats(table, column)
            expected = " or ".join(formats) + (", and no two of them that read different days" if len(formats) > 1 else "")
        else:
            expected = "a whole number"
        found, _ = key_parts("b.row_key")
        shapes = self._connection.execute(
            f"SELECT {shape_sql(f'trim(d.{quoted(column)}::VARCHAR)')} AS shape, count(*) AS rows FROM broken_{table} AS b"
            f" JOIN {quoted(self._relations[table])} AS d ON d.row_key = b.row_key"
            f" WHERE b.number = ? AND {found} = ? GROUP BY ALL ORDER BY rows DESC, shape",
            [number, file_number],
        ).fetchall()
        return f"expected {expected}; {told(shapes)}"

    def write(self, schema: str) -> None:
        """Replace `quarantined_rows`: table, file, row, rule, column, and the row itself so that it can be corrected."""
        self._connection.execute(f"CREATE OR REPLACE TABLE {quoted(schema)}.quarantined_rows AS {self._listed()}")
        self._connection.execute(f"DROP TABLE IF EXISTS {quoted(schema)}.refused_rows")

    def write_refused(self, schema: str) -> None:
        """List the first rows of a refused delivery in `refused_rows`; the tables of the last intake stay."""
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {quoted(schema)}.refused_rows AS {self._listed()} LIMIT {_REFUSED_LISTED}"
        )

    def _listed(self) -> str:
        """SELECT the broken rows and rejected lines.

        For a CSV file, `source_row` is the line, counting the header and rejected lines, but neither blank lines nor
        line breaks inside quoted values; for other files, the row from 1.
        """
        file_number, row = key_parts("b.row_key")
        rejected = """
            SELECT file_number, line - 1 - rank AS rows_before, max(rank) AS rank
            FROM rejected_lines WHERE rank IS NOT NULL GROUP BY ALL
        """
        broken = " UNION ALL ".join(
            f"""
            SELECT '{table}' AS source_table, {file_number} AS file_number, {row} AS file_row, b.number,
                to_json(d)::VARCHAR AS raw_row
            FROM ({self._broken_as_delivered(table)}) AS b
            JOIN {quoted(self._relations[table])} AS d ON d.row_key = b.row_key
            """
            for table in self._relations
        )
        return f"""
            SELECT source_table, name AS source_file, source_row, rule, source_column, raw_row
            FROM (
                SELECT b.source_table, b.file_number, b.file_row + f.header_lines + coalesce(r.rank, 0) AS source_row,
                    j.rule, j.source_column, b.raw_row
                FROM ({broken}) AS b
                JOIN judged_rules AS j ON j.source_table = b.source_table AND j.number = b.number
                JOIN delivered_files AS f ON f.file_number = b.file_number
                ASOF LEFT JOIN ({rejected}) AS r ON r.file_number = b.file_number AND b.file_row > r.rows_before
                UNION ALL
                SELECT source_table, file_number, line, rule, '', raw_row FROM rejected_lines
            )
            JOIN delivered_files USING (file_number)
            ORDER BY source_table DESC, file_number, source_row, rule, raw_row
        """

    def _broken_as_delivered(self, table: str) -> str:
        """SELECT the broken rows as they were delivered: of what was joined, every row of the same claim or person.

        Members with a claim in quarantine are removed by what these rows say, and any line of the claim may name another one.
        """
        if self._delivered.is_joined(table):
            rows = joined_rows(table)
            return (
                f"SELECT DISTINCT o.row_key, b.number FROM broken_{table} AS b JOIN {rows} AS i ON i.row_key = b.row_key"
                f" JOIN {rows} AS o ON o.joined_by = i.joined_by"
            )
        return f"SELECT row_key, number FROM broken_{table}"

    def _count(self, relation: str) -> int:
        return count_rows(self._connection, quoted(relation))
