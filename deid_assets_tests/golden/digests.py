"""What a run came to, as digests: of each released file, of the noisy counts, the certificate, the evidence and the memory."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from deid_assets.store.home import Home
from deid_assets_tests.golden.cases import Case
from deid_assets_tests.loaded import ran_loaded

SECRET = "a secret of the golden files, made for tests alone"
KEY = "golden"
FOLDER = Path(__file__).parent

_MEMORY = (".members", ".roll", ".rows.parquet", ".certificate.json")
"""What the restricted edition remembers of a release, to compare the next one with it."""
_COMPARED = (
    "name",
    "value",
    "bound",
    "statistic",
    "comparison",
    "threshold",
    "passed",
    "gating",
    "sample_size",
    "seed_commitment",
)


def stored(case: str) -> dict[str, Any]:
    """The digests of a case as they are kept."""
    return json.loads((FOLDER / f"{case}.json").read_text())


def store(case: str, found: dict[str, Any]) -> None:
    """Keep the digests of a case."""
    (FOLDER / f"{case}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def made(case: Case) -> dict[str, Any]:
    """Run a case in a new home and return its digests."""
    with tempfile.TemporaryDirectory() as place:
        home = Home(Path(place) / "deid")
        code, printed = _deid(home, "run", *case.arguments(Path(place) / "given"), "--key", KEY, "--json")
        outcome = json.loads(printed)
        if outcome["release"] is None:
            return {"exit_code": code, "reasons": outcome["reasons"], "failed_checks": outcome["failed_checks"]}
        return {"exit_code": code, **_digests(home, Path(outcome["release"]))}


def _digests(home: Home, release: Path) -> dict[str, Any]:
    name = f"{release.parent.name}/{release.name}"
    beside = home.store / "manifests" / name
    public, restricted = (json.loads(file.read_text()) for file in (release / "manifest.json", beside.with_suffix(".json")))
    files = sorted(path for path in (release / "data").iterdir())
    (home.root / "key.pem").write_text(_deid(home, "key", "export")[1])
    verified = _deid(home, "verify", release, "--key", home.root / "key.pem")
    audited = _deid(home, "audit", name)
    return {
        "files": {path.name: _of_bytes(path.read_bytes()) for path in files},
        "certificate": _of_bytes((release / "certificate.json").read_bytes()),
        "counts": _of(public["counts"]),
        "attrition": _of(public["attrition"]),
        "public_evidence": _evidence(public),
        "restricted_evidence": _evidence(restricted),
        "memory": {
            suffix: (_of_rows if suffix.endswith(".parquet") else _of_file)(Path(f"{beside}{suffix}"))
            for suffix in _MEMORY
            if Path(f"{beside}{suffix}").exists()
        },
        "verify": _lines(home, *verified),
        "audit": _lines(home, *audited),
    }


def _evidence(manifest: dict[str, Any]) -> dict[str, str]:
    """A digest of the numbers of each asset, to nine digits: threads add up in any order."""
    return {
        item["asset"]: _of([{key: _rounded(one.get(key)) for key in _COMPARED} for one in item["measurements"]])
        for item in manifest["evidence"]
    }


def _rounded(value: object) -> object:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _lines(home: Home, code: int, printed: str) -> list[str]:
    """The exit code, and what a command said of everything it looked at."""
    said = printed.replace(str(home.root), "HOME").splitlines()
    return [f"exit code {code}", *(line for line in said if line.startswith(("passed", "failed", "skipped")))]


def _of(value: object) -> str:
    return _of_bytes(json.dumps(value, sort_keys=True).encode())


def _of_rows(file: Path) -> str:
    """A digest of rows, in whatever order and pages they are written: later releases are compared with the rows."""
    if not file.stat().st_size:  # of a flat table none are kept
        return _of_file(file)
    with duckdb.connect() as connection:
        told = "SELECT count(*), sum(md5_number_lower(t::VARCHAR)) FROM read_parquet(?) AS t"
        return _of(connection.execute(told, [str(file)]).fetchall())


def _of_file(file: Path) -> str:
    return _of_bytes(file.read_bytes())


def _of_bytes(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _deid(home: Home, *arguments: object) -> tuple[int, str]:
    """Run the command line in a home of its own; its exit code and output. Errors of the program are shown and end this."""
    environment = {**os.environ, "DEID_HOME": str(home.root), "DEID_SECRET": SECRET}
    code, printed, told = ran_loaded(environment, "deid_assets", *map(str, arguments))
    if code not in (0, 2):
        raise SystemExit(f"{told}\n{printed}")
    return code, printed
