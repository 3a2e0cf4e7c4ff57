"""Broken deliveries through `deid run`: an error that says what is wrong and where, never a value, and nothing published.

Each case breaks a good delivery of one kind of source. Most are refused, with exit code 1. Some are taken in, with so many
rows in quarantine. Runs end after the intake.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
import sqlalchemy
from click.testing import CliRunner

from deid_assets.command_line.main import main
from deid_assets.errors import ERROR
from deid_assets.policy import loading
from deid_assets.store.home import Home
from deid_assets_tests.matrices.deliveries import KINDS, NUMBER, VALUE
from deid_assets_tests.matrices.table import Matrix, Outcome
from deid_assets_tests.scenarios.pipeline import publish_earlier_release
from deid_assets_tests.scenarios.policies import write_policy

_INTAKE = ("members", "claims", "quarantined_rows", "delivered_codes", "records", "quarantined_records")
_QUARANTINE = {"flat": "intake.quarantined_records"}
_UNFORESEEN = ("Traceback", "its details, which may quote values", "Error:")
# Where values may be: the restricted store with its errors, the keys, and the records of deliveries.
_RESTRICTED = ("store", "keys", "deliveries")


@dataclass(frozen=True)
class Case:
    """A broken delivery.

    Attributes
    ----------
    name
        What is wrong with it.
    kind
        Of the source, one of `KINDS`.
    breaks
        Breaks a good delivery in a folder. What it returns, if anything, is given to `deid run` in place of the folder.
    says
        What the message must say; nothing where the delivery is taken in.
    quarantined
        Rows in quarantine after it was taken in.
    """

    name: str
    kind: str
    breaks: Callable[[Path], Path | list[Path] | None]
    says: tuple[str, ...] = ()
    quarantined: int = 0

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.name}"

    @property
    def expected(self) -> str:
        return f"refused: {', '.join(self.says)}" if self.says else f"taken in, {self.quarantined} in quarantine"


@dataclass(frozen=True)
class Ground:
    """A home with an earlier release, and the folder of all deliveries."""

    home: Home
    folder: Path

    @classmethod
    def prepared(cls, folder: Path) -> "Ground":
        home = Home(folder / "home").create()
        publish_earlier_release(home)
        return cls(home, folder)

    def published(self) -> dict[str, bytes]:
        """Every published file with its content; the lock beside them is none."""
        files = (path for path in sorted(self.home.releases.rglob("*")) if path.is_file() and path.name != ".lock")
        return {str(path): path.read_bytes() for path in files}

    def tried(self, case: Case) -> Outcome:
        """Break a delivery, run, and say what came of it."""
        key = re.sub(r"[^a-z0-9]+", "-", case.title.lower()).strip("-")
        delivery = self.folder / "deliveries" / key
        delivery.mkdir(parents=True)
        KINDS[case.kind].write(delivery)
        given = case.breaks(delivery) or delivery
        arguments = ["run", "--policy", KINDS[case.kind].policy["policy"], "--key", key]
        for path in given if isinstance(given, list) else [given]:
            arguments += ["--delivery", str(path)]
        before = self.published()
        self._only_policy(KINDS[case.kind].policy)
        with _intake_only(self.home, KINDS[case.kind].policy["policy"]):
            result = CliRunner().invoke(main, arguments)
        printed = " ".join(result.output.split())
        seen = self._seen(case, key, printed)
        faults = [
            *(f"shows {text!r}" for text in (VALUE, NUMBER, *_UNFORESEEN) if text in printed),
            *([] if result.exit_code == ERROR else [f"exit code {result.exit_code}"]),
            *([] if self.published() == before else ["something was published"]),
            *(f"does not say {text!r}" for text in case.says if text not in printed),
        ]
        right = not faults and (bool(case.says) or seen == case.expected)
        return Outcome(case.title, case.expected, "; ".join([seen, *faults]), right)

    def _only_policy(self, values: dict[str, Any]) -> None:
        """Leave one policy in the home: what is to be loaded before a run is made of each."""
        if not (self.home.policies / f"{values['policy']}.yaml").exists():
            for other in self.home.policies.glob("*.yaml"):
                other.unlink()
            write_policy(self.home.policies, values)

    def _seen(self, case: Case, key: str, printed: str) -> str:
        if " error " not in printed and not printed.startswith("error: "):
            file = self.home.store / KINDS[case.kind].policy["policy"] / f"{key}.duckdb"
            table = _QUARANTINE.get(case.kind, "intake.quarantined_rows")
            with duckdb.connect(str(file), read_only=True) as connection:
                rows = connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            return f"taken in, {rows} in quarantine"
        message = printed.partition("error ")[2] or printed.partition("error: ")[2] or printed
        return f"refused: {message.partition(' Nothing was published')[0][:300]}"

    def leaked(self) -> list[str]:
        """Files of the home outside the restricted folders that hold a planted value."""
        found = []
        for path in self.home.root.rglob("*"):
            inside = path.relative_to(self.home.root)
            if inside.parts[0] in _RESTRICTED or not path.is_file():
                continue
            content = path.read_bytes()
            if VALUE.encode() in content or NUMBER.encode() in content:
                found.append(str(inside))
        return found

    def remains(self) -> list[str]:
        """What is left of the copies of deliveries."""
        return [path.name for path in self.home.store.glob("*/unpacked-*")]


@contextmanager
def _intake_only(home: Home, policy: str) -> Iterator[None]:
    """Let `deid run` run in this home and end after the intake; its event log is written without waiting for the disk."""
    create = dg.DagsterInstance.create_run_for_job

    def create_run_of_intake(instance, **arguments):
        keys = arguments["job_def"].asset_layer.executable_asset_keys
        chosen = frozenset(key for key in keys if key.path[0] == policy and key.path[-1] in _INTAKE)
        return create(instance, **arguments | {"asset_selection": chosen})

    def without_waiting(connection, record) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_HOME", str(home.root))
        patch.setenv("COLUMNS", "400")
        patch.setattr(loading, "shipped_policies", list)
        patch.setattr(dg.DagsterInstance, "create_run_for_job", create_run_of_intake)
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", without_waiting)
        try:
            yield
        finally:
            sqlalchemy.event.remove(sqlalchemy.Engine, "connect", without_waiting)


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Try every case in one home; at last, look for planted values and for copies that were left."""
    from deid_assets_tests.matrices.malformed_cases import CASES

    ground = Ground.prepared(folder)
    for case in CASES:
        yield ground.tried(case)
    for title, found in (
        ("no planted value outside the restricted store", ground.leaked()),
        ("no copy of a delivery is left", ground.remains()),
    ):
        yield Outcome(title, "nothing", ", ".join(found) or "nothing", not found)


INPUTS = Matrix("inputs", "Broken deliveries through deid run", 130, outcomes)
