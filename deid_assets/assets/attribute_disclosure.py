"""What the demographic classes of the release disclose about sensitive attributes, as evidence for the gate."""

from collections.abc import Mapping

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import disclosure as measures
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.kernel_input import member_columns
from deid_assets.assets.assessment import evidence_frame, profiles_query
from deid_assets.assets.planted_disclosure import attributes_of_canaries
from deid_assets.assets.stage_asset import markdown_table, stage_asset
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure import attribute_disclosure as attributes
from deid_assets.methods.population.released_population import YEARS
from deid_assets.policy.models import Policy
from deid_assets.reports.disclosure_figures import dots_figure
from deid_assets.reports.figures import markdown_image
from deid_assets.resources import Policies
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.tables import Table, write_table


@stage_asset(
    policy_sections=["attribute_disclosure"], version=METHOD_VERSIONS["attribute_disclosure"], kinds=("duckdb", "numpy")
)
def attribute_disclosure(
    context: dg.AssetExecutionContext,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
) -> pd.DataFrame:
    """Evidence: what the demographic class of a released member discloses about their sensitive attributes."""
    policy = policies.of(context, Policy)
    tables = {table.name: table for table in (release_members, release_claims, release_days_in_hospital)}
    found = {released_name(policy, column): disclosed(policy, column, tables) for column in policy.sensitive_columns}
    measured = measures.attribute_measurements(policy.attribute_disclosure, found, release_members.count())
    canaries = attributes_of_canaries(
        policy, tables, member_columns(policy), lambda planted, column: disclosed(policy, column, planted)
    )
    measured += (canaries_measurement(canaries),)
    context.add_output_metadata(attribute_metadata(found))
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


def released_name(policy: Policy, column: str) -> str:
    """The name of a sensitive column in the release; days in hospital are one column in a file for each year."""
    return "CharlsonIndex" if column == "charlson" else policy.quasi_identifier(column).release_as


def disclosed(policy: Policy, column: str, tables: Mapping[str, Table]) -> attributes.AttributeDisclosure:
    """What the release, given by the names of its tables, discloses about one attribute."""
    members, days = tables["release_members"], tables["release_days_in_hospital"]
    profiles = Table(members.file, "scratch", "disclosed_profiles")
    write_table(profiles, profiles_query(policy, members.sql, days.sql))
    return attribute_disclosure_of(policy, column, profiles, tables["release_claims"])


def attribute_disclosure_of(policy: Policy, column: str, profiles: Table, claims: Table) -> attributes.AttributeDisclosure:
    """What classes disclose about one attribute; members of a class share all other member-level columns."""
    others = [listed for listed in member_columns(policy) if listed != column]
    if column in YEARS.values():
        return _single_valued(profiles, profiles.sql, others, column)
    if column == "charlson":
        highest = f"""(SELECT p.*, c.charlson FROM {profiles.sql} AS p LEFT JOIN (
            SELECT "MemberID", arg_max("CharlsonIndex", {attributes.leading_number("CharlsonIndex")}) AS charlson
            FROM {claims.sql} GROUP BY "MemberID") AS c USING ("MemberID"))"""
        return _single_valued(profiles, highest, others, "charlson")
    value = released_name(policy, column)
    sets = profiles.query(attributes.sets_of_values(profiles.sql, "MemberID", others, claims.sql, value))
    of_sets = attributes.single_valued(sets["class"], pd.factorize(sets["value"])[0], sets["members"])
    held = profiles.query(attributes.held_counts(profiles.sql, "MemberID", others, claims.sql, value))
    sizes = sets.groupby("class")["members"].sum().to_numpy()
    return attributes.several_valued(sizes, held["class"], pd.factorize(held["value"])[0], held["members"], of_sets)


def _single_valued(table: Table, members: str, class_columns: list[str], column: str) -> attributes.AttributeDisclosure:
    """An attribute with one ordered value per member; labels begin with a number, and missing values come first."""
    counts = table.query(
        f"SELECT *, {attributes.leading_number('value')} AS place FROM "
        f"({attributes.value_counts(members, class_columns, column)})"
    )
    ranks = ordered_ranks(counts, column)
    return attributes.single_valued(counts["class"], ranks, counts["members"], ordered=True)


def ordered_ranks(counts: pd.DataFrame, column: str) -> np.ndarray:
    """The rank of every row's value: missing values first, then by the number that the label begins with.

    Raises
    ------
    PolicyError
        If a value has no number; the message gives the column and how many.
    """
    missing = counts["value"].isna()
    numberless = counts.loc[counts["place"].isna() & ~missing, "value"].nunique()
    if numberless:
        raise PolicyError(
            f"column {column}: {numberless} of its values do not begin with a number, so they have no order; remove the "
            "column from attribute_disclosure.ordered"
        )
    known = counts.loc[~missing, ["place", "value"]].drop_duplicates().sort_values(["place", "value"])["value"]
    first = int(missing.any())
    places = {value: place for place, value in enumerate(known, start=first)}
    return np.array([places.get(value, 0) for value in counts["value"]], dtype=np.int64)


def attribute_metadata(found: dict[str, attributes.AttributeDisclosure]) -> dict[str, object]:
    """What the UI shows about attribute disclosure."""
    table = pd.DataFrame(
        [
            (
                name,
                one.classes,
                one.homogeneous_share,
                one.least_distinct,
                one.least_entropy,
                one.greatest_distance,
                one.mean_distance,
            )
            for name, one in found.items()
        ],
        columns=["attribute", "classes", "homogeneous share", "distinct l", "entropy l", "t", "mean t"],
    )
    shown: dict[str, object] = {"attributes": markdown_table(table)}
    if found:
        figure = dots_figure(
            [(name, [one.greatest_distance, one.mean_distance]) for name, one in found.items()],
            ["maximum over classes", "mean over members"], "distance from the whole release [%]",
        )  # fmt: skip
        shown["closeness"] = dg.MetadataValue.md(markdown_image(figure, "t-closeness of every sensitive attribute"))
    return shown
