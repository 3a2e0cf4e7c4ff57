"""The budget of noise in the registry: charged before a release is published, once, and refused where it is exceeded."""

import json
import os
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import CountsError, ReleaseError
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.policy.sections.counts import CountNoise, NoiseBudget
from deid_assets.release.counts.noise import DeliveryNoise
from deid_assets.release.counts.statement import CountStatement
from deid_assets.release.keys import SigningKey
from deid_assets.release.manifest.editions import editions
from deid_assets.release.publication import publish as publication
from deid_assets.release.publication.publish import Releases
from deid_assets.release.registry.chain import GENESIS, Chain, Entry, NoiseCharge, OlderNoiseCharge, read_chain, signed_rotation
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of, require_charges
from deid_assets_tests.release import making
from deid_assets_tests.release.making import SECRET, releases_in

SECTION = CountNoise()
NAMES = tuple(CellName("sex", "members", column) for column in ("all", "F", "M"))
SUMS = (Sum("sex", NAMES[0], NAMES[1:]),)


def noise_of(delivery: str, section: CountNoise = SECTION, names=NAMES, sums=SUMS) -> NoisyPublication:
    noise = DeliveryNoise.of(SECRET, delivery, section)
    return NoisyPublication(section, tuple(noise.cell(name, "") for name in names), sums)


def publish(releases: Releases, inputs: str, noise: NoisyPublication | None, with_statement: bool = True):
    """Publish a small release with noisy counts."""
    with releases.stage("heritage") as staging, duckdb.connect() as connection:
        staging.write_table(connection, "Claims", making.CLAIMS, ["MemberID"])
        making.judge(staging, "Claims")
        making.stage_certificate(staging)

        def describe(place):
            budget = budget_of(releases.registry.chain(), SECTION)
            counts = CountStatement(SECTION, budget) if with_statement else None
            return editions(making.manifest(place, counts=counts), making.protect)

        time = f"2024-01-01T00:00:{staging.number:02d}Z"
        return staging.publish(describe, staging.slot("2024", SECRET.keyed_digest("inputs", inputs), time), noise=noise)


def fail(*args: object) -> None:
    raise OSError("no space")


def kinds(releases: Releases) -> list[str | None]:
    return [line.kind for line in releases.registry.chain().lines]


def spent(releases: Releases) -> float:
    return budget_of(releases.registry.chain(), SECTION).spent


def test_noise_is_charged_before_its_release_and_told_in_the_manifest(tmp_path):
    releases = releases_in(tmp_path)
    published = publish(releases, "a", noise_of("delivery 1"))
    charge, entry = releases.registry.chain().lines
    assert isinstance(charge, NoiseCharge) and isinstance(entry, Entry) and entry.previous == charge.hash
    assert spent(releases) == pytest.approx(0.16) and len(charge.cells) == 3
    assert charge.millionths == (2_500_000,) * 3 and charge.total_billionths == 50 * 10**9
    told = json.loads((published.folder / "manifest.json").read_text())["counts"]["budget"]
    assert told["spent_rho"] == pytest.approx(0.16) and told["at_most_rho"] == 50 and told["lockout"] == 10
    assert told["spent_epsilon"] == pytest.approx(2.5, abs=0.2) and "guesses that right with a probability" in told["meaning"]


def test_the_same_delivery_repeats_at_no_cost_and_another_is_charged(tmp_path):
    releases = releases_in(tmp_path)
    publish(releases, "a", noise_of("delivery 1"))
    publish(releases, "b", noise_of("delivery 1"))
    assert kinds(releases) == ["noisy counts", None, None] and spent(releases) == pytest.approx(0.16)
    publish(releases, "c", noise_of("delivery 2"))
    assert kinds(releases)[-2:] == ["noisy counts", None] and spent(releases) == pytest.approx(0.32)


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (CountNoise(budget=NoiseBudget(rho=0.3)), "cost 0.16 of zCDP, but only 0.14 of the total of 0.3 are left"),
        (CountNoise(lockout=1), "3 cells were published 1 time"),
    ],
)
def test_a_budget_that_is_exceeded_refuses_and_leaves_nothing(tmp_path, section, reason):
    releases = releases_in(tmp_path)
    publish(releases, "a", noise_of("delivery 1", section))
    before = releases.registry.path.read_bytes()
    with pytest.raises(CountsError, match=reason):
        publish(releases, "b", noise_of("delivery 2", section))
    assert releases.registry.path.read_bytes() == before
    assert [path.name for path in sorted((tmp_path / "releases/heritage").iterdir())] == ["0001"]


def test_a_crash_after_the_charge_leaves_a_cost_without_a_release_which_is_not_charged_again(tmp_path, monkeypatch):
    releases = releases_in(tmp_path)
    rename = os.rename
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda old, new: fail() if Path(old).is_dir() else rename(old, new))
        with pytest.raises(OSError, match="no space"):
            publish(releases, "a", noise_of("delivery 1"))
    assert kinds(releases) == ["noisy counts"]
    publish(releases, "a", noise_of("delivery 1"))
    assert kinds(releases) == ["noisy counts", None] and spent(releases) == pytest.approx(0.16)


def test_a_crash_before_the_charge_publishes_nothing(tmp_path, monkeypatch):
    releases = releases_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(publication.Registry, "append", fail)
        with pytest.raises(OSError, match="no space"):
            publish(releases, "a", noise_of("delivery 1"))
    assert kinds(releases) == [] and not list((tmp_path / "releases/heritage").iterdir())


def test_a_registry_that_lost_charges_is_refused_by_what_releases_say_was_spent(tmp_path):
    releases = releases_in(tmp_path)
    for delivery in ("delivery 1", "delivery 2"):
        publish(releases, delivery, noise_of(delivery))
    told = [
        json.loads(file.read_bytes())["counts"]["budget"]["spent_rho"]
        for file in releases.restricted.glob("heritage/????.json")
    ]
    require_charges(budget_of(releases.registry.chain(), SECTION), told)
    lines = releases.registry.path.read_bytes().splitlines(keepends=True)
    releases.registry.path.write_bytes(b"".join(lines[:2]))
    with pytest.raises(ReleaseError, match="records 0.16 of zCDP .* says that 0.32 were spent: the registry lost lines"):
        require_charges(budget_of(releases.registry.chain(), SECTION), told)


@pytest.mark.parametrize(("noise", "with_statement"), [(None, True), (noise_of("delivery 1"), False)])
def test_a_manifest_that_tells_of_noise_needs_its_charge_and_the_other_way_round(tmp_path, noise, with_statement):
    with pytest.raises(ReleaseError, match="describes a different release"):
        publish(releases_in(tmp_path), "a", noise, with_statement)


def test_numbers_outside_a_release_are_charged_too(tmp_path):
    releases = releases_in(tmp_path)
    for _ in range(2):
        releases.charge(noise_of("delivery 1"))
    assert kinds(releases) == ["noisy counts"]
    with pytest.raises(CountsError, match="published 1 time"):
        releases.charge(noise_of("delivery 2", CountNoise(lockout=1)))


def test_costs_are_rounded_up_and_budgets_agree_before_and_after(tmp_path):
    releases = releases_in(tmp_path)
    section = CountNoise(sd=3.3)
    noise = noise_of("delivery 1", section)
    before = noise.budget_after(releases.registry.chain())
    releases.charge(noise)
    after = noise.budget_after(releases.registry.chain())
    assert before == after and after.spent >= 2 / (2 * 3.3**2)
    assert noise.charge(releases.registry.chain(), "2024-01-01T00:00:00Z") is None


def charge(key: SigningKey, **changes) -> NoiseCharge:
    line = noise_of("delivery 1").charge(Chain((), None, b""), "2024-01-01T00:00:00Z")
    return replace(line, **changes).signed(key)


def lines_with(tmp_path, content: bytes):
    path = tmp_path / "registry.jsonl"
    path.write_bytes(content)
    return read_chain(path)


def test_a_charge_is_read_back(tmp_path):
    line = charge(SigningKey.load_or_create(tmp_path))
    assert lines_with(tmp_path, line.line).lines == (line,)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"draws": (), "cells": (), "millionths": ()}, "not of which counts"),
        ({"millionths": (2_500_000,)}, "not of which counts"),
        ({"millionths": (0, 1, 1)}, "not how wide the noise is"),
        ({"total_billionths": 0}, "not what it may cost"),
        ({"draws": (), "cells": (), "millionths": (), "billionths": -1}, "not of which counts"),
        ({"millionths": ("1", "1", "1")}, "not a registry entry"),
        ({"cells": ("a" * 64,)}, "not of which counts"),
        ({"billionths": 0}, "not of which counts"),
        ({"draws": ("x", "y", "z")}, "not a registry entry"),
    ],
)
def test_a_charge_of_nothing_is_none(tmp_path, changes, problem):
    chain = lines_with(tmp_path, charge(SigningKey.load_or_create(tmp_path), **changes).line)
    assert chain.problem is not None and problem in chain.problem and not chain.lines


def older(key: SigningKey, rho: float = 0.16, count: int = 3, previous: str = GENESIS, **changes) -> OlderNoiseCharge:
    """A line as earlier versions of the product wrote it."""
    digests = tuple(f"{number:064x}" for number in range(2 * count))
    line = OlderNoiseCharge(digests[:count], digests[count:], round(rho * 1e9), previous=previous, time="2024-01-01T00:00:00Z")
    return replace(line, **changes).signed(key)


def test_a_line_of_the_older_format_is_read_and_its_cost_counts(tmp_path):
    line = older(SigningKey.load_or_create(tmp_path))
    assert b'"kind":"noise charge"' in line.line and b"millionths" not in line.line
    chain = lines_with(tmp_path, line.line)
    assert chain.problem is None and chain.lines == (line,)
    assert budget_of(chain, SECTION).spent == pytest.approx(0.16) and budget_of(chain, SECTION).total == 50


@pytest.mark.parametrize(("rho", "sd"), [(0.16, 1.7678), (5.0, 0.7413)])
def test_older_noise_counts_as_narrow_as_it_can_have_been_for_every_cell(tmp_path, rho, sd):
    """It may be of this cell under another name; of all cells alone, one of sd .32 would cost 5, which no policy allows."""
    chain = lines_with(tmp_path, older(SigningKey.load_or_create(tmp_path), rho).line)
    noise = noise_of("delivery 1")
    found = budget_of(chain, SECTION).earlier_sds({cell.definition: cell.draw for cell in noise.cells})
    assert list(found.values()) == [pytest.approx((sd,), abs=1e-4)] * 3
    with pytest.raises(CountsError, match="3 cells were published 1 time"):
        noise_of("delivery 1", CountNoise(lockout=1)).budget_after(chain)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"draws": (), "cells": ()}, "not of which counts"),
        ({"cells": ("a" * 64,)}, "not of which counts"),
        ({"billionths": 0}, "not of which counts"),
    ],
)
def test_an_older_charge_of_nothing_is_none(tmp_path, changes, problem):
    chain = lines_with(tmp_path, older(SigningKey.load_or_create(tmp_path), **changes).line)
    assert chain.problem is not None and problem in chain.problem and not chain.lines


def test_an_older_charge_needs_its_signature(tmp_path):
    chain = lines_with(tmp_path, replace(older(SigningKey.load_or_create(tmp_path)), billionths=1).line)
    assert chain.problem is not None and "its signature is not valid" in chain.problem


def test_draws_of_all_widths_are_remembered_but_not_the_own_one(tmp_path):
    releases = releases_in(tmp_path)
    releases.charge(noise_of("delivery 1", CountNoise(sd=1.6)))
    releases.charge(noise_of("delivery 2", CountNoise(sd=3.3)))
    budget = budget_of(releases.registry.chain(), SECTION)
    own = {cell.definition: cell.draw for cell in noise_of("delivery 2", CountNoise(sd=3.3)).cells}
    assert set(budget.earlier_sds(own).values()) == {(1.6,)}
    assert set(budget.earlier_sds(dict.fromkeys(own)).values()) == {(1.6, 3.3)}


def test_the_strictest_total_of_all_releases_holds_for_later_ones(tmp_path):
    """A policy with a total of .3 published; a later one cannot spend its own 50."""
    releases = releases_in(tmp_path)
    strict, lax = (CountNoise(budget=NoiseBudget(rho=rho)) for rho in (0.3, 50.0))
    releases.charge(noise_of("delivery 1", strict))
    assert budget_of(releases.registry.chain(), lax).total == 0.3
    with pytest.raises(CountsError, match=r"only 0.14 of the total of 0.3 are left.*strictest total of any policy"):
        releases.charge(noise_of("delivery 2", lax))
    assert budget_of(releases.registry.chain(), CountNoise(budget=NoiseBudget(rho=0.2))).total == 0.2


def test_a_stricter_total_holds_even_if_its_release_cost_nothing(tmp_path):
    releases = releases_in(tmp_path)
    strict, lax = (CountNoise(budget=NoiseBudget(rho=rho)) for rho in (0.3, 50.0))
    publish(releases, "a", noise_of("delivery 1", lax))
    publish(releases, "b", noise_of("delivery 1", strict))
    publish(releases, "c", noise_of("delivery 1", strict))
    assert kinds(releases) == ["noisy counts", None, "noisy counts", None, None]
    assert spent(releases) == pytest.approx(0.16)
    with pytest.raises(CountsError, match="only 0.14 of the total of 0.3"):
        publish(releases, "d", noise_of("delivery 2", lax))


def test_a_charge_needs_its_signature(tmp_path):
    line = replace(charge(SigningKey.load_or_create(tmp_path)), billionths=1)
    chain = lines_with(tmp_path, line.line)
    assert chain.problem is not None and "its signature is not valid" in chain.problem


def test_a_charge_is_not_signed_by_a_key_out_of_force(tmp_path):
    old, new = (SigningKey.load_or_create(tmp_path / name) for name in ("old", "new"))
    rotation = signed_rotation(old, new, "", GENESIS, "2024-01-01T00:00:00Z")
    late = charge(old, previous=rotation.hash)
    chain = lines_with(tmp_path, rotation.line + late.line)
    assert chain.problem is not None and "a key that was not in force" in chain.problem


def test_a_total_below_a_billionth_leaves_a_registry_that_can_be_read(tmp_path):
    releases = releases_in(tmp_path)
    publish(releases, "a", noise_of("delivery 1"))
    tiny = CountNoise(budget=NoiseBudget(rho=1e-10))
    publish(releases, "b", noise_of("delivery 1", tiny))
    assert releases.registry.chain().lines[-2].total_billionths == 1
    with pytest.raises(CountsError, match="but only 0 of the total"):
        noise_of("delivery 2").budget_after(releases.registry.chain())
