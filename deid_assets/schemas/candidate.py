"""Contracts of the release: its columns, and the values that the policy's hierarchies allow in them."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.models import Policy
from deid_assets.reference.charlson import CHARLSON_BANDS
from deid_assets.reference.known_columns import BESIDE_DAYS, CLAIMS, YEARS
from deid_assets.schemas.contract import Role, column, contract
from deid_assets.schemas.contract import days as contract_days


def release_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts of the tables that a policy publishes, by the name of their asset."""
    members = {name: _quasi_identifier(policy, column) for column, name in policy.member_names.items()}
    days = {
        "Year": column(dt.string, Role.QUASI_IDENTIFIER, "year of enrollment", Check.isin(["Y2", "Y3"], error="Y2 or Y3")),
        "MemberID": _member(),
    }
    for beside, name in BESIDE_DAYS.items():
        if policy.publishes(beside):
            bit = Check.isin(["0", "1"], error="0 or 1")
            days[name] = column(dt.string, Role.QUASI_IDENTIFIER, "1 if some claims were cut", bit, nullable=True)
    days["DaysInHospital"] = column(
        dt.string,
        Role.QUASI_IDENTIFIER,
        "days in hospital in that year, at a level of the policy's hierarchy",
        _allowed_days(policy),
    )
    claims = {
        "MemberID": _member(),
        "ProviderID": _pseudonym("who gave care"),
        "Vendor": _pseudonym("who billed"),
        "PCP": _pseudonym("primary care provider"),
        "Year": _claim_year(policy),
        **_dates(policy),
        **{qi.release_as: _quasi_identifier(policy, qi.column) for qi in policy.quasi_identifiers.claims},
        "PayDelay": column(
            dt.string,
            Role.OTHER,
            "days from service to payment, top-coded",
            Check.str_matches(r"^[0-9]+\+?$", error="a number, or a number and +"),
            nullable=True,
            unit="days",
        ),
        "CharlsonIndex": column(
            dt.string,
            Role.SENSITIVE_ATTRIBUTE,
            "comorbidity in bands; blank where a diagnosis cannot be read",
            Check.isin(list(CHARLSON_BANDS), error="a Charlson band"),
            nullable=True,
        ),
        "SupLOS": column(dt.int8, Role.OTHER, "1 if a length of stay is withheld", Check.isin([0, 1], error="0 or 1")),
        **{name: _attribute(policy, column) for name, column in policy.attribute_names.items()},
        **_connected(policy),
    }
    return {
        "release_members": contract({"MemberID": _member(), **members}, unique=["MemberID"]),
        "release_claims": contract(claims),
        "release_days_in_hospital": contract(days, unique=["MemberID", "Year"]),
    }


def _claim_year(policy: Policy) -> Column:
    of_member = policy.dates is not None and policy.dates.format != "dates"
    return column(
        dt.string,
        Role.OTHER,
        "year counted from the member's first service; blank where a claim has no date" if of_member else "claim year",
        Check.str_matches(r"^Y[1-9][0-9]?$", error="Y and the number of the year"),
        nullable=of_member,
    )


def _dates(policy: Policy) -> dict[str, Column]:
    """The column of released dates, if there is one."""
    if policy.dates is None:
        return {}
    if policy.dates.format == "dates":
        return {policy.dates.release_as: column(dt.date, Role.QUASI_IDENTIFIER, "date of service, redrawn", nullable=True)}
    return {policy.dates.release_as: contract_days(Role.QUASI_IDENTIFIER, "days since the member's first service, redrawn")}


def _connected(policy: Policy) -> dict[str, Column]:
    """The columns of dates that are connected to the date of service."""
    found = {}
    for one in policy.connected_dates:
        end = CLAIMS[one.offset].until if one.offset in CLAIMS else "payment"
        text = f"{end}: the date of service and a random distance within the released one"
        days = contract_days(Role.QUASI_IDENTIFIER, f"days from the member's first service to the {text}")
        found[one.release_as] = (
            column(dt.date, Role.QUASI_IDENTIFIER, f"date of {text}", nullable=True)
            if policy.dates_section.format == "dates"
            else days
        )
    return found


def _member() -> Column:
    return column(
        dt.int64,
        Role.PSEUDONYM,
        "pseudonym of the member",
        Check.in_range(10**14, 10**15 - 1, error="a pseudonym of 15 digits"),
    )


def _pseudonym(what: str) -> Column:
    return column(
        dt.int64,
        Role.PSEUDONYM,
        f"pseudonym of {what}; blank where few share a pattern of care",
        Check.in_range(10**14, 10**15 - 1, error="a pseudonym of 15 digits"),
        nullable=True,
    )


def _quasi_identifier(policy: Policy, name: str) -> Column:
    hierarchy = policy.hierarchy_of(name)
    return column(
        dt.string,
        Role.QUASI_IDENTIFIER,
        f"{policy.column(name).meaning}, at a level of the policy's hierarchy",
        allowed_labels(hierarchy),
        nullable=True,
    )


def _attribute(policy: Policy, name: str) -> Column:
    """A declared column that is published as it was made."""
    declared = policy.column(name)
    if declared.limits is not None:
        rule = Check.str_matches(r"^[0-9]+$", error="a whole number")
        return column(dt.string, Role.OTHER, declared.meaning, rule, nullable=True)
    rules = [] if declared.values is None else [Check.isin(list(declared.values), error="a declared value")]
    return column(dt.string, Role.OTHER, declared.meaning, rules, nullable=True)


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
    return [Check.isin(sorted(labels | opened | numbers), error="a label of the hierarchy")]


def allowed_labels(hierarchy: Hierarchy) -> list[Check]:
    """The labels of every level, if the hierarchy lists them."""
    labels = _labels(hierarchy)
    return [] if labels is None else [Check.isin(sorted(labels), error="a label of the hierarchy")]


def _labels(hierarchy: Hierarchy) -> set[str] | None:
    """The labels of every level; None if the hierarchy does not list them."""
    labels: set[str] = set()
    for level in range(hierarchy.levels):
        try:
            labels.update(hierarchy.order(level))
        except ValueError:
            return None
    return labels
