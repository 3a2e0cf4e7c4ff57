"""What shipped policies decide and release: every table of README and docs that is about releases, in one run.

python -m deid_assets_tests.benchmarks.releases [--desynpuf FOLDER] [--members 200000 --release 20000]

The synthetic delivery with the policies for members and claims; each folder of DE-SynPUF samples in FOLDER, and all of them as
one delivery, with those for DE-SynPUF; each in a new home. Then ten simulated yearly deliveries. Tables show the outcome with
the gates, what a release keeps, what its recipients may guess, and what disappearing between releases discloses.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import yaml

from deid_assets.assessments.detail import KEPT as INFORMATION_KEPT
from deid_assets.assessments.gain_kept import KEPT, LABEL_KEPT, UPPER
from deid_assets.policy.loading import shipped_policies
from deid_assets_tests.benchmarks.__main__ import Run, run
from deid_assets_tests.benchmarks.inference import guessed_rows
from deid_assets_tests.benchmarks.timing import head, machine, row

SHOWN = (
    "high_risk_share", "worst_class_high_risk_share", "demographic_high_risk_share", "neighbor_success_given_membership",
    "absence_factor",
)  # fmt: skip
"""Gates that the tables show, in this order."""


@dataclass(frozen=True)
class Released:
    """A delivery, and how its run ended."""

    delivery: str
    run: Run

    @property
    def measured(self) -> dict[str, float | None]:
        """The values of the release's public manifest, by name; none of a refused one."""
        manifest = self.run.manifest or {"evidence": []}
        return {one["name"]: one["value"] for item in manifest["evidence"] for one in item["measurements"]}


def released_synthetic(members: int, release: int) -> Iterator[Released]:
    """The decisions of both policies for claims without dates on the synthetic delivery."""
    for policy in ("heritage_public", "heritage"):
        made = run("--policy", policy, "--members", str(members), "--release", str(release), "--key", "benchmark")
        yield Released(f"{members:,} synthetic members, `{policy}`", made)


def released_desynpuf(folder: Path | None) -> Iterator[Released]:
    """The decisions on every folder of samples, and on all of them as one delivery; none without a folder.

    Of `desynpuf`; where it refuses, also of a copy of it that publishes a release however coarse it is; and of `claims_dates`.
    """
    if folder is None:
        return
    samples = sorted(
        path for path in folder.iterdir() if path.is_dir() and list(path.glob("*Beneficiary_Summary*Sample_[1-9]*"))
    )
    with tempfile.TemporaryDirectory() as place:
        coarse = Path(place) / "however_coarse.yaml"
        values = yaml.safe_load(next(file for file in shipped_policies() if file.stem == "desynpuf").read_text())
        coarse.write_text(yaml.safe_dump(values | {"policy": coarse.stem, "publish_however_coarse": True}))
        for delivery in [*([sample] for sample in samples), samples]:
            paths = [argument for path in delivery for argument in ("--delivery", str(path))]
            name = "sample " + ", ".join(path.name.removeprefix("sample-") for path in delivery)
            made = run("--policy", "desynpuf", *paths, "--key", "benchmark")
            yield Released(f"{name}, `desynpuf`", made)
            if made.outcome == "refused":
                yield Released(f"{name}, however coarse", run("--policy", str(coarse), *paths, "--key", "benchmark"))
            yield Released(f"{name}, `claims_dates`", run("--policy", "claims_dates", *paths, "--key", "benchmark"))


def outcome_row(found: Released) -> None:
    """How a run ended, and the numbers that its gates compared."""
    row(found.delivery, found.run.outcome, *(found.run.gate(gate) for gate in SHOWN))


def kept_table(releases: Sequence[Released]) -> None:
    """The information kept of each column, and the shares of the gain of each target, with their intervals."""
    head("delivery", "of", "kept")
    for found in releases:
        values = found.measured
        for name, value in values.items():
            of, _, what = name.rpartition("/")
            if what == INFORMATION_KEPT and value is not None:
                row(found.delivery, of, f"{value:.3f} of the information")
            elif what in (KEPT, LABEL_KEPT):
                of_what = "of the gain" if what == KEPT else "of what labels add"
                share = "not told" if value is None else f"{value:.2f} to {values[name + UPPER]:.2f}"
                row(found.delivery, of.replace("_", " "), f"{share} {of_what}")


def guessed_table(releases: Sequence[Released]) -> None:
    """What recipients guess in all groups together, by channel."""
    head("delivery", "withheld", "most frequent", "Naive Bayes", "without identifiers", "boosting", "surest tenth right")
    for found in releases:
        for cells in guessed_rows(found.measured):
            row(found.delivery, *cells)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--desynpuf", type=Path, help="a folder with a folder for each DE-SynPUF sample")
    parser.add_argument("--members", type=int, default=200_000, help="synthetic members")
    parser.add_argument("--release", type=int, default=20_000, help="of them, how many to release")
    asked = parser.parse_args()
    print(f"{machine()}\n", flush=True)
    head("delivery", "outcome", *(name.replace("_", " ") for name in SHOWN))
    made = []
    for found in chain(released_synthetic(asked.members, asked.release), released_desynpuf(asked.desynpuf)):
        outcome_row(found)
        made.append(found)
    published = [found for found in made if found.run.manifest]
    print()
    kept_table(published)
    print()
    guessed_table(published)


if __name__ == "__main__":
    main()
