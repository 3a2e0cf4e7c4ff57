"""Detect values that look like direct identifiers of a person, and columns whose name indicates them.

The kinds are those of 45 CFR 164.514(b)(2) that have a recognizable format. Patterns match the digits and dashes of every
script. Names of persons have no distinctive format: only titles are detected reliably, and rare values of several words are
counted separately.
"""

import itertools
import re
from dataclasses import dataclass

from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.reference.digits import digits
from deid_assets.store.tables import Table, quoted

_DASH = r"[\p{Pd}−]"
_BEFORE, _AFTER = r"(^|[^\p{Nd}\p{Pd}])", r"($|[^\p{Nd}\p{Pd}])"
_D = r"\p{Nd}"
_APART = rf"({_DASH}|[ ./_,:;|]){{1,3}}"
_MONTH, _DAY = r"(0?[1-9]|1[0-2])", r"(0?[1-9]|[12][0-9]|3[01])"
_YEAR = r"(1[89]|20)[0-9]{2}"
_OCTET = r"(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_MONTH_NAME = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"

IDENTIFIERS: dict[str, str] = {
    "social security numbers": rf"{_BEFORE}{_D}{{3}}{_APART}{_D}{{2}}{_APART}{_D}{{4}}{_AFTER}",
    "telephone numbers": rf"{_BEFORE}(1({_DASH}|[ ./_])+)?({_D}{{3}}({_DASH}|[ ./_])+|\({_D}{{3}}\) ?)"
    rf"{_D}{{3}}({_DASH}|[ ./_])?{_D}{{4}}{_AFTER}|\+({_DASH}|[ ./()])*{_D}(({_DASH}|[ ./()])*{_D}){{7,14}}{_AFTER}"
    rf"|^00[1-9]{_D}{{0,2}}[ /(]({_DASH}|[ ./()])*{_D}(({_DASH}|[ ./()])*{_D}){{5,12}}{_AFTER}"
    rf"|\(0{_D}{{1,5}}\)({_DASH}|[ ./])*{_D}(({_DASH}|[ ./])*{_D}){{4,8}}{_AFTER}"
    rf"|(^|[^\p{{Nd}}\p{{Pd}}./])0{_D}{{1,4}} ?/ ?{_D}(({_DASH}| )*{_D}){{4,8}}{_AFTER}",
    "e-mail addresses": r"[\w.%+-]+ ?(@|\[at\]|\(at\)) ?[\w-]+( ?(\.|\[dot\]|\(dot\)) ?[\w-]+)*"
    r"( ?(\.|\[dot\]|\(dot\)) ?)[a-z]{2,}|[\w.%+-]+ at [\w-]+( dot [\w-]+)* dot [a-z]{2,}",
    "web addresses": r"(https?|ftp)://|(^|[^a-z])www\.|[a-z0-9-]\.(com|org|net|gov|edu|info|io)($|[/:? ])",
    "network addresses": rf"(^|[^0-9.])({_OCTET}\.){{3}}{_OCTET}($|[^0-9.])"
    r"|(^|[^0-9a-f:])([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}($|[^0-9a-f:])|(^|[^0-9a-f])([0-9a-f]{2}[:-]){5}[0-9a-f]{2}($|[^0-9a-f])",
    "dates": rf"(^|[^0-9]){_YEAR}[-/.]{_MONTH}[-/.]{_DAY}($|[^0-9])"
    rf"|(^|[^0-9])({_MONTH}[-/.]{_DAY}|{_DAY}[-/.]{_MONTH})[-/.]{_YEAR}($|[^0-9])"
    rf"|(^|[^0-9]){_DAY}(st|nd|rd|th)?[ -]*(of )?{_MONTH_NAME},?[ -]*{_YEAR}($|[^0-9])"
    rf"|(^|[^a-z]){_MONTH_NAME} *{_DAY}(st|nd|rd|th)?,? *{_YEAR}($|[^0-9])",
    "numbers of records or accounts": r"(^|[^a-z])(mrn|ssn|med(ical)?\.? ?rec(ord)?|patient|member|pat|acct|account|policy)"
    rf"[ .:#_-]*(id|no|nr|number)?[ .:#_-]*{_D}{{4,}}",
    "keys": r"(^|[^0-9a-f])[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|^[0-9a-f]{32,}$",
}
"""Patterns that no ordinary value matches, searched anywhere in a value, case-insensitively."""

OF_ONE_PERSON = frozenset(
    {"social security numbers", "telephone numbers", "e-mail addresses", "numbers of records or accounts", "titles of persons"}
)
"""Kinds that belong to one person; a date, a web or network address, or a key may be that of something else."""

TITLE = r"(^|[^\p{L}])(Mr|Mrs|Ms|Miss|Dr|Prof|MR|MRS|DR|PROF)(\. ?| )\p{Lu}"
"""A person's title followed by the start of a name."""

FORMATS: dict[str, str] = {
    "ZIP codes": rf"{_D}{{5}}({_D}{{4}})?",
    "numbers of nine or ten digits": rf"{_D}{{9,10}}",
    "dates without separators": rf"{_YEAR}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])"
    rf"|(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01]){_YEAR}",
    "dates with years of two digits": rf"({_MONTH}[/.]{_DAY}|{_DAY}[/.]{_MONTH})[/.][0-9]{{2}}|{_DAY}{_MONTH_NAME}[0-9]{{2}}",
    "numbers of records": rf"[a-z]{{1,4}}{_D}{{6,}}|0{_D}{{5,9}}",
}
"""Formats that ordinary numbers can also have; matched against the whole value without spaces and dashes."""

FORMATS_OF_ONE_PERSON = ("numbers of nine or ten digits", "numbers of records")
"""Those of numbers that are given to one person each."""

SEVERAL_WORDS = r"\p{L}[\p{L}'’.-]*,?((?: +|,)\p{L}[\p{L}'’.-]*,?){1,3}"
"""Two to four words of letters, as in names of persons."""


_SIGNS = {"＠": "@", "﹫": "@", "．": ".", "｡": ".", "／": "/", "：": ":", "−": "-"}


def displayed(value: str) -> str:
    """SQL of a value as text that is read alike in every script.

    It has no invisible characters, one kind of blank, dash, dot, slash and at sign, and the digits 0 to 9. A number that a file
    holds with decimals or an exponent, such as 20080105.0, is the whole number that it is.
    """
    seen = rf"regexp_replace(regexp_replace({value}::VARCHAR, '\p{{Cf}}', '', 'g'), '\p{{Zs}}', ' ', 'g')"
    alike = _SIGNS | digits()
    text = f"trim(translate(regexp_replace({seen}, '\\p{{Pd}}', '-', 'g'), '{''.join(alike)}', '{''.join(alike.values())}'))"
    whole = f"TRY_CAST(TRY_CAST({text} AS DECIMAL(38, 9)) AS HUGEINT)::VARCHAR"
    return rf"""CASE WHEN regexp_matches({text}, '^[0-9]+[.]0+$') THEN regexp_extract({text}, '^[0-9]+')
        WHEN regexp_matches({text}, '^[0-9]([.][0-9]+)?[eE][+]?[0-9]{{1,2}}$') THEN coalesce({whole}, {text}) ELSE {text} END"""


@dataclass(frozen=True)
class Patterns:
    """Number of records of a column that look like direct identifiers.

    Attributes
    ----------
    filled
        Records that are not missing.
    identifiers, formats
        Records that match `IDENTIFIERS` or a title, and records that match `FORMATS`.
    kinds, format_kinds
        Names of the kinds found.
    rare, rare_names
        Records with a value that fewer than k records have, and those of them with several words; the latter is 0 if only
        one value is such.
    rare_numbers
        Records with a value that fewer than k records have and that has a format of `FORMATS_OF_ONE_PERSON`.
    """

    filled: int
    identifiers: int
    formats: int
    kinds: tuple[str, ...]
    format_kinds: tuple[str, ...]
    rare: int
    rare_names: int
    rare_numbers: int


def patterns_of(table: Table, column: str, k: int) -> Patterns:
    """Match every non-missing value of a column against the patterns."""
    strong = [*IDENTIFIERS.items()]
    weak = [*FORMATS.items()]
    checks = [f"regexp_matches(text, ?, 'i') AS s{number}" for number in range(len(strong))]
    checks += ["regexp_matches(text, ?) AS title"]
    checks += [f"regexp_full_match(bare, ?, 'i') AS w{number}" for number in range(len(weak))]
    checks += ["regexp_full_match(text, ?) AS words"]
    asked = [*(pattern for _, pattern in strong), TITLE, *(pattern for _, pattern in weak), SEVERAL_WORDS]
    is_strong = " OR ".join([*(f"s{number}" for number in range(len(strong))), "title"])
    is_weak = " OR ".join(f"w{number}" for number in range(len(weak)))
    is_number = " OR ".join(f"w{number}" for number, (name, _) in enumerate(weak) if name in FORMATS_OF_ONE_PERSON)
    found = [f"sum(n) FILTER ({name})" for name in _names(len(strong), len(weak))]
    raw = f"{quoted(column)}::VARCHAR"
    row = table.query(
        f"""WITH delivered AS (SELECT {raw} AS raw, count(*) AS n
                FROM {table.sql} WHERE {quoted(column)} IS NOT NULL GROUP BY ALL),
            held AS (SELECT {displayed("raw")} AS text, n FROM delivered),
            filled AS (SELECT n, text, regexp_replace(text, '[\\s\\p{{Pd}}_]', '', 'g') AS bare FROM held
                WHERE lower(text) NOT IN (SELECT unnest(?::VARCHAR[]))),
            looked AS (SELECT n, {", ".join(checks)} FROM filled)
            SELECT sum(n), sum(n) FILTER ({is_strong}), sum(n) FILTER ({is_weak}), sum(n) FILTER (n < ?),
                sum(n) FILTER (n < ? AND words), count(*) FILTER (n < ? AND words),
                sum(n) FILTER (n < ? AND ({is_number})), {", ".join(found)} FROM looked""",
        [sorted(PLACEHOLDERS), *asked, k, k, k, k],
    ).iloc[0]
    numbers = [0 if value is None or value != value else int(value) for value in row.tolist()]
    filled, identifiers, formats, rare, rare_names, values, rare_numbers, *by_kind = numbers
    names = [*(name for name, _ in strong), "titles of persons", *(name for name, _ in weak)]
    seen = [name for name, records in zip(names, by_kind, strict=True) if records]
    kinds, format_kinds = (tuple(name for name in seen if (name in FORMATS) is forms) for forms in (False, True))
    names_of_persons = rare_names if values > 1 else 0
    return Patterns(filled, identifiers, formats, kinds, format_kinds, rare, names_of_persons, rare_numbers)


def unique_values(table: Table, column: str, records_per_person: int = 1) -> tuple[int, int]:
    """Count the records with a value of one person, as names, codes and numbers of persons are; and all that are not missing.

    A value may be that of one person if no more records have it than a person has. Dates do not count: many share a day by
    chance, and other measures judge them.

    Parameters
    ----------
    records_per_person
        Most records of one person.
    """
    row = table.query(
        f"""WITH held AS (SELECT {displayed(f"{quoted(column)}::VARCHAR")} AS text FROM {table.sql}
                WHERE {quoted(column)} IS NOT NULL),
            counted AS (SELECT text, count(*) AS n FROM held
                WHERE lower(text) NOT IN (SELECT unnest(?::VARCHAR[])) GROUP BY text)
            SELECT coalesce(sum(n) FILTER (n <= ? AND NOT
                    coalesce(year(TRY_CAST(text AS TIMESTAMP)) BETWEEN 1800 AND 2099, false)), 0),
                coalesce(sum(n), 0) FROM counted""",
        [sorted(PLACEHOLDERS), records_per_person],
    ).iloc[0]
    return int(row.iloc[0]), int(row.iloc[1])


def _names(strong: int, weak: int) -> list[str]:
    return [*(f"s{number}" for number in range(strong)), "title", *(f"w{number}" for number in range(weak))]


_OF_PERSONS = [
    "first", "last", "full", "given", "family", "maiden", "middle", "sur", "nick", "fore", "birth", "patient", "member",
    "person", "subscriber", "beneficiary", "insured", "doctor", "physician", "provider", "mother", "father", "spouse", "child",
    "parent", "guardian", "contact", "user", "client", "customer", "employee",
    "enrollee", "pat", "pt", "mbr", "bene",
]  # fmt: skip
_WORDS = frozenset([
    "name", "names", "initials", "nino", "mrn", "npi", "mails", "phones", "phonenumber", "tel", "fax", "addr", "street", "mac",
    "url", "website", "passport", "licence", "license", "vin", "plate", "iban", "fingerprint", "photo", "photograph",
    "pseudonym", "guid", "uuid", "hash", "md", "sha",
])  # fmt: skip
_WHOLE = frozenset(["id", "ids", "nr", "key", "first", "last", "middle", "maiden", "mail", "account"])
"""Identifying only if nothing else is in the name."""
_ENDINGS = ("ssn", "phone", "email", "address")
"""Identifying also where another word runs into them."""
_WORDS_OF_MANY = frozenset([
    "zip", "zipcode", "postcode", "postalcode", "dob", "birthdate", "birthday", "dateofbirth", "dod", "latitude", "longitude",
    "lat", "lon", "geohash", "county", "counties", "cnty", "city", "town", "precinct", "cbsa",
])  # fmt: skip
_PHRASES = frozenset([
    ("social", "security"), ("medical", "record"), ("record", "number"), ("record", "no"), ("record", "id"), ("e", "mail"),
    ("account", "number"), ("account", "no"), ("account", "id"), ("policy", "number"), ("device", "id"), ("serial", "number"),
    *((who, what) for who in _OF_PERSONS for what in ("name", "names", "nm")), *((letter, "name") for letter in "flm"),
    *((who, "id") for who in (*_OF_PERSONS, "national", "tax", "row", "health", "insurance")),
    *((who, "number") for who in (*_OF_PERSONS, "national", "tax", "row", "health", "insurance", "certificate")),
    *((who, "no") for who in ("patient", "member", "insurance")),
])  # fmt: skip
_JOINED = frozenset(who + what for who in _OF_PERSONS for what in ("name", "id", "number")) | {"fname", "lname", "mname"}
"""Phrases about persons in one word, as databases that know no capital letters write them."""
_PHRASES_OF_MANY = frozenset([
    ("postal", "code"), ("post", "code"), ("birth", "date"), ("date", "birth"), ("date", "of"), ("birth", "day"),
    ("death", "date"), ("health", "plan"), ("census", "tract"),
])  # fmt: skip
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def named_as_identifier(name: str) -> bool:
    """Whether a column's name indicates that it identifies people, alone or with others: places and dates do, too.

    The name of something else, such as a drug, does not count.

    Examples
    --------
    >>> [named_as_identifier(name) for name in ("PatientName", "SSN", "e-mail", "date of birth", "BENE_COUNTY_CD")]
    [True, True, True, True, True]
    >>> [named_as_identifier(name) for name in ("drug_name", "Likes", "zipper", "birth_weight", "capacity")]
    [False, False, False, False, False]
    """
    parts = _parts(name)
    return (
        named_as_direct_identifier(name)
        or bool(_WORDS_OF_MANY & set(parts))
        or bool(_PHRASES_OF_MANY & set(itertools.pairwise(parts)))
    )


def named_as_direct_identifier(name: str) -> bool:
    """Whether a column's name indicates that each value is one person's: a quasi-identifier has no such name.

    Examples
    --------
    >>> [named_as_direct_identifier(name) for name in ("PatientName", "SSN", "memberid", "date of birth", "zip", "plan_name")]
    [True, True, True, False, False, False]
    >>> named_as_direct_identifier("last_ip"), named_as_direct_identifier("ip_days")
    (True, False)
    """
    parts = _parts(name)
    if (len(parts) == 1 and parts[0] in _WHOLE) or any(part.endswith(_ENDINGS) for part in parts):
        return True
    others = {part for part in parts if part not in ("name", "names") or len(parts) == 1}
    # In front of something else, IP says that it is about inpatients.
    return parts[-1:] == ["ip"] or bool((_WORDS | _JOINED) & others) or bool(_PHRASES & set(itertools.pairwise(parts)))


def _parts(name: str) -> list[str]:
    return [part.lower().rstrip("0123456789") for part in _PART.findall(name)]
