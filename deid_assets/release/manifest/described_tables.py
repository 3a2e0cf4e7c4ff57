"""The staged tables of a release with the policy's and contract's column descriptions, for the data dictionary."""

from collections.abc import Mapping

from pandera.ibis import DataFrameSchema

from deid_assets.assessments.cohort_demographics import Published
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.release.gate.judgement import Staged
from deid_assets.release.manifest.dictionary import MOST_LABELS, DescribedTable
from deid_assets.schemas.candidate import release_contracts
from deid_assets.schemas.cohort import release_people_contract
from deid_assets.schemas.flat import release_records_contract
from deid_assets.store.tables import Table

_COUNTED = "Where all labels are numbers, the largest stands for itself and all above, as in the Heritage Health Prize files"


def described_tables(
    policy: Policy,
    levels: Mapping[str, int],
    staged: Staged,
    days: Mapping[str, Table],
) -> dict[str, DescribedTable]:
    """The tables of a longitudinal release by their names.

    Parameters
    ----------
    levels
        Level of every quasi-identifier.
    staged
        The staged files, read back.
    days
        Year, such as "Y2", to its staged table of days in hospital.
    """
    contracts = release_contracts(policy)

    def of(columns: Mapping[str, str]) -> dict[str, tuple[Hierarchy, int]]:
        return {name: (policy.hierarchy_of(column), levels[column]) for name, column in columns.items()}

    members = {name: column for column, name in policy.member_names.items()}
    claims = {qi.release_as: qi.column for qi in policy.quasi_identifiers.claims}
    found = {
        "Members": DescribedTable(staged.members, contracts["release_members"], of(members), {}),
        "Claims": DescribedTable(staged.claims, contracts["release_claims"], of(claims), {}),
    }
    for year, table in days.items():
        found[f"DaysInHospital_{year}"] = DescribedTable(
            table,
            contracts["release_days_in_hospital"],
            of({"DaysInHospital": YEARS[year]}),
            {
                "DaysInHospital": _COUNTED,
                "MemberID": "Members who are missing here were not enrolled in that year, or that is not told",
            },
        )
    return found


def described_counts(staged: Mapping[str, Table], contracts: Mapping[str, DataFrameSchema]) -> dict[str, DescribedTable]:
    """The tables of counts, read back, by their names."""
    return {name: DescribedTable(table, contracts[name], {}, {}) for name, table in staged.items()}


def described_records(policy: FlatPolicy, levels: Mapping[str, int], staged: Table) -> dict[str, DescribedTable]:
    """The one table of a flat release."""
    hierarchies = {name: (policy.hierarchy_of(name), level) for name, level in levels.items()}
    return {"Records": DescribedTable(staged, release_records_contract(policy), hierarchies, {})}


def described_people(policy: CohortPolicy, levels: Published, staged: Table) -> dict[str, DescribedTable]:
    """The one table of a cohort's release; every label that a level may publish is told.

    Parameters
    ----------
    levels
        Released levels.
    """
    notes = {
        column: f"Labels: {', '.join(levels.labels_of(name))}"
        for name, column in policy.demographic_columns.items()
        if len(levels.labels_of(name)) <= MOST_LABELS
    }
    return {"People": DescribedTable(staged, release_people_contract(policy), {}, notes)}
