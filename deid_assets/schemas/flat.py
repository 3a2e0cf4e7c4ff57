"""Contracts of a flat table's assets; their columns are those of the policy."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.policy.flat import FlatPolicy
from deid_assets.schemas.assessment import evidence_contract
from deid_assets.schemas.candidate import allowed_labels
from deid_assets.schemas.contract import Role, column, contract
from deid_assets.schemas.counts import CONTRACTS as COUNTS
from deid_assets.schemas.release import RELEASE
from deid_assets.sources.flat import PERSON

_RULES = ["value outside the hierarchy", "missing person", "too few fields", "too many fields", "unclosed quote", "not UTF-8"]
_RULES += ["line too long", "unreadable line", "lost after an unclosed quote", "opted out"]

QUARANTINED_RECORDS = contract(
    {
        "source_table": column(
            dt.string, Role.OTHER, "table of the delivery", Check.isin(["records", "population_records"], error="a table")
        ),
        "source_file": column(dt.string, Role.OTHER, "file of the delivery", nullable=True),
        "source_row": column(dt.int64, Role.DIRECT_IDENTIFIER, "line of the file, or row where it has no lines", nullable=True),
        "source_column": column(dt.string, Role.OTHER, "column at fault; empty: the whole line"),
        "rule": column(dt.string, Role.OTHER, "the rule that it breaks", Check.isin(_RULES, error="a known rule")),
    }
)

SUPPRESSED_RECORDS = contract(
    {"record": column(dt.int64, Role.DIRECT_IDENTIFIER, "number of a record that is left out")}, unique=["record"]
)


def flat_contracts(policy: FlatPolicy) -> dict[str, DataFrameSchema]:
    """The contract of every asset of a flat policy, by its name."""
    return {
        "records": _records(policy),
        "quarantined_records": QUARANTINED_RECORDS,
        "record_domains": _record_domains(policy),
        "record_lattice": _record_lattice(policy),
        "record_generalization": _record_generalization(policy),
        "suppressed_records": SUPPRESSED_RECORDS,
        "release_records": release_records_contract(policy),
        **COUNTS,
        "record_risk": evidence_contract("record_risk"),
        "record_attribute_disclosure": evidence_contract("record_attribute_disclosure"),
        "record_cross_release_risk": evidence_contract("record_cross_release_risk"),
        "count_disclosure_audit": evidence_contract("count_disclosure_audit"),
        "release": RELEASE,
    }


def release_records_contract(policy: FlatPolicy) -> DataFrameSchema:
    """The contract of the published table: columns of the policy, and labels of its hierarchies."""
    quasi_identifiers = {
        qi.release_as: column(
            dt.string,
            Role.QUASI_IDENTIFIER,
            f"{qi.column}, at a level of its hierarchy",
            allowed_labels(policy.hierarchy(qi.hierarchy)),
            nullable=True,
        )
        for qi in policy.quasi_identifiers
    }
    return contract({**quasi_identifiers, **_attributes(policy)})


def _records(policy: FlatPolicy) -> DataFrameSchema:
    quasi_identifiers = {
        qi.release_as: column(dt.string, Role.QUASI_IDENTIFIER, f"{qi.column}, as delivered", nullable=True)
        for qi in policy.quasi_identifiers
    }
    number = column(dt.int64, Role.DIRECT_IDENTIFIER, "number of the record", Check.ge(1, error="at least 1"))
    person = column(dt.string, Role.DIRECT_IDENTIFIER, "identifier of the record's person")
    persons = {} if policy.source.person is None else {PERSON: person}
    return contract({"record": number, **quasi_identifiers, **_attributes(policy), **persons}, unique=["record"])


def _attributes(policy: FlatPolicy) -> dict[str, Column]:
    return {
        one.release_as: column(dt.string, Role.SENSITIVE_ATTRIBUTE, f"{one.column}, published as it is", nullable=True)
        for one in policy.attributes
    }


def _record_domains(policy: FlatPolicy) -> DataFrameSchema:
    names = [qi.release_as for qi in policy.quasi_identifiers]
    levels = max(policy.hierarchy(qi.hierarchy).levels for qi in policy.quasi_identifiers)
    return contract(
        {
            "quasi_identifier": column(
                dt.string, Role.OTHER, "column of the release", Check.isin(names, error="a quasi-identifier of the policy")
            ),
            "base_code": column(dt.int32, Role.OTHER, "number of the value", Check.ge(0, error="at least 0")),
            "value": column(dt.string, Role.QUASI_IDENTIFIER, "the value as text; empty: it is missing"),
            "level": column(
                dt.int32, Role.OTHER, "level of the hierarchy", Check.in_range(0, levels - 1, error=f"0 to {levels - 1}")
            ),
            "level_code": column(dt.int32, Role.OTHER, "number of its class", Check.ge(0, error="at least 0")),
            "label": column(dt.string, Role.QUASI_IDENTIFIER, "what is published for it at this level", nullable=True),
        },
        unique=[["quasi_identifier", "level", "base_code"], ["quasi_identifier", "level", "value"]],
    )


def _record_lattice(policy: FlatPolicy) -> DataFrameSchema:
    levels = {
        f"level_of_{qi.release_as}": column(dt.int64, Role.OTHER, f"level of {qi.release_as}", Check.ge(0, error="at least 0"))
        for qi in policy.quasi_identifiers
    }
    return contract(
        {
            "node": column(dt.string, Role.OTHER, "the levels of the node"),
            **levels,
            "height": column(dt.int64, Role.OTHER, "sum of the levels", Check.ge(0, error="at least 0")),
            "loss": column(dt.float64, Role.MEASUREMENT, "information lost", Check.ge(0, error="at least 0")),
            "share": column(
                dt.float64,
                Role.MEASUREMENT,
                "share of records in classes below k",
                Check.in_range(0, 1, error="0 to 1"),
                unit="share",
            ),
            "decision": column(
                dt.string,
                Role.OTHER,
                "whether few enough records are in small classes",
                Check.isin(["candidate", "not_candidate"], error="one of the 2 decisions"),
            ),
            "chosen": column(dt.boolean, Role.OTHER, "the candidate of least loss"),
        },
        unique=["node"],
    )


def _record_generalization(policy: FlatPolicy) -> DataFrameSchema:
    names = [qi.release_as for qi in policy.quasi_identifiers]
    return contract(
        {
            "column": column(
                dt.string, Role.OTHER, "column of the release", Check.isin(names, error="a quasi-identifier of the policy")
            ),
            "level": column(dt.int32, Role.OTHER, "its level", Check.ge(0, error="at least 0")),
            "level_name": column(dt.string, Role.OTHER, "name of the level"),
        },
        unique=["column"],
    )
