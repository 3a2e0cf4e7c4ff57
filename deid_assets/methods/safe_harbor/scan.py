r"""Look into columns that should hold no identifier for values that look like one.

Patterns run inside DuckDB on distinct values, so that no value leaves it. They extend those of
`deid_assets.methods.disclosure.identifier_patterns` by the identifiers that Safe Harbor names besides. Libraries for texts
(presidio-analyzer, scrubadub) need spaCy or scikit-learn, and read value by value in Python.

A kind is certain if no ordinary value has its form. A form that ordinary values share, such as the five digits of a ZIP code
and of a procedure code, is counted too, but marked; only for values that have no certain form. Names of persons have no form
but their titles; biometric identifiers have none.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.methods.disclosure.identifier_patterns import FORMATS, IDENTIFIERS, TITLE, displayed
from deid_assets.store.tables import Table, quoted

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
