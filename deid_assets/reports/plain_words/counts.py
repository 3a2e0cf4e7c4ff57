"""Published counts in plain words: which tables, how they are protected, and what they may cost."""

from collections.abc import Iterator

from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.sections.counts import ProtectedTables, characteristics_of, level_or_values, levels_of_records


def published_counts(policy: AnyPolicy) -> Iterator[str]:
    """Yield what is counted in a release of this policy, and how the counts are protected (methods#counts)."""
    section = policy.counts
    noise = f"{section.mechanism} normal noise of standard deviation {section.sd:g}"
    if section.protection == "none":
        yield "no tables of counts are published"
    else:
        yield f"tables of counts: what each step left, and who they are{_by(policy)}"
        yield _protection(section, noise)
    yield f"numbers about people in manifest and report: {noise}"
    yield (
        f"all noisy counts of this home together cost at most {section.budget.total:g} zCDP, and one cell is published with "
        f"noise of its own at most {section.lockout} times; a release beyond is refused"
    )


def _protection(section: ProtectedTables, noise: str) -> str:
    if section.protection == "noise":
        zeros = "zeros too" if section.zeros == "noisy" else "but zeros are shown"
        return f"every count has {noise}, {zeros}"
    small, values = section.masking.threshold, section.masking.values
    return (
        f"counts below {small} are hidden, and others by which fewer than {values} values would remain possible for one of "
        "them; all other counts are exact"
    )


def _by(policy: AnyPolicy) -> str:
    """The columns by which people are counted, with their levels."""
    if policy.has_events:
        columns = {
            policy.quasi_identifier(column).release_as: policy.hierarchy_of(column).level_names[level]
            for column, level in characteristics_of(policy).items()
        }
    elif policy.counts.characteristics is not None:
        levels, values = level_or_values(dict(policy.counts.characteristics))
        columns = levels | dict.fromkeys(values, "listed values")
    elif policy.kind == "flat":
        columns = {
            column: policy.hierarchy_of(column).level_names[level] for column, level in levels_of_records(policy).items()
        }
    else:
        return ", by all demographics, each at its level with the fewest classes, but several"
    return f", by {', '.join(f'{column} ({level})' for column, level in columns.items())}" if columns else ""
