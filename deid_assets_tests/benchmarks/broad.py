"""What a policy of eight columns of members and twelve of claims and fills costs per row of events, beside the default policy.

python -m deid_assets_tests.benchmarks broad [--members 200000] [--release 20000] [--rounds 1]

Both deliveries are made first, of the same people; each run has a new home. The policy is `claims_and_fills` with eight columns
more; every dimension ends with a level that tells nothing.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import yaml

from deid_assets.policy.loading import SHIPPED
from deid_assets.sources.synthetic.delivery import CLAIMS_FILE, FILLS_FILE, Contents, write_delivery
from deid_assets_tests.benchmarks.profile import measured
from deid_assets_tests.benchmarks.timing import head, machine, row
from deid_assets_tests.scenarios.wide import COLUMNS, HIERARCHIES

STEPS = 12
"""Steps that have a line of their own."""
CONTENTS = Contents(fills=True, icd10cm=True, further=True, spans=True, amounts=True)
_OF_WIDE = {"members": ("race", "zip3", "plan"), "claims": ("paid", "discharge", "network")}


def broad() -> dict[str, Any]:
    """The policy: 8 quasi-identifiers of members, 9 of claims, 3 of fills; each but sex may be released as `any`."""
    values = yaml.safe_load((SHIPPED / "claims-and-fills.yaml").read_text())
    values |= {"policy": "broad", "title": "Eight columns of members and twelve of claims and fills", "detail_at_least": {}}
    values["source"] |= {"members": {"unit": "span"}, "amounts": True}

    def declare(table: str, name: str, column: dict[str, Any], hierarchy: str) -> None:
        released = {
            "role": "quasi_identifier",
            "hierarchy": hierarchy,
            "release_as": f"{table}_{name}".title().replace("_", ""),
        }
        values["columns"][table][name] = column | released
        values["dimensions"].append({"name": name, "columns": [name]})

    for table, names in _OF_WIDE.items():
        for name in names:
            values["hierarchies"][name] = HIERARCHIES[name]
            declare(table, name, COLUMNS[table][name], name)
    values["hierarchies"]["months"] = {
        "kind": "intervals", "from": 0, "to": 12,
        "levels": [{"name": "all or fewer", "starts": [0, 12]}, {"name": "any", "starts": [0]}],
    }  # fmt: skip
    declare("members", "months", {"kind": "months_enrolled", "year": 2, "meaning": "months enrolled in year 2"}, "months")
    declare("fills", "price", COLUMNS["claims"]["paid"] | {"meaning": "dollars paid for the fill"}, "paid")
    values["number_of_claims"]["reference"] |= {**dict.fromkeys(("race", "plan", "months"), "any"), "zip3": "0 characters"}
    for name in ("age", "length_of_stay", "days_since_first_claim", "days_in_hospital"):
        blanks = {"missing_joins": 0} if name in ("age", "days_in_hospital") else {}
        values["hierarchies"][name]["levels"].append({"name": "any", "starts": [0], "labels": ["any"], **blanks})
    for hierarchy in (values["hierarchies"][name] for name in ("condition_group", "drug")):
        hierarchy["level_names"].append("any")
        hierarchy["values"] = {code: [*labels, "any"] for code, labels in hierarchy["values"].items()}
    return values


def main(listed: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.benchmarks broad", description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=200_000, help="members of each delivery")
    parser.add_argument("--release", type=int, default=20_000, help="of them, how many to release")
    parser.add_argument("--rounds", type=int, default=1, help="each policy runs so often, in turns")
    asked = parser.parse_args(listed)
    where = machine()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = folder / "broad.yaml"
        file.write_text(json.dumps(broad()))  # YAML, which repeats what is used twice
        (folder / "claims-and-fills-drugs.csv").write_bytes((SHIPPED / "claims-and-fills-drugs.csv").read_bytes())
        asked_of = {"heritage_public": ("heritage_public", Contents()), "broad": (str(file), CONTENTS)}
        rows, found = {}, {name: [] for name in asked_of}
        for name, (_, contents) in asked_of.items():
            write_delivery(folder / name, asked.members, 1, contents)
            files = [one for one in (CLAIMS_FILE, FILLS_FILE) if (folder / name / one).exists()]
            rows[name] = sum(len(duckdb.read_parquet(str(folder / name / one))) for one in files)
        for _ in range(asked.rounds):
            for name, (policy, _) in asked_of.items():
                options = ["--policy", policy, "--delivery", str(folder / name), "--release", str(asked.release)]
                found[name].append(measured(options, {}))
    least = {name: min(rounds, key=lambda costs: costs.whole.cpu) for name, rounds in found.items()}
    costs = {name: one.whole for name, one in least.items()}
    each = {name: cost.cpu / rows[name] for name, cost in costs.items()}
    print(f"{where}\n\nThe least of {asked.rounds} rounds, {asked.members:,} members, {asked.release:,} to release:\n")
    head("policy", "rows of events", "CPU, s", "CPU per million rows, s", "peak memory, GB", "ratio per row")
    for name, cost in costs.items():
        ratio = f"{each[name] / each['heritage_public']:.2f}"
        row(name, f"{rows[name]:,}", f"{cost.cpu:.0f}", f"{1e6 * each[name]:.1f}", f"{cost.peak:.2f}", ratio)
    print("\nThe steps that cost most:\n")
    head("step", *(f"{name}, CPU s" for name in least))
    steps = {name: {step.name: step.cpu for step in one.steps} for name, one in least.items()}
    for step in sorted(steps["broad"], key=steps["broad"].get, reverse=True)[:STEPS]:
        row(step, *(f"{cpu.get(step, 0.0):.1f}" for cpu in steps.values()))
