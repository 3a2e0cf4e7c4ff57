"""De-identification of longitudinal health claims as gated Dagster assets.

`build_release` and the component `DeidRelease` put a release into another Dagster project. They are loaded when they are
first used: `deid_assets.methods` works without Dagster.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "DeidRelease": "deid_assets.components.release",
    "Upstream": "deid_assets.embedding",
    "build_release": "deid_assets.embedding",
    "on_new_delivery": "deid_assets.automation.deliveries",
    "UnpublishedRun": "deid_assets.automation.ended_runs",
    "one_process_executor": "deid_assets.automation.one_process",
    "refusal_sensor": "deid_assets.automation.ended_runs",
    "CsvFiles": "deid_assets.sources.upstream",
    "DuckDBTable": "deid_assets.sources.upstream",
    "InMemory": "deid_assets.sources.upstream",
    "ParquetFiles": "deid_assets.sources.upstream",
}
"""The public names for other projects, and the modules that define them."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("deid_assets.version").version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # Dagster finds components by the names that this returns.
    return sorted([*globals(), *_HOMES])
