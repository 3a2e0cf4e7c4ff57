"""Policy files of kind cohort for `deid demographics`: what one asks, and the files that it writes for what may be shared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deid_assets.assessments.demographic_verdicts import OldAges, Question
from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import Attribute
from deid_assets.methods.demographics.policies import DemographicPolicy, published_alternatives, safe_harbor
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.loading import load_policy, with_sections
from deid_assets.policy.sections.cohort import PUBLISHED_POLICIES
from deid_assets.sources.cohort import CohortLayout
from deid_assets.sources.demographic_populations import PopulationFiles


@dataclass(frozen=True)
class Asked:
    """What `deid demographics` is asked, by options or by a policy file.

    Attributes
    ----------
    layout, dates
        Columns of the cohort, and the dates that policies may publish.
    source
        Table of the population.
    question
        Policies, measures and comparison.
    gate
        Whether the question's policies must be no riskier than Safe Harbor.
    unusable_at_most
        Greatest share of rows that may be unusable.
    crowded_at_most
        Gate: greatest share of the cohort in rows of the table that are smaller than the cohort there. Such rows are signs of
        another population's table, in which Safe Harbor looks too risky and everything passes.
    largest_at_most
        Highest probability of re-identification of one person (upper bound) under the file's policy; None without this gate.
    file
        The policy file, if there is one.
    """

    layout: CohortLayout
    source: PopulationFiles
    question: Question
    gate: bool
    unusable_at_most: float
    crowded_at_most: float
    dates: tuple[Attribute, ...] = ()
    largest_at_most: float | None = None
    file: CohortPolicy | None = None

    def __post_init__(self) -> None:
        if self.gate and not self.question.policies:
            raise ValueError("a gate without a policy would let everything pass")


def cohort_policy(path: Path) -> CohortPolicy:
    """Return the policy of kind cohort in a file.

    Raises
    ------
    PolicyError
        If the file cannot be read, is wrong, or is of another kind.
    """
    policy = load_policy(path)
    if policy.kind != "cohort":
        raise PolicyError(f"{path.name}: a policy of kind cohort is needed here")
    return policy


def asked_by(policy: CohortPolicy, cohort: Path, files: Mapping[str, Path], further: Iterable[DemographicPolicy]) -> Asked:
    """Return what a policy file asks.

    Parameters
    ----------
    cohort
        The cohort's file; the files of the population that the policy names lie below its folder.
    files
        Files of the population by the letter of their table, which take the place of those that the policy names; may be empty.
    further
        Policies to judge beside that of the file.
    """
    own, risk = policy.population, policy.risk
    shares = own.race_shares
    source = PopulationFiles(
        own.kind,
        dict(files) or {letter: cohort.parent / name for letter, name in own.files.items()},
        own.count,
        cohort.parent / shares.file if shares else None,
        shares.year if shares else None,
    )
    question = Question(
        decided_by=risk.measures,
        thresholds=tuple(sorted(set(risk.thresholds))),
        policies=(named_policy(policy), *further),
        at_upper_bound=risk.compared == "upper_bound",
        exponent=risk.exponent,
    )
    return Asked(
        policy.layout,
        source,
        question,
        gate=risk.no_riskier_than is not None,
        unusable_at_most=policy.intake.quarantine_at_most,
        crowded_at_most=risk.crowded_at_most,
        dates=policy.date_attributes,
        largest_at_most=risk.largest_at_most,
        file=policy,
    )


def named_policy(policy: CohortPolicy) -> DemographicPolicy:
    """Return the levels of a policy file under the name of the file's policy."""
    return DemographicPolicy.of(policy.name, policy.demographic_policy.levels)


def policy_files(policy: CohortPolicy, allowed: Iterable[DemographicPolicy], old_ages: Iterable[OldAges]) -> dict[str, bytes]:
    """Return a policy file for each policy that may be used instead, by file name; each of them was validated.

    Parameters
    ----------
    policy
        Provides all other sections.
    allowed
        Policies that are no riskier than Safe Harbor; those without a published name are called alternatives.
    old_ages
        Local recodings of some of them, or of policies that are riskier without.
    """
    called: dict[str, str] = {}
    files = {}
    for demographic in allowed:
        unpublished = len(called.keys() - _PUBLISHED.keys())
        name = called[demographic.name] = _PUBLISHED.get(demographic.name, f"alternative_{unpublished + 1}")
        files[name] = _written(policy, name, demographic, None)
    for offer in old_ages:
        name = called.get(offer.policy) or _PUBLISHED.get(offer.policy, "asked")
        name = f"{name}_old_ages_by_{offer.by}"
        files[name] = _written(policy, name, offer.demographic, offer)
    return {f"{policy.name}_{name}.yaml": content for name, content in files.items()}


_PUBLISHED = {one.name: name for name, one in zip(PUBLISHED_POLICIES, (safe_harbor(), *published_alternatives()), strict=True)}


def _written(policy: CohortPolicy, name: str, demographic: DemographicPolicy, offer: OldAges | None) -> bytes:
    levels = demographic.levels
    demographics: dict[str, Any] = {"levels": levels}
    if demographic.name in _PUBLISHED:
        dated = {attribute: level for attribute, level in levels.items() if attribute == "date"}
        demographics = {"policy": _PUBLISHED[demographic.name], "levels": dated}
    if offer is not None:
        demographics["old_ages"] = {"by": offer.by, "levels": list(offer.offered)}
    title = f"{policy.title}: {name.replace('_', ' ')}"
    made = with_sections(policy, policy=f"{policy.name}_{name}", title=title, demographics=demographics)
    content = made.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120).encode()
