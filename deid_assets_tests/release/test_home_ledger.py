"""Files of `deid counts` and releases of one home: one budget, and tables that are audited together, whichever came first."""

import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.count_disclosure import disclosed_cells
from deid_assets.assets.counts import earlier_tables
from deid_assets.command_line.count_files import counts_csv, read_counts
from deid_assets.command_line.count_protection import (
    AskedLedger,
    Published,
    asked_for,
    enter_in_ledger,
    opened_ledger,
    planned_noise,
)
from deid_assets.errors import CountsError, RefusedByLedgerError
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import definition
from deid_assets.methods.counts.estimates import ConsistentNoise
from deid_assets.methods.counts.noise import NoiseRule, add_noise
from deid_assets.methods.counts.published_tables import COLUMNS
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets.policy.sections.counts import CountNoise, ProtectedTables
from deid_assets.release.counts.ledger import HomeLedger, files_of, sds_by_definition, tables_of_manifest
from deid_assets.release.counts.noise import DeliveryNoise
from deid_assets.release.counts.statement import CountStatement
from deid_assets.release.cumulative import releases_made
from deid_assets.release.manifest.editions import editions
from deid_assets.release.publication.publish import Releases
from deid_assets.release.registry import clock
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of
from deid_assets_tests.release.making import SECRET, manifest, protect, releases_in, stage_certificate, wait

NAMES = tuple(CellName("attrition", row, column) for row, column in (("a", "remaining"), ("b", "remaining"), ("b", "excluded")))
TRUE = (100, 97, 3)
TABLE = "table,row,column,count,sums\nattrition,a,remaining,100,=b\nattrition,b,remaining,97,b\nattrition,b,excluded,3,b\n"


@pytest.fixture
def releases(tmp_path) -> Releases:
    """A home in which something was released."""
    found = releases_in(tmp_path / "home")
    found.home.create()
    return found


def told(shown, sd: float = 0.0, noise: DeliveryNoise | None = None) -> pd.DataFrame:
    """Published tables of a release."""
    marks = [one if isinstance(one, str) else None for one in shown]
    return pd.DataFrame(
        [
            (*name, at, None if mark else one, mark, None if marks.count(None) < 3 else sd,
             noise.cell(name, "").draw if noise else None, 1, 0, f"word.{at}", definition(name))
            for at, (name, one, mark) in enumerate(zip(NAMES, shown, marks, strict=True))
        ],
        columns=[*COLUMNS[:3], "position", *COLUMNS[3:6], "draw", *COLUMNS[6:]],
    ).astype({"count": "Int64", "mark": "string", "sd": "Float64", "draw": "string"})  # fmt: skip


def release(releases: Releases, protection: str, published: pd.DataFrame, noise: NoisyPublication | None = None) -> None:
    """Publish tables; without noise in them, only other numbers have some, which cost nothing here."""
    section = ProtectedTables(protection=protection)
    noise = noise or NoisyPublication(section, (), ())
    statement = CountStatement(section, budget_of(releases.registry.chain(), section), published)
    with releases.stage("small") as staging:
        staging.write_file("data/Members.txt", b"member 1")
        staging.write_file("report.html", b"<p>report</p>")
        stage_certificate(staging)
        slot = staging.slot("2024", SECRET.keyed_digest("inputs", str(staging.number)), clock.now(None))
        staging.publish(lambda slot: editions(manifest(slot, counts=statement), protect), slot, noise)


def noise_of(delivery: str = "delivery 1", sd: float = 2.5) -> DeliveryNoise:
    return DeliveryNoise.of(SECRET, delivery, CountNoise(sd=sd))


def publish_noisy(releases: Releases, delivery: str = "delivery 1", sd: float = 2.5) -> pd.DataFrame:
    noise = noise_of(delivery, sd)
    published = told([count + noise.draw(name, "", sd) for name, count in zip(NAMES, TRUE, strict=True)], sd, noise)
    cells = tuple(noise.cell(name, "") for name in NAMES)
    release(releases, "noise", published, NoisyPublication(noise.section, cells, ()))
    return published


def file(releases: Releases, method: str, sd: float = 2.5, limits: tuple[int, float | None] = (10, None)) -> str:
    """Protect the table with the home as ledger, as the command does."""
    path = releases.home.root.parent / "true.csv"
    path.write_text(TABLE)
    read, ledger = read_counts(path), asked_for(AskedLedger(str(releases.home.root), *limits))
    assert isinstance(ledger, HomeLedger)
    if method == "mask":
        content = counts_csv(read.cells, [100, "H", "T"], read.contribution, read.sums)
        return enter_in_ledger(ledger, Published(read, content, SmallCounts()), SECRET, 60)
    tables, rule = CountTables(read.cells, np.array(read.shown), read.sums), NoiseRule(sd)
    noise = ConsistentNoise(bytes(32), "a delivery", "")
    plan = planned_noise(tables, rule, noise)
    ledger.require_affordable(plan, tables.sums)
    noisy = add_noise(tables, rule, noise.draw)
    content = counts_csv(noisy.cells, noisy.counts.tolist(), read.contribution, noisy.sums, noisy.sd.tolist())
    return enter_in_ledger(ledger, Published(read, content, None, plan), SECRET, 60)


def spent(releases: Releases) -> float:
    return budget_of(releases.registry.chain(), CountNoise()).spent


@pytest.mark.parametrize(
    ("protection", "shown", "method", "sd", "passes"),
    [
        ("masked", (100, 97, "H"), "mask", 0, False),
        ("masked", (100, "H", "T"), "mask", 0, True),
        ("masked", (100, "H", "T"), "noise", 1.0, False),
        ("masked", (100, "H", "T"), "noise", 50.0, True),
        ("masked", (103, "H", "T"), "mask", 0, False),
    ],
    ids=["what a mask hides is released", "the same masks", "noise is too narrow", "noise is wide", "a total changed a little"],
)
def test_masked_tables_of_a_release_are_audited_with_a_file(releases, protection, shown, method, sd, passes):
    release(releases, protection, told(shown))
    if passes:
        assert "file 1 of" in file(releases, method, sd)
        return
    with pytest.raises(RefusedByLedgerError, match="1 earlier file of the ledger"):
        file(releases, method, sd)
    assert not (releases.home.store / "count_ledger.json").exists() and spent(releases) == 0


def test_tables_of_a_release_that_waits_for_approval_are_audited_with_a_file(releases):
    section = ProtectedTables(protection="masked")
    statement = CountStatement(section, budget_of(releases.registry.chain(), section), told((100, 97, "H")))
    wait(releases, noise=NoisyPublication(section, (), ()), told={"counts": statement})
    with pytest.raises(RefusedByLedgerError, match="1 earlier file of the ledger"):
        file(releases, "mask")


def test_noisy_tables_of_a_release_count_as_looks_and_narrow_masks(releases):
    for i in range(4):
        publish_noisy(releases, f"delivery {i}", 1.5)
    with pytest.raises(RefusedByLedgerError, match="the mean of all noise"):
        file(releases, "noise", 1.5)
    with pytest.raises(RefusedByLedgerError, match="4 times with noise"):
        file(releases, "noise", 50.0, (4, None))
    with pytest.raises(RefusedByLedgerError, match="1 small count would"):
        file(releases, "mask")


def test_noise_of_a_file_is_charged_in_the_registry_once(releases):
    publish_noisy(releases)
    before = spent(releases)
    file(releases, "noise", 20.0)
    after = spent(releases)
    assert after == pytest.approx(before + 2 * 0.5 / 20**2, abs=1e-8)
    assert "published before" in file(releases, "noise", 20.0) and spent(releases) == after
    (releases.home.store / "count_ledger.json").unlink()  # as if killed after the registry, before the ledger
    assert "file 1 of" in file(releases, "noise", 20.0) and spent(releases) == after
    later = NoisyPublication(CountNoise(lockout=2), tuple(noise_of("delivery 2").cell(name, "") for name in NAMES), ())
    with pytest.raises(CountsError, match="as often as the policy allows"):
        later.budget_after(releases.registry.chain())


def test_the_strictest_total_of_files_and_releases_holds_for_both(releases):
    with pytest.raises(RefusedByLedgerError, match="of the total of 0.1"):
        file(releases, "noise", 1.0, (10, 0.1))
    file(releases, "noise", 20.0, (10, 0.1))
    with pytest.raises(RefusedByLedgerError, match="of the total of 0.1"):
        file(releases, "noise", 1.0)
    with pytest.raises(CountsError, match="of the total of 0.1"):
        publish_noisy(releases)


@pytest.mark.parametrize(
    ("method", "are_masked", "is_refused"),
    [("mask", True, True), ("mask", False, True), ("noise", True, True), ("noise", False, False)],
)
def test_a_release_of_cells_that_a_file_masks_or_masks_of_cells_that_a_file_shows_is_refused(
    releases, method, are_masked, is_refused
):
    publish_noisy(releases, sd=40.0)
    file(releases, method, 20.0)
    workplace = SimpleNamespace(
        home=releases.home, releases_made=lambda: tuple(releases_made(releases.restricted, releases.registry))
    )
    earlier = earlier_tables(workplace)
    published = told((100, "H", "T")) if are_masked else publish_noisy(releases, "delivery 2", 40.0)
    if is_refused:
        with pytest.raises(CountsError, match="published 3 of these cells in files of this home"):
            disclosed_cells(published, SmallCounts(), earlier, are_masked)
    else:
        assert disclosed_cells(published, SmallCounts(), earlier, are_masked) == 0


def test_noise_of_files_counts_for_releases_by_what_classes_are_called(releases):
    publish_noisy(releases, sd=40.0)
    file(releases, "noise", 20.0)
    published = told((100, 97, 3), 2.5).assign(definition=[definition(NAMES[0]), "other class", "another"])
    found = sds_by_definition(published, files_of(releases.home))
    assert found == {"other class": (20.0,), "another": (20.0,)}, "the registry tells of those that are called the same"


def test_tables_of_which_too_little_was_kept_are_refused():
    assert tables_of_manifest(None, "a/0001") is None and tables_of_manifest({"sd": 2.5}, "a/0001") is None
    with pytest.raises(CountsError, match="a/0001"):
        tables_of_manifest({"cells": []}, "a/0001")


def test_a_home_is_the_ledger_where_it_is_named(releases, tmp_path, monkeypatch):
    publish_noisy(releases)
    monkeypatch.setenv("DEID_HOME", str(releases.home.root))
    monkeypatch.delenv("DEID_LEDGER", raising=False)
    assert isinstance(asked_for(AskedLedger(None, 10, None)), HomeLedger)
    assert not isinstance(opened_ledger(tmp_path / "folder"), HomeLedger) and not os.path.exists(tmp_path / "folder")


def test_a_ledger_of_its_own_whose_folder_becomes_a_home_is_not_forgotten(releases):
    (releases.home.root / "count_ledger.json").write_text("")
    with pytest.raises(CountsError, match="became a home"):
        opened_ledger(releases.home.root)
