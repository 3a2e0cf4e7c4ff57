"""Which policies on the demographics of a cohort are no riskier than Safe Harbor, as numbers that may leave the store.

Risks are measured on exact classes, in the whole cohort and in each of its states. What is shown of them never says how many
people fewer than eleven are: small states are joined, and a count of people in small classes is left out where it, or what is
left of its group, is below eleven (methods#demographics-risk).

Verdicts are shown in the form of Malin et al. (2011, Tables 3 and 4). Offers say in which detail each state, or each ethnicity,
may show ages over 89 (methods#demographics-local-recoding): levels, never numbers of people. Groups with fewer than eleven
people are joined, and have the coarsest level that one of them has.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED
from deid_assets.methods.demographics.attributes import (
    TOP_CODED,
    YEAR,
    DemographicPolicy,
    Node,
    policy_at,
    published_alternatives,
    safe_harbor,
)
from deid_assets.methods.demographics.discovery import Bar, Discovery, discover, risk_and_detail
from deid_assets.methods.demographics.local_recoding import FIRST_OLD_AGE, recode_old_ages, recoded_ages
from deid_assets.methods.demographics.measures import LARGEST, TOTAL, Measure
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.risk import WHOLE, risks_of_policies, verdicts
from deid_assets.policy.cohort import ATTRIBUTES

OTHER_STATES = "other states"
"""States with fewer than eleven members of the cohort, and as many more as it takes for eleven."""
CONFIDENCE = 0.99
STATES = ("geography", "state")
REFERENCE = "Safe Harbor"
_DIGITS = 3
_RISKIER = ("riskier_expected", "riskier_upper")


@dataclass(frozen=True)
class Question:
    """What is asked of a cohort.

    Attributes
    ----------
    decided_by
        Kinds of measure by which a policy must be no riskier: total, graduated, non-graduated, largest.
    thresholds
        T of the graduated and non-graduated risks.
    policies
        Policies to judge beside the five published ones.
    at_upper_bound
        Whether an upper bound of a policy's risk must not exceed Safe Harbor's expected risk. Otherwise expected risks are
        compared, which takes the model of a population that is only estimated for the truth.
    exponent
        a of all risks but the largest, which is a probability.
    """

    decided_by: tuple[str, ...] = ("total",)
    thresholds: tuple[int, ...] = (10,)
    policies: tuple[DemographicPolicy, ...] = ()
    at_upper_bound: bool = True
    exponent: float = 1.0

    def __post_init__(self) -> None:
        if not self.deciding or set(self.decided_by) - {measure.kind for measure in self.measures}:
            raise PolicyError("name the measures that decide, and a threshold for graduated and non-graduated risk")

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Every measure that is shown."""
        graduated = [Measure(kind, at, self.exponent) for kind in ("graduated", "non-graduated") for at in self.thresholds]
        return (Measure("total", exponent=self.exponent), *graduated, LARGEST)

    @cached_property
    def deciding(self) -> tuple[Measure, ...]:
        """The measures that decide."""
        return tuple(measure for measure in self.measures if measure.kind in self.decided_by)


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What may be said of the policies.

    Attributes
    ----------
    records
        Number of people of the cohort.
    rows
        policy | group: 'all', a state or `OTHER_STATES` | records | measure | decides | percent, upper_percent: of the group's
        records, or the largest record risk; three digits, upper bounds rounded up; missing where they are not shown |
        riskier_expected, riskier_upper: whether the expected risk, or its upper bound, exceeds Safe Harbor's expected risk in
        the group, or in any of the joined states.
    summary
        policy | no_riskier: in the whole cohort and in every state by every deciding measure, as the question compares |
        no_riskier_expected, no_riskier_upper: by either comparison | groups, riskier_groups: those shown.
    policies
        The policies of the rows: Safe Harbor, the published ones, those asked for, and those that were discovered.
    """

    records: int
    rows: pd.DataFrame
    summary: pd.DataFrame
    policies: tuple[DemographicPolicy, ...]

    def no_riskier(self, policy: str) -> bool:
        """Whether a policy is no riskier than Safe Harbor."""
        return bool(self.summary.set_index("policy").loc[policy, "no_riskier"])


def policy_named(text: str) -> DemographicPolicy:
    """Return a published policy by its name, or one by its levels as `discover` names them.

    Raises
    ------
    PolicyError
        If it is neither.

    Examples
    --------
    >>> policy_named("5_year_gen_eth").name
    '5 year-GenEth'
    >>> policy_named("age 5 years; geography region; ethnicity any; sex sex").levels["geography"]
    'region'
    """
    published = {_plain(policy.name): policy for policy in (safe_harbor(), *published_alternatives())}
    if _plain(text) in published:
        return published[_plain(text)]
    parts = [part.strip().partition(" ") for part in text.split(";") if part.strip()]
    levels = {name: level.strip() for name, _, level in parts}
    if len(levels) != len(parts) or not {"age", "ethnicity", "geography", "sex"} <= set(levels):
        raise PolicyError(
            f"a policy is one of {', '.join(_named(policy.name) for policy in published.values())}, or a level of each "
            "attribute, such as 'age 5 years; ethnicity any; geography state; sex sex'"
        )
    return DemographicPolicy.of("; ".join(f"{name} {level}" for name, level in levels.items()), levels)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _named(name: str) -> str:
    return re.sub(r"[ -]", "_", name.replace("GenEth", "gen_eth")).lower()


def judged(question: Question, dates: Sequence[str] = ()) -> dict[str, DemographicPolicy]:
    """Return Safe Harbor, the published policies and those asked for, by name.

    Parameters
    ----------
    dates
        Attributes that are dates. Published policies have them by year, as Safe Harbor does.
    """
    by_year = dict.fromkeys(dates, YEAR)
    named = {policy.name: policy.with_levels(**by_year) for policy in (safe_harbor(), *published_alternatives())}
    return named | {policy.name: policy for policy in question.policies if policy.name not in named}


def reference_of(cells: Cells) -> DemographicPolicy:
    """Return Safe Harbor on the attributes of a cohort."""
    return safe_harbor(**dict.fromkeys(dates_of(cells), YEAR))


def bar_of(question: Question) -> Bar:
    """Return when a policy is no riskier: in every state by every deciding measure, as the question compares."""
    return Bar(question.deciding, by=STATES, confidence=CONFIDENCE if question.at_upper_bound else None)


def dates_of(cells: Cells) -> tuple[str, ...]:
    """Return the names of the attributes that are dates."""
    return tuple(date.name for date in cells.demographics.dates)


def judge(cells: Cells, question: Question, discovered: Sequence[DemographicPolicy] = ()) -> Verdicts:
    """Measure Safe Harbor, the published policies and those asked for, and say which are no riskier.

    Parameters
    ----------
    cells
        The cohort in its population; geography must have the level state.
    discovered
        Further policies to measure.

    Raises
    ------
    DeliveryError
        If the cohort has fewer than eleven people: every number would be about them.
    PolicyError
        If a policy names a level that the attributes do not have.
    """
    if cells.records < SMALLEST_DESCRIBED:
        raise DeliveryError(
            f"cohort: it has fewer than {SMALLEST_DESCRIBED} records; any number about it would be one about single people"
        )
    listed = judged(question, dates_of(cells)) | {policy.name: policy for policy in discovered}
    policies, measures = tuple(listed.values()), question.measures
    risks = risks_of_policies(cells, policies, measures, by=STATES, confidence=CONFIDENCE)
    decides = risks["measure"].isin([measure.name for measure in question.deciding])
    reference = reference_of(cells).node(cells.demographics)
    same = [policy.name for policy in policies if policy.node(cells.demographics) == reference]
    compared = {
        name: verdicts(risks, at_upper_bound=upper, same=same)["riskier"]
        for name, upper in zip(_RISKIER, (False, True), strict=True)
    }
    found = risks.assign(decides=decides, **compared)
    exact = found[found["decides"]].groupby("policy", sort=False)[list(_RISKIER)].any()
    rows = _shown(_joined(found, measures), measures)
    chosen = _RISKIER[question.at_upper_bound]
    by_group = rows[rows["decides"]].groupby(["policy", "group"], sort=False)[chosen].any().groupby("policy", sort=False)
    summary = pd.DataFrame(
        {
            "no_riskier": ~exact[chosen],
            "no_riskier_expected": ~exact["riskier_expected"],
            "no_riskier_upper": ~exact["riskier_upper"],
            "groups": by_group.size(),
            "riskier_groups": by_group.sum(),
        }
    )
    return Verdicts(cells.records, rows, summary.loc[list(listed)].rename_axis("policy").reset_index(), policies)


def alternatives(cells: Cells, question: Question) -> Discovery:
    """Find all policies that are no riskier than Safe Harbor in any state, and that no other such policy refines.

    Those that have a name, such as '5 year', keep it.
    """
    found = discover(cells, reference_of(cells), bar_of(question))
    named: dict[Node, DemographicPolicy] = {}
    for policy in judged(question, dates_of(cells)).values():
        named.setdefault(policy.node(cells.demographics), policy)
    kept = tuple(named.get(policy.node(cells.demographics), policy) for policy in found.alternatives)
    return replace(found, alternatives=kept, table=found.table.assign(policy=[policy.name for policy in kept]))


def frontier(cells: Cells, named: Iterable[DemographicPolicy]) -> pd.DataFrame:
    """Return total risk in per cent and detail of every policy, for a figure.

    Returns
    -------
    pandas.DataFrame
        percent | detail, bits per record | on_frontier | name: of those policies that have one, else empty.
    """
    demographics = cells.demographics
    found = risk_and_detail(cells, TOTAL)
    names: dict[str, str] = {}
    for policy in named:
        # Policies that are the same here, such as GenEth of a cohort without races, have the name of the first.
        names.setdefault(policy_at(policy.node(demographics), demographics).name, policy.name)
    return pd.DataFrame(
        {
            "percent": [to_three_digits(100 * risk / cells.records) for risk in found["risk"]],
            "detail": [to_three_digits(detail) for detail in found["detail"]],
            "on_frontier": found["on_frontier"],
            "name": found["policy"].map(names).fillna(""),
        }
    )


def frontier_policies(cells: Cells) -> tuple[DemographicPolicy, ...]:
    """Return the policies on the frontier of total risk and detail, by ascending risk; many are riskier than Safe Harbor."""
    found = risk_and_detail(cells, TOTAL)
    return tuple(policy_named(name) for name in found.loc[found["on_frontier"], "policy"])


def to_three_digits(number: float, up: bool = False) -> float:
    """Return a number at three significant digits, rounded up if asked for: a bound stays one.

    Examples
    --------
    >>> to_three_digits(0.123449), to_three_digits(0.12301, up=True), to_three_digits(0.0), to_three_digits(100.0, up=True)
    (0.123, 0.124, 0.0, 100.0)
    """
    if number == 0 or not math.isfinite(number):
        return number
    digits = _DIGITS - 1 - math.floor(math.log10(abs(number)))
    scaled = round(number * 10.0**digits, 6)
    return round(float(math.ceil(scaled) if up else round(scaled)) * 10.0**-digits, max(digits, 0))


def small_groups(sizes: pd.Series) -> pd.Index:
    """Return the groups with fewer than eleven people, and as many more as it takes for eleven and for two groups.

    Parameters
    ----------
    sizes
        People of each group.
    """
    ascending = sizes.sort_values(kind="stable")
    small = int((ascending < SMALLEST_DESCRIBED).sum())
    while 0 < small < len(ascending) and (ascending.iloc[:small].sum() < SMALLEST_DESCRIBED or small == 1):
        small += 1
    return ascending.index[:small]


def _joined(found: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Join states of fewer than eleven people, and as many more as it takes; a cohort of one group has no groups."""
    joined = small_groups(found.loc[found["group"] != WHOLE].groupby("group")["records"].first())
    groups = found["group"].mask(found["group"].isin(joined), OTHER_STATES)
    kept = {WHOLE} if groups.nunique() == 2 else set(groups)
    rows = found.assign(group=groups)[groups.isin(kept)]
    largest = rows["measure"].isin([measure.name for measure in measures if not measure.sums])
    keys = ["policy", "group", "measure"]
    flags = dict.fromkeys(["decides", *_RISKIER], "any")
    whole = rows[~largest].groupby(keys, sort=False).agg({"records": "sum", "risk": "sum", "upper": "sum"} | flags)
    most = rows[largest].groupby(keys, sort=False).agg({"records": "sum", "risk": "max", "upper": "max"} | flags)
    per = [whole[["risk", "upper"]].div(whole["records"], axis=0), most[["risk", "upper"]]]
    both = pd.concat([whole, most]).assign(
        **(100 * pd.concat(per)).rename(columns={"risk": "percent", "upper": "upper_percent"})
    )
    order = rows.drop_duplicates(keys).set_index(keys).index
    return both.loc[order].reset_index().sort_values("group", key=lambda group: group == OTHER_STATES, kind="stable")


def _shown(rows: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Leave out what counts fewer than eleven people, and round the rest.

    Graduated and non-graduated risks say how many people are in small classes. If one such count of a policy may not be shown
    for a state, it is shown for none: the others would tell it.
    """
    at = rows["measure"].map({measure.name: measure.at_most for measure in measures})
    few = _counts_few(rows.assign(at=at)).reindex(
        pd.MultiIndex.from_arrays([rows["policy"], rows["group"], at]), fill_value=False
    )
    few = few.to_numpy(dtype=bool)
    state = (rows["group"] != WHOLE).to_numpy()
    of_a_state = pd.Series(few & state).groupby([rows["policy"].to_numpy(), rows["measure"].to_numpy(), state]).transform("any")
    hidden = few | (of_a_state.to_numpy() & state)
    shown = rows[["policy", "group", "records", "measure", "decides"]].assign(
        percent=[to_three_digits(value) for value in rows["percent"]],
        upper_percent=[to_three_digits(value, up=True) for value in rows["upper_percent"]],
        riskier_expected=rows["riskier_expected"],
        riskier_upper=rows["riskier_upper"],
    )
    shown.loc[hidden, ["percent", "upper_percent"]] = np.nan
    return shown.reset_index(drop=True)


def _counts_few(rows: pd.DataFrame) -> pd.Series:
    """Whether a count of people in small classes may not be shown, by policy, group and threshold.

    Neither it, nor what is left of the group, nor the difference from the count at the next smaller threshold that is shown,
    may be of one to ten people.
    """
    counts = rows[rows["measure"].str.startswith("non-graduated")].pivot(index=["policy", "group"], columns="at", values="risk")
    records = rows.groupby(["policy", "group"])["records"].first().reindex(counts.index).to_numpy()
    shown = np.zeros(len(counts))
    found = {}
    for threshold in counts.columns.sort_values():
        people = counts[threshold].to_numpy(dtype=float)
        found[threshold] = _is_small(people - shown) | _is_small(records - people)
        shown = np.where(found[threshold], shown, people)
    return pd.DataFrame(found, index=counts.index).rename_axis(columns="at").stack()


def _is_small(people: np.ndarray) -> np.ndarray:
    """Whether a number of people is expected to be above 0 and below eleven."""
    return (people > 1e-9) & (people < SMALLEST_DESCRIBED - 1e-9)


NOT_SHOWN = "-"


def tables_in_the_paper(found: Verdicts) -> Mapping[str, pd.DataFrame]:
    """Return the risk of Safe Harbor by measure, and that of all other policies by measure and policy, in per cent.

    Columns are the whole cohort and its states. An asterisk marks an expected risk above that of Safe Harbor. Numbers that
    would count fewer than eleven people are left out.

    References
    ----------
    Malin B, Benitez K, Masys D (2011), Tables 3 and 4, doi:10.1136/jamia.2010.004622
    """
    rows = found.rows
    shown = rows["percent"].map(lambda value: NOT_SHOWN if value != value else f"{value:.3g}")
    text = shown + rows["riskier_expected"].map({True: "*", False: ""})
    own = rows.assign(shown=text)[["measure", "policy", "group", "shown"]]
    is_reference = own["policy"] == REFERENCE
    return {
        "Safe Harbor": _wide(own[is_reference].drop(columns="policy"), ["measure"]),
        "Alternatives": _wide(own[~is_reference], ["measure", "policy"]),
    }


def _wide(rows: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    wide = rows.set_index([*index, "group"])["shown"].unstack("group", sort=False)
    return wide.rename_axis(columns=None).reset_index()


def frontier_rows(found: Discovery) -> pd.DataFrame:
    """Return the policies that were found, with their levels and what they keep, in three digits."""
    table = found.table
    levels = {name: table.get(name) for name in ATTRIBUTES}
    detail = {name: table[name].map(to_three_digits).astype("float64") for name in ("detail", "detail_of_reference")}
    said = {name: table[name] for name in ("finer", "coarser", "different")}
    return pd.DataFrame({"policy": table["policy"], **levels, **detail, **said}).astype(dict.fromkeys(levels, "str"))


OLD_AGES = ("1 year", "5 years", "10 years", TOP_CODED)
"""Levels of ages from 90 on, from fine to coarse; the last is one class of 90 and over."""
STATE, ETHNICITY = "state", "ethnicity"
OTHERS = {STATE: OTHER_STATES, ETHNICITY: "other ethnicities"}


@dataclass(frozen=True)
class RecodedOldAges:
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
) -> RecodedOldAges:
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
    table = recode_old_ages(cells, policy, reference_of(cells), levels, grouping, bar_of(question)).set_index("group")
    if table["old_ages"].isna().any():
        return RecodedOldAges(policy, by, {}, tuple(levels))
    joined = small_groups(table["records"])
    coarseness = table["old_ages"].map({name: at for at, name in enumerate(levels)})
    shown = {group: levels[at] for group, at in coarseness.drop(joined).items()}
    if len(joined):
        shown[OTHERS[by]] = levels[int(coarseness[joined].max())]
    return RecodedOldAges(policy, by, shown, tuple(levels))


def offers(cells: Cells, question: Question, policies: Sequence[DemographicPolicy]) -> tuple[RecodedOldAges, ...]:
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


def _differs(cells: Cells, policy: DemographicPolicy, offer: RecodedOldAges) -> bool:
    """Whether a group's ages from 90 on are other classes than those of the policy."""
    age = cells.demographics.age
    own = age.levels[policy.node(cells.demographics)[0]]
    years = age.values.to_numpy()
    recoded = (recoded_ages(own, age.level(name), years) for name in set(offer.levels.values()))
    return any(not (level.refines(own) and own.refines(level)) for level in recoded)
