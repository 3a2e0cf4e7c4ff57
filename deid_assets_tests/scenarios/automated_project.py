"""A project that shows only its release, makes it by an automation condition, and is told of what is not published.

Its warehouse is the folder `wh` beside the home, which the variable DEID_HOME names; alarms go to `alarms.txt` there.
"""

import os
from pathlib import Path

import dagster as dg

from deid_assets.automation.deliveries import on_new_delivery
from deid_assets.automation.ended_runs import UnpublishedRun, refusal_sensor
from deid_assets.embedding import Upstream, build_release
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policy_from
from deid_assets.sources.upstream import CsvFiles
from deid_assets_tests.scenarios.tables_delivery import TABLES

HOME = Path(os.environ.get("DEID_HOME", ".deid")).absolute()  # whoever collects the tests imports this, too
FOLDER = HOME.parent
DELIVERIES = deliveries_of(TABLES["policy"])


@dg.asset(partitions_def=DELIVERIES)
def people() -> None:
    """One of the tables."""


@dg.asset(partitions_def=DELIVERIES)
def bills() -> None:
    """The other one."""


def tell(run: UnpublishedRun) -> None:
    with open(FOLDER / "alarms.txt", "a") as file:
        file.write(f"{run.sentence}\n")


defs = dg.Definitions.merge(
    build_release(
        policy_from(TABLES),
        members=Upstream(people.key, CsvFiles(f"{FOLDER}/wh/{{partition}}/members.csv")),
        claims=Upstream(bills.key, CsvFiles(f"{FOLDER}/wh/{{partition}}/claims.csv")),
        home=HOME,
        expose="release",
        automation_condition=on_new_delivery(),
    ),
    dg.Definitions(
        assets=[people, bills],
        sensors=[
            refusal_sensor([TABLES["policy"]], tell),
            dg.AutomationConditionSensorDefinition(
                "automation", target=dg.AssetSelection.all(), default_status=dg.DefaultSensorStatus.RUNNING
            ),
        ],
        executor=dg.in_process_executor,
    ),
)
