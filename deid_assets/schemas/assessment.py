"""Contracts of the assessment stage: one row of evidence each, bound to the rows, the policy and the method."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, DataFrameSchema

from deid_assets.assessments.registry import LONGITUDINAL
from deid_assets.schemas.contract import Role, column, contract

_SHA256 = Check.str_matches(r"^[0-9a-f]{64}$", error="64 hexadecimal digits")


def evidence_contract(asset: str) -> DataFrameSchema:
    """The contract of an assessment's evidence."""
    return contract(
        {
            "asset": column(dt.string, Role.OTHER, "who measured", Check.eq(asset, error=f"{asset}")),
            "partition": column(dt.string, Role.OTHER, "key of the delivery"),
            "policy_hash": column(dt.string, Role.OTHER, "SHA-256 of the policy", _SHA256),
            "rows_digest": column(dt.string, Role.OTHER, "digest of the rows that were judged", _SHA256),
            "method_version": column(dt.string, Role.OTHER, "version of the method"),
            "try_number": column(
                dt.string,
                Role.OTHER,
                "number of the try in which the release was measured; empty where nothing was drawn",
                Check.str_matches(r"^[1-3]?$", error="1 to 3, or empty"),
            ),
            "measurements": column(
                dt.string,
                Role.MEASUREMENT,
                "JSON: every measurement with its value, bound, threshold and unit",
            ),
        },
        unique=["asset"],
    )


CONTRACTS = {one.name: evidence_contract(one.name) for one in LONGITUDINAL}
