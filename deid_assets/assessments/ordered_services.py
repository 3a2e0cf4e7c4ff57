"""Three consecutive services in order as something that an adversary knows, where dates are released."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from deid_assets.assessments.evidence import Measurement, counted
from deid_assets.assessments.kernel_input import claim_columns, member_columns, smallest_safe_class
from deid_assets.assessments.planted_members import PlantedClaim, PlantedMember, plant_members
from deid_assets.assessments.planting import as_certain, own_values, planted_store
from deid_assets.assessments.released_rows import released_date_columns
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.disclosure.ordered_services import (
    CONSECUTIVE,
    OrderedRisk,
    ordered_class_sizes,
    ordered_risk,
    shown_services,
)
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

HIGH_RISK, SINGLED_OUT = "ordered_services_high_risk_share", "ordered_services_singled_out_share"
RANDOM_HIGH_RISK, RANDOM_SINGLED_OUT = (f"{name}_by_a_random_window" for name in (HIGH_RISK, SINGLED_OUT))
ORDERED = (HIGH_RISK, SINGLED_OUT, RANDOM_HIGH_RISK, RANDOM_SINGLED_OUT)
METHOD = "ordered_services"
INTERVAL = "service_interval"


def _told(policy: Policy) -> list[str]:
    """The columns of a claim that are known besides the intervals between services."""
    return [column for column in claim_columns(policy) if column not in (INTERVAL, "service_order")]


def ordered_services_risk(
    policy: Policy, levels: Mapping[str, int], population: Table, released: Table, tables: Mapping[str, Table]
) -> OrderedRisk:
    """What three consecutive services disclose of each released member, counted in the population.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    population, released
        The members with their demographics as released: member_id, or MemberID, and the member-level columns.
    tables
        `truncated_claims`, `value_domains` and `release_claims`.
    """
    own, names = tables["truncated_claims"], policy.claim_names
    ((stored, shown),) = released_date_columns(policy).items()
    told = _told(policy)
    of_claims = generalized_claims(own, tables["value_domains"], {column: levels[column] for column in names}, [stored])
    demographics, k = member_columns(policy), smallest_safe_class(policy)
    sizes = population.arrays(
        ordered_class_sizes(
            shown_services(population, f"({of_claims})", "member_id", demographics, stored, INTERVAL, told),
            shown_services(
                released, tables["release_claims"].sql, "MemberID", demographics, shown, names[INTERVAL],
                [names[column] for column in told],
            ),
            len(demographics), len(told), k,
        )
    )  # fmt: skip
    return ordered_risk(sizes["smallest"], sizes["at_risk"], sizes["alone"], k)


def ordered_services_measurements(policy: Policy, risk: OrderedRisk) -> tuple[Measurement, ...]:
    """The shares at high risk and singled out, by the most dangerous window and by a random one; the first may be a gate."""
    values = (risk.high_risk, risk.singled_out, risk.random_high_risk, risk.random_singled_out)
    limits = {HIGH_RISK: policy.dates_section.ordered_services_at_most}
    return tuple(
        counted(
            name, "share of released members", value, limits.get(name), METHOD,
            "methods#dates; Anonymizing Health Data 2013, ch. 5", risk.released,
        )
        for name, value in zip(ORDERED, values, strict=True)
    )  # fmt: skip


def ordered_services_of_canaries(
    policy: Policy, levels: Mapping[str, int], like: Mapping[str, Table],
    attack: Callable[[Mapping[str, Table]], Iterable[Measurement]],
) -> Findings:  # fmt: skip
    """Whether windows are found that differ from others in one column, or in their order only.

    A class of plain canaries is just large enough. Two canaries of each column have a value of their own, on the second and
    the third service: without the order, they would hide each other. Two more share what is theirs. One has four services,
    and only with the last one a window of its own. One has two services like everybody, and one shares services with
    everybody but no demographics.
    """
    enough, values = smallest_safe_class(policy), own_values()
    plain: dict[str, object] = {}
    members: list[PlantedMember] = []
    claims: list[PlantedClaim] = []
    # Of released canaries: the smallest class, and the shares of windows at high risk and without others.
    found: list[tuple[int, float, float]] = []

    def add(
        services: Sequence[Mapping[str, object]], size: int, own: Mapping[str, object], risky: float, released: bool = True
    ) -> None:
        claims.extend(PlantedClaim(len(members), told, day=10 * place) for place, told in enumerate(services))
        members.append(PlantedMember(own, own, released))
        if released:
            found.append((size, risky, risky if size == 1 else 0.0))

    for number in range(enough - 1):
        add([plain] * CONSECUTIVE, enough, {}, 0, released=number < 2)
    for column in (INTERVAL, *_told(policy)):
        alone, shared = ({column: next(values)} for _ in range(2))
        add([plain, alone, plain], 1, {}, 1)
        add([plain, plain, alone], 1, {}, 1)
        for released in (True, False):
            add([plain, shared, plain], 2, {}, float(enough > 2), released)
    add([*[plain] * CONSECUTIVE, {INTERVAL: next(values)}], 1, {}, 1 / 2)
    add([plain] * 2, enough, {}, 0)
    add([plain] * CONSECUTIVE, 1, {member_columns(policy)[0]: next(values)}, 1)
    sizes, at_risk, by_nobody = (np.array(one) for one in zip(*found, strict=True))
    shares = ((sizes < enough).mean(), (sizes == 1).mean(), at_risk.mean(), by_nobody.mean())
    with planted_store() as file:
        planted = plant_members(file, policy, levels, like, members, claims)
        return as_certain(dict(zip(ORDERED, shares, strict=True)), attack(planted))
