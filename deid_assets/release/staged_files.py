"""The files of a longitudinal release: written, and read back into the scratch schema, where the gate judges them."""

from collections.abc import Mapping

import pandas as pd

from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.release.counts.published import FILES as COUNT_FILES
from deid_assets.release.counts.published import ORDER
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.gate.judgement import Staged
from deid_assets.release.publication.publish import Staging
from deid_assets.release.published_tables import CLAIMS, MEMBERS, days_file
from deid_assets.store.tables import Table, connect, write_table

FILES = {"release_members": MEMBERS, "release_claims": CLAIMS}


def stage(policy: Policy, staging: Staging, candidate: Mapping[str, Table], profiles: Table) -> Staged:
    """Write the files, and read them back into the scratch schema."""
    years = [year for year, column in YEARS.items() if policy.publishes(column)]
    read = {}
    file = profiles.file
    with connect(file) as connection:
        for asset, name in FILES.items():
            staging.write_table(connection, name, candidate[asset], order_by=("MemberID",))
        days = candidate["release_days_in_hospital"]
        for year in years:
            staging.write_table(
                connection,
                days_file(year),
                f'SELECT * EXCLUDE ("Year") FROM {days.sql} WHERE "Year" = \'{year}\'',
                order_by=("MemberID",),
            )
    for asset, name in FILES.items():
        read[asset] = Table(file, SCHEMA, f"staged_{asset}")
        staging.read_into(name, read[asset])
    days_table = Table(file, SCHEMA, "staged_release_days_in_hospital")
    for year, table in staged_days(policy, profiles).items():
        staging.read_into(days_file(year), table)
    none = [f"SELECT * FROM {days.sql} WHERE false"]
    parts = [f"SELECT '{year}' AS \"Year\", * FROM {SCHEMA}.staged_days_{year}" for year in years]
    write_table(days_table, " UNION ALL ".join(none + parts))
    return Staged(read["release_members"], read["release_claims"], days_table)


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
    for name in COUNT_FILES:
        made = Table(beside.file, SCHEMA, f"made_{name.lower()}")
        write_table(made, tables[name])
        with connect(beside.file) as connection:
            staging.write_table(connection, name, made, order_by=ORDER[name])
        staged[name] = Table(beside.file, SCHEMA, f"staged_{name.lower()}")
        staging.read_into(name, staged[name])
    return staged
