"""Whether claim columns without a hierarchy undo the generalization of others, measured at the gate.

Year, payment delay, Charlson index and SupLOS are published unchanged, payment delay below its top code. The other
columns need no further check. Quasi-identifiers and released dates are part of the risk measurement, whatever their
hierarchy. Identifiers of members, providers, vendors and PCPs are pseudonyms; those of providers, vendors and PCPs are
suppressed if they are rare.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from deid_assets.assessments.attribute_leaks import ColumnLeaks, Reviews, leak_measurements, leak_refusals
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
from deid_assets.methods.population.value_domains import HIERARCHY_CODE, SHOWN_LEVEL
from deid_assets.methods.preparation.top_coding import TopCode
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import PASSED_ON_COLUMNS, PSEUDONYM_COLUMNS
from deid_assets.store.tables import Table

_INSTEAD = "Lower top_coding.percentile if payment delays are rare, or correct the delivery if a column is wrongly filled"


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
    k, expressions = policy.safe_class_size, passed_on(pay_delay)
    claims = _claims(policy, tables, suppressed, expressions)
    columns = {name: column_of(claims[name]) for name in PASSED_ON_COLUMNS}
    # The gate compares the staged claims with these, column by column, so results for one apply to the other.
    withheld = _withheld(policy, tables, levels, claims)
    found = {}
    for name in PASSED_ON_COLUMNS:
        refines, sure = _told(columns[name], withheld, k)
        singled, of = _singled_out(staged, tables.held, name, expressions[name], k)
        found[name] = ColumnLeaks(singled, of, refines, sure, patterns_of(staged, name, k), named_as_identifier(name))
    together = [one for known, labels in withheld for one in told_together(
        {name: Column(column.codes[known], column.blank[known]) for name, column in columns.items() if column.codes.any()},
        labels, TOGETHER_AT_MOST, LIMITS[REFINEMENT], k,
    )]  # fmt: skip
    reviews = Reviews(frozenset(policy.reviewed_attributes), policy.approval is not None)
    measured = leak_measurements(found, together, reviews, counted_in_release=False)
    return measured, [*unjudged, *leak_refusals(found, together, measured, reviews, _INSTEAD)]


def _unjudged(policy: Policy, staged: Table) -> list[Refusal]:
    """Columns of the staged claims that are not measured."""
    judged = {*PSEUDONYM_COLUMNS, *PASSED_ON_COLUMNS, *released_date_columns(policy).values()}
    judged |= {qi.release_as for qi in policy.quasi_identifiers.claims}
    return [
        Refusal("unjudged_column", name, None, None, f"release_claims: nothing measures what column {name} discloses")
        for name in staged.columns()
        if name not in judged
    ]


def _singled_out(staged: Table, held: Table, name: str, expression: str, k: int) -> tuple[int, int]:
    """Released members with a value that fewer than k members of the delivery have, and those with any value."""
    row = staged.query(members_by_value(staged, held, name, expression), [k]).iloc[0]
    return int(row["singled"]), int(row["n"])


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
        if policy.by_class and qi.column in policy.quasi_identifiers.claim_names:
            found += _withheld_by_class(policy, domains, qi.column, levels[qi.column], codes, known, person)
            continue
        by_level = [codes, *(level[codes] for level in _levels(domains, qi.column))]
        names = ["as delivered", *policy.hierarchy_of(qi.column).level_names]
        if len(codes):
            found.append((known, withheld_labels(qi.column, names, by_level, levels[qi.column] + 1, person[known])))
    return found


def _withheld_by_class(
    policy: Policy, domains: pd.DataFrame, column: str, level: int, codes: np.ndarray, known: np.ndarray, person: np.ndarray
) -> Iterator[tuple[np.ndarray, tuple[Withheld, ...]]]:
    """The same where classes have levels of their own: for each level the claims of the classes that show a coarser one.

    Parameters
    ----------
    level
        At the chosen node.
    codes
        Numbers of the values of the claims that `known` marks, each in the class of its member.
    """
    own = domains[domains["quasi_identifier"] == column].sort_values(["level", "base_code"])
    released = own[own["level"] == level]
    delivered = pd.factorize(released["value"])[0]
    in_hierarchy = (rows[HIERARCHY_CODE].to_numpy(np.int64) for _, rows in own.groupby("level"))
    by_level = [delivered[codes], *(numbers[codes] for numbers in in_hierarchy)]
    shown, shown_level = (released[name].to_numpy(np.int64)[codes] for name in ("level_code", SHOWN_LEVEL))
    names = ["as delivered", *policy.hierarchy_of(column).level_names]
    for one, labels in enumerate(by_level[:-1]):
        coarser = shown_level + 1 > one
        # Levels are nested, so equal numbers of classes mean equal classes; these are analysed at the next level.
        if len(np.unique(labels[coarser])) > len(np.unique(by_level[one + 1][coarser])):
            where = np.zeros(len(known), dtype=bool)
            where[np.flatnonzero(known)[coarser]] = True
            yield where, (Withheld(f"{column}: {names[one]}", shown[coarser], labels[coarser], person[where]),)


def _levels(domains: pd.DataFrame, column: str) -> Iterator[np.ndarray]:
    """For each level the class of every value."""
    own = domains[domains["quasi_identifier"] == column].sort_values(["level", "base_code"])
    return (rows["level_code"].to_numpy() for _, rows in own.groupby("level"))


def _told(column: Column, withheld: list[tuple[np.ndarray, tuple[Withheld, ...]]], k: int) -> tuple[Told, Told]:
    """The greatest fall and the greatest share of certain knowledge, over all quasi-identifiers."""
    found = [most_told(Column(column.codes[known], column.blank[known]), labels, k) for known, labels in withheld]
    return max((one for one, _ in found), key=lambda one: one.fall), max((one for _, one in found), key=lambda one: one.sure)
