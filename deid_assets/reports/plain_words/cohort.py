"""A cohort's policy in plain words: what is published, at which levels, and what could refuse it."""

from collections.abc import Iterator

from deid_assets.policy.cohort import CohortPolicy


def columns_of_cohort(policy: CohortPolicy) -> Iterator[str]:
    """Yield what is published of a person."""
    person = policy.columns.person.release_as
    yield "demographics with one record per person; columns that are not listed are not published"
    yield "nothing identifies a person" if person is None else f"{person}: a pseudonym that differs in every delivery"
    roles = {"free": "as it is", "year": "as it is", "date": "its year"}
    for one in policy.attributes:
        reason = policy.reviewed_attributes.get(one.release_as)
        yield f"{one.release_as} ({one.column}): {roles[one.role]}" + (f"; reviewed: {reason}" if reason else "")
    yield (
        "rows with a value that cannot be read go to quarantine; the delivery is refused if they are more than "
        f"{policy.intake.quarantine_at_most * 100:.4g} % of the rows"
    )


def levels_of_cohort(policy: CohortPolicy) -> Iterator[str]:
    """Yield the level of every attribute of the demographics."""
    levels = policy.demographic_policy.levels
    for name, column in policy.demographic_columns.items():
        yield f"{column}: {name} at the level {levels[name]}"
    old = policy.demographics.old_ages
    if old is not None:
        yield f"ages from 90 on: for each {old.by} the finest of {', '.join(old.levels)} that is no riskier than Safe Harbor"
    date = policy.columns.date
    if date is not None:
        yield f"{date.dated * 100:.4g} % of the population are taken to have such a date from {date.first} to {date.last}"
    own = policy.population
    count = f" (its column {own.count})" if own.kind == "estimates" else ""
    yield f"the population is a table of kind {own.kind}{count}, delivered beside the cohort"


def gates_of_cohort(policy: CohortPolicy) -> Iterator[str]:
    """Yield what could refuse a release."""
    risk = policy.risk
    if risk.no_riskier_than is not None:
        at = f", T = {', '.join(map(str, risk.thresholds))}" if set(risk.measures) & {"graduated", "non-graduated"} else ""
        what = "an upper bound of the risk" if risk.compared == "upper_bound" else "the expected risk"
        yield (
            f"by {' and '.join(risk.measures)} risk{at}, {what} does not exceed the expected risk of Safe Harbor, in the whole "
            "cohort and in every state"
        )
        yield "Safe Harbor itself would leave at most one person in three re-identified"
    if risk.largest_at_most is not None:
        yield f"nobody is re-identified with a probability above {risk.largest_at_most:g}"
    yield (
        f"at most {risk.crowded_at_most * 100:.4g} % of the cohort are in rows of the population's table that are smaller than "
        "the cohort there"
    )
    yield "no published column holds values that look like one of Safe Harbor's eighteen identifiers"
