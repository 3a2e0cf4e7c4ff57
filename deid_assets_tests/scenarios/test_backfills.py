"""Backfills of several deliveries at once, as the UI starts them: the daemon, and a process for each run."""

from collections import Counter
from collections.abc import Iterator

import dagster as dg
import pytest

from deid_assets.assets.publishing import REPEATED_AT_MOST
from deid_assets.automation.in_use import state_use
from deid_assets.automation.instance import add_partition, dagster_instance, prepare_dagster_home
from deid_assets.command_line.run import LOCATION
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry.chain import Registry
from deid_assets.resources import AGAIN_DUE, STORE_TAG, again_tag, job_name
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.deliveries import numbered
from deid_assets_tests.processes import wait_for
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import WITH_PERSONS, people, write_people
from deid_assets_tests.webserver import Ui, opened

pytestmark = pytest.mark.matrix

PINNED = {"releases": {"generalization": "pinned", "other_people": {"other_people": "they live elsewhere"}}}
APART = {"releases": {"other_people": {"same_people": "they live elsewhere", "other_people": "each delivery is of one half"}}}
POLICIES = {
    "same_people": (changed(WITH_PERSONS, policy="same_people", **PINNED), ("spring", "summer", "autumn")),
    "other_people": (changed(WITH_PERSONS, policy="other_people", **APART), ("north", "south")),
}
"""Each policy with its deliveries: in those of the one the people are the same, and the others have nobody in common."""

OVERTAKEN = ("than there are now; run the whole job again", "in the meantime", "another run is at work on its delivery")

BACKFILL = """mutation ($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
STATUS = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
    __typename ... on PartitionBackfill { status } ... on PythonError { message } } }"""


def rows(first: int) -> list[list[str]]:
    """A table of people whose numbers begin with this one; other people have values of their own."""
    return numbered(people(seed=1 + first), first)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    """A home with two policies in use, and five deliveries."""
    home = Home(tmp_path_factory.mktemp("backfill") / "deid").create()
    prepare_dagster_home(home)
    apart = iter(range(10_000, 100_000, 10_000))
    for values, deliveries in POLICIES.values():
        write_policy(home.policies, values)
        state_use(home, values["policy"])
        with dagster_instance(home) as instance:
            for key in deliveries:
                folder = write_people(home.deliveries / key, rows(0 if values["policy"] == "same_people" else next(apart)))
                register_delivery(home, Delivery(key, "flat", (folder,), {}))
                add_partition(instance, values["policy"], key)
    return home


@pytest.fixture(scope="module")
def runs(home) -> Iterator[list[dg.DagsterRun]]:
    """Every run, once both backfills are over and no run is at work or will be repeated."""
    with opened(home.root) as ui:
        backfills = [_backfill(ui, name, deliveries) for name, (_, deliveries) in POLICIES.items()]

        def over() -> list[dg.DagsterRun]:
            if any(_status(ui, one) in ("REQUESTED", "CANCELING") for one in backfills):
                return []
            with dagster_instance(home) as instance:
                found = instance.get_runs()
            due = [run for run in found if AGAIN_DUE in (run.tags.get(again_tag(policy)) for policy in POLICIES)]
            return [] if due or not all(run.is_finished for run in found) else found

        yield wait_for("the runs", over, seen=lambda: _states(home))


def _backfill(ui: Ui, policy: str, deliveries: tuple[str, ...]) -> str:
    repository = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__"}
    selector = {"repositorySelector": repository, "partitionSetName": f"{job_name(policy)}_partition_set"}
    started = ui.ask(BACKFILL, params={"selector": selector, "partitionNames": list(deliveries)})["launchPartitionBackfill"]
    assert started["__typename"] == "LaunchBackfillSuccess", started
    return started["backfillId"]


def _states(home: Home) -> list[str]:
    """Every run with what shows whether it goes on."""
    with dagster_instance(home) as instance:
        return [f"{run.tags[STORE_TAG]} {run.status.value} {run.tags}" for run in instance.get_runs()]


def _status(ui: Ui, backfill: str) -> str:
    return ui.ask(STATUS, id=backfill)["partitionBackfillOrError"]["status"]


def newest(runs: list[dg.DagsterRun]) -> dict[str, dg.DagsterRun]:
    """The newest run of each delivery."""
    found: dict[str, dg.DagsterRun] = {}
    for run in runs:  # newest first
        found.setdefault(run.tags[STORE_TAG], run)
    return found


def test_every_delivery_is_released_in_the_end(home, runs):
    last = newest(runs)
    assert set(last) == {f"{name}/{key}" for name, (_, deliveries) in POLICIES.items() for key in deliveries}
    said = {store: _reasons(home, run) for store, run in last.items() if not run.is_success}
    assert said == {}
    key = SigningKey.load_or_create(home.keys).public
    for release in home.releases.glob("*/0*"):
        assert verify_release(release, key, home.releases / "registry.jsonl").ok


def test_numbers_and_registry_are_in_order(home, runs):
    chain = Registry(home.releases / "registry.jsonl").chain()
    by_policy = {name: [entry.number for entry in chain.entries if entry.policy == name] for name in POLICIES}
    # Of two that are staged at once, the first may be refused for the second, which keeps its number: its own stays unused.
    overtaken = Counter(run.tags[STORE_TAG].partition("/")[0] for run in runs if not run.is_success)
    for name, (_, deliveries) in POLICIES.items():
        numbers = by_policy[name]
        assert len(numbers) == len(deliveries) and numbers == sorted(set(numbers)), name
        assert len(deliveries) <= numbers[-1] <= len(deliveries) + overtaken[name], name
    folders = sorted(str(path.relative_to(home.releases)) for path in home.releases.glob("*/*"))
    assert folders == sorted(f"{entry.policy}/{entry.number:04d}" for entry in chain.entries), "and nothing is half made"


def test_a_run_is_repeated_only_because_another_release_came_meanwhile(home, runs):
    """Whoever was not first says so in one sentence, and so does whose rows cannot be compared yet; both are made again."""
    failed = [run for run in runs if not run.is_success]
    for run in failed:
        (reason,) = _reasons(home, run)
        assert any(why in reason for why in OVERTAKEN), reason
    tries = Counter(run.tags[STORE_TAG] for run in runs)
    assert max(tries.values()) <= REPEATED_AT_MOST + 1
    assert {store for store, number in tries.items() if number > 1} == {run.tags[STORE_TAG] for run in failed}


def _reasons(home: Home, run: dg.DagsterRun) -> list[str]:
    """What the steps that failed say."""
    with dagster_instance(home) as instance:
        events = [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event is not None]
    found = [event.step_failure_data for event in events if event.is_step_failure]
    return [str(one.user_failure_data.description if one.user_failure_data else one.error.cause or one.error) for one in found]
