"""Changes of a policy that a refusal offers, as the sections to replace."""

from collections.abc import Mapping, Sequence
from typing import Any

from deid_assets.errors import PolicyError
from deid_assets.methods.lattice.diagnosis import PolicyChange
from deid_assets.policy.loading import with_sections
from deid_assets.policy.models import Policy
from deid_assets.policy.yaml_text import to_yaml
from deid_assets.reference.known_columns import BESIDE_DAYS, YEARS
from deid_assets.store.tables import ALL_EVENTS


def changed_sections(policy: Policy, change: PolicyChange) -> str | None:
    """The changed sections, complete, as YAML to replace the policy's own; None if no valid policy can have them.

    It contains no personal data, only names of columns, dimensions and thresholds.
    """
    sections: dict[str, Any] = {}
    if change.without:
        sections |= _sections(policy, "quasi_identifiers", "dimensions")
        listed = sections["quasi_identifiers"]
        for part in listed:
            listed[part] = [entry for entry in listed[part] if entry["column"] not in change.without]
        for dimension in sections["dimensions"]:
            dimension["columns"] = [column for column in dimension["columns"] if column not in change.without]
        sections["dimensions"] = [dimension for dimension in sections["dimensions"] if dimension["columns"]]
        if policy.dates is not None and set(change.without) >= set(policy.dates.columns):
            sections["dates"] = None
        if set(change.without) & set(policy.columns.all):
            sections |= _sections(policy, "columns")
            for part in sections["columns"].values():
                for column in set(part) & set(change.without) - {total.column for total in policy.counts.totals}:
                    del part[column]
        sections |= _tables_left(policy, set(change.without), sections)
        left = {entry["release_as"] for part in listed.values() for entry in part}
        required = {name: share for name, share in policy.detail_at_least.items() if name in left}
        if required != policy.detail_at_least:
            sections["detail_at_least"] = required
        sections |= _judged_left(policy, set(change.without))
        sections |= _numbers_left(policy, {one["name"]: one["columns"] for one in sections["dimensions"]}, sections)
    if change.suppress_at_most is not None:
        sections |= _sections(policy, "risk")
        sections["risk"]["suppression"] = {"at_most": change.suppress_at_most}
    try:
        with_sections(policy, **sections)
    except PolicyError:
        return None
    return to_yaml(sections)


def _judged_left(policy: Policy, without: set[str]) -> dict[str, Any]:
    """The sections that name columns whose values may be disclosed, without those that are left out; empty if all stay."""
    sections: dict[str, Any] = {}
    sensitive = policy.attribute_disclosure.sensitive or ()
    if without.intersection(sensitive):
        sections |= _sections(policy, "attribute_disclosure")
        sections["attribute_disclosure"]["sensitive"] = [one for one in sensitive if one not in without] or None
    # What every policy knows is withheld where it is not published, and predicted nevertheless.
    if gone := without.intersection(policy.inference.columns, policy.columns.all):
        sections |= _sections(policy, "inference")
        sections["inference"]["columns"] = [one for one in policy.inference.columns if one not in gone]
    return sections


def _tables_left(policy: Policy, without: set[str], sections: dict[str, Any]) -> dict[str, Any]:
    """The sections without tables of events that no quasi-identifier is left of; empty if all stay."""
    own = policy.columns.events
    gone = [table for table in policy.event_tables[1:] if not set(policy.claim_columns_of(table)) & {*own[table]} - without]
    if not gone:
        return {}
    changed = _sections(policy, "source", "attributes", "reviewed_attributes") | {"columns": sections["columns"]}
    columns = {column for table in gone for column in own[table]}
    names = {one.release_as for one in policy.attributes if one.column in columns}
    for table in gone:
        del changed["source"]["events"][table], changed["columns"][table]
    if policy.adversary.scenarios:
        changed |= _sections(policy, "adversary")
        changed["adversary"] |= _scenarios_left(policy, gone)
    changed["attributes"] = [one for one in changed.get("attributes", []) if one["column"] not in columns]
    reviewed = changed.get("reviewed_attributes", {}).items()
    return changed | {"reviewed_attributes": {name: reason for name, reason in reviewed if name not in names}}


def _scenarios_left(policy: Policy, gone: Sequence[str]) -> dict[str, Any]:
    """The scenarios without tables that are left out; where one would name all that are left, nothing less is assumed."""
    tables = set(policy.event_tables).difference(gone)
    left = {tuple(table for table in scenario if table in tables) for scenario in policy.adversary.scenarios} - {()}
    kept = sorted(one for one in left if not any(set(one) < set(other) for other in left))
    if any(set(one) == tables for one in kept):
        return {"scenarios": [], "everything_known_at_most": None}
    return {"scenarios": [list(one) for one in kept]}


def leaving_together(policy: Policy) -> dict[str, tuple[str, ...]]:
    """The other columns that a policy cannot have once a quasi-identifier is left out, by that column."""
    found = dict.fromkeys(YEARS.values(), tuple(column for column in BESIDE_DAYS if policy.publishes(column)))
    if policy.dates is not None:
        judged = policy.dates.columns
        found |= {column: tuple(other for other in judged if other != column) for column in judged}
    return found


def _numbers_left(policy: Policy, dimensions: Mapping[str, Sequence[str]], sections: Mapping[str, Any]) -> dict[str, Any]:
    """The section number_of_claims with the remaining tables and member dimensions; empty if it is unchanged.

    Claims are then cut in classes that contain those in which they were cut when the change was tried, so fewer are
    cut.

    Parameters
    ----------
    dimensions
        Columns of each remaining dimension, by its name.
    sections
        What else changes.
    """
    if policy.number_of_claims is None:
        return {}
    first = {name: columns[0] for name, columns in dimensions.items() if set(columns) & set(policy.member_columns)}
    # Levels are named by the first column, which may have changed.
    reference = {
        name: policy.hierarchy_of(first[name]).level_names[policy.reference_level(first[name])]
        for name in policy.number_of_claims.reference
        if name in first
    }
    gone = set(policy.source.events).difference(sections["source"]["events"]) if "source" in sections else set()
    of = [one for one in policy.number_of_claims.of if one not in gone]
    if of == [ALL_EVENTS] and gone == set(policy.source.events):
        of = ["claims"]  # which are all that is left
    if reference == policy.number_of_claims.reference and of == [*policy.number_of_claims.of]:
        return {}
    section = _sections(policy, "number_of_claims")
    section["number_of_claims"] |= {"reference": reference} | ({"of": of} if gone else {})
    return section


def _sections(policy: Policy, *names: str) -> dict[str, Any]:
    return policy.model_dump(mode="json", by_alias=True, include=set(names), exclude_unset=True)
