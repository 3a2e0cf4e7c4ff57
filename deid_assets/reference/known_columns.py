"""The columns that every policy of claims knows: what each means, what it may contain, and what it is read from.

They are those of Tables 2 and 3 of El Emam et al. 2012, and the dates of El Emam & Arbuckle 2013, ch. 5. A policy declares
others (`policy/sections/columns.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

CodeKind = Literal["diagnosis", "procedure", "place", "specialty"]
ListedKind = Literal[CodeKind, "taxonomy", "drug"]
"""Kinds of codes in lists of sensitive codes: those of claims, and those that a policy declares; a drug is its ingredients."""


@dataclass(frozen=True)
class KnownColumn:
    """A column of members or claims.

    Attributes
    ----------
    meaning
        For the data dictionary of a release.
    delivered_as
        The delivered column of the same table that it is read from; None: it follows from several columns or rows.
    ingredients
        Delivered columns that it is computed from if it is not delivered.
    limits
        Smallest and largest whole number that it may contain, None for no largest; None: it contains text.
    values
        The only texts that it may contain; None: any, or it contains numbers.
    unit
        Of whole numbers.
    prepared_from
        Smallest whole number after preparation, if not that of `limits`: a stay that ends on its first day is one of a day.
    until
        What happens so many days after the service, in a word; None: nothing that the columns of dates know.
    released_year
        The year whose days in hospital it contains, as it is released; None: it contains no such days.
    beside_days
        Its name in the released table of days in hospital, where it is beside the days of each year; None: it is not there.
    withheld
        What a release that shows classes of it withholds, in words, and somebody may predict; None: nothing.
    inpatient
        The group that makes a claim a visit of an inpatient; None: it tells nothing of inpatients.
    codes
        The kind of the delivered codes that it contains the groups of; None: it contains no groups.
    """

    meaning: str
    delivered_as: str | None = None
    ingredients: tuple[str, ...] = ()
    limits: tuple[int, int | None] | None = None
    values: tuple[str, ...] | None = None
    unit: str = ""
    prepared_from: int | None = None
    until: str | None = None
    released_year: str | None = None
    beside_days: str | None = None
    withheld: str | None = None
    inpatient: str | None = None
    codes: CodeKind | None = None


_YEAR = (0, 366)
_DAYS = "days in hospital in year {}; blank where the member was not enrolled"

MEMBERS: Mapping[str, KnownColumn] = MappingProxyType(
    {
        "age": KnownColumn(
            "completed years at the member's first claim of year 1; for a member without a claim in that year, at its start; "
            "where the delivery states ages, the stated age",
            "age",
            ("birth_date",),
            (0, 120),
            unit="completed years",
            withheld="exact age",
        ),
        "sex": KnownColumn("F or M", "sex", values=("F", "M")),
        "days_in_hospital_y2": KnownColumn(
            _DAYS.format(2), "days_in_hospital_y2", limits=_YEAR, unit="days", released_year="Y2"
        ),
        "days_in_hospital_y3": KnownColumn(
            _DAYS.format(3), "days_in_hospital_y3", limits=_YEAR, unit="days", released_year="Y3"
        ),
        "claims_truncated": KnownColumn("claims truncated", beside_days="ClaimsTruncated", withheld="whether claims were cut"),
    }
)
CLAIMS: Mapping[str, KnownColumn] = MappingProxyType(
    {
        "specialty": KnownColumn("specialty of the provider who gave care, grouped", "specialty", codes="specialty"),
        "place": KnownColumn("place of service, grouped", "place", inpatient="Inpatient Hospital", codes="place"),
        "procedure_group": KnownColumn("group of the procedure's CPT or HCPCS code", "cpt", codes="procedure"),
        "length_of_stay": KnownColumn(
            "days in hospital of the claim's stay; blank without a stay",
            "length_of_stay",
            ("admission_date", "discharge_date"),
            (0, None),
            unit="days",
            prepared_from=1,
            until="discharge",
            withheld="exact length of stay",
        ),
        "days_since_first_claim": KnownColumn(
            "days since the member's first claim of the same year",
            "days_since_first_claim",
            ("service_date",),
            _YEAR,
            unit="days",
        ),
        "condition_group": KnownColumn(
            "primary condition group of the claim's first diagnosis", "diagnosis_1", codes="diagnosis"
        ),
    }
)
YEARS: Mapping[str, str] = {column.released_year: name for name, column in MEMBERS.items() if column.released_year}
"""The members' days in hospital, by released year."""

BESIDE_DAYS: Mapping[str, str] = {name: column.beside_days for name, column in MEMBERS.items() if column.beside_days}
"""Columns of members that are released beside the days in hospital, and their names there."""

IN_DAYS_IN_HOSPITAL = (*YEARS.values(), *BESIDE_DAYS)
"""Columns of members in the released table of days in hospital instead of that of members."""

INPATIENT_VISIT: Mapping[str, str] = {name: column.inpatient for name, column in CLAIMS.items() if column.inpatient}
"""What a claim of an inpatient's visit contains."""

AGES = tuple(name for name, column in MEMBERS.items() if "birth_date" in column.ingredients)
STAYS = tuple(name for name, column in CLAIMS.items() if column.until)
NUMBERS_OF_MEMBERS = tuple(name for name, column in MEMBERS.items() if column.limits)
NUMBERS_OF_CLAIMS = tuple(name for name, column in CLAIMS.items() if column.limits)
DAYS_OF_SERVICE = tuple(name for name, column in CLAIMS.items() if column.ingredients == ("service_date",))
"""Columns of claims that follow from the dates of service alone."""

WITHHELD: Mapping[str, str] = {name: column.withheld for name, column in (*CLAIMS.items(), *MEMBERS.items()) if column.withheld}
"""What a release withholds of columns of which it shows classes, in words."""

GROUPED: Mapping[CodeKind, str] = {
    kind: name for kind in get_args(CodeKind) for name, column in CLAIMS.items() if column.codes == kind
}
"""The column of claims with the groups of each kind of code."""

DIAGNOSES = ("diagnosis_1", "diagnosis_2", "diagnosis_3", "diagnosis_4")
CODE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    kind: (CLAIMS[group].delivered_as or group,) for kind, group in GROUPED.items()
} | {"diagnosis": DIAGNOSES}
"""The columns of claims with one code each, by kind of code."""

UNREADABLE: Mapping[str, str] = {
    "diagnosis": "unreadable_diagnoses",
    "procedure": "unreadable_procedures",
    "place": "unreadable_places",
}
"""By kind of code in lists: the column of the claims that counts the codes which cannot be read, and are blank."""

DECLARED_CODES, UNREADABLE_DECLARED = "declared_codes", "unreadable_declared"
"""Columns of claims where a policy declares columns of codes: the codes that lists read, and how many cannot be read."""

PROVIDERS: Mapping[str, tuple[str, str]] = {
    "provider": ("provider_id", "ProviderID"), "vendor": ("vendor_id", "Vendor"), "pcp": ("pcp_id", "PCP"),
}  # fmt: skip
"""Kinds of providers: their column, and its name in the release."""
PROVIDER_PSEUDONYMS: Mapping[str, str] = dict(PROVIDERS.values())
"""Columns of providers, and their names in the release."""

EVENT_TABLE = "event_table"
"""Column of claims that says which table a row is of, where a policy has other tables of events: their rows are beside those of
the claims, and have none of the columns that are only of claims."""

DATES: Mapping[str, KnownColumn] = MappingProxyType(
    {
        "service_interval": KnownColumn("service interval"),
        "service_period": KnownColumn("service period", "service_date"),
        "service_order": KnownColumn("service order"),
    }
)
"""What an adversary may know about the dates of claims if a policy releases dates."""

KNOWN: Mapping[str, KnownColumn] = MappingProxyType({**MEMBERS, **CLAIMS, **DATES})
