"""Assessment: attack 1 under other assumptions, on exactly the rows that would be published (methods#sensitivity).

It corresponds to Table 7 of El Emam et al. 2012.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.attack_sensitivity import (
    joint_confidence,
    number_known,
    sensitivity_measurements,
    table_rows,
    wrong_values,
)
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.kernel_input import claim_columns, member_columns, sampling_fraction
from deid_assets.assets.assessment import evidence_frame, original_members, profiles_query
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import markdown_table, stage_asset
from deid_assets.assets.tries import delivery_tries, note_if_refused
from deid_assets.methods.adversary.adversary_power import Rounding
from deid_assets.methods.adversary.adversary_power import adversary_power as power_of
from deid_assets.methods.adversary.value_diversity import ValuePairs
from deid_assets.methods.attacks.attack_sensitivity import AttackSensitivity, Cell, Knows, cell_of, confidence_of_each
from deid_assets.methods.canaries.checks import sensitivity_of_canaries
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.population.released_claims import DAY, delivered_days, released_records
from deid_assets.methods.population.released_population import own_positions
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy
from deid_assets.reports.rendering import markdown_image
from deid_assets.reports.sensitivity_figures import sensitivity_figure
from deid_assets.resources import Policies, Workplace
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.tables import Table, write_table


@dataclass(frozen=True)
class Variant:
    """A row of the analysis: what is known, how power is rounded (None: as in the policy), what share is wrong.

    `width` is the numbers of claims per bin, if the number is known.
    """

    name: str
    knows: Knows = "values"
    rounding: Rounding | None = None
    wrong: float = 0.0
    width: int = 1


VARIANTS = {
    "original": Variant("original"),
    "one_claim_jointly": Variant("one_claim_jointly", "claim"),
    "one_pair_ordered": Variant("one_pair_ordered", "order"),
    "year_known": Variant("year_known", "year"),
    "year_of_each_value_known": Variant("year_of_each_value_known", "dated_values"),
    "power_rounded_down": Variant("power_rounded_down", rounding="floor"),
    "power_rounded_up": Variant("power_rounded_up", rounding="ceiling"),
}


def variants_of(policy: Policy) -> tuple[Variant, ...]:
    """The rows of the analysis that a policy requires."""
    section = policy.attack_sensitivity
    number: Knows = "number" if policy.measured_number_of_claims.per == "member" else "yearly_numbers"
    return (
        *(VARIANTS[name] for name in section.variants),
        *(Variant(wrong_values(share), wrong=share) for share in section.wrong_shares),
        *(Variant(number_known(width), number, width=width) for width in section.number_of_claims_widths),
    )


@stage_asset(
    policy_sections=["attack_sensitivity", "adversary", "dates", "number_of_claims"],
    version=METHOD_VERSIONS["attack_sensitivity"],
    kinds=("duckdb", "numpy"),
)
def attack_sensitivity(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    eligible_claims: Table,
    grouped_claims: Table,
    value_domains: Table,
    value_diversity: Table,
    pseudonym_crosswalk: Table,
    chosen_generalization: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: attack 1 with more power, linked or ordered claims, known years or numbers of claims, and errors."""
    policy = policies.of(context, Policy)
    section, levels = policy.attack_sensitivity, chosen_levels(policy, chosen_generalization)
    tried = delivery_tries(context, policy, workplace, member_profiles, value_domains).at(levels)
    names = policy.quasi_identifiers.claim_names
    file = release_members.file
    released = original_members(pseudonym_crosswalk, release_members)
    profiles, known = Table(file, "scratch", "sensitivity_profiles"), Table(file, "scratch", "sensitivity_known")
    members = write_table(profiles, profiles_query(policy, release_members.sql, release_days_in_hospital.sql))
    of_columns = {column: levels[column] for column in names}
    write_table(known, generalized_claims(grouped_claims, value_domains, of_columns, members=released))
    ordered, date = grouped_claims, None
    if policy.dates is not None:
        date = policy.dates.release_as
        ordered = Table(file, "scratch", "sensitivity_days")
        write_table(ordered, delivered_days(grouped_claims, eligible_claims))
    records = released_records(
        profiles, release_claims, known, ordered, pseudonym_crosswalk, value_domains,
        member_columns(policy), names, levels.get(DAY), date,
    )  # fmt: skip
    before = workplace.released_before(member_profiles, released)
    alpha = sampling_fraction(policy, members + before, member_profiles.count())
    power = _Power(policy, member_profiles, value_diversity, own_positions(profiles, pseudonym_crosswalk), members)
    attack = AttackSensitivity(records, max(section.powers))
    joint = confidence_of_try(joint_confidence(policy), tried.number)
    interval = measure.mean_interval(confidence_of_each(joint, section.cells))
    commitment = workplace.secret().commitment()

    def cells() -> Iterator[Cell]:
        for variant in variants_of(policy):
            started = time.monotonic()
            for most in section.powers:
                key = stream_key(context, workplace, f"{variant.name} {most}", tried.number)
                found = attack.trials(
                    variant.knows, power.of(variant, most), key, section.trials, variant.wrong, width=variant.width
                )
                yield cell_of(variant.name, most, found, alpha, interval)
            context.log.info(f"{variant.name.replace('_', ' ')}: {time.monotonic() - started:.1f} s")

    measured = sensitivity_measurements(policy, list(cells()), commitment, tried.number)
    note_if_refused(workplace, tried, measured)
    kinds = dict.fromkeys(variant.knows for variant in variants_of(policy))
    canaries = sensitivity_of_canaries(records, kinds, stream_key(context, workplace, "canaries of sensitivity"))
    context.add_output_metadata(
        {
            "trials_per_cell": section.trials,
            "alpha": alpha,
            "table": markdown_table(sensitivity_table(policy, measured)),
            "figure": dg.MetadataValue.md(
                markdown_image(
                    sensitivity_figure(table_rows(policy, measured), *figure_limits(policy)),
                    "success of simulated neighbors by what they know, with that of the Heritage Health Prize",
                )
            ),
        }
    )
    candidate = (release_members, release_claims, release_days_in_hospital)
    return evidence_frame(context, policy, candidate, (*measured, canaries_measurement(canaries, commitment)), tried.number)


def sensitivity_table(policy: Policy, measured: Sequence[Measurement]) -> pd.DataFrame:
    """The analysis as a table: value and joint upper bound of each figure, by row and power."""
    rows = [
        (row, power, *found["unconditional"], *found["given_membership"]) for row, power, found in table_rows(policy, measured)
    ]
    columns = ["known", "power", "unconditional", "its bound", "given membership", "its bound "]
    return pd.DataFrame(rows, columns=columns)


def figure_limits(policy: Policy) -> tuple[float | None, float | None]:
    """The thresholds shown in the figure: unconditional, and given membership."""
    gates = policy.attack_sensitivity.gates
    one, other = (gates[figure].at_most if figure in gates else None for figure in ("unconditional", "given_membership"))
    return one, other


class _Power:
    """p of each released member, for any greatest power and rounding; the year is the last quasi-identifier."""

    def __init__(self, policy: Policy, profiles: Table, diversity: Table, own: str, released: int):
        self._default, self._released = policy.adversary.rounding, released
        # As for adversary_power: the largest ratio is over the whole sample, including suppressed members.
        self._rows = [
            profiles.arrays(
                f"SELECT p.claims, v.n_values, v.differing_pairs FROM {diversity.sql} AS v "
                f"""JOIN {profiles.sql} AS p USING (member_id)
                    LEFT JOIN {own} AS o USING (member_id) WHERE v.quasi_identifier = ?
                    ORDER BY o.position NULLS LAST, member_id""",
                [column],
            )
            for column in (*claim_columns(policy), "year")
        ]

    def of(self, variant: Variant, most: int) -> list[np.ndarray]:
        rows = self._rows if variant.knows == "year" else self._rows[:-1]
        return [
            power_of(
                np.asarray(own["claims"]),
                ValuePairs.of_values(own["differing_pairs"], own["n_values"]),
                most,
                variant.rounding or self._default,
            )[: self._released]
            for own in rows
        ]
