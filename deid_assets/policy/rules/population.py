"""Rules for the sections of attacks 2 and 3, so that their numbers are meaningful."""

from collections.abc import Iterator

from deid_assets.methods.attacks.identified_file import MEMBER_LEVEL, VISIT_LEVEL
from deid_assets.policy.hierarchies.specs import IntervalsSpec
from deid_assets.policy.models import Policy
from deid_assets.policy.problems import Problem
from deid_assets.policy.sections.population import CODED_COLUMNS, DATES
from deid_assets.reference.known_columns import INPATIENT_VISIT, KNOWN


def population_problems(policy: Policy) -> tuple[Problem, ...]:
    """Return every problem of the sections of attacks 2 and 3."""
    return tuple(
        problem
        for section in ("voter_list_attack", "inpatient_attack")
        for rule in (_published, _readable, _complete, _measurable)
        for problem in rule(policy, section)
    )


def _published(policy: Policy, section: str) -> Iterator[Problem]:
    """A column that is not published cannot be matched: mapping it would suggest that it was judged."""
    table = getattr(policy, section).table
    for column in table.columns if table else ():
        if not policy.publishes(column):
            yield Problem(
                (section, "table", "columns", column),
                f"{column} is not a quasi-identifier of this policy: columns that are not published cannot be matched",
            )


def _readable(policy: Policy, section: str) -> Iterator[Problem]:
    """Widths and top codes apply to numbers, groups to codes; anything else would silently be misread."""
    table = getattr(policy, section).table
    for column, mapped in table.columns.items() if table else ():
        path = (section, "table", "columns", column)
        numeric = KNOWN[column].limits is not None
        if not numeric and (mapped.width > 1 or mapped.top is not None):
            yield Problem(path, f"width and top are for columns of whole numbers; {column} contains text")
        if mapped.coded and column not in CODED_COLUMNS:
            yield Problem(path, f"coded is for {' and '.join(CODED_COLUMNS)}; {column} contains no codes")
        if mapped.coded == "icd10cm" and KNOWN[column].codes != "diagnosis":
            yield Problem(path, f"coded: icd10cm is for diagnoses; for {column}, write true")
        if (mapped.width > 1 or mapped.top is not None) and numeric and policy.publishes(column):
            spec = policy.hierarchies.get(policy.quasi_identifier(column).hierarchy)
            if spec is not None and not isinstance(spec, IntervalsSpec):
                yield Problem(path, f"width and top need a hierarchy of intervals; {column} has another kind")


def _complete(policy: Policy, section: str) -> Iterator[Problem]:
    """A table with few columns or too many people makes large classes: a gate on it would pass for the wrong reason."""
    attack = getattr(policy, section)
    table = attack.table
    if table is None:
        return
    matched = MEMBER_LEVEL if section == "voter_list_attack" else (*MEMBER_LEVEL, *VISIT_LEVEL)
    released_as = policy.dates.release_as if section == "inpatient_attack" and policy.dates is not None else None
    dates = () if released_as is None else (DATES,)
    for number, column in enumerate(table.lacks):
        if column not in dates and (column in table.columns or column not in matched or not policy.publishes(column)):
            yield Problem(
                (section, "table", "lacks", number),
                f"{column} is mapped, is not published, or is not one of {', '.join((*matched, *dates))}; remove it",
            )
    if attack.at_most is None:
        return
    for column in matched:
        if policy.publishes(column) and column not in table.columns and column not in table.lacks:
            yield Problem(
                (section, "table", "columns"),
                f"{column} is published but not mapped, so the gate would not judge it; map it, or list it in lacks",
            )
    for column in dates:
        if column not in table.lacks:
            yield Problem(
                (section, "table", "lacks"),
                f"{column} is missing: {released_as} is published, but this attack compares no dates, whether "
                "or not the table contains them; list it in lacks, to state that the gate does not judge it",
            )
    if table.people_at_most is None:
        yield Problem(
            (section, "table"),
            "people_at_most is missing: state how many people live in the area of the release, because a table of a larger "
            "area, or with totals, counts more people than there are",
        )


def _measurable(policy: Policy, section: str) -> Iterator[Problem]:
    """A gate on something that cannot be measured would refuse every release."""
    attack = getattr(policy, section)
    if attack.at_most is None:
        return
    if section == "inpatient_attack" and not all(policy.publishes(column) for column in INPATIENT_VISIT):
        yield Problem(
            (section, "at_most"),
            "the release does not show which claims are inpatient visits: place is not a quasi-identifier of this policy, so "
            "this attack cannot be measured; publish place, or remove at_most",
        )
    if section == "voter_list_attack" and not any(policy.publishes(column) for column in MEMBER_LEVEL):
        yield Problem(
            (section, "at_most"),
            "neither age nor sex is published, so there is nothing to match; remove at_most",
        )
