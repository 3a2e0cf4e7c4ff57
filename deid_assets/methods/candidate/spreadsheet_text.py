"""Text that another program would execute or hide: spreadsheet formulas, control characters, changed text direction.

A published CSV file opened in a spreadsheet runs the cells that begin like a formula (OWASP, "CSV Injection"). DuckDB and
Python read the regular expressions below in the same way, so that there is one rule.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from deid_assets.store.tables import literal

_SIGNS = r"=+\-@" + "\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207a\u207b\u207c\u208a\u208b\u208c\u2212"
"""Start of a formula; includes full-width, small, superscript and subscript signs, which some spreadsheets normalize."""
_SKIPPED = ' \u00a0\u00ad\u034f\u061c\u180e\u1680\u2000-\u200f\u202f\u205f-\u2064\u3000"`\u201c\u201d\u201e\u201f'
"""Blanks, zero-width characters, and quotation marks, which may precede a formula and be dropped."""

FORMULA = f"^[{_SKIPPED}]*[{_SIGNS}]"
NUMBER = f"[{_SKIPPED}]*[+\\-\u2212]?[.,]*[0-9][0-9.,]*([eE][+\\-]?[0-9]+)?[ ]?%?[ ]*"

ANYWHERE: Mapping[str, str] = MappingProxyType(
    {
        "a reference to another program (name|topic!item)": r"(?s)[0-9A-Za-z_.]\|.*!",
        "a control character, such as a tab or a line break": "[\\x00-\\x1f\\x7f-\\x9f\u2028\u2029]",
        "a character that changes the direction of text": "[\u202a-\u202e\u2066-\u2069]",
        "a character that is never shown": "[\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]",
    }
)
"""What no text may contain, and the pattern that finds it."""

BEGINS = "a beginning that a spreadsheet takes for a formula (=, +, -, @)"
CONTINUES = "a semicolon before what a spreadsheet takes for a formula: many split cells there"
RULES = (BEGINS, CONTINUES, *ANYWHERE)
"""The rules in words, to follow "holds"."""


def broken_rules(text: str) -> tuple[str, ...]:
    r"""Return the rules that a text breaks; a number breaks none, whatever its sign.

    Examples
    --------
    >>> broken_rules("=1+1") == broken_rules(" \"@SUM(A1)") == (BEGINS,)
    True
    >>> [broken_rules(text) for text in ("-5", "+3.2e4", "- 12 %", "a-b", "65+", "'=1+1")]
    [(), (), ('a beginning that a spreadsheet takes for a formula (=, +, -, @)',), (), (), ()]
    """
    first, *others = text.split(";")
    found = [BEGINS] if _is_formula(first) else []
    found += [CONTINUES] if any(map(_is_formula, others)) else []
    return (*found, *(rule for rule, pattern in ANYWHERE.items() if re.search(pattern, text)))


def _is_formula(text: str) -> bool:
    return bool(re.search(FORMULA, text)) and not re.fullmatch(NUMBER, text)


def broken_rules_sql(text: str) -> dict[str, str]:
    """Return for each rule the SQL condition that a text breaks it; the same rules as `broken_rules`.

    Parameters
    ----------
    text
        SQL expression of type VARCHAR.
    """
    pieces = f"string_split({text}, ';')"
    return {
        BEGINS: _is_formula_sql(f"({pieces})[1]"),
        CONTINUES: f"len(list_filter({pieces}[2:], lambda piece: {_is_formula_sql('piece')})) > 0",
        **{rule: f"regexp_matches({text}, {literal(pattern)})" for rule, pattern in ANYWHERE.items()},
    }


def _is_formula_sql(text: str) -> str:
    return f"(regexp_matches({text}, {literal(FORMULA)}) AND NOT regexp_full_match({text}, {literal(NUMBER)}))"


def neutralized_sql(text: str) -> str:
    """Return SQL for a text, prefixed with an apostrophe if it would begin like a formula, otherwise unchanged.

    Distinct texts stay distinct: a text that begins with apostrophes before a formula gets one more.

    Parameters
    ----------
    text
        SQL expression of type VARCHAR.
    """
    bare = f"string_split(ltrim({text}, ''''), ';')[1]"
    return f"CASE WHEN {_is_formula_sql(bare)} THEN concat('''', {text}) ELSE {text} END"
