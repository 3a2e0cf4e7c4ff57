"""Contracts of assessments, one row of evidence each, bound to the rows, the policy and the method; and of released files."""

from pandera.ibis import Check, DataFrameSchema

from deid_assets.assessments.registry import LONGITUDINAL
from deid_assets.schemas.contract import Role, contract, count, text

_SHA256 = Check.str_matches(r"^[0-9a-f]{64}$", error="64 hexadecimal digits")


def evidence_contract(asset: str) -> DataFrameSchema:
    """The contract of an assessment's evidence."""
    return contract(
        {
            "asset": text("who measured", Check.eq(asset, error=f"{asset}")),
            "partition": text("key of the delivery"),
            "policy_hash": text("SHA-256 of the policy", _SHA256),
            "rows_digest": text("digest of the rows that were judged", _SHA256),
            "method_version": text("version of the method"),
            "try_number": text(
                "number of the try in which the release was measured; empty where nothing was drawn",
                Check.str_matches(r"^[1-3]?$", error="1 to 3, or empty"),
            ),
            "measurements": text("JSON: every measurement with its value, bound, threshold and unit", role=Role.MEASUREMENT),
        },
        unique=["asset"],
    )


RELEASE = contract(
    {
        "path": text("the file, in the folder of the release"),
        "sha256": text("its digest", _SHA256),
        "bytes": count("its size", "bytes"),
        "rows": count("its rows; blank if it is not a table", "rows", nullable=True),
    },
    unique=["path"],
)

CONTRACTS = {one.name: evidence_contract(one.name) for one in LONGITUDINAL} | {"release": RELEASE}
