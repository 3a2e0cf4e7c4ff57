"""Additional contracts of a policy that releases dates: claims with released dates, and what is known about them."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, DataFrameSchema

from deid_assets.policy.models import Policy
from deid_assets.schemas.contract import YEAR_NUMBER, Role, column, contract, days
from deid_assets.schemas.preparation import grouped_claims_columns

_INTERVAL = Check.str_matches(r"^([0-9]+|[0-9]+-[0-9]+)$", error="days, or first and last day of a bin")
_ORDER = Check.str_matches(r"^([0-9]+|[0-9]+-[0-9]+) then ([0-9]+|[0-9]+-[0-9]+)$", error="two bins, the earlier one first")
_PERIOD = Check.str_matches(r"^[0-9]{4}(-[0-9]{2}|-Q[1-4]|-H[12])?$", error="a month, quarter, half year or year")


def date_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that are changed or added under a policy with dates; empty otherwise."""
    if policy.dates is None:
        return {}
    columns = grouped_claims_columns() | {
        # If days are released instead of dates, a claim without a date has no year either.
        "year": column(dt.int32, Role.OTHER, "year of the released date", YEAR_NUMBER, nullable=True),
        "service_date": column(dt.date, Role.QUASI_IDENTIFIER, "date of service, redrawn", nullable=True),
        "service_day": days(Role.QUASI_IDENTIFIER, "days since the member's first service, redrawn"),
        "service_interval": column(
            dt.string,
            Role.QUASI_IDENTIFIER,
            "bin of the days since the previous service",
            _INTERVAL,
            nullable=True,
            unit="days",
        ),
        "service_period": column(dt.string, Role.QUASI_IDENTIFIER, "period of the service", _PERIOD, nullable=True),
    }
    if "service_order" in policy.dates.columns:
        columns["service_order"] = column(
            dt.string,
            Role.QUASI_IDENTIFIER,
            "bins of the two intervals before the service, the earlier one first",
            _ORDER,
            nullable=True,
            unit="days",
        )
    # Rows of `truncated_claims` and of `grouped_claims`; the latter's contract checks the key.
    return {"dated_claims": contract(columns), "known_claims": contract(columns)}
