"""How often inference channels are found that are not there, how often those that are there, and how long it takes.

    python -m deid_assets_tests.benchmarks.inference [--runs 200] [--members 2000] [--large]

Prints Markdown tables, with made-up data: members have one to thirty claims, each with one of twelve equally
frequent codes and six fields. (Where one code is frequent, a model without a channel names it and gains exactly nothing: that
would be too easy.) Fields and codes of
a member's claims resemble each other: half of them repeat the member's own. Without a channel, fields and codes are otherwise
independent. With one, a field tells the code of a share of the members. `--large` measures time on 20,000 members with 470,000
claims in 45 groups, 20 fields, profiles of 200 labels and up to 120 codes for each group.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from deid_assets.assessments.inference_channels import ALL, MAJORITY, lines
from deid_assets.assessments.inference_rows import WITHOUT_IDENTIFIERS, meaning_of
from deid_assets.methods.inference.boosting import gradient_boosting
from deid_assets.methods.inference.cases import Cases, Guesses, groups_of
from deid_assets.methods.inference.gain import (
    AccuracyGain,
    Model,
    accuracy_gains,
    confidence_of_each,
    member_folds,
    naive_bayes,
    predictions,
    resampled,
)
from deid_assets_tests.benchmarks.timing import head, machine, row

CODES, FIELDS, LEVELS = 12, 6, 8
LABELS = 200
MODELS: dict[str, Callable[..., Guesses]] = {"naive_bayes": naive_bayes, "gradient_boosting": gradient_boosting}
CONFIDENCES = (0.95, 0.99)
GROUPS = 45


def drawn_cases(members: int, told: float, rng: np.random.Generator) -> Cases:
    """Claims of so many members, of whom a share has a field that tells the code."""
    people = np.repeat(np.arange(members), rng.integers(1, 31, members))

    def alike(of_member: np.ndarray, of_claim: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(people)) < 0.5, of_member[people], of_claim)

    found = alike(rng.integers(0, CODES, members), rng.integers(0, CODES, len(people))).astype(np.int32)
    fields = [alike(rng.integers(0, LEVELS, members), rng.integers(0, LEVELS, len(people))) for _ in range(FIELDS)]
    # A level of its own: the field tells nothing about the others.
    fields[0] = np.where((rng.random(members) < told)[people], LEVELS + found, fields[0])
    features = np.stack(fields, axis=1).astype(np.int32)
    return Cases(features, np.array([LEVELS + CODES] + [LEVELS] * (FIELDS - 1)), found, CODES, people.astype(np.int32))


def model_of(name: str, profiles: np.ndarray) -> Model:
    """A model, with the profiles that boosting looks at."""
    return partial(MODELS[name], profiles=profiles, seed=1) if name == "gradient_boosting" else MODELS[name]


def gains(members: int, told: float, model: str, seed: int) -> list[AccuracyGain]:
    """The gain of a model on fresh members, with bounds of each confidence."""
    rng = np.random.default_rng(seed)
    cases = drawn_cases(members, told, rng)
    profiles = np.empty((members, 0), dtype=np.int32)
    (found,) = predictions([cases], member_folds(members, 5, rng), {model: model_of(model, profiles)})
    draws = resampled(members, rng)
    return [
        accuracy_gains([found[model]], draws, confidence)[0] for confidence in (*CONFIDENCES, confidence_of_each(0.995, GROUPS))
    ]


def found_table(runs: int, members: int, boosted: int) -> None:
    """How often a gain is shown to be above zero, by the share of members whom a field tells, and the gain itself."""
    head("model", "told", "runs", "mean gain", "shown at .95", "at .99", "as one of 45 groups (.995)")
    for model, number in (("naive_bayes", runs), ("gradient_boosting", boosted)):
        for told in (0.0, 0.02, 0.05, 0.1):
            each = [gains(members, told, model, seed) for seed in range(number)]
            shown = (f"{np.mean([of[place].low > 0 for of in each]):.3f}" for place in range(3))
            row(model.replace("_", " "), f"{told:g}", number, f"{np.mean([of[0].gain for of in each]):.4f}", *shown)


def time_table() -> None:
    """Seconds for a release of Heritage size."""
    rng = np.random.default_rng(1)
    members, claims = 20_000, 470_000
    people = np.sort(rng.integers(0, members, claims))
    names = rng.choice(GROUPS, claims, p=(weights := 1 / np.arange(1, GROUPS + 1)) / weights.sum())
    values = names * 1_000 + np.minimum(rng.geometric(0.08, claims), 120)
    fields = {f"f{number}": rng.integers(0, size, claims) for number, size in enumerate([10] * 12 + [160] * 4 + [2_000] * 4)}
    groups = [group for group in groups_of(names, fields, values, people, 256) if group.cases is not None]
    folds = member_folds(members, 5, rng)
    print()
    head("model", "claims", "groups", "seconds")
    profiles = rng.poisson(rng.gamma(0.1, 1, (1, LABELS)), (members, LABELS)).astype(np.int32)
    for name in MODELS:
        started = time.process_time()
        predictions([group.cases for group in groups], folds, {name: model_of(name, profiles)})
        row(name.replace("_", " "), f"{claims:,}", len(groups), f"{time.process_time() - started:.1f}")


def guessed_rows(values: Mapping[str, float | None]) -> Iterator[tuple[str, ...]]:
    """What is guessed in all groups together, by channel: what is withheld, shares right by model, and of the surest tenth.

    Parameters
    ----------
    values
        Values of the measurements of a public manifest, by name.
    """
    for line in lines(values):
        if line.group == ALL:
            models = (MAJORITY, "naive_bayes", WITHOUT_IDENTIFIERS, "gradient_boosting")
            shares = [*(line.shares.get(model) for model in models), line.surest]
            yield meaning_of(line.channel), *("" if share is None else f"{share:.3f}" for share in shares)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--boosted", type=int, default=20, help="runs with gradient boosting")
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    print(f"{machine()}\n")
    found_table(given.runs, given.members, given.boosted)
    if given.large:
        time_table()


if __name__ == "__main__":
    main()
