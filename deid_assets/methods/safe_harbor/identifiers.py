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
    text
        Text of the regulation.
    roles
        Roles of columns that hold the identifier, or a part of it that Safe Harbor lets stand.
    """

    letter: str
    name: str
    text: str
    roles: tuple[str, ...]


IDENTIFIERS: tuple[Identifier, ...] = (
    Identifier("A", "names", "Names;", ("name",)),
    Identifier(
        "B",
        "geography below state",
        "All geographic subdivisions smaller than a State, including street address, city, county, precinct, zip code, and"
        " their equivalent geocodes, except for the initial three digits of a zip code if, according to the current publicly"
        " available data from the Bureau of the Census: (1) The geographic unit formed by combining all zip codes with the"
        " same three initial digits contains more than 20,000 people; and (2) The initial three digits of a zip code for all"
        " such geographic units containing 20,000 or fewer people is changed to 000.",
        ("street_address", "city", "county", "precinct", "geocode", "zip", "zip3", "state"),
    ),
    Identifier(
        "C",
        "dates and ages over 89",
        "All elements of dates (except year) for dates directly related to an individual, including birth date, admission"
        " date, discharge date, date of death; and all ages over 89 and all elements of dates (including year) indicative of"
        " such age, except that such ages and elements may be aggregated into a single category of age 90 or older;",
        ("age", "birth_date", "birth_year", "date", "year"),
    ),
    Identifier("D", "telephone numbers", "Telephone numbers;", ("telephone",)),
    Identifier("E", "fax numbers", "Fax numbers;", ("fax",)),
    Identifier("F", "e-mail addresses", "Electronic mail addresses;", ("email",)),
    Identifier("G", "social security numbers", "Social security numbers;", ("social_security",)),
    Identifier("H", "medical record numbers", "Medical record numbers;", ("medical_record",)),
    Identifier("I", "health plan beneficiary numbers", "Health plan beneficiary numbers;", ("health_plan",)),
    Identifier("J", "account numbers", "Account numbers;", ("account",)),
    Identifier("K", "certificate and license numbers", "Certificate/license numbers;", ("license",)),
    Identifier(
        "L",
        "vehicle identifiers",
        "Vehicle identifiers and serial numbers, including license plate numbers;",
        ("vehicle",),
    ),
    Identifier("M", "device identifiers", "Device identifiers and serial numbers;", ("device",)),
    Identifier("N", "web addresses", "Web Universal Resource Locators (URLs);", ("url",)),
    Identifier("O", "network addresses", "Internet Protocol (IP) address numbers;", ("ip_address",)),
    Identifier("P", "biometric identifiers", "Biometric identifiers, including finger and voice prints;", ("biometric",)),
    Identifier(
        "Q",
        "full-face photographs",
        "Full face photographic images and any comparable images; and",
        ("photograph",),
    ),
    Identifier(
        "R",
        "other unique numbers, characteristics or codes",
        "Any other unique identifying number, characteristic, or code, except as permitted by paragraph (c) of this section;"
        " and",
        ("unique_code",),
    ),
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
