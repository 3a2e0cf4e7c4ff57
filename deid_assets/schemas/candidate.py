"""Contracts of the release: its columns, and the values that the policy's hierarchies allow in them."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.models import Policy
from deid_assets.reference.charlson import CHARLSON_BANDS
from deid_assets.reference.known_columns import BESIDE_DAYS, CLAIMS, EVENT_TABLE, YEARS
from deid_assets.schemas.contract import Role, column, contract, days, one_of, pseudonym, text


def release_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts of the tables that a policy publishes, by the name of their asset."""
    members = {name: _quasi_identifier(policy, column) for column, name in policy.member_names.items()}
    member = pseudonym("pseudonym of the member")
    of_days = {
        "Year": text("year of enrollment", one_of(["Y2", "Y3"], "Y2 or Y3"), Role.QUASI_IDENTIFIER),
        "MemberID": member,
        **{
            name: text("1 if some claims were cut", one_of(["0", "1"], "0 or 1"), Role.QUASI_IDENTIFIER, nullable=True)
            for beside, name in BESIDE_DAYS.items()
            if policy.publishes(beside)
        },
        "DaysInHospital": text(
            "days in hospital in that year, at a level of the policy's hierarchy", _allowed_days(policy), Role.QUASI_IDENTIFIER
        ),
    }
    claims = {
        **events_of_tables(policy),
        "MemberID": member,
        **{
            name: pseudonym(f"pseudonym of {whom}; blank where few share a pattern of care", nullable=True)
            for name, whom in (("ProviderID", "who gave care"), ("Vendor", "who billed"), ("PCP", "primary care provider"))
        },
        "Year": _claim_year(policy),
        **_dates(policy),
        **{qi.release_as: _quasi_identifier(policy, qi.column) for qi in policy.quasi_identifiers.claims},
        "PayDelay": text(
            "days from service to payment, top-coded",
            Check.str_matches(r"^[0-9]+\+?$", error="a number, or a number and +"),
            nullable=True,
            unit="days",
        ),
        "CharlsonIndex": text(
            "comorbidity in bands; blank where a diagnosis cannot be read",
            one_of(CHARLSON_BANDS, "a Charlson band"),
            Role.SENSITIVE_ATTRIBUTE,
            nullable=True,
        ),
        "SupLOS": column(dt.int8, Role.OTHER, "1 if a length of stay is withheld", one_of([0, 1], "0 or 1")),
        **{name: _attribute(policy, column) for name, column in policy.attribute_names.items()},
        **_connected(policy),
    }
    return {
        "release_members": contract({"MemberID": member, **members}, unique=["MemberID"]),
        "release_claims": contract(claims),
        "release_days_in_hospital": contract(of_days, unique=["MemberID", "Year"]),
    }


def events_of_tables(policy: Policy) -> dict[str, Column]:
    """The column that says which table of events a row is of, where a policy has several."""
    tables = policy.event_tables
    if len(tables) == 1:
        return {}
    return {EVENT_TABLE: text("the table of events that the row is of", one_of(tables, "a table of events"))}


def _claim_year(policy: Policy) -> Column:
    of_member = policy.dates is not None and policy.dates.format != "dates"
    return text(
        "year counted from the member's first service; blank where a claim has no date" if of_member else "claim year",
        Check.str_matches(r"^Y[1-9][0-9]?$", error="Y and the number of the year"),
        nullable=of_member,
    )


def _dates(policy: Policy) -> dict[str, Column]:
    """The column of released dates, if there is one."""
    if policy.dates is None:
        return {}
    return {policy.dates.release_as: _date_or_days(policy, "of service, redrawn", "since the member's first service, redrawn")}


def _connected(policy: Policy) -> dict[str, Column]:
    """The columns of dates that are connected to the date of service."""
    found = {}
    for one in policy.connected_dates:
        end = CLAIMS[one.offset].until if one.offset in CLAIMS else "payment"
        what = f"{end}: the date of service and a random distance within the released one"
        found[one.release_as] = _date_or_days(policy, f"of {what}", f"from the member's first service to the {what}")
    return found


def _date_or_days(policy: Policy, of_date: str, of_days: str) -> Column:
    if policy.dates_section.format == "dates":
        return column(dt.date, Role.QUASI_IDENTIFIER, f"date {of_date}", nullable=True)
    return days(Role.QUASI_IDENTIFIER, f"days {of_days}")


def _quasi_identifier(policy: Policy, name: str) -> Column:
    meaning = f"{policy.column(name).meaning}, at a level of the policy's hierarchy"
    return text(meaning, allowed_labels(policy.hierarchy_of(name)), Role.QUASI_IDENTIFIER, nullable=True)


def _attribute(policy: Policy, name: str) -> Column:
    """A declared column that is published as it was made."""
    declared = policy.column(name)
    if declared.limits is not None:
        return text(declared.meaning, Check.str_matches(r"^[0-9]+$", error="a whole number"), nullable=True)
    rules = [] if declared.values is None else [one_of(declared.values, "a declared value")]
    return text(declared.meaning, rules, nullable=True)


def _allowed_days(policy: Policy) -> list[Check]:
    """The labels of both years.

    The class that top-coding opens upwards is written '8+' instead of '8-14', and '15' instead of '15+' if all labels
    are numbers.
    """
    columns = [column for column in YEARS.values() if policy.publishes(column)]
    labels: set[str] = set()
    for name in columns:
        found = _labels(policy.hierarchy_of(name))
        if found is None:
            return []
        labels |= found
    opened = {f"{label.split('-')[0]}+" for label in labels if label[:1].isdigit()}
    numbers = {label.removesuffix("+") for label in labels if label.removesuffix("+").isdigit()}
    return [one_of(sorted(labels | opened | numbers), "a label of the hierarchy")]


def allowed_labels(hierarchy: Hierarchy) -> list[Check]:
    """The labels of every level, if the hierarchy lists them."""
    labels = _labels(hierarchy)
    return [] if labels is None else [one_of(sorted(labels), "a label of the hierarchy")]


def _labels(hierarchy: Hierarchy) -> set[str] | None:
    """The labels of every level; None if the hierarchy does not list them."""
    labels: set[str] = set()
    for level in range(hierarchy.levels):
        try:
            labels.update(hierarchy.order(level))
        except ValueError:
            return None
    return labels
