"""Compare what today's code makes with the golden files, or write them.

python -m deid_assets_tests.golden [--write] [CASE ...]

Without cases, all of them: some take a minute, and the shipped policies at their full size ten minutes each.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import pytest

from deid_assets_tests.golden.cases import CASES
from deid_assets_tests.golden.digests import FOLDER, made, store, stored


def differing(found: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Name what differs, such as `files/Claims.csv`, or the evidence of an asset."""
    names = []
    for part in sorted(found | kept):
        both = found.get(part), kept.get(part)
        if both[0] != both[1]:
            inside = differing(*both) if all(isinstance(one, dict) for one in both) else []
            names += [f"{part}/{name}" for name in inside] or [part]
    return names


def main() -> None:
    """Compare or write; exit code 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[*CASES, []], default=[])
    parser.add_argument("--write", action="store_true", help="write the golden files instead")
    asked = parser.parse_args()
    differ = []
    for name in asked.cases or CASES:
        if not asked.write and not (FOLDER / f"{name}.json").exists():
            print(f"{name}: has no golden file; --write makes it", flush=True)
            differ.append(name)
            continue
        try:
            found = made(CASES[name])
        except pytest.skip.Exception as why:
            print(f"{name}: left out: {why}", flush=True)
            continue
        if asked.write:
            store(name, found)
            print(f"{name}: written", flush=True)
            continue
        parts = differing(found, stored(name))
        print(f"{name}: {'differs in ' + ', '.join(parts) if parts else 'as before'}", flush=True)
        differ += parts
    raise SystemExit(1 if differ else 0)


if __name__ == "__main__":
    main()
