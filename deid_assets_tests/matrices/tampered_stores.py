"""Tamperings of what lies behind a release: the store's tables, evidence, the event log, policies, keys, restricted editions.

The gate, or the next start, must find each.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import yaml

from deid_assets.assessments.evidence import Refusal, from_frame, to_frame
from deid_assets.assets.publishing import common_refusals, read_evidence, releases_of
from deid_assets.errors import DeidError
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.loading import policy_called
from deid_assets.release.gate import judgement
from deid_assets.release.keyring import secret_of, signing_key_of
from deid_assets.release.keys import SigningKey
from deid_assets.resources import Workplace
from deid_assets.stages import RELEASE, STAGE_OF
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, held_open, require_plain_tables, write_table
from deid_assets_tests.matrices.tampered_files import ODD, flipped, write
from deid_assets_tests.scenarios.pipeline import Pipeline
from deid_assets_tests.stages import STAGES
from deid_assets_tests.steps import step_of

KEY = "synthetic-3000-1"
Harm = Callable[[Pipeline], None]


@dataclass(frozen=True)
class Case:
    """One harm to a home, and who must find it.

    Attributes
    ----------
    name
        Unique.
    harm
        Does it.
    find
        Looks for it; returns what was found, nothing if it was not.
    """

    name: str
    harm: Harm
    find: Callable[[Pipeline], list[str]]


# Who looks


def by_the_gate(pipeline: Pipeline) -> list[str]:
    """What `release` asks of store and event log before anything else, as it asks it."""
    workplace, file = Workplace(root=str(pipeline.home.root)), pipeline.store_file(KEY)
    try:
        policy = policy_called(pipeline.policy, pipeline.home.policies)
        with held_open(file):
            return [refusal.text for refusal in _refusals(pipeline, policy, workplace, file)]
    except DeidError as error:
        return [str(error)]


def _refusals(pipeline: Pipeline, policy: ReleasePolicy, workplace: Workplace, file: Path) -> list[Refusal]:
    require_plain_tables(file)
    assessments = tuple(pipeline.table(KEY, name) for name in pipeline.every_asset if name in STAGES["assessment"])
    evidence, found = read_evidence(assessments)
    rows = {name: pipeline.table(KEY, name) for name in ("release_members", "release_claims", "release_days_in_hospital")}
    digest = tables_digest(rows) if all(rows_are_there(table) for table in rows.values()) else ""
    found += judgement.evidence_refusals(policy, KEY, evidence, digest, 1)
    own, run = {dg.AssetKey([policy.name, RELEASE])}, SimpleNamespace(run_id="a run that looks")
    step = step_of(policy, workplace, KEY, instance=pipeline.instance, run=run, selected_asset_keys=own)
    return found + common_refusals(step, evidence)


def rows_are_there(table: Table) -> bool:
    return bool(
        table.query("SELECT 1 FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [table.schema, table.name]).size
    )


def by_a_run(pipeline: Pipeline) -> list[str]:
    """What comes of materializing `release`."""
    summary = pipeline.run(KEY, ["release"])
    return [] if summary.release is not None else [*summary.reasons, *summary.failed_checks]


def by_the_next_start(pipeline: Pipeline) -> list[str]:
    """What every run asks first: keys, registry, folders of releases, and whom earlier releases hold."""
    workplace = Workplace(root=str(pipeline.home.root))
    try:
        found = list(releases_of(workplace).recover().problems)
        workplace.releases_made()
    except DeidError as error:
        return [str(error)]
    return found


# Tables


def table_cases(pipeline: Pipeline, names: tuple[str, ...]) -> Iterator[Case]:
    """Every table of the store, in one way or the other."""
    for position, name in enumerate(names):
        table = f"{STAGE_OF[name]}.{name}"
        harms = {
            "one row removed": (f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})",),
            "one row twice": (f"INSERT INTO {table} FROM {table} LIMIT 1",),
            "removed": (f"DROP TABLE {table}",),
            "a column more": (f"ALTER TABLE {table} ADD COLUMN more INTEGER",),
            "a view in its place": (
                f"CREATE TABLE main.hidden AS FROM {table}", f"DROP TABLE {table}", f"CREATE VIEW {table} AS FROM main.hidden",
            ),
        }  # fmt: skip
        # One for each table, in turn: the gate looks at all tables alike. An empty table has no rows that could be harmed.
        possible = [what for what in harms if pipeline.table(KEY, name).count() or "row" not in what]
        what = possible[position % len(possible)]
        yield Case(f"table {name}: {what}", _edit(*harms[what]), by_the_gate)


def _edit(*statements: str) -> Harm:
    return lambda pipeline: pipeline.edit_store(KEY, *statements)


def run_cases() -> Iterator[Case]:
    """Some of them by a whole `release`, which must be refused and publish nothing."""
    for name in ("suppressed_members", "pseudonym_crosswalk", "release_claims", "neighbor_attack"):
        yield Case(f"table {name} emptied, then released", _edit(f"DELETE FROM {STAGE_OF[name]}.{name}"), by_a_run)
    yield Case("a macro in place of a function, then released", _edit("CREATE MACRO main.min(x) AS 100"), by_a_run)


# Evidence


def evidence_cases(pipeline: Pipeline, names: list[str]) -> Iterator[Case]:
    """Stored evidence, edited so that it does not contradict itself and still passes."""
    bound = {
        "of another delivery": lambda item: [replace(item, partition="another")],
        "of another policy": lambda item: [replace(item, policy_hash="0" * 64)],
        "of other rows": lambda item: [replace(item, rows_digest="0" * 64)],
        "of another version of its method": lambda item: [replace(item, method_version="0")],
        "twice": lambda item: [item, item],
        "none": lambda item: [],
    }
    numbers = {
        "a laxer threshold": lambda m: {"threshold": (m.threshold or 0) + (0.5 if m.comparison == "at_most" else -0.5)},
        "information only": lambda m: {"gating": False},
        "a larger sample": lambda m: {"sample_size": (m.sample_size or 0) + 1},
    }
    turn = 0
    for position, name in enumerate(names):
        for what in (list(bound)[(position + step) % len(bound)] for step in (0, 3)):
            yield Case(f"evidence {name}: {what}", _rewritten(name, bound[what]), by_the_gate)
        (item,) = from_frame(pipeline.table(KEY, name).frame())
        for measured in (measured.name for measured in item.measurements if measured.gating):
            what = list(numbers)[turn % len(numbers)]
            turn += 1
            yield Case(f"evidence {name}/{measured}: {what}", _measured(name, measured, numbers[what]), by_the_gate)


def _rewritten(name: str, change: Callable) -> Harm:
    def harm(pipeline: Pipeline) -> None:
        table = pipeline.table(KEY, name)
        (item,) = from_frame(table.frame())
        write_table(table, to_frame(change(item)))

    return harm


def _measured(name: str, measured: str, changes: Callable) -> Harm:
    def edited(item):
        found = tuple(replace(m, **changes(m)) if m.name == measured else m for m in item.measurements)
        return [replace(item, measurements=found)]

    return _rewritten(name, edited)


# Event log


def event_log_cases(names: tuple[str, ...]) -> Iterator[Case]:
    """What Dagster knows of an asset forgotten, or told again by somebody."""
    for position, name in enumerate(names):
        if position % 2:
            yield Case(f"event log: {name} forgotten", _forgotten(name), by_the_gate)
        else:
            yield Case(f"event log: {name} told anew without its fingerprint", _told(name), by_the_gate)


def _forgotten(name: str) -> Harm:
    return lambda pipeline: pipeline.instance.wipe_assets([dg.AssetKey([pipeline.policy, name])])


def _told(name: str) -> Harm:
    """A materialization of which no run and no asset says what it wrote."""
    return lambda pipeline: pipeline.instance.report_runless_asset_event(
        dg.AssetMaterialization(dg.AssetKey([pipeline.policy, name]), partition=KEY)
    )


# Policies and deliveries


POLICY_EDITS: dict[str, tuple[tuple[str, ...], object]] = {
    "a laxer share": (("risk", "max_high_risk_share"), 0.02),
    "a laxer threshold": (("risk", "threshold"), 0.06),
    "fewer draws at the gate": (("risk", "gate", "draws"), 90_000),
    "more suppression": (("risk", "suppression", "at_most"), 0.11),
    "a larger sample": (("sample", "members"), 700),
    "a weaker adversary": (("adversary", "power"), 2),
    "a laxer attack": (("neighbor_attack", "given_membership", "at_most"), 0.13),
    "fewer trials": (("neighbor_attack", "trials"), 2_900),
    "absence tells more": (("removal", "absence_posterior_at_most"), 0.31),
    "rare diseases stay": (("removal", "rare_visible_diseases"), False),
    "newborns stay": (("removal", "newborn_days"), 27),
    "a higher percentile": (("top_coding", "percentile"), 99.5),
    "other recipients": (("recipients", "recipient_class"), "anybody"),
    "other terms": (("recipients", "terms_of_use"), "None."),
    "somebody opted out": (("opt_outs",), {"members": ["S000001"]}),
}


def policy_cases(name: str) -> Iterator[Case]:
    """The copy of the policy in the home, changed after the assessments."""
    for what, (path, value) in POLICY_EDITS.items():
        yield Case(f"policy: {what}", _policy(name, path, value), by_the_gate)
    yield Case("policy: its copy removed", lambda pipeline: (pipeline.home.policies / f"{name}.yaml").unlink(), by_the_gate)
    yield Case("policy: its copy emptied", lambda pipeline: write(pipeline.home.policies / f"{name}.yaml", b""), by_the_gate)


def _policy(name: str, path: tuple[str, ...], value: object) -> Harm:
    def harm(pipeline: Pipeline) -> None:
        file = pipeline.home.policies / f"{name}.yaml"
        content = yaml.safe_load(file.read_text())
        section = content
        for part in path[:-1]:
            section = section[part]
        section[path[-1]] = value
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    return harm


def delivery_cases(files: list[str]) -> Iterator[Case]:
    """The delivery's files, changed after they were taken in."""
    for name in files:

        def harm(pipeline: Pipeline, name: str = name) -> None:
            path = pipeline.home.deliveries / KEY / name
            write(path, path.read_bytes() + b"\n")

        yield Case(f"delivery: {name} changed after it was taken in", harm, by_the_gate)


# Keys, registry and restricted editions at the next start


def start_cases(restricted: list[str]) -> Iterator[Case]:
    """What every run looks at before it begins."""
    for name, load in (("signing_key.pem", _load_key), ("secret", _load_secret)):
        for what in (
            "removed",
            "emptied",
            "a symbolic link to the same bytes",
            "a link to a device",
            "a pipe",
            "a folder",
            "four terabytes",
        ):
            yield Case(f"keys/{name}: {what}", _odd_key(name, what), load)
        for mode in (0o640, 0o604, 0o666):
            yield Case(
                f"keys/{name}: mode {mode:o}", lambda pipeline, n=name, m=mode: os.chmod(pipeline.home.keys / n, m), load
            )
    yield Case("keys/signing_key.pem: another one", _another_key, _load_key)
    yield Case("keys/secret: another one", lambda pipeline: (pipeline.home.keys / "secret").write_bytes(b"x" * 64), by_the_gate)
    for position in (60, 90):
        yield Case(f"keys/signing_key.pem: byte {position} changed", _key_byte(position), _load_key)
    for name in restricted:
        for what in ("removed", "emptied", "without its last byte", "with a byte more", "a folder"):
            yield Case(f"{name}: {what}", lambda pipeline, n=name, w=what: ODD[w](pipeline.home.root / n), by_the_next_start)
        yield Case(f"{name}: a bit turned", _turned(name), by_the_next_start)
    yield Case("releases: the folder of a release renamed", _renamed, by_the_next_start)
    yield Case(
        "releases: a folder planted", lambda pipeline: (pipeline.home.releases / "small" / "0007").mkdir(), by_the_next_start
    )
    yield Case("releases: a release copied under the next number", _copied, by_the_next_start)
    yield Case("releases: a release copied under another policy", _copied_elsewhere, by_the_next_start)
    # Removed or emptied, a registry of one release is made again, byte for byte, from its signed manifest.
    for what in ("a symbolic link to the same bytes", "a link to a device", "a pipe", "a folder", "four terabytes"):
        yield Case(
            f"registry at the start: {what}", lambda p, w=what: ODD[w](p.home.releases / "registry.jsonl"), by_the_next_start
        )
    yield Case("registry at the start: a byte changed", _registry_byte, by_the_next_start)


def _odd_key(name: str, what: str) -> Harm:
    """Something else in the place of a key, for its owner only as keys must be."""

    def harm(pipeline: Pipeline) -> None:
        path = pipeline.home.keys / name
        ODD[what](path)
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)

    return harm


def _load_key(pipeline: Pipeline) -> list[str]:
    try:
        signing_key_of(pipeline.home)
    except DeidError as error:
        return [str(error)]
    return []


def _load_secret(pipeline: Pipeline) -> list[str]:
    try:
        secret_of(pipeline.home, {})
    except DeidError as error:
        return [str(error)]
    return []


def _another_key(pipeline: Pipeline) -> None:
    path = pipeline.home.keys / "signing_key.pem"
    path.write_bytes(SigningKey.generated().private_pem())


def _key_byte(position: int) -> Harm:
    def harm(pipeline: Pipeline) -> None:
        path = pipeline.home.keys / "signing_key.pem"
        path.write_bytes(flipped(path.read_bytes(), position))

    return harm


def _turned(name: str) -> Harm:
    def harm(pipeline: Pipeline) -> None:
        path = pipeline.home.root / name
        content = path.read_bytes()
        path.write_bytes(flipped(content, len(content) // 2))

    return harm


def _renamed(pipeline: Pipeline) -> None:
    small = pipeline.home.releases / "small"
    os.rename(small / "0001", small / "0008")


def _copied(pipeline: Pipeline) -> None:
    small = pipeline.home.releases / "small"
    shutil.copytree(small / "0001", small / "0002")


def _copied_elsewhere(pipeline: Pipeline) -> None:
    shutil.copytree(pipeline.home.releases / "small" / "0001", pipeline.home.releases / "other" / "0001")


def _registry_byte(pipeline: Pipeline) -> None:
    path = pipeline.home.releases / "registry.jsonl"
    value = json.loads(path.read_bytes().splitlines()[0])
    path.write_bytes(path.read_bytes().replace(value["delivery"].encode(), value["delivery"][:-1].encode() + b"x", 1))
