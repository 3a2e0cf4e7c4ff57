"""Deliveries and policies whose releases are kept as digests, all under one secret."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deid_assets_tests.frozen_homes.deliveries import numbered, write_claims
from deid_assets_tests.frozen_homes.deliveries import write_people as write_table
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES
from deid_assets_tests.scenarios.test_cohort_release import SAFE_HARBOR, deliver
from deid_assets_tests.scenarios.test_dates import connected_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, WITH_PERSONS, people, write_people

Arguments = list[str | Path]
SYNTHETIC = ["--members", "3000", "--seed", "1"]


@dataclass(frozen=True)
class Case:
    """A run of the command line.

    Attributes
    ----------
    arguments
        Those of `deid run`; is given a folder for what it has to write.
    """

    name: str
    arguments: Callable[[Path], Arguments]


def shipped(policy: str, *arguments: str | Path) -> Callable[[Path], Arguments]:
    """A policy of the product."""
    return lambda folder: ["--policy", policy, *arguments]


def written(values: dict[str, Any], *arguments: str | Path) -> Callable[[Path], Arguments]:
    """A policy of the tests, on a synthetic delivery."""
    return lambda folder: ["--policy", _file(folder, values), *arguments]


def delivered(values: dict[str, Any], write: Callable[[Path], Path]) -> Callable[[Path], Arguments]:
    """A policy of the tests, on a delivery that is written first."""
    return lambda folder: ["--policy", _file(folder, values), "--delivery", write(folder / "delivery")]


def _file(folder: Path, values: dict[str, Any]) -> Path:
    write_policy(folder, values)
    return folder / f"{values['policy']}.yaml"


def adult_values(names: list[str]) -> dict[str, Any]:
    """The policy of Adult's nine columns, with the hierarchies that ARX ships; k = 5, at most 4 % suppressed."""
    return {
        **{key: FLAT[key] for key in ("kind", "title", "description", "owners", "recipients")},
        "policy": "adult",
        "source": {"kind": "flat", "delimiter": ";"},
        "risk": {"k": 5, "max_suppressed": 0.04},
        "quasi_identifiers": [
            {"column": name, "release_as": name.replace("-", "_"), "hierarchy": name.replace("-", "_")} for name in names
        ],
        "hierarchies": {name.replace("-", "_"): {"kind": "csv", "file": f"adult_hierarchy_{name}.csv"} for name in names},
    }


def adult(folder: Path) -> Arguments:
    """Adult, with its hierarchies beside the policy."""
    source = public_data("adult")
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.glob("adult_hierarchy_*.csv"):
        shutil.copyfile(file, folder / file.name)
    values = adult_values((source / "adult.csv").read_text().splitlines()[0].split(";"))
    (folder / "adult.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return ["--policy", folder / "adult.yaml", "--delivery", source / "adult.csv"]


def desynpuf(policy: str) -> Callable[[Path], Arguments]:
    """A shipped policy on a sample of DE-SynPUF."""
    return lambda folder: ["--policy", policy, "--delivery", public_data("desynpuf", "sample-2")]


SMALL_CASES = (
    Case("small", written(SMALL, *SYNTHETIC)),
    Case("connected_dates", written(connected_policy(), *SYNTHETIC)),
    Case("tables", delivered(TABLES, write_claims)),
    Case("flat", delivered(FLAT, write_table)),
    Case("flat_with_persons", delivered(WITH_PERSONS, lambda folder: write_people(folder, numbered(people())))),
    Case("cohort", delivered(SAFE_HARBOR, deliver)),
    Case("adult", adult),
)
"""Each takes a minute or two."""
SHIPPED_CASES = (
    Case("heritage", shipped("heritage")),
    Case("heritage_public", shipped("heritage_public")),
    Case("desynpuf", desynpuf("desynpuf")),
    Case("claims_dates", desynpuf("claims_dates")),
)
"""The shipped policies at their full size: about ten minutes each."""
CASES = {case.name: case for case in (*SMALL_CASES, *SHIPPED_CASES)}
