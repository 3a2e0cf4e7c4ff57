"""The warehouse: what a source delivered, as tables of a DuckDB file for each delivery."""

from pathlib import Path

import dagster as dg
import duckdb

from deid_assets.sources.synthetic.delivery import write_delivery

WAREHOUSE = Path("wh")
deliveries = dg.DynamicPartitionsDefinition(name="claims_deliveries")

ENROL = """SELECT member_id AS id, sex, birth_date AS born, days_in_hospital_y2 AS days_y2, days_in_hospital_y3 AS days_y3
           FROM '{0}/members.parquet'"""
CLAIMS = """SELECT claim_id AS no, member_id AS member, provider_id AS provider, service_date AS day, specialty, place, cpt,
                   length_of_stay AS los, diagnosis_1 AS dx FROM '{0}/claims.parquet'"""


@dg.multi_asset(
    outs={
        "enrolment": dg.AssetOut(key=["warehouse", "enrolment"], is_required=True, dagster_type=dg.Nothing),
        "claims": dg.AssetOut(key=["warehouse", "claims"], is_required=True, dagster_type=dg.Nothing),
    },
    partitions_def=deliveries,
)
def warehouse_tables(context: dg.AssetExecutionContext):
    """What the source delivered: here, people who never lived."""
    delivered = WAREHOUSE / "in" / context.partition_key
    if not delivered.exists():
        write_delivery(delivered, members=3000, seed=1)
    with duckdb.connect(str(WAREHOUSE / f"{context.partition_key}.duckdb")) as connection:
        for table, select in (("enrol", ENROL), ("claims", CLAIMS)):
            connection.execute(f"CREATE OR REPLACE TABLE {table} AS {select.format(delivered)}")
    yield dg.Output(None, "enrolment")
    yield dg.Output(None, "claims")
