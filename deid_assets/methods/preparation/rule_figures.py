"""How much of what a policy's rules need is in a delivery: shares, counted in the canonical tables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deid_assets.methods.preparation.eligibility import codes_of_claims, may_be_newborn, newborn_years
from deid_assets.reference.known_columns import CODE_COLUMNS, DIAGNOSES, UNREADABLE, UNREADABLE_DECLARED
from deid_assets.store.tables import Table, is_of, quoted, rows_of

CODED = {kind: f"coalesce({', '.join(CODE_COLUMNS[kind])})" for kind in UNREADABLE} | {
    "diagnosis": f"coalesce({', '.join(DIAGNOSES)}, further_diagnoses)"
}
"""A readable code of each kind on a claim; the intake blanked or quarantined unreadable codes."""

SENSITIVE, RARE_VISIBLE = "sensitive_members", "rare_visible_members"
OF_ICD9, OF_SYSTEM = "icd9_diagnoses", "diagnoses_of_the_system"
"""Diagnoses of the stated system: evidence has always called those of ICD-9-CM by the first name."""

NEWBORN, AGE_AND_SEX, POPULATION = "newborn_claims", "age_and_sex", "population"


@dataclass(frozen=True)
class Figure:
    """A count and its total."""

    count: int
    of: int

    @property
    def share(self) -> float | None:
        """`count` over `of`; None if `of` is 0."""
        return self.count / self.of if self.of else None


def coded_claims(kind: str) -> str:
    """Return the name of the figure: claims with a readable code of a kind."""
    return f"coded_claims/{kind}"


def coded_rows(table: str) -> str:
    """Return the name of the figure: rows of another table of events with a code."""
    return f"coded_rows/{table}"


def readable(column: str) -> str:
    """Return the name of the figure: readable codes of a column."""
    return f"readable_codes/{column}"


@dataclass(frozen=True)
class SearchedTables:
    """A delivery, and what the lists found in it.

    Attributes
    ----------
    members, claims
        The canonical tables.
    delivered_codes
        source_column | kind | written | unreadable | other_system, one row per column of codes.
    removed
        member_id | reason | sensitive.
    code_book
        kind | code | removal_reason, one row per distinct code.
    """

    members: Table
    claims: Table
    delivered_codes: Table
    removed: Table
    code_book: Table


def rule_figures(
    of: SearchedTables,
    rare_visible_reason: str,
    population: int | None,
    coded: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> dict[str, Figure]:
    """Measure every figure.

    Parameters
    ----------
    rare_visible_reason
        Reason for the list of rare and visible diseases; all others are for the list of sensitive codes.
    population
        Population size stated in the policy; None if the delivery is the population.
    coded
        Other table of events -> its columns of codes.
    """
    claims, removed = of.claims, of.removed
    number = claims.query(
        f"""SELECT count(*) AS claims, count(DISTINCT member_id) AS patients,
                {", ".join(f'count({sql}) AS "{kind}"' for kind, sql in CODED.items())}
            FROM {claims.sql} WHERE {is_of(claims)}"""
    ).iloc[0]
    figures = {coded_claims(kind): Figure(int(number[kind]), int(number["claims"])) for kind in CODED}
    figures |= _of_codes(of.delivered_codes) | _of_events(claims, coded)
    patients = int(number["patients"])
    found = removed.query(
        f"""SELECT count(DISTINCT member_id) FILTER (reason <> ?) AS listed,
                count(DISTINCT member_id) FILTER (reason = ?) AS rare
            FROM {removed.sql} WHERE sensitive AND member_id IN (SELECT member_id FROM {claims.sql})""",
        [rare_visible_reason, rare_visible_reason],
    ).iloc[0]
    listed = _found_beside_drugs(of, coded, rare_visible_reason) if coded else int(found["listed"])
    figures[SENSITIVE] = Figure(listed, patients)
    figures[RARE_VISIBLE] = Figure(int(found["rare"]), patients)
    return figures | _of_members(of.members, claims, population)


def _found_beside_drugs(of: SearchedTables, coded: Collection[str], rare_visible_reason: str) -> int:
    """Count the members with claims whom the list finds otherwise than by drugs of another table of events.

    Fills are found whether or not the diagnoses of claims can be read, and would vouch for them.
    """
    codes = " UNION ALL ".join(
        f"SELECT member_id, kind, code FROM ({codes_of_claims(rows_of(of.claims, table))})"
        + (" WHERE kind <> 'drug'" if table != "claims" else "")
        for table in ("claims", *coded)
    )
    found = of.claims.query(
        f"""SELECT count(DISTINCT member_id) AS n FROM ({codes}) JOIN {of.code_book.sql} USING (kind, code)
            WHERE removal_reason <> ? AND member_id IN (SELECT member_id FROM {of.claims.sql} WHERE {is_of(of.claims)})""",
        [rare_visible_reason],
    )
    return int(found["n"].iloc[0])


def _of_codes(delivered_codes: Table) -> dict[str, Figure]:
    rows = delivered_codes.query(
        f"SELECT source_column, kind, written, unreadable, other_system FROM {delivered_codes.sql}"
    ).to_dict("records")
    figures = {
        readable(row["source_column"]): Figure(int(row["written"]) - int(row["unreadable"]), int(row["written"]))
        for row in rows
    }
    diagnoses = [row for row in rows if row["kind"] == "diagnosis"]
    written = sum(int(row["written"]) for row in diagnoses)
    of_system = Figure(written - sum(int(row["other_system"]) for row in diagnoses), written)
    return figures | {OF_ICD9: of_system, OF_SYSTEM: of_system}


def _of_events(claims: Table, coded: Mapping[str, Collection[str]]) -> dict[str, Figure]:
    """The rows of each table with a code in any of its columns, known or not, over all of its rows."""

    def counted(table: str, columns: Collection[str]) -> Figure:
        written = f"coalesce({', '.join(f'{quoted(name)}::VARCHAR' for name in columns)}) IS NOT NULL"
        row = claims.query(
            f"""SELECT count(*) FILTER ({written} OR {UNREADABLE_DECLARED} > 0) AS coded, count(*) AS n
                FROM {claims.sql} WHERE {is_of(claims, table)}"""
        ).iloc[0]
        return Figure(int(row["coded"]), int(row["n"]))

    return {coded_rows(table): counted(table, columns) for table, columns in coded.items()}


def _of_members(members: Table, claims: Table, population: int | None) -> dict[str, Figure]:
    number = members.query(
        f"SELECT count(*) AS members, count(*) FILTER (age IS NOT NULL AND sex IS NOT NULL) AS known FROM {members.sql}"
    ).iloc[0]
    young = claims.query(
        f"""SELECT count(*) AS claims, count(*) FILTER (birth_date IS NOT NULL AND service_date IS NOT NULL) AS dated
            FROM {claims.sql} AS claims JOIN {members.sql} AS members USING (member_id)
            WHERE {may_be_newborn(newborn_years(claims))} AND {is_of(claims)}"""
    ).iloc[0]
    delivered = int(number["members"])
    return {
        AGE_AND_SEX: Figure(int(number["known"]), delivered),
        NEWBORN: Figure(int(young["dated"]), int(young["claims"])),
        POPULATION: Figure(delivered if population is None else population, delivered),
    }
