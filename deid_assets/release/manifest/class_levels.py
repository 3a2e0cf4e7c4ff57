"""The levels of demographic classes in a release in which each has its own, for the data dictionary."""

from collections.abc import Mapping

from deid_assets.assessments.kernel_input import PopulationTables
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.population.value_domains import CLASS, SHOWN_LEVEL
from deid_assets.methods.recoding.class_tables import levels_of_classes
from deid_assets.policy.models import Policy
from deid_assets.release.manifest.dictionary import LevelOfClass
from deid_assets.store.tables import quoted


def levels_by_class(
    policy: Policy, levels: Mapping[str, int], tables: PopulationTables, released: str
) -> dict[str, list[LevelOfClass]]:
    """The levels of every claim-level column, by its released name, in the classes of released members with claims.

    Parameters
    ----------
    levels
        Level of every quasi-identifier at the chosen node.
    tables
        The tables on which risk is measured, by class.
    released
        A SELECT of member_id: the members about to be released.
    """
    members: dict[str, str] = {qi.column: qi.release_as for qi in policy.quasi_identifiers.members}
    own = {column: levels[column] for column in policy.quasi_identifiers.member_columns}
    shown = ", ".join(quoted(column) for column in own)
    classes = tables.profiles.query(
        f"SELECT DISTINCT {CLASS}, {shown} FROM ({generalized_members(tables.profiles, tables.domains, own)})"
        f" JOIN (SELECT DISTINCT member_id, {CLASS} FROM {tables.held.sql}) USING (member_id)"
        f" WHERE member_id IN ({released}) ORDER BY {CLASS}"
    )
    labels = {
        row[CLASS]: {members[column]: None if row[column] != row[column] else row[column] for column in own}
        for row in classes.to_dict("records")
    }
    found: dict[str, list[LevelOfClass]] = {name: [] for name in policy.quasi_identifiers.claim_names.values()}
    for row in levels_of_classes(tables.domains.frame(), levels).to_dict("records"):
        if row[CLASS] in labels:
            column = row["quasi_identifier"]
            level = policy.hierarchy_of(column).level_names[row[SHOWN_LEVEL]]
            found[policy.quasi_identifier(column).release_as].append(LevelOfClass(labels[row[CLASS]], level))
    return found
