"""Which column of a table breaks which element of Safe Harbor, and in how many records.

The table is judged as it is, by the roles that a policy states: run it on the rows that are to be published. Labels of a
generalization count as what they tell: 80-89 and 85+ stand, 85-94 does not. A value that no rule can read is a finding.

Safe Harbor leaves the year of a date, which `years` gives as SQL of a column. A value that cannot be read is no reason to let
it stand: `years` gives NULL for it, and `unreadable` counts it. Neither puts a value of a person into the SQL.
"""

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.methods.safe_harbor.identifiers import ELEMENT_OF, FREE, LINK, require_roles
from deid_assets.methods.safe_harbor.scan import scan
from deid_assets.reference.geography import states
from deid_assets.store.tables import Table, literal, quoted

OLDEST = 89
"""Greatest age that may be shown."""
TOP = f"{OLDEST + 1}+"
"""The one category of age 90 or older."""
NO_AREA = "000"

_MONTH, _DAY, _TIME = "(0?[1-9]|1[0-2])", "(0?[1-9]|[12][0-9]|3[01])", "([ T].*)?"
# A date as its year alone is read from: ISO with any precision, digits only, or the year last.
_YEAR_FIRST = rf"^([0-9]{{4}})([-/.]{_MONTH}([-/.]{_DAY}{_TIME})?|(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01]){_TIME})?$"
_YEAR_LAST = rf"^([0-9]{{1,2}}[-/.]){{1,2}}([0-9]{{4}}){_TIME}$"


def plain_text(value: str) -> str:
    """SQL of a value as trimmed text; whole numbers without decimals, NULL if it stands for a missing value."""
    missing = ", ".join(f"'{placeholder}'" for placeholder in sorted(PLACEHOLDERS))
    text = f"regexp_replace(trim({value}::VARCHAR), '^([0-9]+)[.]0+$', '\\1')"
    return f"CASE WHEN lower(trim({value}::VARCHAR)) NOT IN ({missing}) THEN {text} END"


def years(text: str) -> str:
    """SQL of the year of a date, in four digits; the text is plain, as `plain_text` gives it."""
    return f"""coalesce(nullif(regexp_extract({text}, '{_YEAR_FIRST}', 1), ''),
        nullif(regexp_extract({text}, '{_YEAR_LAST}', 2), ''))"""


def unreadable(table: Table, columns: Sequence[str]) -> dict[str, int]:
    """Count the dates whose year cannot be read, by column; columns without any are left out."""
    if not columns:
        return {}
    counts = ", ".join(
        f"count(*) FILTER ({quoted(column)} IS NOT NULL AND ({years(quoted(column))}) IS NULL) AS n{at}"
        for at, column in enumerate(columns)
    )
    texts = ", ".join(f"{plain_text(quoted(column))} AS {quoted(column)}" for column in columns)
    found = table.query(f"SELECT {counts} FROM (SELECT {texts} FROM {table.sql})").iloc[0]
    return {column: int(rows) for column, rows in zip(columns, found, strict=True) if rows}


SUPPRESSED = "*"
"""Label of a value that a generalization withholds entirely."""

PRESENT = "identifier present"
FINE_GEOGRAPHY = "geography below state"
NOT_A_STATE = "not a state, region or division"
LONG_ZIP = "more than three digits of a ZIP code"
SMALL_ZIP = "ZIP prefix of 20,000 people or fewer, or unknown"
OVER_89 = "age over 89"
NOT_AN_AGE = "not an age"
FINE_DATE = "date finer than a year"
NOT_A_YEAR = "not a year"
OLD_BIRTH = "year of birth that implies an age over 89"

_BELOW_STATE = ("street_address", "city", "county", "precinct", "geocode")
_YEAR = "(1[89]|20)[0-9]{2}"
_SPAN = "^([0-9]+)[-–]([0-9]+)$"


@dataclass(frozen=True)
class Finding:
    """Records of a column that break an element.

    Attributes
    ----------
    letter
        Of the identifier, A to R.
    column
        Column of the table.
    rule
        What is wrong with the values.
    records
        Number of records.
    certain
        False for a form that ordinary values have too, such as five digits; a person must look at such a column.
    """

    letter: str
    column: str
    rule: str
    records: int
    certain: bool = True


def findings(table: Table, roles: Mapping[str, str], reference: datetime.date, kept: Collection[str]) -> tuple[Finding, ...]:
    """Judge a table: by the stated roles, and free columns by what their values look like.

    Parameters
    ----------
    table
        One row per record, as it is to be published.
    roles
        Column to role, for every column; see `deid_assets.methods.safe_harbor.identifiers`.
    reference
        Day to which ages are counted.
    kept
        Prefixes of ZIP codes that may stand, `deid_assets.reference.geography.kept_prefixes`.

    Returns
    -------
    tuple of Finding
        In the order of the letters and of the columns; empty if the table satisfies every element that can be judged by
        values. Missing values break nothing.

    Raises
    ------
    PolicyError
        If the roles do not fit the table.
    """
    columns = list(table.columns())
    require_roles(columns, roles)
    checks = [
        (column, rule, condition)
        for column in columns
        for rule, condition in _conditions(quoted(column), roles[column], reference, kept).items()
    ]
    found: list[Finding] = []
    if checks:
        judged = dict.fromkeys(column for column, _, _ in checks)
        texts = ", ".join(f"nullif({plain_text(quoted(column))}, '{SUPPRESSED}') AS {quoted(column)}" for column in judged)
        counts = ", ".join(f"count(*) FILTER ({condition}) AS n{at}" for at, (_, _, condition) in enumerate(checks))
        records = table.query(f"SELECT {counts} FROM (SELECT {texts} FROM {table.sql})").iloc[0]
        found += [
            Finding(ELEMENT_OF[roles[column]].letter, column, rule, int(number))
            for (column, rule, _), number in zip(checks, records, strict=True)
            if number
        ]
    found += [
        Finding(one.letter, one.column, f"values like {one.kind}", one.records, one.certain)
        for one in scan(table, [column for column in columns if roles[column] == FREE])
    ]
    return tuple(sorted(found, key=lambda one: (one.letter, columns.index(one.column), one.rule)))


def _conditions(text: str, role: str, reference: datetime.date, kept: Collection[str]) -> dict[str, str]:
    """Rule to SQL of the condition on a plain text that breaks it."""
    if role in (FREE, LINK):
        return {}
    if role in _BELOW_STATE:
        return {FINE_GEOGRAPHY: f"{text} IS NOT NULL"}
    if role == "state":
        return {NOT_A_STATE: f"upper({text}) NOT IN ({_quoted_texts(_coarse_places())})"}
    if role in ("zip", "zip3"):
        short = f"regexp_matches({text}, '^[0-9]{{3}}$')"
        return {
            LONG_ZIP: f"{text} IS NOT NULL AND NOT {short}",
            SMALL_ZIP: f"{short} AND {text} NOT IN ({_quoted_texts({NO_AREA, *kept})})",
        }
    if role == "age":
        return _age_conditions(text)
    if role in ("birth_date", "birth_year"):
        return _year_conditions(text) | {
            OLD_BIRTH: f"{reference.year} - {_number(f'coalesce({years(text)}, left({text}, 4))')} > {OLDEST}"
        }
    if role in ("date", "year"):
        return _year_conditions(text)
    return {PRESENT: f"{text} IS NOT NULL"}


def _age_conditions(text: str) -> dict[str, str]:
    number, last = _number(text), _number(f"regexp_extract({text}, '{_SPAN}', 2)")
    first_of_open = _number(f"regexp_extract({text}, '^([0-9]+)[+]$', 1)")
    readable = f"{number} >= 0 OR {last} IS NOT NULL OR {first_of_open} IS NOT NULL"
    return {
        OVER_89: f"{number} > {OLDEST} OR {last} > {OLDEST} OR {first_of_open} > {OLDEST + 1}",
        NOT_AN_AGE: f"{text} IS NOT NULL AND NOT coalesce({readable}, false)",
    }


def _year_conditions(text: str) -> dict[str, str]:
    # Four digits that are no year of a living person's records, such as 0314, may be a day and a month.
    plain = f"(regexp_matches({text}, '^{_YEAR}([-–]{_YEAR})?$') OR {text} = '{TOP}')"
    dated = f"coalesce(regexp_matches({years(text)}, '^{_YEAR}$'), false)"
    return {
        FINE_DATE: f"NOT {plain} AND {dated}",
        NOT_A_YEAR: f"NOT {plain} AND NOT {dated}",
    }


def _number(text: str) -> str:
    return f"TRY_CAST({text} AS DOUBLE)"


def _coarse_places() -> set[str]:
    """Every spelling of a state, and the regions and divisions that join several."""
    spellings = {name for one in states() for name in (one.postal, one.fips, *one.ssa, one.name, one.region, one.division)}
    return {name.upper() for name in spellings} - {""}


def _quoted_texts(texts: Collection[str]) -> str:
    """SQL of a list of our own texts."""
    return ", ".join(map(literal, sorted(texts)))
