"""Contracts of a cohort's assets; their columns are those of the policy."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.sections.cohort import ATTRIBUTES
from deid_assets.schemas.assessment import evidence_contract
from deid_assets.schemas.contract import Role, column, contract
from deid_assets.schemas.counts import CONTRACTS as COUNTS
from deid_assets.schemas.release import RELEASE
from deid_assets.sources.census import LAST_AGE

_SEX = Check.isin(["F", "M"], error="F or M")
_AGE = Check.in_range(0, LAST_AGE, error=f"0 to {LAST_AGE}")

QUARANTINED_PEOPLE = contract(
    {
        "record": column(dt.int64, Role.DIRECT_IDENTIFIER, "row of the file, from 1", Check.ge(1, error="at least 1")),
        "source_column": column(dt.string, Role.OTHER, "column at fault"),
        "rule": column(dt.string, Role.OTHER, "the rule that it breaks"),
    }
)

SAFE_HARBOR_FINDINGS = contract(
    {
        "letter": column(
            dt.string, Role.OTHER, "of the identifier in the rule", Check.isin(list("ABCDEFGHIJKLMNOPQR"), error="A to R")
        ),
        "element": column(dt.string, Role.OTHER, "the identifier"),
        "source_column": column(dt.string, Role.OTHER, "column of the cohort as it was taken in; empty: none", nullable=True),
        "rule": column(dt.string, Role.OTHER, "what is wrong with its values; empty: nothing", nullable=True),
        "records": column(
            dt.int64, Role.MEASUREMENT, "records with such a value", Check.ge(0, error="at least 0"), unit="records"
        ),
        "certain": column(dt.boolean, Role.OTHER, "false: ordinary values have this form, too"),
        "published": column(dt.boolean, Role.OTHER, "whether the column is published as it was taken in"),
    },
    unique=["letter", "source_column", "rule"],
)

_RISKS = {
    "policy": column(dt.string, Role.OTHER, "policy on demographics"),
    "group": column(dt.string, Role.OTHER, "all, a state, or other states"),
    "records": column(dt.int64, Role.MEASUREMENT, "people in the group", unit="people"),
    "measure": column(dt.string, Role.OTHER, "measure of risk"),
    "decides": column(dt.boolean, Role.OTHER, "whether the policy names it as deciding"),
    "percent": column(
        dt.float64, Role.MEASUREMENT, "expected risk in per cent; empty: not shown", nullable=True, unit="per cent"
    ),
    "upper_percent": column(
        dt.float64, Role.MEASUREMENT, "upper bound of it; empty: not shown", nullable=True, unit="per cent"
    ),
    "riskier_expected": column(dt.boolean, Role.OTHER, "whether the expected risk exceeds that of Safe Harbor"),
    "riskier_upper": column(dt.boolean, Role.OTHER, "whether the upper bound exceeds the expected risk of Safe Harbor"),
}
POLICY_RISKS = contract(_RISKS, unique=["policy", "group", "measure"])

POLICY_FRONTIER = contract(
    {
        "policy": column(dt.string, Role.OTHER, "policy, by its name or its levels"),
        **{name: column(dt.string, Role.OTHER, f"level of {name}", nullable=True) for name in ATTRIBUTES},
        "detail": column(
            dt.float64, Role.MEASUREMENT, "what it keeps", Check.ge(0, error="at least 0"), unit="bits per record"
        ),
        "detail_of_reference": column(dt.float64, Role.MEASUREMENT, "what Safe Harbor keeps", unit="bits per record"),
        "finer": column(dt.string, Role.OTHER, "attributes that are finer than under Safe Harbor"),
        "coarser": column(dt.string, Role.OTHER, "attributes that are coarser"),
        "different": column(dt.string, Role.OTHER, "attributes that are neither"),
    },
    unique=["policy"],
)


def cohort_contracts(policy: CohortPolicy) -> dict[str, DataFrameSchema]:
    """The contract of every asset of a cohort policy, by its name."""
    return {
        "cohort_people": _people(policy),
        "quarantined_people": QUARANTINED_PEOPLE,
        "population_cells": _population(policy),
        "safe_harbor_findings": SAFE_HARBOR_FINDINGS,
        "policy_risks": POLICY_RISKS,
        "policy_frontier": POLICY_FRONTIER,
        "release_people": release_people_contract(policy),
        **COUNTS,
        "cohort_risk": evidence_contract("cohort_risk"),
        "record_cross_release_risk": evidence_contract("record_cross_release_risk"),
        "count_disclosure_audit": evidence_contract("count_disclosure_audit"),
        "release": RELEASE,
    }


def release_people_contract(policy: CohortPolicy) -> DataFrameSchema:
    """The contract of the published table: pseudonyms, demographics at the policy's levels, and attributes."""
    person = policy.columns.person.release_as
    levels = policy.demographic_policy.levels
    pseudonym = {} if person is None else {person: column(dt.int64, Role.PSEUDONYM, "pseudonym of the person")}
    labels = {
        released: column(dt.string, Role.QUASI_IDENTIFIER, f"{name}, at the level {levels[name]}")
        for name, released in policy.demographic_columns.items()
    }
    return contract({**pseudonym, **labels, **_attributes(policy)}, unique=[] if person is None else [person])


def _people(policy: CohortPolicy) -> DataFrameSchema:
    own = policy.columns
    places = [name for name in ("zip", "county") if getattr(own.place, name) is not None]
    columns = {
        "record": column(dt.int64, Role.DIRECT_IDENTIFIER, "row of the file, from 1", Check.ge(1, error="at least 1")),
        "person": column(dt.string, Role.DIRECT_IDENTIFIER, "identifier as delivered"),
        "age": column(dt.int64, Role.QUASI_IDENTIFIER, "age in completed years", _AGE, unit="years"),
        "sex": column(dt.string, Role.QUASI_IDENTIFIER, "sex", _SEX),
        **({"race": column(dt.string, Role.QUASI_IDENTIFIER, "race of the census")} if own.race else {}),
        "state": column(dt.string, Role.QUASI_IDENTIFIER, "postal code of the state"),
        **{name: column(dt.string, Role.QUASI_IDENTIFIER, f"{name} as delivered") for name in places},
        **({"date": column(dt.date, Role.QUASI_IDENTIFIER, "date", nullable=True)} if own.date else {}),
    }
    return contract(columns | _attributes(policy), unique=[["record"], ["person"]])


def _population(policy: CohortPolicy) -> DataFrameSchema:
    places = [name for name in ("zip", "county") if getattr(policy.columns.place, name) is not None]
    keys = {
        "state": column(dt.string, Role.OTHER, "postal code of the state"),
        **{name: column(dt.string, Role.OTHER, f"{name} of the table") for name in places},
        "sex": column(dt.string, Role.OTHER, "sex", _SEX),
        "race": column(dt.string, Role.OTHER, "race"),
        "age_from": column(dt.int64, Role.OTHER, "first age of the row", _AGE, unit="years"),
        "age_to": column(dt.int64, Role.OTHER, "last age of the row", _AGE, unit="years"),
    }
    return contract(
        {
            **keys,
            "people": column(
                dt.int64, Role.MEASUREMENT, "people in the population", Check.ge(0, error="at least 0"), unit="people"
            ),
            "note": column(dt.string, Role.OTHER, "what must be known of the table; empty: nothing"),
        },
        unique=list(keys),
    )


def _attributes(policy: CohortPolicy) -> dict[str, Column]:
    return {
        one.release_as: column(dt.string, Role.SENSITIVE_ATTRIBUTE, f"{one.column}, role {one.role}", nullable=True)
        for one in policy.attributes
    }
