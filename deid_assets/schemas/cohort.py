"""Contracts of a cohort's assets; their columns are those of the policy."""

import ibis.expr.datatypes as dt
from pandera.ibis import Column, DataFrameSchema

from deid_assets.policy.cohort import ATTRIBUTES, CohortPolicy
from deid_assets.schemas.contract import Role, column, contract, count, flag, identifier, measure, one_of, text, within
from deid_assets.schemas.counts import CONTRACTS as COUNTS
from deid_assets.schemas.release import RELEASE, evidence_contract
from deid_assets.sources.census import LAST_AGE

_SEX = one_of(["F", "M"], "F or M")
_AGE = within(0, LAST_AGE)

QUARANTINED_PEOPLE = contract(
    {
        "record": column(dt.int64, Role.DIRECT_IDENTIFIER, "row of the file, from 1", within(1, None)),
        "source_column": text("column at fault"),
        "rule": text("the rule that it breaks"),
    }
)

SAFE_HARBOR_FINDINGS = contract(
    {
        "letter": text("of the identifier in the rule", one_of("ABCDEFGHIJKLMNOPQR", "A to R")),
        "element": text("the identifier"),
        "source_column": text("column of the cohort as it was taken in; empty: none", nullable=True),
        "rule": text("what is wrong with its values; empty: nothing", nullable=True),
        "records": count("records with such a value", "records"),
        "certain": flag("false: ordinary values have this form, too"),
        "published": flag("whether the column is published as it was taken in"),
    },
    unique=["letter", "source_column", "rule"],
)

POLICY_RISKS = contract(
    {
        "policy": text("policy on demographics"),
        "group": text("all, a state, or other states"),
        "records": column(dt.int64, Role.MEASUREMENT, "people in the group", unit="people"),
        "measure": text("measure of risk"),
        "decides": flag("whether the policy names it as deciding"),
        "percent": measure("expected risk in per cent; empty: not shown", nullable=True, unit="per cent"),
        "upper_percent": measure("upper bound of it; empty: not shown", nullable=True, unit="per cent"),
        "riskier_expected": flag("whether the expected risk exceeds that of Safe Harbor"),
        "riskier_upper": flag("whether the upper bound exceeds the expected risk of Safe Harbor"),
    },
    unique=["policy", "group", "measure"],
)

POLICY_FRONTIER = contract(
    {
        "policy": text("policy, by its name or its levels"),
        **{name: text(f"level of {name}", nullable=True) for name in ATTRIBUTES},
        "detail": measure("what it keeps", within(0, None), unit="bits per record"),
        "detail_of_reference": measure("what Safe Harbor keeps", unit="bits per record"),
        "finer": text("attributes that are finer than under Safe Harbor"),
        "coarser": text("attributes that are coarser"),
        "different": text("attributes that are neither"),
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
        **{name: evidence_contract(name) for name in ("cohort_risk", "record_cross_release_risk", "count_disclosure_audit")},
        "release": RELEASE,
    }


def release_people_contract(policy: CohortPolicy) -> DataFrameSchema:
    """The contract of the published table: pseudonyms, demographics at the policy's levels, and attributes."""
    person = policy.columns.person.release_as
    levels = policy.demographic_policy.levels
    pseudonym = {} if person is None else {person: column(dt.int64, Role.PSEUDONYM, "pseudonym of the person")}
    labels = {
        released: text(f"{name}, at the level {levels[name]}", role=Role.QUASI_IDENTIFIER)
        for name, released in policy.demographic_columns.items()
    }
    return contract({**pseudonym, **labels, **_attributes(policy)}, unique=[] if person is None else [person])


def _people(policy: CohortPolicy) -> DataFrameSchema:
    own = policy.columns
    columns = {
        "record": column(dt.int64, Role.DIRECT_IDENTIFIER, "row of the file, from 1", within(1, None)),
        "person": identifier("identifier as delivered"),
        "age": column(dt.int64, Role.QUASI_IDENTIFIER, "age in completed years", _AGE, unit="years"),
        "sex": text("sex", _SEX, Role.QUASI_IDENTIFIER),
        **({"race": text("race of the census", role=Role.QUASI_IDENTIFIER)} if own.race else {}),
        "state": text("postal code of the state", role=Role.QUASI_IDENTIFIER),
        **{name: text(f"{name} as delivered", role=Role.QUASI_IDENTIFIER) for name in _places(policy)},
        **({"date": column(dt.date, Role.QUASI_IDENTIFIER, "date", nullable=True)} if own.date else {}),
    }
    return contract(columns | _attributes(policy), unique=[["record"], ["person"]])


def _population(policy: CohortPolicy) -> DataFrameSchema:
    keys = {
        "state": text("postal code of the state"),
        **{name: text(f"{name} of the table") for name in _places(policy)},
        "sex": text("sex", _SEX),
        "race": text("race"),
        "age_from": column(dt.int64, Role.OTHER, "first age of the row", _AGE, unit="years"),
        "age_to": column(dt.int64, Role.OTHER, "last age of the row", _AGE, unit="years"),
    }
    return contract(
        {
            **keys,
            "people": count("people in the population", "people"),
            "note": text("what must be known of the table; empty: nothing"),
        },
        unique=list(keys),
    )


def _places(policy: CohortPolicy) -> list[str]:
    return [name for name in ("zip", "county") if getattr(policy.columns.place, name) is not None]


def _attributes(policy: CohortPolicy) -> dict[str, Column]:
    return {
        one.release_as: text(f"{one.column}, role {one.role}", role=Role.SENSITIVE_ATTRIBUTE, nullable=True)
        for one in policy.attributes
    }
