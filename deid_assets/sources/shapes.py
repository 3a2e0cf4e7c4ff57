"""What may be disclosed about a value: its shape, never the value."""

_LONGEST = 24
SHOWN = 4
"""Number of shapes that are listed; the others are counted together."""


def shape_sql(text: str) -> str:
    """SQL of the shape of a text: letters become A, digits 9, and other characters outside ASCII a question mark."""
    shape = f"left({text}, {_LONGEST})"
    for pattern, sign in ((r"\p{L}", "A"), (r"\p{N}", "9"), ("[^ -~]", "?")):
        shape = f"regexp_replace({shape}, '{pattern}', '{sign}', 'g')"
    return f"{shape} || CASE WHEN len({text}) > {_LONGEST} THEN '...' ELSE '' END"


def told(shapes: list[tuple[str, int]]) -> str:
    """How many values have which shape, in words.

    Examples
    --------
    >>> told([("99.99.9999", 1200), ("AAA", 2)])
    '1,200 like 99.99.9999, 2 like AAA'
    """
    others = sum(rows for _, rows in shapes[SHOWN:])
    listed = [f"{rows:,} like {shape}" for shape, rows in shapes[:SHOWN]]
    return ", ".join(listed + [f"{others:,} of other shapes"] * bool(others))
