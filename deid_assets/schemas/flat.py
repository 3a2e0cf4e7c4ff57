"""Contracts of a flat table's assets; their columns are those of the policy."""

import ibis.expr.datatypes as dt
from pandera.ibis import Column, DataFrameSchema

from deid_assets.policy.flat import FlatPolicy
from deid_assets.schemas.candidate import allowed_labels
from deid_assets.schemas.contract import (
    Role,
    column,
    contract,
    domains_contract,
    flag,
    identifier,
    measure,
    number,
    one_of,
    share,
    text,
    within,
)
from deid_assets.schemas.counts import CONTRACTS as COUNTS
from deid_assets.schemas.release import RELEASE, evidence_contract
from deid_assets.sources.flat import PERSON

_RULES = ["value outside the hierarchy", "missing person", "too few fields", "too many fields", "unclosed quote", "not UTF-8"]
_RULES += ["line too long", "unreadable line", "lost after an unclosed quote", "opted out"]

QUARANTINED_RECORDS = contract(
    {
        "source_table": text("table of the delivery", one_of(["records", "population_records"], "a table")),
        "source_file": text("file of the delivery", nullable=True),
        "source_row": column(dt.int64, Role.DIRECT_IDENTIFIER, "line of the file, or row where it has no lines", nullable=True),
        "source_column": text("column at fault; empty: the whole line"),
        "rule": text("the rule that it breaks", one_of(_RULES, "a known rule")),
    }
)

SUPPRESSED_RECORDS = contract(
    {"record": column(dt.int64, Role.DIRECT_IDENTIFIER, "number of a record that is left out")}, unique=["record"]
)


_DECISIONS = ["candidate", "not_candidate"]
_ASSESSMENTS = ("record_risk", "record_attribute_disclosure", "record_cross_release_risk", "count_disclosure_audit")


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
        **{name: evidence_contract(name) for name in _ASSESSMENTS},
        "release": RELEASE,
    }


def release_records_contract(policy: FlatPolicy) -> DataFrameSchema:
    """The contract of the published table: columns of the policy, and labels of its hierarchies."""
    quasi_identifiers = {
        qi.release_as: text(
            f"{qi.column}, at a level of its hierarchy",
            allowed_labels(policy.hierarchy(qi.hierarchy)),
            Role.QUASI_IDENTIFIER,
            nullable=True,
        )
        for qi in policy.quasi_identifiers
    }
    return contract({**quasi_identifiers, **_attributes(policy)})


def _records(policy: FlatPolicy) -> DataFrameSchema:
    quasi_identifiers = {
        qi.release_as: text(f"{qi.column}, as delivered", role=Role.QUASI_IDENTIFIER, nullable=True)
        for qi in policy.quasi_identifiers
    }
    record = column(dt.int64, Role.DIRECT_IDENTIFIER, "number of the record", within(1, None))
    persons = {} if policy.source.person is None else {PERSON: identifier("identifier of the record's person")}
    return contract({"record": record, **quasi_identifiers, **_attributes(policy), **persons}, unique=["record"])


def _attributes(policy: FlatPolicy) -> dict[str, Column]:
    return {
        one.release_as: text(f"{one.column}, published as it is", role=Role.SENSITIVE_ATTRIBUTE, nullable=True)
        for one in policy.attributes
    }


def _record_domains(policy: FlatPolicy) -> DataFrameSchema:
    names = [qi.release_as for qi in policy.quasi_identifiers]
    levels = max(policy.hierarchy(qi.hierarchy).levels for qi in policy.quasi_identifiers)
    return domains_contract(text("column of the release", one_of(names, "a quasi-identifier of the policy")), levels)


def _record_lattice(policy: FlatPolicy) -> DataFrameSchema:
    return contract(
        {
            "node": text("the levels of the node"),
            **{f"level_of_{qi.release_as}": number(f"level of {qi.release_as}") for qi in policy.quasi_identifiers},
            "height": number("sum of the levels"),
            "loss": measure("information lost", within(0, None)),
            "share": share("share of records in classes below k"),
            "decision": text("whether few enough records are in small classes", one_of(_DECISIONS, "one of the 2 decisions")),
            "chosen": flag("the candidate of least loss"),
        },
        unique=["node"],
    )


def _record_generalization(policy: FlatPolicy) -> DataFrameSchema:
    names = [qi.release_as for qi in policy.quasi_identifiers]
    return contract(
        {
            "column": text("column of the release", one_of(names, "a quasi-identifier of the policy")),
            "level": number("its level", dtype=dt.int32),
            "level_name": text("name of the level"),
        },
        unique=["column"],
    )
