"""The files of a longitudinal release: written, and read back into the scratch schema, where the gate judges them.

And the rows of a cohort's release, with the comparison of the staged rows with them.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_demographics import attributes_sql, cells_in, released_labels, require_readable
from deid_assets.assessments.evidence import Refusal
from deid_assets.methods.preparation.pseudonyms import pseudonyms
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import EVENT_TABLE, YEARS
from deid_assets.release.counts.published import ORDER
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.gate.judgement import Staged, row_refusals
from deid_assets.release.publication.publish import Staging
from deid_assets.release.published_tables import MEMBERS, days_file
from deid_assets.schemas.cohort import release_people_contract
from deid_assets.store.tables import Table, connect, events_file, is_of, literal, quoted, write_table


def stage(policy: Policy, staging: Staging, candidate: Mapping[str, Table], profiles: Table) -> Staged:
    """Write the files, and read them back into the scratch schema."""
    years = [year for year, column in YEARS.items() if policy.publishes(column)]
    file, claims = profiles.file, candidate["release_claims"]
    with connect(file) as connection:
        staging.write_table(connection, MEMBERS, candidate["release_members"], order_by=("MemberID",))
        for table in policy.event_tables:
            staging.write_table(connection, events_file(table), _rows_of(policy, claims, table), order_by=("MemberID",))
        days = candidate["release_days_in_hospital"]
        for year in years:
            staging.write_table(
                connection,
                days_file(year),
                f'SELECT * EXCLUDE ("Year") FROM {days.sql} WHERE "Year" = \'{year}\'',
                order_by=("MemberID",),
            )
    members = Table(file, SCHEMA, "staged_release_members")
    staging.read_into(MEMBERS, members)
    for table, events in staged_events(policy, profiles).items():
        staging.read_into(events_file(table), events)
    days_table = Table(file, SCHEMA, "staged_release_days_in_hospital")
    for year, days_of_year in staged_days(policy, profiles).items():
        staging.read_into(days_file(year), days_of_year)
    none = [f"SELECT * FROM {days.sql} WHERE false"]
    parts = [f"SELECT '{year}' AS \"Year\", * FROM {SCHEMA}.staged_days_{year}" for year in years]
    write_table(days_table, " UNION ALL ".join(none + parts))
    return Staged(members, _together(policy, profiles, claims), days_table)


def _rows_of(policy: Policy, claims: Table, table: str) -> str | Table:
    """The rows of one table of events, in the columns of its file."""
    if not policy.has_other_events:
        return claims
    columns = ", ".join(map(quoted, policy.columns_of_file(table, list(claims.columns()))))
    return f"SELECT {columns} FROM {claims.sql} WHERE {is_of(claims, table)}"


def staged_events(policy: Policy, profiles: Table) -> dict[str, Table]:
    """The staged tables of events, as read back, by their names."""
    if not policy.has_other_events:
        return {"claims": Table(profiles.file, SCHEMA, "staged_release_claims")}
    return {table: Table(profiles.file, SCHEMA, f"staged_events_{table}") for table in policy.event_tables}


def _together(policy: Policy, profiles: Table, claims: Table) -> Table:
    """The staged rows of all tables of events, in the columns of `release_claims`."""
    staged, together = staged_events(policy, profiles), Table(profiles.file, SCHEMA, "staged_release_claims")
    if len(staged) > 1:
        none = f"SELECT * FROM {claims.sql} WHERE false"
        # A withheld length of stay is not told in the files of other tables, which have none.
        withheld = {table: "" if table == "claims" else ', 0::TINYINT AS "SupLOS"' for table in staged}
        parts = [
            f"SELECT {literal(table)} AS {EVENT_TABLE}, *{withheld[table]} FROM {one.sql}" for table, one in staged.items()
        ]
        write_table(together, " UNION ALL BY NAME ".join([none, *parts]))
    return together


def staged_days(policy: Policy, profiles: Table) -> dict[str, Table]:
    """The staged days in hospital of each released year, as read back."""
    return {
        year: Table(profiles.file, SCHEMA, f"staged_days_{year}") for year, column in YEARS.items() if policy.publishes(column)
    }


def stage_counts(staging: Staging, tables: Mapping[str, pd.DataFrame], beside: Table) -> dict[str, Table]:
    """Write the tables as files of the release, and read them back into the scratch schema.

    Parameters
    ----------
    tables
        `published.file_tables`.
    beside
        A table of the restricted store, whose file has the scratch schema.
    """
    staged = {}
    for name in tables:
        made = Table(beside.file, SCHEMA, f"made_{name.lower()}")
        write_table(made, tables[name])
        with connect(beside.file) as connection:
            staging.write_table(connection, name, made, order_by=ORDER[name])
        staged[name] = Table(beside.file, SCHEMA, f"staged_{name.lower()}")
        staging.read_into(name, staged[name])
    return staged


def people_to_release(policy: CohortPolicy, people: Table, population: Table, key: bytes) -> pd.DataFrame:
    """Return the rows to be published, ordered by their content.

    Parameters
    ----------
    key
        Secret from which pseudonyms are made, derived for this policy and delivery.

    Raises
    ------
    DeliveryError
        If the population's table lacks a place of the cohort, or the year of an attribute cannot be read.
    RefusedError
        If no old ages are possible.
    """
    require_readable(policy, people)
    shown = released_labels(policy, cells_in(policy, people, population))
    if policy.attributes:
        values = people.query(f"SELECT {attributes_sql(policy)} FROM {people.sql} ORDER BY record")
        shown = pd.concat([shown, values.astype("str").replace({np.nan: None})], axis=1)
    if policy.columns.person.release_as is not None:
        identifiers = people.query(f"SELECT person FROM {people.sql} ORDER BY record")["person"]
        made = pseudonyms("member", identifiers.tolist(), key)["pseudonym"]
        shown.insert(0, policy.columns.person.release_as, made)
    return shown.sort_values(list(shown), ignore_index=True)


def people_refusals(policy: CohortPolicy, staged: Table, expected: pd.DataFrame) -> list[Refusal]:
    """Check the staged rows against their contract and the rows to be published."""
    stored = Table(staged.file, SCHEMA, "expected_release_people")
    write_table(stored, expected)
    return row_refusals("release_people", staged, release_people_contract(policy), f"SELECT * FROM {stored.sql}")
