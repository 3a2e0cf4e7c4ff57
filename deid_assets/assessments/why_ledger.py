"""What a policy does with every delivered column, and the why ledger that follows from it (methods#why-ledger)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

import pandas as pd

from deid_assets.assessments.candidate_rows import PATTERNS, identified_claims
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.methods.preparation.eligibility import newborn_rule
from deid_assets.methods.preparation.top_coding import TopCode, top_code
from deid_assets.methods.utility import ledger
from deid_assets.methods.utility.ledger import (
    CLAIM_STEPS,
    MEMBER_STEPS,
    OTHER_EVENT_STEPS,
    RELEASED,
    ColumnClasses,
    Followed,
    Form,
    LedgerTables,
    RowFates,
)
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import CLAIMS, EVENT_TABLE, PROVIDER_PSEUDONYMS, YEARS
from deid_assets.store.tables import Table, is_of, quoted, rows_of, scratch_table, write_view

INPUTS = {
    "members": "members", "claims": "claims", "quarantined": "quarantined_rows", "delivered_codes": "delivered_codes",
    "code_book": "code_book", "removed": "removed_members", "eligible_members": "eligible_members",
    "eligible_claims": "eligible_claims", "sample": "released_sample", "profiles": "member_profiles",
    "held": "held", "suppressed": "suppressed_members",
}  # fmt: skip
"""The asset of each table of `LedgerTables`."""

GROUPED = {known.delivered_as: name for name, known in CLAIMS.items()}
"""Delivered columns of claims that are quasi-identifiers, and their columns in the grouped claims."""

_FURTHER = "further_diagnoses"


def why_ledger_of(
    candidate: Candidate, progress: Callable[[int, int, str], None] = lambda done, of, what: None
) -> pd.DataFrame:
    """Account for every delivered row and value.

    Parameters
    ----------
    candidate
        With the tables of INPUTS, `patterns_of_care` and `value_domains`.
    progress
        Called with (accounts made, accounts, the one that comes): one for the rows of a table, and one for each column.

    Returns
    -------
    pandas.DataFrame
        Columns `ledger.COLUMNS`: per table, for its rows (source_column '') and each of its columns, every step.
    """
    policy, tables = candidate.policy, candidate.tables
    made = LedgerTables(**{field.name: tables[INPUTS[field.name]] for field in fields(LedgerTables)})
    domains = tables["value_domains"].frame()
    followed = {"members": member_columns_followed(candidate, made)}
    for table in policy.event_tables:
        own = _columns_of(policy, table, list(made.claims.columns()))
        followed[table] = [_followed_claim(table, column, candidate) for column in own]
    accounts, done = sum(1 + len(columns) for columns in followed.values()), 0
    rows = []
    steps_of = {"members": MEMBER_STEPS, "claims": CLAIM_STEPS}
    for table, columns in followed.items():
        steps = steps_of.get(table, OTHER_EVENT_STEPS)
        followed_rows = (
            partial(_member_rows, made) if table == "members" else partial(_claim_rows, policy, made, tables[PATTERNS], table)
        )
        progress(done, accounts, f"rows of {table}")
        source = followed_rows()
        quarantined = _quarantined(made, table, _delivered_as(policy, [column.column for column in columns]))
        rows += ledger.row_account(table, steps, source.numbers(), quarantined[""])
        unreadable = {} if table == "members" else _unreadable(made)
        done += 1
        for column in columns:
            progress(done, accounts, f"{table}, {column.column}")
            done += 1
            left = quarantined.get(column.column, 0)
            rows += ledger.value_account(
                column, steps, source.followed_values(column), _classes(domains, column), left, unreadable.get(column.column, 0)
            )
    return ledger.ledger_frame(rows)


def member_columns_followed(candidate: Candidate, made: LedgerTables) -> list[Followed]:
    """What becomes of each column of the delivered members."""
    policy = candidate.policy
    found = [
        Followed(
            "members", "member_id", (Form("pseudonyms", "member_id", renames=True),), "MemberID", unique=True
        )
    ]  # fmt: skip
    days = top_code(made.members, list(YEARS.values()), policy.top_coding.percentile)
    for column in made.members.columns():
        if column == "member_id":
            continue
        if not policy.publishes(column):
            found.append(Followed("members", column))
            continue
        forms = (_top_coded(days, f"h_{column}"),) if column in YEARS.values() else ()
        found.append(_generalized(candidate, "members", column, column, forms))
    return found


def _columns_of(policy: Policy, table: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table of events, of those of all."""
    if table != "claims":
        return (*dict.fromkeys(("claim_id", *policy.mapped_of(table), "year")), *sorted(policy.columns.events[table]))
    others = {name for one, own in policy.columns.events.items() if one != table for name in own}
    return tuple(column for column in columns if column not in (EVENT_TABLE, *others))


def _followed_claim(table: str, column: str, candidate: Candidate) -> Followed:
    """What becomes of a column of a table of events."""
    policy = candidate.policy
    pseudonyms = Form("pseudonyms", f"h_{column}", renames=True)
    if column == "member_id":
        return Followed(table, column, (pseudonyms,), "MemberID")
    if column in PROVIDER_PSEUDONYMS:
        return Followed(
            table, column, (Form("provider_suppression", f"h_{column}"), pseudonyms), PROVIDER_PSEUDONYMS[column]
        )  # fmt: skip
    if column == "year":
        return Followed(table, column, _dated(policy, "year") or (Form("grouping", "h_year"),), "Year")
    if column == "pay_delay":
        return Followed(table, column, (_top_coded(candidate.top_coded_delays, "h_pay_delay"),), "PayDelay")
    if column == "service_date" and policy.dates is not None:
        shown = "service_date" if policy.dates.format == "dates" else "service_day"
        return Followed(table, column, (Form("dates", f"h_{shown}", renames=shown == "service_day"),), policy.dates.release_as)
    attribute = next((one.release_as for one in policy.attributes if one.column == column), None)
    if attribute is not None:
        return Followed(table, column, (Form("grouping", f"h_{column}"),), attribute)
    if column in policy.columns.of_events:
        return _generalized(candidate, table, column, column, ())
    if column in GROUPED and policy.publishes(GROUPED[column]):
        of_days = CLAIMS[GROUPED[column]].limits is not None
        forms = (_dated(policy, column) if of_days else ()) or (Form("grouping", f"h_{GROUPED[column]}"),)
        return _generalized(candidate, table, column, GROUPED[column], forms)
    return Followed(table, column, unique=column == "claim_id")


def _dated(policy: Policy, column: str) -> tuple[Form, ...]:
    """The form of a column derived from redrawn dates; empty where dates are not released."""
    return () if policy.dates is None else (Form("dates", f"h_{column}"),)


def _top_coded(code: TopCode | None, column: str) -> Form:
    return Form("top_coding", f"{column}::VARCHAR" if code is None else code.text(column))


def _generalized(candidate: Candidate, table: str, column: str, quasi_identifier: str, forms: tuple[Form, ...]) -> Followed:
    released = candidate.policy.quasi_identifier(quasi_identifier).release_as
    return Followed(
        table, column, forms or (Form("grouping", f"h_{column}"),), released,
        domain=quasi_identifier, level=candidate.levels[quasi_identifier], missing_is_value=table == "members",
    )  # fmt: skip


def _classes(domains: pd.DataFrame, column: Followed) -> ColumnClasses | None:
    if column.domain is None:
        return None
    own = (domains["quasi_identifier"] == column.domain) & (domains["level"] == column.level)
    return ColumnClasses.of(domains[own])


def _scratch(made: LedgerTables, name: str) -> Table:
    return Table(made.members.file, "scratch", name)


def _member_rows(made: LedgerTables) -> RowFates:
    """The fates of delivered members, and what the steps made of the values of the released ones as h_<column>."""
    fates = ledger.write_fates(_scratch(made, "ledger_member_fates"), ledger.member_fates(made), made.members)
    shown = ", ".join(_held(column, "p") for column in made.profiles.columns() if column not in ("member_id", "released"))
    released = (
        f"SELECT m.*, {shown} FROM {made.members.sql} AS m JOIN {fates.sql} AS f USING (member_id)"
        f" LEFT JOIN {made.profiles.sql} AS p USING (member_id) WHERE f.fate = '{RELEASED}'"
    )
    return RowFates(made.members, fates, scratch_table(made.members, "ledger_members", released))


def _claim_rows(policy: Policy, made: LedgerTables, patterns: Table, table: str) -> RowFates:
    """The fates of delivered events of a table, and what the steps made of the values of the released ones as h_<column>."""
    newborn = newborn_rule(policy.removal.newborn_days, made.claims)
    if policy.has_other_events:
        alone = f"SELECT * FROM {made.claims.sql} WHERE {is_of(made.claims, table)}"
        # A table, whose rows have places.
        made = replace(made, claims=scratch_table(made.members, "ledger_delivered_events", alone))
    members = _scratch(made, "ledger_member_fates")
    rules = ledger.claim_fates(made, members, newborn, policy.removal.non_procedure_claims)
    fates = ledger.write_fates(_scratch(made, "ledger_claim_fates"), rules, made.claims)
    held = write_view(
        _scratch(made, "ledger_held"),
        f"SELECT * FROM {made.held.sql} WHERE member_id IN (SELECT member_id FROM {members.sql} WHERE fate = '{RELEASED}')",
    )
    shown = ", ".join(_held(column, "h") for column in made.held.columns() if column != "claim_id")
    released = f"""SELECT c.* EXCLUDE (claim_id, fate), {shown}
        FROM (FROM {made.claims.sql} POSITIONAL JOIN {fates.sql} WHERE fate = '{RELEASED}') AS c
        LEFT JOIN ({identified_claims(policy, held, patterns)}) AS h USING (claim_id)"""
    return RowFates(made.claims, fates, scratch_table(made.members, "ledger_claims", released))


def _held(column: str, alias: str) -> str:
    return f"{alias}.{quoted(column)} AS {quoted(f'h_{column}')}"


def _delivered_as(policy: Policy, columns: Sequence[str]) -> dict[str, str]:
    """Each column, and the one of the delivered rows that it is read from; without those that are of other rows, too."""
    declared = policy.columns.declared.all
    own = {name: made.cells[0].raw for name, made in declared.items() if made.cells and not made.of_events}
    return {column: own.get(column, column) for column in columns if column not in declared or column in own}


def _quarantined(made: LedgerTables, table: str, columns: Mapping[str, str]) -> dict[str, int]:
    """Quarantined rows of a table (''), and the values that they have, by column; `columns` says what each is read from.

    Of a line that could not be split into fields, no value is known.
    """
    found = ", ".join(
        f"count(*) FILTER (json_valid(raw_row) AND nullif(trim(json_extract_string(raw_row, '$.{given}')), '') IS NOT NULL)"
        f" AS {quoted(column)}"
        for column, given in columns.items()
    )
    counted = made.quarantined.query(
        f'SELECT count(*) AS "rows", {found} FROM {made.quarantined.sql} WHERE source_table = ?', [table]
    ).iloc[0]
    return {"": int(counted["rows"]), **{column: int(counted[column]) for column in columns}}


def _unreadable(made: LedgerTables) -> dict[str, int]:
    """Codes that the intake blanked, by column; those of further diagnoses share a text, which stays."""
    found = made.delivered_codes.query(f"SELECT source_column, unreadable FROM {made.delivered_codes.sql}")
    return {row.source_column: int(row.unreadable) for row in found.itertuples() if row.source_column != _FURTHER}


def released_contents(policy: Policy, released: Mapping[str, Table]) -> Iterator[tuple[str, str, int, float]]:
    """Count the release again: (source_table, released name or '' for rows, rows or values, entropy of the values in bits).

    Independent of the ledger: DuckDB counts in the release's own tables.
    """
    members, days, claims = (released[name] for name in ("release_members", "release_days_in_hospital", "release_claims"))
    yield from _contents("members", members, list(members.columns()))
    for table in policy.event_tables:
        shown = policy.columns_of_file(table, list(claims.columns()))
        yield from _contents(table, rows_of(claims, table), [name for name in shown if name != "SupLOS"])
    for qi in policy.quasi_identifiers.members:
        if qi.column in YEARS.values():
            year = "Y" + qi.column[-1]
            found = days.query(
                'SELECT count("DaysInHospital") AS n, coalesce(entropy("DaysInHospital")'
                f' FILTER ("DaysInHospital" IS NOT NULL), 0) AS bits FROM {days.sql} WHERE "Year" = ?',
                [year],
            ).iloc[0]
            yield "members", qi.release_as, int(found["n"]), float(found["bits"])


def _contents(source: str, table: Table, columns: Sequence[str]) -> Iterator[tuple[str, str, int, float]]:
    selects = ", ".join(
        f"count({quoted(column)}), coalesce(entropy({quoted(column)}) FILTER ({quoted(column)} IS NOT NULL), 0)"
        for column in columns
    )
    found = table.query(f"SELECT count(*), {selects} FROM {table.sql}").iloc[0].tolist()
    yield source, "", int(found[0]), 0.0
    for place, column in enumerate(columns):
        yield source, column, int(found[1 + 2 * place]), float(found[2 + 2 * place])
