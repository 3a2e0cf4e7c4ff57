"""How many members and claims remain after each step of a release."""

from collections.abc import Iterator, Mapping, Sequence

from deid_assets.policy.models import Policy
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import COHORT_SECTIONS, drawn, shape
from deid_assets.sources.delivery import Delivery
from deid_assets.store.tables import Table


def attrition(policy: Policy, delivery: Delivery, tables: Mapping[str, Table]) -> tuple[AttritionStep, ...]:
    """Rows in and out of every stage, of members and of claims; exact, for the restricted edition.

    Parameters
    ----------
    tables
        Tables of the restricted store, by the names of their assets.
    """
    profiles = tables["member_profiles"]
    opted_out = (
        tables["removed_members"]
        .query(
            f"SELECT count(DISTINCT member_id) FILTER (reason = 'opted out') AS opted, "
            "count(DISTINCT member_id) FILTER (reason IN ('opted out', 'withdrew')) AS opted_or_withdrew, "
            f"count(DISTINCT member_id) AS all_removed FROM {tables['removed_members'].sql}"
        )
        .iloc[0]
    )
    sampled = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    of_sample = f"SELECT count(*) AS n FROM {{}} WHERE member_id IN (SELECT member_id FROM {profiles.sql} WHERE released)"
    eligible_sampled = int(profiles.query(of_sample.format(tables["eligible_claims"].sql))["n"].iloc[0])
    truncated_sampled = int(profiles.query(of_sample.format(tables["held"].sql))["n"].iloc[0])
    delivered = tables["members"].count()
    remaining = COHORT_SECTIONS
    steps = (
        ("delivered_members", delivered, "", shape(policy, "source")),
        ("members_after_opt_outs", delivered - int(opted_out["opted"]), "opted out", shape(policy, "source", "opt_outs")),
        *(
            [
                (
                    "members_after_withdrawals", delivered - int(opted_out["opted_or_withdrew"]),
                    "opted out of all releases", shape(policy, "source", "opt_outs"),
                )
            ]
            if policy.opt_outs.withdrawn
            else []
        ),
        (
            "members_not_removed", delivered - int(opted_out["all_removed"]),
            "sensitive codes, rare and visible diseases, codes that cannot be read, claims in quarantine",
            shape(policy, *remaining),
        ),
        ("eligible_members", tables["eligible_members"].count(), "no eligible claim", shape(policy, *remaining)),
        (
            "sampled_members", sampled, "random sample",
            # The number drawn is random for each policy and delivery: the same noise would reveal the exact difference.
            shape(policy, *remaining, "sample", **drawn(policy, delivery)),
        ),
        (
            "released_members", tables["release_members"].count(),
            "suppressed because flagged, or standing out beside an earlier release", "",
        ),
    )  # fmt: skip
    of_claims = (
        ("delivered_claims", tables["claims"].count(), ""),
        ("eligible_claims", tables["eligible_claims"].count(), "claims of newborns and codes that are no procedure"),
        ("sampled_claims", eligible_sampled, "random sample of members"),
        ("truncated_claims", truncated_sampled, "long tail"),
        ("released_claims", tables["release_claims"].count(), "suppressed members"),
    )
    return (
        *_steps("members", steps, "data/Members.csv"),
        *_steps("claims", [(*step, "") for step in of_claims], "data/Claims.csv"),
    )


def _steps(unit: str, steps: Sequence[tuple[str, int, str, str]], file: str) -> Iterator[AttritionStep]:
    """(stage, rows out, reason, shape) as steps, each from the previous one; the last step's rows are those of a file."""
    stages = [stage for stage, *_ in steps]
    for place, (stage, count, reason, of) in enumerate(steps):
        source = stages[place - 1] if place else None
        yield AttritionStep(stage, unit, count, source, reason, file if stage == stages[-1] else "", of)
