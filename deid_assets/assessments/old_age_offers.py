"""In which detail each state, or each ethnicity, may show ages over 89 (methods#demographics-local-recoding).

What is shown of it are levels, never numbers of people. Groups with fewer than eleven people are joined, and have the coarsest
level that one of them has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deid_assets.assessments.demographic_verdicts import OTHER_STATES, Question, bar_of, reference_of, small_groups
from deid_assets.methods.demographics.cells import Cells
from deid_assets.methods.demographics.local_recoding import FIRST_OLD_AGE, recode_old_ages, recoded_ages
from deid_assets.methods.demographics.policies import DemographicPolicy
from deid_assets.methods.demographics.standard_attributes import TOP_CODED

OLD_AGES = ("1 year", "5 years", "10 years", TOP_CODED)
"""Levels of ages from 90 on, from fine to coarse; the last is one class of 90 and over."""
STATE, ETHNICITY = "state", "ethnicity"
OTHERS = {STATE: OTHER_STATES, ETHNICITY: "other ethnicities"}


@dataclass(frozen=True)
class OldAges:
    """Old ages of a policy by state or ethnicity, with which it is no riskier than Safe Harbor in any state.

    Attributes
    ----------
    demographic
        The policy of all other values.
    by
        `STATE` or `ETHNICITY`.
    levels
        Group to the name of its level of the ages from 90 on. Empty if some group has none: the policy is riskier there,
        however its old ages are published.
    offered
        The levels that were tried, from fine to coarse.
    """

    demographic: DemographicPolicy
    by: str
    levels: Mapping[str, str]
    offered: tuple[str, ...] = OLD_AGES

    @property
    def policy(self) -> str:
        """Name of the policy of all other values."""
        return self.demographic.name

    @property
    def possible(self) -> bool:
        """Whether the policy with these old ages is no riskier than Safe Harbor."""
        return bool(self.levels)


def old_ages_of(
    cells: Cells, question: Question, policy: DemographicPolicy, by: str, levels: Sequence[str] = OLD_AGES
) -> OldAges:
    """Choose the old ages of a policy for each group.

    Raises
    ------
    PolicyError
        If the policy does not publish states or the groups, has a class of ages below and above 90, or a level is none of age.
    """
    names = [attribute.name for attribute in cells.demographics.attributes]
    ethnicity = cells.demographics.ethnicity
    chosen = ethnicity.levels[policy.node(cells.demographics)[names.index(ETHNICITY)]].name
    grouping = ("geography", "state") if by == STATE else (ETHNICITY, chosen)
    table = recode_old_ages(cells, policy, reference_of(cells), levels, grouping, bar_of(question)).table.set_index("group")
    if table["old_ages"].isna().any():
        return OldAges(policy, by, {}, tuple(levels))
    joined = small_groups(table["records"])
    coarseness = table["old_ages"].map({name: at for at, name in enumerate(levels)})
    shown = {group: levels[at] for group, at in coarseness.drop(joined).items()}
    if len(joined):
        shown[OTHERS[by]] = levels[int(coarseness[joined].max())]
    return OldAges(policy, by, shown, tuple(levels))


def offers(cells: Cells, question: Question, policies: Sequence[DemographicPolicy]) -> tuple[OldAges, ...]:
    """Return the old ages of every policy that may publish them otherwise than it does, by state and by ethnicity.

    A policy gains by it if some group may show more, or if it is riskier than Safe Harbor as it is.
    """
    found = []
    # Policies that are the same here, such as GenEth of a cohort without races, have the name of the first.
    for policy in {policy.node(cells.demographics): policy for policy in reversed(policies)}.values():
        for by in (STATE, ETHNICITY) if len(cells.demographics.ethnicity.values) > 1 else (STATE,):
            if not _applies(cells, policy, by):
                continue
            offer = old_ages_of(cells, question, policy, by)
            if offer.possible and _differs(cells, policy, offer):
                found.append(offer)
    order = [policy.name for policy in policies]
    return tuple(sorted(found, key=lambda offer: order.index(offer.policy)))


def _applies(cells: Cells, policy: DemographicPolicy, by: str) -> bool:
    """Whether the policy publishes states, tells ethnicities apart if they are the groups, and cuts ages at 90."""
    demographics = cells.demographics
    node, age = policy.node(demographics), demographics.age
    place, ethnicity = demographics.geography, demographics.ethnicity
    level = age.levels[node[0]]
    return (
        bool(place.refines[node[2], place.number_of("state")])
        and (by == STATE or len(ethnicity.levels[node[1]].labels) > 1)
        and len({int(code) for code in level.codes[:FIRST_OLD_AGE]} & {int(code) for code in level.codes[FIRST_OLD_AGE:]}) == 0
    )


def _differs(cells: Cells, policy: DemographicPolicy, offer: OldAges) -> bool:
    """Whether a group's ages from 90 on are other classes than those of the policy."""
    age = cells.demographics.age
    own = age.levels[policy.node(cells.demographics)[0]]
    years = age.values.to_numpy()
    recoded = (recoded_ages(own, age.level(name), years) for name in set(offer.levels.values()))
    return any(not (level.refines(own) and own.refines(level)) for level in recoded)
