"""A project that shows only its release: made by each process of its runs, as Dagster does.

Its warehouse is the folder `wh` beside the home, which the variable DEID_HOME names.
"""

import os
from pathlib import Path

import dagster as dg

from deid_assets.embedding import Upstream, build_release
from deid_assets.policy.loading import policy_from
from deid_assets.sources.upstream import CsvFiles
from deid_assets_tests.scenarios.tables_delivery import TABLES

JOB = "everything"


def definitions() -> dg.Definitions:
    """The project."""
    warehouse = Path(os.environ["DEID_HOME"]).parent / "wh"
    return dg.Definitions.merge(
        build_release(
            policy_from(TABLES),
            members=Upstream(dg.AssetKey("people"), CsvFiles(f"{warehouse}/{{partition}}/members.csv")),
            claims=Upstream(dg.AssetKey("bills"), CsvFiles(f"{warehouse}/{{partition}}/claims.csv")),
            expose="release",
        ),
        dg.Definitions(
            assets=[dg.AssetSpec("people"), dg.AssetSpec("bills")],
            jobs=[dg.define_asset_job(JOB, dg.AssetSelection.key_prefixes(TABLES["policy"]))],
            executor=dg.multiprocess_executor,
        ),
    )


def job() -> dg.JobDefinition:
    """What the UI's "Materialize" runs: with the executor of the project."""
    return definitions().resolve_job_def(JOB)
