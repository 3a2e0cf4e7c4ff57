"""The gate on the published tables of counts: the files hold exactly what the restricted store and the secret give."""

from collections.abc import Mapping

import pandas as pd
from pandera.ibis import DataFrameSchema

from deid_assets.assessments.evidence import Refusal
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.gate.judgement import rows_either_way
from deid_assets.schemas.contract import violations
from deid_assets.store.tables import Table, write_table


def count_refusals(
    staged: Mapping[str, Table], expected: Mapping[str, pd.DataFrame], contracts: Mapping[str, DataFrameSchema]
) -> list[Refusal]:
    """Compare the staged files with their contracts, and with tables that the gate counted and protected again.

    Parameters
    ----------
    expected
        `published.file_tables` of the gate's own counts.
    contracts
        Of the files (`kinds.Counting.files`).
    """
    found = []
    for name, table in staged.items():
        broken = violations(table, contracts[name])
        for rule, rows in broken.items():
            text = f"{name}: the staged rows break the contract, {rule}"
            found.append(Refusal("broken_contract", name, float(rows), 0.0, text, "rows"))
        if broken:
            continue
        own = Table(table.file, SCHEMA, f"expected_{name.lower()}")
        write_table(own, expected[name])
        rows = rows_either_way(table, f"SELECT * FROM {own.sql}")
        if rows:
            text = f"{name}: the staged counts are not the protected counts of this delivery"
            found.append(Refusal("other_counts", name, float(rows), 0.0, text, "rows"))
    return found
