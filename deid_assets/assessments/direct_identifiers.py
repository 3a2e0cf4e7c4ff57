"""Refuse quasi-identifiers that are direct identifiers.

Small equivalence classes are suppressed, but common names and numbers of persons would still be published. A column with the
name of a direct identifier may be a quasi-identifier only if its hierarchy shows none of its values, such as first letters.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from deid_assets.assessments.attribute_leaks import METHOD
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.methods.disclosure.identifier_patterns import (
    OF_ONE_PERSON,
    displayed,
    named_as_direct_identifier,
    patterns_of,
)
from deid_assets.methods.disclosure.leak_limits import LIMITS, NAMED
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, quoted


@dataclass(frozen=True)
class QuasiIdentifier:
    """A quasi-identifier as it is published and as it was delivered.

    Attributes
    ----------
    name, staged
        Its name in the release, and the published rows as read back.
    column, delivered
        Its name in the store, and the table there that has its values before they were generalized.
    named
        What it is called, in the release and in the delivery.
    """

    name: str
    staged: Table
    column: str
    delivered: Table
    named: tuple[str, ...]


def quasi_identifiers_of_records(policy: FlatPolicy, staged: Table, records: Table) -> list[QuasiIdentifier]:
    """Those of a flat table."""
    return [
        QuasiIdentifier(qi.release_as, staged, qi.release_as, records, (qi.release_as, qi.column))
        for qi in policy.quasi_identifiers
    ]


def declared_quasi_identifiers(
    policy: Policy, staged: Mapping[str, Table], delivered: Mapping[str, Table]
) -> list[QuasiIdentifier]:
    """Those of members and claims that a policy declares; the others are columns whose meaning is known.

    Parameters
    ----------
    staged, delivered
        Published rows, and the rows with values that are not generalized, of `members` and `claims`.
    """
    listed = policy.quasi_identifiers
    return [
        QuasiIdentifier(qi.release_as, staged[table], qi.column, delivered[table], policy.called(qi))
        for table, columns in (("members", listed.members), ("claims", listed.claims))
        for qi in columns
        if qi.column in policy.columns.all
    ]


def judge_quasi_identifiers(
    found: Iterable[QuasiIdentifier], k: int, reviewed: Container[str]
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Refuse every quasi-identifier that is a direct identifier, and measure what a review overrules: the headline says it.

    Parameters
    ----------
    reviewed
        Columns whose names a person looked at, by their names in the release. Nothing overrules what their values look like.
    """
    overruled, refusals = [], []
    for one in found:
        kinds = sorted(OF_ONE_PERSON.intersection(patterns_of(one.staged, one.name, k).kinds))
        named = any(map(named_as_direct_identifier, one.named)) and _shows_delivered_values(one)
        if named and one.name in reviewed:
            measured = METHOD.at_most(f"{one.name}/{NAMED}", "attributes", 1.0, LIMITS[NAMED])
            overruled.append(replace(measured, gating=False))
            named = False
        why = [f"its values look like direct identifiers ({', '.join(kinds)})"] if kinds else []
        why += ["its name says that it identifies people, and values are published as they were delivered"] if named else []
        if why:
            text = (
                f"quasi-identifier {one.name}: {'; '.join(why)}. Give the column the role direct_identifier, or a hierarchy "
                "that shows none of its values"
            )
            review = ". If it identifies nobody, list it under reviewed_attributes with a reason" if not kinds else ""
            refusals.append(Refusal("direct_identifier", f"gate/{one.name}", None, None, text + review))
    return tuple(overruled), refusals


def _shows_delivered_values(one: QuasiIdentifier) -> bool:
    """Whether a published value is a delivered one; that a value is missing says nothing."""
    published, delivered = (
        f"SELECT DISTINCT lower({displayed(quoted(column))}) AS text FROM {table.sql} WHERE {quoted(column)} IS NOT NULL"
        for table, column in ((one.staged, one.name), (one.delivered, one.column))
    )
    found = one.staged.query(
        f"""SELECT count(*) AS n FROM (({published}) INTERSECT ({delivered}))
            WHERE text NOT IN (SELECT unnest(?::VARCHAR[]))""",
        [sorted(PLACEHOLDERS)],
    )
    return int(found["n"].iloc[0]) > 0
