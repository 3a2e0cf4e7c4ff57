"""Whether attributes of a flat release undo its generalization, measured at the gate on the files read back."""

import numpy as np

from deid_assets.assessments.attribute_leaks import PublishedAttributes, Remedy, judge_attributes
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.assessments.record_risk import levels_of
from deid_assets.methods.disclosure.attribute_leaks import (
    Column,
    Withheld,
    column_of,
    withheld_labels,
)
from deid_assets.methods.flat.queries import published_records
from deid_assets.methods.population.encoding import domains_of, record_codes
from deid_assets.policy.flat import FlatPolicy
from deid_assets.store.tables import Table, quoted

_INSTEAD = Remedy(
    "Do not publish it, or publish it as a quasi-identifier with a hierarchy",
    "Declare those that others may know as quasi-identifiers, or do not publish all of them",
)


def attribute_leaks(
    policy: FlatPolicy, staged: Table, records: Table, suppressed: Table, domains: Table, chosen: Table
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Measure every attribute of the staged rows, and refuse those that leak and were not reviewed.

    Values are counted in the release: a population table has no attributes, and would only make values more common.

    Parameters
    ----------
    staged
        The published rows as read back.
    chosen
        The released level of every quasi-identifier (`record_generalization`).
    """
    names = [column.release_as for column in policy.attributes]
    if not names:
        return (), []
    k = policy.risk.k
    rows = staged.query(published_records(staged, records, suppressed, domains, levels_of(policy, chosen), names))
    columns = {name: column_of(rows[name], k) for name in names}
    # Rows that no record produces are refused as such; only the others have labels to check.
    known = rows["record"].notna().to_numpy()
    withheld = _withheld(policy, records, domains, chosen, rows["record"][known].to_numpy(np.int64))
    linked = {name: Column(column.codes[known], column.blank[known]) for name, column in columns.items()}
    return judge_attributes(policy, staged, PublishedAttributes(columns, linked, withheld, {}), k, _INSTEAD)


def _withheld(policy: FlatPolicy, records: Table, domains: Table, chosen: Table, rows: np.ndarray) -> list[Withheld]:
    """All labels finer than the released ones, for the numbered records."""
    levels, names = levels_of(policy, chosen), [qi.release_as for qi in policy.quasi_identifiers]
    selects = ", ".join(quoted(name) for name in names)
    numbers = records.query(f"SELECT record, {selects} FROM {records.sql} ORDER BY record")
    place = np.searchsorted(numbers["record"].to_numpy(), rows)
    coded = record_codes(records, domains, names)[place]
    found: list[Withheld] = []
    for axis, (name, domain) in enumerate(zip(names, domains_of(domains, names), strict=True)):
        values = column_of(numbers[name].iloc[place]).codes
        by_level = [values, *(level[coded[:, axis]] for level in domain.levels)]
        level_names = ["as delivered", *policy.hierarchy_of(name).level_names]
        found += withheld_labels(name, level_names, by_level, levels[name] + 1)
    return found
