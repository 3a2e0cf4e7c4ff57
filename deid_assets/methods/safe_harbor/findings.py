"""Which column of a table breaks which element of Safe Harbor, and in how many records.

The table is judged as it is, by the roles that a policy states: run it on the rows that are to be published. Labels of a
generalization count as what they tell: 80-89 and 85+ stand, 85-94 does not. A value that no rule can read is a finding.

Safe Harbor leaves the year of a date, which `years` gives as SQL of a column. A value that cannot be read is no reason to let
it stand: `years` gives NULL for it, and `unreadable` counts it. Neither puts a value of a person into the SQL.

Look into columns that should hold no identifier for values that look like one.

Patterns run inside DuckDB on distinct values, so that no value leaves it. They extend those of
`deid_assets.methods.disclosure.identifier_patterns` by the identifiers that Safe Harbor names besides. Libraries for texts
(presidio-analyzer, scrubadub) need spaCy or scikit-learn, and read value by value in Python.

A kind is certain if no ordinary value has its form. A form that ordinary values share, such as the five digits of a ZIP code
and of a procedure code, is counted too, but marked; only for values that have no certain form. Names of persons have no form
but their titles; biometric identifiers have none.
"""

import datetime
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.methods.disclosure.identifier_patterns import FORMATS, IDENTIFIERS, TITLE, displayed
from deid_assets.methods.safe_harbor.identifiers import ELEMENT_OF, FREE, LINK, require_roles
from deid_assets.reference.geography import states
from deid_assets.store.tables import Table, literal, quoted

_PHONE = r"\(?[0-9]{3}\)?[ ./-]*[0-9]{3}[ ./-]*[0-9]{4}"
_NUMBER = r"[ .:#_-]*(id|no|nr|num|number)?[ .:#_-]*"
_LATIN = "[^a-z]"
_MONTH_NAME = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_VIN_SIGNS = "0123456789.ABCDEFGH..JKLMN.P.R..STUVWXYZ"
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


@dataclass(frozen=True)
class Kind:
    """A kind of identifier and the form of its values.

    Attributes
    ----------
    name, letter
        What is counted, and the letter of its paragraph.
    pattern
        RE2 pattern, searched anywhere in the text.
    certain
        Whether no ordinary value has the form.
    further
        SQL of a further condition on `text`.
    """

    name: str
    letter: str
    pattern: str
    certain: bool = True
    further: str = "true"


def _insensitive(pattern: str) -> str:
    return f"(?i){pattern}"


def _vin_check(text: str) -> str:
    """SQL of the check digit of a vehicle identification number (49 CFR 565.15)."""
    # The value of a sign is its position in `_VIN_SIGNS` modulo 10: A and J are 1, S is 2.
    vin = f"upper(regexp_extract({text}, '[A-HJ-NPR-Za-hj-npr-z0-9]{{17}}'))"
    terms = " + ".join(
        f"{weight} * ((instr('{_VIN_SIGNS}', {vin}[{at}]) - 1) % 10)"
        for at, weight in enumerate(_VIN_WEIGHTS, start=1)
        if weight
    )
    return f"substr('0123456789X', ({terms})::INTEGER % 11 + 1, 1) = {vin}[9]"


_LETTERS = {
    "social security numbers": "G",
    "telephone numbers": "D",
    "e-mail addresses": "F",
    "network addresses": "O",
    "dates": "C",
    "keys": "R",
}
_FORMAT_LETTERS = {
    "ZIP codes": "B",
    "numbers of nine or ten digits": "G",
    "dates without separators": "C",
    "dates with years of two digits": "C",
    "numbers of records": "H",
}
KINDS: tuple[Kind, ...] = (
    Kind("titles of persons", "A", TITLE),
    Kind(
        "street addresses",
        "B",
        _insensitive(
            r"(^|[^0-9])[0-9]{1,6}[a-z]? +([\p{L}0-9'.-]+ +){1,4}"
            r"((street|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|court|place|highway|hwy|parkway|pkwy|terrace|square)\b"
            r"|st\.?(,|$))|(^|[^a-z])p\.? ?o\.? ?box +[0-9]"
        ),
    ),
    Kind("ZIP codes with four more digits", "B", r"(^|[^0-9-])[0-9]{5}-[0-9]{4}($|[^0-9-])"),
    Kind(
        "months of a year",
        "C",
        _insensitive(
            rf"(^|[^0-9/.-])((1[89]|20)[0-9]{{2}}[-/.](0[1-9]|1[0-2])|(0[1-9]|1[0-2])[-/.](1[89]|20)[0-9]{{2}})($|[^0-9/.-])"
            rf"|(^|{_LATIN}){_MONTH_NAME},? +(1[89]|20)[0-9]{{2}}($|[^0-9])"
            r"|(^|[^0-9])(1[89]|20)[0-9]{2}[ -]?(q[1-4]|w[0-5][0-9])\b|\bq[1-4][ /-]?(1[89]|20)[0-9]{2}($|[^0-9])"
        ),
    ),
    Kind(
        "ages over 89",
        "C",
        _insensitive(
            r"(^|[^0-9.])(9[0-9]|1[0-2][0-9])[ -]*(y/?o\b|y(ea)?rs?[ -]*(old|of age)\b)"
            rf"|(^|{_LATIN})age[d:]? *(9[0-9]|1[0-2][0-9])($|[^0-9+.])"
        ),
    ),
    Kind("fax numbers", "E", _insensitive(rf"(^|{_LATIN})fax[^0-9(]{{0,12}}{_PHONE}")),
    Kind(
        "numbers of medical records",
        "H",
        _insensitive(rf"(^|{_LATIN})(mrn|med(ical)?\.? ?rec(ord)?|patient|pat){_NUMBER}[a-z]{{0,2}}[0-9]{{4,}}"),
    ),
    Kind(
        "numbers of health plan members",
        "I",
        _insensitive(rf"(^|{_LATIN})(member|beneficiary|subscriber|policy|hicn?|mbi){_NUMBER}[a-z]{{0,3}}[0-9]{{4,}}"),
    ),
    # Eleven signs without S, L, O, I, B and Z (CMS, Medicare Beneficiary Identifier format).
    Kind(
        "Medicare beneficiary identifiers",
        "I",
        _insensitive(
            r"(^|[^A-Z0-9])[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?"
            r"[AC-HJKMNP-RT-Y]{2}[0-9]{2}($|[^A-Z0-9])"
        ),
    ),
    Kind("numbers of accounts", "J", _insensitive(rf"(^|{_LATIN})(acct|account|iban){_NUMBER}[a-z]{{0,2}}[0-9]{{4,}}")),
    Kind(
        "numbers of certificates and licenses",
        "K",
        _insensitive(rf"(^|{_LATIN})(dea|npi|licen[cs]e|certificate|cert|passport){_NUMBER}[a-z]{{0,2}}[0-9]{{5,}}"),
    ),
    Kind(
        "vehicle identification numbers",
        "L",
        _insensitive(r"(^|[^A-Z0-9])[A-HJ-NPR-Z0-9]{8}[0-9X][A-HJ-NPR-Z0-9]{4}[0-9]{4}($|[^A-Z0-9])"),
        further=f"regexp_matches(text, '[A-Za-z]') AND {_vin_check('text')}",
    ),
    Kind(
        "numbers of devices",
        "M",
        _insensitive(rf"(^|{_LATIN})(serial|device|imei|udi){_NUMBER}[a-z]{{0,4}}[0-9]{{4,}}|\(01\) ?[0-9]{{14}}"),
    ),
    Kind("pictures", "Q", _insensitive(r"data:image/|[^ /\\]\.(jpe?g|png|gif|tiff?|bmp|heic|dcm)$")),
    # The end of an e-mail address is no web address.
    Kind("web addresses", "N", _insensitive(IDENTIFIERS["web addresses"]), further="NOT contains(text, '@')"),
    *(Kind(name, letter, _insensitive(IDENTIFIERS[name])) for name, letter in _LETTERS.items()),
    *(
        Kind(f"{name} (by form alone)", letter, f"(?i)^({FORMATS[name]})$", certain=False)
        for name, letter in _FORMAT_LETTERS.items()
    ),
)
"""Every kind that is looked for, with its certain ones first."""


@dataclass(frozen=True)
class LikelyIdentifiers:
    """Records of a column whose values look like an identifier: counts, never values.

    Attributes
    ----------
    column, kind, letter, certain
        Column, and name, letter and certainty of the kind.
    records, values
        Number of records, and of different values.
    """

    column: str
    kind: str
    letter: str
    certain: bool
    records: int
    values: int


def scan(table: Table, columns: Sequence[str]) -> tuple[LikelyIdentifiers, ...]:
    """Count values that look like identifiers, by column and kind.

    Parameters
    ----------
    table
        Any table of a store.
    columns
        Columns to look into. Values of any type are read as text.

    Returns
    -------
    tuple of LikelyIdentifiers
        In the order of the columns and of `KINDS`; only what was found.
    """
    return tuple(itertools.chain.from_iterable(_in_column(table, column) for column in columns))


def _in_column(table: Table, column: str) -> list[LikelyIdentifiers]:
    # A form is compared without the blanks and dashes within a value; the other patterns read the value as it is displayed.
    certain = [f"regexp_matches(text, ?) AND ({kind.further}) AS k{at}" for at, kind in enumerate(KINDS) if kind.certain]
    none = " OR ".join(f"k{at}" for at, kind in enumerate(KINDS) if kind.certain)
    shared = [f"regexp_matches(bare, ?) AND NOT ({none}) AS k{at}" for at, kind in enumerate(KINDS) if not kind.certain]
    counts = [f"sum(n) FILTER (k{at}), count(*) FILTER (k{at})" for at in range(len(KINDS))]
    row = table.query(
        f"""WITH delivered AS (SELECT {quoted(column)}::VARCHAR AS raw, count(*) AS n FROM {table.sql}
                WHERE {quoted(column)} IS NOT NULL GROUP BY ALL),
            held AS (SELECT {displayed("raw")} AS text, sum(n) AS n FROM delivered GROUP BY ALL),
            filled AS (SELECT n, text, regexp_replace(text, '[\\s\\p{{Pd}}_]', '', 'g') AS bare FROM held
                WHERE lower(text) NOT IN (SELECT unnest(?::VARCHAR[]))),
            surely AS (SELECT n, bare, {", ".join(certain)} FROM filled),
            looked AS (SELECT *, {", ".join(shared)} FROM surely)
            SELECT {", ".join(counts)} FROM looked""",
        [sorted(PLACEHOLDERS), *(kind.pattern for kind in KINDS)],
    ).iloc[0]
    numbers = [0 if value != value or value is None else int(value) for value in row.tolist()]
    return [
        LikelyIdentifiers(column, kind.name, kind.letter, kind.certain, records, values)
        for kind, records, values in zip(KINDS, numbers[::2], numbers[1::2], strict=True)
        if records
    ]


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
