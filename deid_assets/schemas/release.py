"""Contract of the release stage: the files of a published release."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check

from deid_assets.schemas.contract import Role, column, contract

RELEASE = contract(
    {
        "path": column(dt.string, Role.OTHER, "the file, in the folder of the release"),
        "sha256": column(
            dt.string, Role.OTHER, "its digest", Check.str_matches(r"^[0-9a-f]{64}$", error="64 hexadecimal digits")
        ),
        "bytes": column(dt.int64, Role.MEASUREMENT, "its size", Check.ge(0, error="at least 0"), unit="bytes"),
        "rows": column(
            dt.int64,
            Role.MEASUREMENT,
            "its rows; blank if it is not a table",
            Check.ge(0, error="at least 0"),
            nullable=True,
            unit="rows",
        ),
    },
    unique=["path"],
)

CONTRACTS = {"release": RELEASE}
