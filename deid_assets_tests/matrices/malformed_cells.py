"""Rows that break a rule, in a CSV table: refused where they are many, in quarantine where they are few."""

from collections.abc import Callable
from pathlib import Path

from deid_assets_tests.matrices.deliveries import (
    CLAIMS,
    MEMBERS,
    NUMBER,
    VALUE,
    claim_row,
    member_row,
    write_claims,
    write_members,
)
from deid_assets_tests.matrices.malformed_inputs import Case

_MANY = 10


def claims_with(count: int, **changes: str) -> Callable[[Path], None]:
    """Break the first claims of the table."""
    rows = [claim_row(n, **(changes if n < count else {})) for n in range(CLAIMS)]
    return lambda folder: write_claims(folder, rows)


def members_with(count: int, **changes: str) -> Callable[[Path], None]:
    rows = [member_row(n, **(changes if MEMBERS - n <= count else {})) for n in range(MEMBERS)]
    return lambda folder: write_members(folder, rows)


def _claims(name: str, rule: str, column: str, **changes: str) -> Case:
    says = f"claims.csv: column {column}: {_MANY} lines: {rule}"
    return Case(name, "csv", claims_with(_MANY, **changes), (says, f"{_MANY} of {CLAIMS} rows"))


def _members(name: str, rule: str, column: str, **changes: str) -> Case:
    # The last ten members have no claims, so that nothing else is broken.
    says = f"members.csv: column {column}: {_MANY} lines: {rule}"
    return Case(name, "csv", members_with(_MANY, **changes), (says, f"{_MANY} of {MEMBERS} rows"))


_DATES = {
    "a date that is text": VALUE,
    "a date of another order": "04/03/2007",
    "a date as a number of days": "13576",
    "a date as seconds since 1970": "1172966400",
    "a date with a time": "2007-03-04 10:00:00",
    "a date with a time zone": "2007-03-04T10:00:00+02:00",
    "a date with a month 13": "2007-13-04",
    "the 30th of February": "2007-02-30",
    "a leap day in a year without one": "2007-02-29",
    "a date of the week": "2007-W10-7",
    "a date with a sign": "-2007-03-04",
    "an infinite date": "infinity",
    "the beginning of time": "epoch",
    "a date of zeros": "0000-00-00",
    "a spreadsheet's error": "#VALUE!",
    "a date in other digits": "２００７-03-04",
}  # fmt: skip
_FAR_DATES = {
    "a date with two digits of the year": "07-03-04", "the year 0": "0000-01-01", "the year 9999": "9999-12-31",
    "a date before the period": "2006-12-31", "a date after the period": "2010-01-01",
}  # fmt: skip
_NUMBERS = {
    "text": VALUE,
    "a decimal": "1.5",
    "NaN": "NaN",
    "infinity": "inf",
    "an exponent": "1e3",
    "hexadecimal": "0x10",
    "beyond 32 bits": NUMBER + "99",
    "beyond 64 bits": NUMBER * 4,
    "a thousands separator": '"1,000"',
    "a unit": f"3 days {VALUE}",
}

CELLS = (
    *(_claims(f"{name} of service", "unparseable date", "day", day=text) for name, text in _DATES.items()),
    *(_claims(f"{name} of service", "year outside 1 to 3", "day", day=text) for name, text in _FAR_DATES.items()),
    _claims("no date of service", "no year and no service date", "day", day=""),
    *(_claims(f"{name} as length of stay", "wrong type", "los", los=text) for name, text in _NUMBERS.items()),
    _claims("a negative length of stay", "negative length of stay", "los", los="-3"),
    _claims("an unparseable day of admission", "unparseable date", "admitted", admitted=VALUE, left="2007-03-04"),
    _claims("an unparseable day of discharge", "unparseable date", "left", admitted="2007-03-04", left=VALUE),
    _claims("an infinite day of discharge", "unparseable date", "left", admitted="2007-03-04", left="infinity"),
    _claims("discharge before admission", "discharge before admission", "left", admitted="2007-03-04", left="2007-03-01"),
    _claims("an unparseable day of payment", "unparseable date", "paid", paid=VALUE),
    _claims("payment before service", "negative pay delay", "pay_delay", paid="2007-03-01"),
    _claims("an unknown diagnosis", "unknown diagnosis code", "dx", dx=VALUE),
    Case("an ICD-10 diagnosis", "csv", claims_with(_MANY, dx="I50.9"), ("are codes of ICD-10-CM, where diagnosis_codes says",)),
    _claims("an unknown procedure", "unknown procedure code", "cpt", cpt=VALUE),
    _claims("an unknown place", "unknown place code", "place", place=VALUE),
    _claims("an unknown specialty", "unknown specialty code", "specialty", specialty=VALUE),
    _claims("a claim of nobody", "null member id", "member", member=""),
    _claims("a claim of blanks", "null member id", "member", member="   "),
    _claims("a claim of a stranger", "claim of an unknown member", "member", member=f"{VALUE}-stranger"),
    _claims("a claim without a number", "null claim id", "no", no=""),
    Case("one claim number for all", "csv", claims_with(_MANY, no=VALUE), ("column no: 9 lines: duplicate claim",)),
    Case("the same claims twice", "csv", lambda folder: write_claims(folder, [claim_row(n) for n in range(CLAIMS)] * 2),
         ("column no: 40 lines: duplicate claim",)),
    *(_members(f"{name} of birth", "unparseable date", "born", born=text) for name, text in list(_DATES.items())[:4]),
    _members("birth in the year 0", "age outside 0 to 120", "born", born="0000-01-01"),
    _members("birth 150 years before", "age outside 0 to 120", "born", born="1857-05-06"),
    _members("birth after the period", "age outside 0 to 120", "born", born="2031-05-06"),
    _members("an infinite day of death", "unparseable date", "died", died="infinity"),
    _members("an unparseable day of death", "unparseable date", "died", died=VALUE),
    _members("death before birth", "death before birth", "died", died="1959-12-31"),
    _members("an unknown sex", "sex not F, M or blank", "sex", sex=VALUE),
    *(_members(f"{name} as days in hospital", "wrong type", "days_y2", days_y2=text) for name, text in _NUMBERS.items()),
    _members("negative days in hospital", "days in hospital outside 0 to 366", "days_y2", days_y2="-1"),
    _members("more days in hospital than a year has", "days in hospital outside 0 to 366", "days_y3", days_y3="367"),
    _members("members without identifier", "null member id", "id", id=""),
    Case("one identifier for many", "csv", members_with(_MANY, id=f"{VALUE}-19"), ("column id: 9 lines: duplicate member",)),
    Case("claims of members in quarantine", "csv",
         lambda folder: write_members(folder, [member_row(n, **({"sex": "x"} if n == 3 else {})) for n in range(MEMBERS)]),
         ("claims.csv: column member: 4 lines: claim of a quarantined member",)),
    # Few, or none.
    Case("two unparseable dates", "csv", claims_with(2, day=VALUE), quarantined=2),
    Case("two unknown codes", "csv", claims_with(2, dx=VALUE), quarantined=2),
    Case("one member of unknown sex", "csv", members_with(1, sex=VALUE), quarantined=1),
    Case("a leap day", "csv", claims_with(_MANY, day="2008-02-29")),
    Case("blanks around values", "csv", claims_with(_MANY, day=" 2007-03-04 ", place=" 11 ", los=" 2 ")),
    Case("identifiers as long as a line may be", "csv", claims_with(2, note=VALUE * 1000)),
    Case("identifiers of other scripts", "csv", lambda folder: write_members(
        folder, [member_row(n, **({"id": f"{VALUE}-患者-é-{n}"} if n > 10 else {})) for n in range(MEMBERS)])),
)  # fmt: skip
