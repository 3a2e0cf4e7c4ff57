"""The component `deid_assets.DeidRelease`: a release in somebody else's project, stated in YAML."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component

from deid_assets.automation.deliveries import Watched, arrivals_sensor, on_new_delivery
from deid_assets.automation.one_process import one_process_executor
from deid_assets.embedding import EXPOSED, Exposed, Upstream, build_release, copies_of, home_of
from deid_assets.errors import DeidError, PolicyError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import ENDINGS, load_policy, policy_by_name
from deid_assets.policy.models import Policy
from deid_assets.sources.upstream import CsvFiles, DuckDBTable, InMemory, ParquetFiles, Read

_UNITS = ("minutes", "hours", "days", "weeks")
_WRITTEN = re.compile(rf"([1-9][0-9]{{0,5}}) ?({'|'.join(unit.removesuffix('s') for unit in _UNITS)})s?\Z")


def duration(text: str) -> timedelta:
    """Return the duration that a text states.

    Raises
    ------
    PolicyError
        If it states none.

    Examples
    --------
    >>> duration("35 days")
    datetime.timedelta(days=35)
    """
    found = _WRITTEN.match(text.strip())
    if found is None:
        raise PolicyError(f"a duration is a whole number and a unit, such as '35 days'; units are {', '.join(_UNITS)}")
    return timedelta(**{f"{found[2]}s": int(found[1])})


ON_NEW_DELIVERY = "on_new_delivery"
_NAME = re.compile(r"[A-Za-z0-9_]+")
"""What Dagster allows in names."""

_Word = TypeVar("_Word", bound=str)
Executor = Literal["one_process", "project"]
EXECUTORS: tuple[Executor, ...] = get_args(Executor)


def _policy(context: dg.ResolutionContext, text: str) -> Policy:
    """A policy by its file, relative to that of the component, or by the name of one that ships."""
    is_file = Path(text).suffix in ENDINGS
    found = load_policy(context.resolve_source_relative_path(text)) if is_file else policy_by_name(text)
    if not found.has_events:
        raise PolicyError(f"policy {found.name}: a release here takes policies of members and claims")
    return found


def _one_of(name: str, allowed: tuple[_Word, ...], text: str) -> _Word:
    """A text that is one of a few words."""
    for one in allowed:
        if one == text:
            return one
    raise PolicyError(f"{name} is {' or '.join(allowed)}, not {text!r}")


def _automated(context: dg.ResolutionContext, text: str | None) -> dg.AutomationCondition[Any] | None:
    """The condition of every asset of the release."""
    if text is None:
        return None
    if text != ON_NEW_DELIVERY:
        raise PolicyError(f"automation is {ON_NEW_DELIVERY}, or left out, not {text!r}")
    return on_new_delivery()


class TableModel(dg.Model):
    """An upstream asset, and where its table is: one of `duckdb` with `table`, `parquet` and `csv`; or in memory.

    `partitions` says which partitions of the asset belong to a delivery, if not the one of the same key: `all` or a list.
    """

    asset: str
    duckdb: str | None = None
    table: str | None = None
    parquet: str | None = None
    csv: str | None = None
    partitions: Any = None  # for a union of types, the message about a mistake would name no line


def _upstream(context: dg.ResolutionContext, stated: TableModel | None) -> Upstream | None:
    if stated is None:
        return None
    places = {name: getattr(stated, name) for name in ("duckdb", "parquet", "csv") if getattr(stated, name) is not None}
    if len(places) > 1:
        raise PolicyError(f"a table is in one place, not in {' and '.join(places)}")
    if (stated.duckdb is None) != (stated.table is None):
        raise PolicyError("duckdb and table go together: the file, and the name of its table")
    read: Read = InMemory()
    if stated.duckdb is not None and stated.table is not None:
        read = DuckDBTable(context.resolve_value(stated.duckdb, as_type=str), stated.table)
    elif stated.parquet is not None:
        read = ParquetFiles(context.resolve_value(stated.parquet, as_type=str))
    elif stated.csv is not None:
        read = CsvFiles(context.resolve_value(stated.csv, as_type=str))
    asset = dg.AssetKey.from_user_string(context.resolve_value(stated.asset, as_type=str))
    if not all(asset.path):
        raise PolicyError("asset is empty, or a part of its key is: name the asset as in the catalog, such as warehouse/claims")
    return Upstream(asset, read, _partition_mapping(stated.partitions))


def _partition_mapping(partitions: object) -> dg.PartitionMapping | None:
    """Which partitions of an upstream belong to a delivery; None: that of the same key."""
    if partitions is None:
        return None
    if partitions == "all":
        return dg.AllPartitionMapping()
    keys = partitions if isinstance(partitions, list) else []
    if not keys or not all(isinstance(key, str) for key in keys):
        raise PolicyError("partitions: name at least one of the asset's partitions, as ['2024-01-01'], or say all")
    return dg.SpecificPartitionsPartitionMapping(keys)


@dataclass
class DeliveryTables(dg.Resolvable):
    """The upstream assets of a delivery."""

    members: Annotated[
        Upstream, dg.Resolver(_upstream, model_field_type=TableModel, description="the asset with one row for each member")
    ]
    claims: Annotated[
        Upstream | None, dg.Resolver(_upstream, model_field_type=TableModel | None, description="the asset with the claims")
    ] = None


@dataclass
class Partitions(dg.Resolvable):
    """The partitions of the release; each is a delivery."""

    dynamic: Annotated[str | None, dg.Resolver.default(description="name of dynamic partitions")] = None


@dataclass
class ArrivalsFolder(dg.Resolvable):
    """A folder in which each complete delivery is registered as a partition."""

    folder: Annotated[str, dg.Resolver.default(description="contains a folder for each delivery")]
    complete_when: Annotated[str, dg.Resolver.default(description="name of the file that is written last")]


def _duration(context: dg.ResolutionContext, text: str) -> timedelta:
    return duration(text)


@dataclass
class Freshness(dg.Resolvable):
    """How old the newest release may be."""

    fail_window: Annotated[timedelta, dg.Resolver(_duration, model_field_type=str, description="such as 35 days")]


@dataclass
class ReleaseOptions(dg.Resolvable):
    """When releases are made, and how old they may be."""

    automation: Annotated[
        dg.AutomationCondition[Any] | None,
        dg.Resolver(_automated, model_field_type=str | None, description="on_new_delivery: when upstream assets are made"),
    ] = None
    freshness: Freshness | None = None

    @property
    def freshness_policy(self) -> dg.FreshnessPolicy | None:
        """The policy of the published release."""
        return None if self.freshness is None else dg.FreshnessPolicy.time_window(fail_window=self.freshness.fail_window)


@contextmanager
def _at(context: dg.ComponentLoadContext, attributes: Any, field_name: str) -> Iterator[None]:
    """Give a mistake the line of a field."""
    try:
        yield
    except DeidError as error:
        place = context.resolution_context.at_path("attributes").at_path(field_name)
        raise place.build_resolve_fn_exc([str(error)], field_name, attributes) from None


def _require(holds: object, text: str) -> None:
    if not holds:
        raise PolicyError(text)


class ReleaseScaffolder(dg.Scaffolder[Any]):
    """Writes a `defs.yaml` to be completed."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write it."""
        attributes: Mapping[str, object] = {
            "policy": "policies/our_claims.yaml",
            "delivery": {
                "members": {"asset": "warehouse/members", "parquet": "warehouse/{partition}/members.parquet"},
                "claims": {"asset": "warehouse/claims", "parquet": "warehouse/{partition}/claims.parquet"},
            },
        }
        scaffold_component(request, attributes)


@dg.scaffold_with(ReleaseScaffolder)
@dataclass
class DeidRelease(dg.Component, dg.Resolvable):
    """A gated release of de-identified health claims, whose deliveries are assets of this project."""

    policy: Annotated[
        Any,  # a `Policy`, whose own fields Dagster would try to resolve
        dg.Resolver(_policy, model_field_type=str, description="YAML file, relative to this one"),
    ]
    delivery: DeliveryTables
    partitions: Partitions = field(default_factory=Partitions)
    sensor: ArrivalsFolder | None = None
    release: ReleaseOptions = field(default_factory=ReleaseOptions)
    home: Annotated[str | None, dg.Resolver.default(description="folder of store, keys and releases; default: DEID_HOME")] = (
        None
    )
    key_prefix: tuple[str, ...] = ()
    resource_key: Annotated[str | None, dg.Resolver.default(description="default: deid_ and the policy's name")] = None

    expose: Annotated[
        Exposed,
        dg.Resolver(
            lambda _, text: _one_of("expose", EXPOSED, text),
            model_field_type=str,
            description="all: every asset of the pipeline; release: the release and its published tables",
        ),
    ] = "all"

    executor: Annotated[
        Executor,
        dg.Resolver(
            lambda _, text: _one_of("executor", EXECUTORS, text),
            model_field_type=str,
            description="one_process: a run with tables of the release is one process; project: nothing is set here",
        ),
    ] = "one_process"

    @classmethod
    def load(cls, attributes: Any, context: dg.ComponentLoadContext) -> Self:
        """The component as stated; mistakes of several fields together are raised with the line of one of them, too."""
        made = super().load(attributes, context)
        with _at(context, attributes, "delivery"):
            copies_of(made.policy, made.delivery.members, made.delivery.claims)
        with _at(context, attributes, "home"):
            home = home_of(made.home)
        with _at(context, attributes, "partitions"):
            _require(made.partitions.dynamic != "", "dynamic is empty: name the partitions, or leave it out")
        with _at(context, attributes, "key_prefix"):
            parts = " ".join(made.key_prefix)
            _require(all(map(_NAME.fullmatch, made.key_prefix)), f"key_prefix has letters, digits and '_' only: {parts!r}")
        with _at(context, attributes, "resource_key"):
            key = made.resource_key
            _require(key is None or _NAME.fullmatch(key), f"resource_key has letters, digits and '_' only: {key!r}")
        with _at(context, attributes, "sensor"):
            if made.sensor is not None:
                marker, folder = made.sensor.complete_when, made.sensor.folder
                _require(marker == Path(marker).name != "", f"complete_when is the name of a file, not {marker!r}")
                _require(folder, "folder is empty: name the folder in which deliveries arrive")
                _require(
                    not home.overlaps(Path(folder)),
                    f"the folder {folder} belongs to the home {home.root} or contains it, where no delivery arrives",
                )
        return made

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of `build_release`, and the sensor."""
        named = self.partitions.dynamic
        partitions = deliveries_of(self.policy.name) if named is None else dg.DynamicPartitionsDefinition(name=named)
        made = build_release(
            self.policy,
            members=self.delivery.members,
            claims=self.delivery.claims,
            partitions_def=partitions,
            home=self.home,
            key_prefix=self.key_prefix,
            resource_key=self.resource_key or f"deid_{self.policy.name}",
            expose=self.expose,
            automation_condition=self.release.automation,
            freshness_policy=self.release.freshness_policy,
        )
        if self.expose == "all" and self.executor == "one_process":
            made = dg.Definitions.merge(made, dg.Definitions(executor=one_process_executor))
        if self.sensor is None:
            return made
        watched = Watched(Path(self.sensor.folder), self.sensor.complete_when)
        sensor = arrivals_sensor(f"{self.policy.name}_deliveries", watched, partitions)
        return dg.Definitions.merge(made, dg.Definitions(sensors=[sensor]))
