"""How long the long tail and the dates take: every asset of these steps, as it is materialized, by method.

    python -m deid_assets_tests.benchmarks.dates_and_tails [--members 135000]

Prints a Markdown table of seconds that pass. 135,000 synthetic members have five million claims.
"""

import argparse
import tempfile
from pathlib import Path

from deid_assets.policy.loading import policy_by_name
from deid_assets_tests.benchmarks.timing import head, load, machine, row
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy

KEY = "benchmark"
BINS = {"width": 5, "risk": 0.1, "cap": 500, "unit": "member"}
METHODS = {
    "bins": {"method": "bins", "score": "balanced", **BINS},
    "optimal bins": {"method": "optimal_bins", "score": "balanced", **BINS},
    "percentile": {"method": "percentile", "percentile": 95, "unit": "member", "score": "support"},
}
BEFORE = ("members", "claims", "quarantined_rows", "delivered_codes", "code_book", "comorbidity_codes", "pseudonym_crosswalk",
          "removed_members", "eligible_claims", "eligible_members", "grouped_claims", "released_sample")  # fmt: skip
STEPS = ("claim_support_scores", "truncated_claims", "dated_claims", "known_claims")


def policy(long_tail: dict) -> dict:
    """The policy that ships with dates, for synthetic deliveries."""
    content = policy_by_name("claims_dates").content()
    return changed(
        content, source={"kind": "synthetic"}, long_tail=long_tail, risk__class_size="counted", risk__population_size=None
    )


def seconds(pipeline: Pipeline, asset: str) -> float:
    """What the materialization says of itself."""
    return float(pipeline.materialization(asset, KEY).metadata["seconds"].value)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=135_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, name = Path(folder) / "deid", "claims_dates_synthetic"
        with pipeline_in(root, name) as pipeline:
            write_policy(pipeline.home.policies, policy(METHODS["bins"]) | {"policy": name})
            pipeline.synthetic(KEY, asked.members, seed=1)
            pipeline.run(KEY, BEFORE)
            print(f"{machine()} {pipeline.table(KEY, 'claims').count():,} claims. Seconds:\n")
            head("long tail", *STEPS)
            for method, long_tail in METHODS.items():
                write_policy(pipeline.home.policies, policy(long_tail) | {"policy": name})
                summary = pipeline.run(KEY, STEPS)
                if summary.reasons or summary.failed_checks:
                    raise SystemExit(f"{method}: {summary.reasons} {summary.failed_checks}")
                row(method, *(f"{seconds(pipeline, step):.1f}" for step in STEPS))
    print(f"\n{load()}")


if __name__ == "__main__":
    main()
