"""What Safe Harbor leaves of dates, as SQL of a column, and the bounds of ages and ZIP codes.

A value that cannot be read is no reason to let it stand: `years` gives NULL for it, and `unreadable` counts it. None puts a
 value of a person into the SQL.
"""

from collections.abc import Sequence

from deid_assets.methods.disclosure.attribute_leaks import PLACEHOLDERS
from deid_assets.store.tables import Table, quoted

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
