"""A home with a Dagster instance in it, and runs of a policy's job there."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import duckdb
from dagster._core.definitions.asset_selection import AssetSelection

from deid_assets.automation.ended_runs import RunSummary, outcome_of
from deid_assets.automation.instance import add_partition, dagster_instance, prepare_dagster_home
from deid_assets.building import build_definitions
from deid_assets.release.cumulative import member_tags
from deid_assets.release.keys import SigningKey, load_secret
from deid_assets.release.manifest.editions import editions
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.publication.publish import Releases
from deid_assets.release.registry.chain import RefusedTry, Registry
from deid_assets.resources import job_name
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.stages import STAGE_OF
from deid_assets.store.home import Home
from deid_assets.store.tables import Table
from deid_assets_tests.figures.sketches import sketched_figures
from deid_assets_tests.release import making
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Pipeline:
    """One policy in one home."""

    home: Home
    instance: dg.DagsterInstance
    policy: str = "small"

    @property
    def every_asset(self) -> tuple[str, ...]:
        """All tables that the policy's job makes, in the order of the data."""
        known = {key.path[-1] for key in self._definitions().resolve_asset_graph().get_all_asset_keys()}
        return tuple(name for name in STAGE_OF if name in known)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages before the release, each an asset, too."""
        return tuple(dict.fromkeys(STAGE_OF[name] for name in self.every_asset if name != "release"))

    def register(self, key: str, kind: str = "synthetic", path: Path | None = None, **parameters) -> None:
        """Register a delivery, as the command line does."""
        register_delivery(self.home, Delivery(key, kind, (path or self.home.deliveries / key,), parameters))
        add_partition(self.instance, self.policy, key)

    def synthetic(self, key: str, members: int, seed: int) -> None:
        """Make a synthetic delivery and register it."""
        write_delivery(self.home.deliveries / key, members, seed)
        self.register(key, members=members, seed=seed)

    def run(
        self,
        delivery: str,
        only: Iterable[str] | None = None,
        checks: bool = True,
        stages: bool = True,
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> RunSummary:
        """Run the policy's job, or some assets of it with their checks or without, and say what came of it.

        Assets of the stages of `only` are made with them, unless `stages` is false.
        """
        return outcome_of(self.events(delivery, only, checks, stages, tags))

    def prepare(self, delivery: str) -> None:
        """Do everything of a delivery up to its release; every check passes."""
        summary = self.run(delivery, [name for name in self.every_asset if STAGE_OF[name] != "release"])
        assert not summary.reasons and not summary.failed_checks, summary

    def events(
        self,
        delivery: str,
        only: Iterable[str] | None = None,
        checks: bool = True,
        stages: bool = True,
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> list[dg.DagsterEvent]:
        """The same; returns the events."""
        add_partition(self.instance, self.policy, delivery)
        selection = AssetSelection.key_prefixes(self.policy)
        if only is not None:
            names = list(only)
            wholes = sorted({STAGE_OF[name] for name in names if name in STAGE_OF} - {"release"}) if stages else []
            selection = AssetSelection.assets(*(dg.AssetKey([self.policy, name]) for name in (*names, *wholes)))
            selection = selection.required_multi_asset_neighbors()
        if not checks:
            selection = selection.without_checks()
        made = self._definitions()
        # Under the name of the policy's job, by which a run knows whose store to lock.
        name = job_name(self.policy)
        job = dg.Definitions(
            assets=made.assets,
            asset_checks=made.asset_checks,
            resources=made.resources,
            executor=dg.in_process_executor,
            jobs=[dg.define_asset_job(name, selection)],
        ).resolve_job_def(name)
        with sketched_figures():
            result = job.execute_in_process(
                run_config=QUIET, instance=self.instance, partition_key=delivery, raise_on_error=False, tags=dict(tags)
            )
        return list(result.all_events)

    def _definitions(self) -> dg.Definitions:
        return build_definitions([self.policy], self.home)

    def store_file(self, delivery: str) -> Path:
        return self.home.store / self.policy / f"{delivery}.duckdb"

    def table(self, delivery: str, name: str) -> Table:
        return Table(self.store_file(delivery), STAGE_OF[name], name)

    def edit_store(self, delivery: str, *statements: str) -> None:
        """Change the restricted store behind Dagster's back."""
        with duckdb.connect(str(self.store_file(delivery))) as connection:
            for statement in statements:
                connection.execute(statement)

    @property
    def releases(self) -> list[str]:
        """What is published, as policy/number: folders, hidden ones too."""
        return sorted(str(path.relative_to(self.home.releases)) for path in self.home.releases.glob("*/*"))

    @property
    def registry(self) -> Registry:
        return Registry(self.home.releases / "registry.jsonl")

    def published_bytes(self) -> dict[str, bytes]:
        """Every published file with its content; the lock beside them is none, and lines of refused tries are left out."""
        found = {
            str(path.relative_to(self.home.releases)): path.read_bytes()
            for path in sorted(self.home.releases.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }
        registry = self.registry.path.name
        if registry in found:
            found[registry] = without_refused_tries(found[registry])
        return {name: content for name, content in found.items() if name != registry or content}

    def materialization(self, name: str, delivery: str) -> dg.AssetMaterialization:
        """The newest materialization of an asset."""
        found = self.materialization_or_none(name, delivery)
        assert found is not None, f"{name} was never materialized"
        return found

    def materialization_or_none(self, name: str, delivery: str) -> dg.AssetMaterialization | None:
        """The newest materialization of an asset; None if there is none."""
        key = dg.AssetKey([self.policy, name])
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=key, asset_partitions=[delivery]), limit=1
        ).records
        return records[0].asset_materialization if records else None


def without_refused_tries(registry: bytes) -> bytes:
    """The registry's lines but those of refused tries: what a refusal must leave as it is."""
    lines = registry.splitlines(keepends=True)
    return b"".join(line for line in lines if json.loads(line).get("kind") != RefusedTry.kind)


def publish_earlier_release(home: Home, members: Iterable[str] = (), **told: Any) -> None:
    """Publish a release of the small policy, of another delivery, that holds these members.

    It is the last good release, which nothing may touch. `told` is what else its manifest says, such as its roll.
    """
    secret = load_secret(home.keys)
    tags = member_tags(members, secret).tobytes()
    attrition = (AttritionStep("released_members", "members", 100),)
    releases = Releases(home, SigningKey.load_or_create(home.keys))
    with duckdb.connect() as connection, releases.stage("small") as staging:
        staging.write_table(connection, "Members", making.CLAIMS)
        making.judge(staging, "Members")
        making.stage_certificate(staging)
        staging.publish(
            lambda place: editions(
                making.manifest(place, attrition=attrition, secret_commitment=secret.commitment(), member_tags=tags, **told),
                making.protect,
            ),
            staging.slot(
                "an-earlier-delivery", making.SECRET.keyed_digest("inputs", str(staging.number)), "2024-01-01T00:00:00Z"
            ),
        )


@contextmanager
def pipeline_in(root: Path, policy: str = "small") -> Iterator[Pipeline]:
    """Open a home, made here if it is new; its instance is kept in it, as that of `deid run`."""
    home = Home(root).create()
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        yield Pipeline(home, instance, policy)


@contextmanager
def copy_of(original: Path, to: Path, policy: str = "small") -> Iterator[Pipeline]:
    """A copy of a home with its history, to do harm in."""
    shutil.copytree(original, to)
    with pipeline_in(to, policy) as pipeline:
        for file in pipeline.home.deliveries.glob("*.json"):
            # A delivery's record holds absolute paths; the copy has its own.
            file.write_text(file.read_text().replace(str(original), str(to)))
        yield pipeline


def change(file: Path, old: bytes, new: bytes) -> None:
    """Replace some bytes of a file once."""
    file.chmod(0o644)
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new, 1))


def folder_of(pipeline: Pipeline) -> Path:
    """The first release of the small policy."""
    return pipeline.home.releases / "small" / "0001"


def verified(pipeline: Pipeline) -> tuple[int, str]:
    """`deid verify` of that release with the home's own key: exit code, and what it printed."""
    root = pipeline.home.root
    deid_here(root, "key", "export", "--output", root.parent / "key.pem")
    exit_code, printed = deid_here(root, "verify", folder_of(pipeline), "--key", root.parent / "key.pem")
    return exit_code, unwrapped(printed)
