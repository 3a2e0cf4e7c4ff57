"""The row-level rules, equal for every source, in the order in which they are applied.

A row that breaks a rule is quarantined under the name of the first rule that it breaks. Rules are SQL over the views of
`layout`; `quarantine` applies those that depend on other rows (duplicates, unknown members).
"""

from collections.abc import Iterable, Sequence

from deid_assets.reference.known_columns import DIAGNOSES, KNOWN, MEMBERS, NUMBERS_OF_CLAIMS, NUMBERS_OF_MEMBERS, YEARS
from deid_assets.sources.delivery import CLAIM_COLUMNS, CLAIM_INGREDIENTS, CODE_COLUMNS, ENROLMENT, FURTHER, UnknownCodes
from deid_assets.sources.derivations import Declared
from deid_assets.sources.diagnosis_systems import IN_ICD10, OF_OTHER_PERIOD, SYSTEM_COLUMN, DiagnosisCodes, FromColumn
from deid_assets.sources.joining import NUMBERED, OF_A_PERSON
from deid_assets.sources.layout import Rule
from deid_assets.store.tables import quoted

UNPARSEABLE, WRONG_TYPE, OUTSIDE = "unparseable date", "wrong type", "year outside"
_UNREAD = {"text": WRONG_TYPE, "integer": WRONG_TYPE, "decimal": "not a number", "date": UNPARSEABLE}
RULES_OF_LINES = (
    Rule("lines of one claim with several members", "member_id", "of_several_members"),
    Rule("lines of one claim with several coding systems", "diagnosis_1", "of_several_systems"),
    Rule(f"more than {len(NUMBERED)} diagnoses on the lines of a claim", "diagnosis_1", "with_too_many_diagnoses"),
)
RULES_OF_SPANS = tuple(
    Rule(f"spans of one person that differ in {column}", column, f"of_several_{column}") for column in OF_A_PERSON
)
DUPLICATE_MEMBER = Rule("duplicate member", "member_id", "false")
DUPLICATE_CLAIM = Rule("duplicate claim", "claim_id", "false")

CLAIM_CODE_COLUMNS = {**CODE_COLUMNS, "diagnosis": (*DIAGNOSES, FURTHER)}
"""The columns of the claims for each kind of code."""


def declared_rules(declared: Declared, table: str, unknown_codes: UnknownCodes = "quarantine") -> tuple[Rule, ...]:
    """The rules on what a policy declares: cells that can be read as what they are, values that are allowed, known codes."""
    unread = [Rule(_UNREAD[cell.kind], cell.raw, f"t.{quoted(cell.unread)}") for cell in declared.cells(table)]
    coded = declared.claims if table == "claims" and unknown_codes == "quarantine" else {}
    unknown = [Rule("unknown code", made.cells[0].raw, made.coded.unknown) for made in coded.values() if made.coded is not None]
    return (*unread, *(Rule(*rule) for rule in declared.rules(table)), *dict.fromkeys(unknown))


def system_rules(codes: DiagnosisCodes, columns: Sequence[str], in_both: bool) -> tuple[Rule, ...]:
    """The rules on claims of which nothing says the system, and of which dates and policy say different ones.

    Parameters
    ----------
    columns
        The delivered columns of diagnoses.
    in_both
        Whether the table `in_both_systems` lists codes on claims of the other period that both systems know.
    """
    if not columns:
        return ()
    rules = []
    if not isinstance(codes, str) or codes == "by_date":
        column = SYSTEM_COLUMN if isinstance(codes, FromColumn) else "service_date"
        coded = f"coalesce({', '.join(columns)}) IS NOT NULL"
        rules.append(Rule("diagnosis of an unknown coding system", column, f"{IN_ICD10} IS NULL AND {coded}"))
    if in_both:
        rules += [
            Rule(
                "diagnosis code of both systems, dated in the period of the other",
                column,
                f"{OF_OTHER_PERIOD} AND {column} IN (SELECT code FROM in_both_systems)",
            )
            for column in columns
        ]
    return tuple(rules)


_DAYS = tuple(column for column in CLAIM_COLUMNS if column in (*NUMBERS_OF_CLAIMS, "pay_delay"))


def _outside(column: str) -> Rule:
    """The rule on a whole number; limits are those of the known column."""
    words, (least, most) = column.replace("_", " "), (KNOWN[column].limits if column in KNOWN else None) or (0, None)
    if most is None:
        return Rule(f"negative {words}", column, f"{column} < 0")
    return Rule(f"{words} outside {least} to {most}", column, f"{column} NOT BETWEEN {least} AND {most}")


MEMBER_RULES = (
    Rule("null member id", "member_id", "member_id IS NULL"),
    *(Rule(UNPARSEABLE, column, f"{column}_unread") for column in ("birth_date", "death_date", *ENROLMENT)),
    Rule("enrolment that ends before it begins, or never began", "enrolled_until", "of_impossible_enrolment"),
    *(Rule(WRONG_TYPE, column, f"{column}_unread") for column in NUMBERS_OF_MEMBERS),
    *(
        Rule(f"{column} not {', '.join(known.values)} or blank", column, f"{column} NOT IN {known.values}")
        for column, known in MEMBERS.items()
        if known.values
    ),
    *(_outside(column) for column in NUMBERS_OF_MEMBERS if column not in YEARS.values()),
    # A member born within the years of the delivery has age 0. Birth after them, or 121 years before, gives no valid
    # age.
    Rule(
        "age outside 0 to 120",
        "birth_date",
        "birth_date >= getvariable('years_end') OR birth_date <= getvariable('year_1_start') - INTERVAL 121 YEAR",
    ),
    Rule("death before birth", "death_date", "death_date < birth_date"),
    *(Rule("days in hospital outside 0 to 366", column, f"{column} NOT BETWEEN 0 AND 366") for column in YEARS.values()),
)


def claim_rules(first: Iterable[Rule], year_column: str, last_year: int, unknown_kinds: Iterable[str]) -> tuple[Rule, ...]:
    """The rules on claims, in order.

    Parameters
    ----------
    first
        The adapter's own rules.
    year_column
        The column that the year comes from.
    last_year
        The number of the last year.
    unknown_kinds
        Kinds of codes (keys of `CODE_COLUMNS`) with unknown codes in the delivery that are to be quarantined; the table
        `unknown_<kind>` lists them.
    """
    return (
        *first,
        Rule("null claim id", "claim_id", "claim_id IS NULL"),
        Rule("null member id", "member_id", "member_id IS NULL"),
        *(Rule(UNPARSEABLE, column, f"{column}_unread") for column in ("service_date", *CLAIM_INGREDIENTS)),
        *(Rule(WRONG_TYPE, column, f"{column}_unread") for column in ("year", *_DAYS)),
        Rule("no year and no service date", year_column, "year IS NULL"),
        Rule(f"{OUTSIDE} 1 to {last_year}", year_column, f"year NOT BETWEEN 1 AND {last_year}"),
        Rule("discharge before admission", "discharge_date", "discharge_date < admission_date"),
        *(_outside(column) for column in _DAYS),
        Rule(
            "claim of an unknown member",
            "member_id",
            "member_id NOT IN (SELECT member_id FROM typed_members WHERE member_id IS NOT NULL)",
        ),
        Rule(
            "claim of a quarantined member",
            "member_id",
            "member_id NOT IN (SELECT member_id FROM kept_members)",
        ),
        *(
            Rule(f"unknown {kind} code", column, f"{column} IN (SELECT code FROM unknown_{kind})")
            for kind in unknown_kinds
            for column in CODE_COLUMNS[kind]
        ),
        DUPLICATE_CLAIM,
    )
