"""What the sensitivity analysis of attack 1 costs on a release of Heritage size: one cell after the other.

`python -m deid_assets_tests.benchmarks.sensitivity` (`--members`, `--trials`).
"""

import argparse
import resource
import time

import numpy as np

from deid_assets.methods.adversary.adversary_power import power_of, value_pairs
from deid_assets.methods.attacks.attack_sensitivity import KNOWS, SensitivityAnalysis
from deid_assets.methods.kernel import engine
from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, EvaluationRecords, claim_values
from deid_assets_tests.benchmarks.heritage_size import CLAIMS, MEMBERS, heritage_size

POWERS = (5, 10, 15)
_KEY = bytes(range(16))
_LEVELS = (0, 0, 0, 2, 2, 0)
"""Generalizations like El Emam et al. 2012, Table 5: stays in a few classes, days since the first claim in months."""


def release_of(members: int) -> EvaluationRecords:
    """Claims with the shape of `heritage_size`, with three years and the day of each."""
    data = heritage_size(members, CLAIMS * members // MEMBERS)
    generator = np.random.default_rng(2)
    # A claim has at most one value of each; the longest history of a member says how many claims he has.
    counts = np.max([history.counts for history in data.known], axis=0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    owners = np.repeat(np.arange(members), counts)
    place = np.arange(len(owners)) - offsets[owners]
    codes = np.full((len(data.known), len(owners)), MISSING, dtype=np.int16)
    for row, history, domain, level in zip(codes, data.known, data.history_domains, _LEVELS, strict=True):
        own = np.flatnonzero(place < history.counts[owners])
        shuffled = own[np.lexsort((generator.random(len(own)), owners[own]))]
        row[shuffled] = domain.levels[level][history.codes]
    year, day = generator.integers(0, 3, len(owners)).astype(np.int16), generator.integers(0, 364, len(owners))
    known = ClaimRecords(offsets, codes, year, day.astype(np.int16))
    kept = place < 120
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners[kept], minlength=members))])
    held = ClaimRecords(ends, codes[:, kept], year[kept], (day[kept] // 28).astype(np.int16))
    levels = (3, 0, 2, 2)
    columns = [
        domain.levels[level][data.demographics[:, number]]
        for number, (domain, level) in enumerate(zip(data.demographic_domains, levels, strict=True))
    ]
    sizes = [domain.sizes[level] for domain, level in zip(data.demographic_domains, levels, strict=True)]
    history_sizes = [domain.sizes[level] for domain, level in zip(data.history_domains, _LEVELS, strict=True)]
    return EvaluationRecords(np.stack(columns, axis=1), tuple(sizes), tuple(history_sizes), held, known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--trials", type=int, default=10_000)
    options = parser.parse_args()
    release = release_of(options.members)
    claims = np.diff(release.known.offsets)
    histories = [claim_values(release.known, codes).histories for codes in (*release.known.codes, release.known.year)]
    pairs = [value_pairs(history.offsets, history.codes) for history in histories]
    print(f"{options.members:,} members, {len(release.held.year):,} claims, engine {engine.chosen().name}")
    attack, started = SensitivityAnalysis(release, max(POWERS)), time.perf_counter()
    for knows in KNOWS:
        for most in POWERS:
            power = [power_of(claims, own, most) for own in pairs[: 6 + (knows == "year")]]
            before = time.perf_counter()
            found = attack.trials(knows, power, _KEY, options.trials)
            print(f"{knows:>13} {most:>3} {found.success.mean():8.4f} {time.perf_counter() - before:6.2f} s", flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.perf_counter() - started:.1f} s, at most {memory:.2f} GB")


if __name__ == "__main__":
    main()
