"""Whether claim columns without a hierarchy undo the generalization of others, measured at the gate.

Year, payment delay, Charlson index and SupLOS are published unchanged, payment delay below its top code. The other
columns need no further check. Quasi-identifiers and released dates are part of the risk measurement, whatever their
hierarchy. Identifiers of members, providers, vendors and PCPs are pseudonyms; those of providers, vendors and PCPs are
suppressed if they are rare.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from deid_assets.assessments.attribute_leaks import (
    ColumnLeaks,
    Remedy,
    Reviews,
    all_singled_out,
    leak_measurements,
    leak_refusals,
)
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.assessments.kernel_input import PopulationTables
from deid_assets.assessments.released_rows import released_date_columns
from deid_assets.methods.candidate.passed_on import members_by_value, released_with_codes
from deid_assets.methods.candidate.released_tables import passed_on
from deid_assets.methods.disclosure.attribute_leaks import (
    Column,
    Told,
    Withheld,
    column_of,
    most_told,
    told_together,
    withheld_labels,
)
from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier, patterns_of
from deid_assets.methods.disclosure.leak_limits import LIMITS, REFINEMENT, TOGETHER_AT_MOST
from deid_assets.methods.preparation.top_coding import TopCode
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import PSEUDONYM_COLUMNS
from deid_assets.store.tables import Table

_REMEDY = "Lower top_coding.percentile if payment delays are rare, or correct the delivery if a column is wrongly filled"
_INSTEAD = Remedy(_REMEDY, _REMEDY)


def passed_on_leaks(
    policy: Policy,
    staged: Table,
    tables: PopulationTables,
    suppressed: Table,
    levels: dict[str, int],
    pay_delay: TopCode | None,
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Measure every such column, per member, and refuse those that leak and were not reviewed.

    The holders of a value are counted in the delivery. If that is an extract of the population, there are more holders
    in the population, so the count errs on the safe side.

    Parameters
    ----------
    staged
        The published claims as read back.
    pay_delay
        Payment delays from here on are one class.
    """
    unjudged = _unjudged(policy, staged)
    k, expressions = policy.safe_class_size, passed_on(pay_delay, policy.attribute_names)
    claims = _claims(policy, tables, suppressed, expressions)
    columns = {name: column_of(claims[name]) for name in expressions}
    # The gate compares the staged claims with these, column by column, so results for one apply to the other.
    withheld = _withheld(policy, tables, levels, claims)
    found = {}
    for name in expressions:
        named = named_as_identifier(name) or any(map(named_as_identifier, _read_from(policy, name)))
        refines, sure = _told(columns[name], withheld, k)
        row = _by_value(staged, tables.held, [name], expressions, k)
        singled, of = int(row["singled"]), int(row["members"])
        found[name] = ColumnLeaks(singled, of, refines, sure, patterns_of(staged, name, k), named)
    together = [one for known, labels in withheld for one in told_together(
        {name: Column(column.codes[known], column.blank[known]) for name, column in columns.items() if column.codes.any()},
        labels, TOGETHER_AT_MOST, LIMITS[REFINEMENT], k,
    )]  # fmt: skip
    reviews = Reviews(frozenset(policy.reviewed_attributes), policy.needs_second_person)
    measured = leak_measurements(found, together, reviews, counted_in_release=False)

    def singled_claims(names: Sequence[str]) -> tuple[int, int]:
        row = _by_value(staged, tables.held, names, expressions, k)
        return int(row["singled_claims"]), int(row["claims"])

    measured += all_singled_out(policy.passed_on_columns, singled_claims, reviews, "probability")
    return measured, [*unjudged, *leak_refusals(found, together, measured, reviews, _INSTEAD)]


def _read_from(policy: Policy, name: str) -> tuple[str, ...]:
    """The delivered columns that an attribute is made of, by their names in the delivery; none of other columns."""
    column = policy.attribute_names.get(name)
    return () if column is None else tuple(cell.column for cell in policy.columns.declared.claims[column].cells)


def _unjudged(policy: Policy, staged: Table) -> list[Refusal]:
    """Columns of the staged claims that are not measured."""
    judged = {*PSEUDONYM_COLUMNS, *policy.passed_on_columns, *released_date_columns(policy).values()}
    judged |= {qi.release_as for qi in policy.quasi_identifiers.claims}
    judged |= {one.release_as for one in policy.connected_dates}  # they follow from the others
    return [
        Refusal("unjudged_column", name, None, None, f"release_claims: nothing measures what column {name} discloses")
        for name in staged.columns()
        if name not in judged
    ]


def _by_value(staged: Table, held: Table, names: Sequence[str], expressions: Mapping[str, str], k: int) -> pd.Series:
    """The row of `members_by_value`, of one column or of several together."""
    return staged.query(members_by_value(staged, held, {name: expressions[name] for name in names}), [k]).iloc[0]


def _claims(policy: Policy, tables: PopulationTables, suppressed: Table, expressions: dict[str, str]) -> pd.DataFrame:
    """The released claims: member_number, the published columns, and q0, q1 ...: value numbers of the quasi-identifiers."""
    members, claims = (
        [qi.column for qi in part] for part in (policy.quasi_identifiers.members, policy.quasi_identifiers.claims)
    )
    return tables.held.query(
        released_with_codes(tables.profiles, suppressed, tables.held, tables.domains, members, claims, expressions)
    )


def _withheld(
    policy: Policy, tables: PopulationTables, levels: dict[str, int], claims: pd.DataFrame
) -> list[tuple[np.ndarray, tuple[Withheld, ...]]]:
    """For each quasi-identifier, the claims that have a value of it, and all labels finer than the released one."""
    domains, person = tables.domains.frame(), claims["member_number"].to_numpy(np.int64)
    found: list[tuple[np.ndarray, tuple[Withheld, ...]]] = []
    for number, qi in enumerate(policy.quasi_identifiers.all):
        known = claims[f"q{number}"].notna().to_numpy()
        codes = claims.loc[known, f"q{number}"].to_numpy(np.int64)
        by_level = [codes, *(level[codes] for level in _levels(domains, qi.column))]
        names = ["as delivered", *policy.hierarchy_of(qi.column).level_names]
        if len(codes):
            found.append((known, withheld_labels(qi.column, names, by_level, levels[qi.column] + 1, person[known])))
    return found


def _levels(domains: pd.DataFrame, column: str) -> Iterator[np.ndarray]:
    """For each level the class of every value."""
    own = domains[domains["quasi_identifier"] == column].sort_values(["level", "base_code"])
    return (rows["level_code"].to_numpy() for _, rows in own.groupby("level"))


def _told(column: Column, withheld: list[tuple[np.ndarray, tuple[Withheld, ...]]], k: int) -> tuple[Told, Told]:
    """The greatest fall and the greatest share of certain knowledge, over all quasi-identifiers."""
    found = [most_told(Column(column.codes[known], column.blank[known]), labels, k) for known, labels in withheld]
    return max((one for one, _ in found), key=lambda one: one.fall), max((one for _, one in found), key=lambda one: one.sure)
