"""What is made of the release: it reads a published table, never the restricted store."""

import dagster as dg
import duckdb

from .warehouse import WAREHOUSE, deliveries

MEMBERS = dg.AssetKey(["our_claims", "published", "Members"])


@dg.asset(key=["analytics", "members_by_age"], deps=[MEMBERS], partitions_def=deliveries)
def members_by_age(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """How many published members are of each age."""
    (newest,) = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(MEMBERS, asset_partitions=[context.partition_key]), limit=1
    ).records
    published = newest.asset_materialization.metadata["path"].value
    target = WAREHOUSE / f"{context.partition_key}-members_by_age.parquet"
    duckdb.sql(
        f"SELECT AgeAtFirstClaim AS age, count(*) AS members FROM '{published}' GROUP BY ALL ORDER BY ALL"
    ).write_parquet(str(target))
    return dg.MaterializeResult(metadata={"file": dg.MetadataValue.path(str(target))})
