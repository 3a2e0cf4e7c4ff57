r"""What Safe Harbor leaves of ages, dates and ZIP codes, as SQL of a column.

A value that cannot be read is no reason to let it stand. `ages`, `birth_years` and `years` give NULL for it, and `unreadable`
counts it; a ZIP code becomes 000.

Every function takes SQL of a plain text, as `plain_text` gives it, and returns SQL of a VARCHAR. None puts a value of a person
into the SQL.
"""

import datetime
from collections.abc import Collection, Mapping

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.methods.safe_harbor.identifiers import FREE, LINK, RELEASED_ROLES, require_roles
from deid_assets.store.tables import Query, Table, quoted

OLDEST = 89
"""Greatest age that may be shown."""
TOP = f"{OLDEST + 1}+"
"""The one category of age 90 or older."""
NO_AREA = "000"
_NO_AGE = 131  # numbers from here on stand for something else, such as 999 for unknown

_MONTH, _DAY, _TIME = "(0?[1-9]|1[0-2])", "(0?[1-9]|[12][0-9]|3[01])", "([ T].*)?"
# A date as its year alone is read from: ISO with any precision, digits only, or the year last.
_YEAR_FIRST = rf"^([0-9]{{4}})([-/.]{_MONTH}([-/.]{_DAY}{_TIME})?|(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01]){_TIME})?$"
_YEAR_LAST = rf"^([0-9]{{1,2}}[-/.]){{1,2}}([0-9]{{4}}){_TIME}$"
_ZIP = r"^[0-9]{3,5}(-[0-9]{4})?$|^[0-9]{9}$"


def plain_text(value: str) -> str:
    """SQL of a value as trimmed text; whole numbers without decimals, NULL if it stands for a missing value."""
    missing = ", ".join(f"'{placeholder}'" for placeholder in sorted(PLACEHOLDERS))
    text = f"regexp_replace(trim({value}::VARCHAR), '^([0-9]+)[.]0+$', '\\1')"
    return f"CASE WHEN lower(trim({value}::VARCHAR)) NOT IN ({missing}) THEN {text} END"


def ages(text: str) -> str:
    """SQL of an age in completed years, with '90+' for every age of 90 or more; 89 stays 89."""
    number = f"TRY_CAST({text} AS DOUBLE)"
    return f"""CASE WHEN {text} = '{TOP}' OR {number} >= {OLDEST + 1} AND {number} < {_NO_AGE} THEN '{TOP}'
        WHEN {number} >= 0 AND {number} < {OLDEST + 1} THEN floor({number})::INTEGER::VARCHAR END"""


def years(text: str) -> str:
    """SQL of the year of a date, in four digits."""
    return f"""coalesce(nullif(regexp_extract({text}, '{_YEAR_FIRST}', 1), ''),
        nullif(regexp_extract({text}, '{_YEAR_LAST}', 2), ''))"""


def birth_years(text: str, reference: datetime.date) -> str:
    """SQL of the year of a birth, with '90+' if the person turns 90 in the year of the reference date, or did before.

    A year alone does not tell whether the birthday has passed, so the greater of the two possible ages counts.
    """
    year = years(text)
    return f"CASE WHEN {text} = '{TOP}' OR {reference.year} - ({year})::INTEGER > {OLDEST} THEN '{TOP}' ELSE {year} END"


def zip3(text: str, kept: Collection[str]) -> str:
    """SQL of the first three digits of a ZIP code, or 000.

    Codes of fewer than five digits lost zeros on the left; four more digits (+4) are ignored. A value that is neither five nor
    nine digits then, and a prefix that is not in `kept`, become 000. A missing value stays missing.

    Parameters
    ----------
    kept
        Prefixes that may stand, `deid_assets.reference.geography.kept_prefixes`.
    """
    first = f"split_part({text}, '-', 1)"
    padded = f"left(CASE WHEN length({first}) = 9 THEN {first} ELSE lpad({first}, 5, '0') END, 3)"
    return f"""CASE WHEN {text} IS NULL THEN NULL
        WHEN regexp_matches({text}, '{_ZIP}') AND {padded} IN ({_listed(kept)}) THEN {padded} ELSE '{NO_AREA}' END"""


def shown_zip3(text: str, kept: Collection[str]) -> str:
    """SQL of three digits of a ZIP code, or 000 if they are not in `kept`; a missing value stays missing."""
    return f"CASE WHEN {text} IN ({_listed(kept)}) OR {text} IS NULL THEN {text} ELSE '{NO_AREA}' END"


def _listed(kept: Collection[str]) -> str:
    """SQL of a list of prefixes, none of which may be anything but three digits."""
    if not all(len(prefix) == 3 and prefix.isascii() and prefix.isdigit() for prefix in kept):
        raise ValueError("a ZIP prefix has three digits")
    return ", ".join(f"'{prefix}'" for prefix in sorted(kept)) or "''"


def safe_harbor(table: Table, roles: Mapping[str, str], reference: datetime.date, kept: Collection[str]) -> Query:
    """SELECT what Safe Harbor leaves of a table, in the order of its columns.

    Columns whose role Safe Harbor lets stand keep their name and take the role in `RELEASED_ROLES`; the others are removed.
    Free columns are passed on as they are.

    Parameters
    ----------
    table
        One row per record, not yet de-identified.
    roles
        Column to role, for every column.
    reference
        Day to which ages are counted: of the release, or the last day of the data.
    kept
        Prefixes of ZIP codes that may stand.

    Raises
    ------
    PolicyError
        If the roles do not fit the table, or if nothing may stand.
    DeliveryError
        If an age or a date cannot be read. It names column and number of rows.
    """
    columns = table.columns()
    require_roles(columns, roles)
    shown = [column for column in columns if roles[column] in RELEASED_ROLES]
    if not shown:
        raise PolicyError("Safe Harbor leaves no column of this table: every role is that of an identifier")
    broken = unreadable(table, {column: roles[column] for column in shown}, reference)
    if broken:
        listed = "; ".join(f"column {column}: {rows:,} rows" for column, rows in broken.items())
        raise DeliveryError(f"Safe Harbor cannot read an age or a date ({listed}): correct them, or leave them empty")
    selected = ", ".join(f"{_left(column, roles[column], reference, kept)} AS {quoted(column)}" for column in shown)
    return Query(f"SELECT {selected} FROM ({texts(table, {column: roles[column] for column in shown})})")


def texts(table: Table, roles: Mapping[str, str]) -> str:
    """SELECT columns of a table as plain text; free columns, links and states as they are."""
    as_they_are = (FREE, LINK, "state")
    shown = (
        f"{quoted(column) if role in as_they_are else plain_text(quoted(column))} AS {quoted(column)}"
        for column, role in roles.items()
    )
    return f"SELECT {', '.join(shown)} FROM {table.sql}"


def _left(column: str, role: str, reference: datetime.date, kept: Collection[str]) -> str:
    value = quoted(column)
    rules = {
        "age": ages(value),
        "birth_date": birth_years(value, reference),
        "birth_year": birth_years(value, reference),
        "date": years(value),
        "year": years(value),
        "zip": zip3(value, kept),
        "zip3": shown_zip3(value, kept),
    }
    return rules.get(role, value)


def unreadable(table: Table, roles: Mapping[str, str], reference: datetime.date) -> dict[str, int]:
    """Count the values of ages and dates that no rule can read, by column; columns without any are left out."""
    judged = [column for column, role in roles.items() if role in ("age", "birth_date", "birth_year", "date", "year")]
    if not judged:
        return {}
    counts = ", ".join(
        f"count(*) FILTER ({quoted(column)} IS NOT NULL AND ({_left(column, roles[column], reference, ())}) IS NULL) AS n{at}"
        for at, column in enumerate(judged)
    )
    found = table.query(f"SELECT {counts} FROM ({texts(table, {column: roles[column] for column in judged})})").iloc[0]
    return {column: int(rows) for column, rows in zip(judged, found, strict=True) if rows}
