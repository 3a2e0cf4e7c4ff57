"""The eighteen identifiers of 45 CFR 164.514(b)(2)(i), and the roles by which a policy assigns columns to them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from deid_assets.errors import PolicyError


@dataclass(frozen=True)
class Identifier:
    """One of the eighteen identifiers.

    Attributes
    ----------
    letter
        Of the paragraph, A to R.
    name
        Short name.
    roles
        Roles of columns that hold the identifier, or a part of it that Safe Harbor lets stand.
    """

    letter: str
    name: str
    roles: tuple[str, ...]


IDENTIFIERS: tuple[Identifier, ...] = (
    Identifier("A", "names", ("name",)),
    Identifier(
        "B", "geography below state", ("street_address", "city", "county", "precinct", "geocode", "zip", "zip3", "state")
    ),
    Identifier("C", "dates and ages over 89", ("age", "birth_date", "birth_year", "date", "year")),
    Identifier("D", "telephone numbers", ("telephone",)),
    Identifier("E", "fax numbers", ("fax",)),
    Identifier("F", "e-mail addresses", ("email",)),
    Identifier("G", "social security numbers", ("social_security",)),
    Identifier("H", "medical record numbers", ("medical_record",)),
    Identifier("I", "health plan beneficiary numbers", ("health_plan",)),
    Identifier("J", "account numbers", ("account",)),
    Identifier("K", "certificate and license numbers", ("license",)),
    Identifier("L", "vehicle identifiers", ("vehicle",)),
    Identifier("M", "device identifiers", ("device",)),
    Identifier("N", "web addresses", ("url",)),
    Identifier("O", "network addresses", ("ip_address",)),
    Identifier("P", "biometric identifiers", ("biometric",)),
    Identifier("Q", "full-face photographs", ("photograph",)),
    Identifier("R", "other unique numbers, characteristics or codes", ("unique_code",)),
)
"""In the order of the regulation. Condition (ii), no actual knowledge, is the releasing entity's own to judge."""

FREE = "free"
"""Role of a column that should hold no identifier. It is released as it is, and `scan` looks into it."""
LINK = "link"
"""Role of a code that paragraph (c) permits: assigned for re-identification, not derived from the individual, its mechanism not
disclosed. Whether that is so, no program can tell from the values."""

ELEMENT_OF: Mapping[str, Identifier] = {role: identifier for identifier in IDENTIFIERS for role in identifier.roles}
"""Every role that belongs to an identifier."""
ROLES: frozenset[str] = frozenset(ELEMENT_OF) | {FREE, LINK}


def require_roles(columns: Collection[str], roles: Mapping[str, str]) -> None:
    """Refuse roles that do not fit a table: every column needs one known role.

    Raises
    ------
    PolicyError
        With the columns without a role, the roles without a column, and the columns whose role is unknown.
    """
    problems = {
        "columns without a role": [column for column in columns if column not in roles],
        "roles of columns that the table lacks": [column for column in roles if column not in columns],
        "columns with an unknown role": [column for column, role in roles.items() if role not in ROLES],
    }
    said = [f"{problem}: {', '.join(found)}" for problem, found in problems.items() if found]
    if said:
        raise PolicyError(
            f"Safe Harbor needs one role for each column ({'; '.join(said)}). Roles are {', '.join(sorted(ROLES))}"
        )
