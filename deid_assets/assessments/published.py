"""Measurements of a public manifest, written as text for the report."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from deid_assets.figures.numbers import shown, shown_bound

Published: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Measurements of a public manifest, by name."""


def written(found: Published, name: str) -> str:
    """A published value as text, with its bound if it has one, and "about" if it has noise; empty if it was not measured."""
    if name not in found:
        return ""
    one = found[name]
    noisy = one.get("protected") is True and isinstance(one["value"], int | float)
    text = f"{'about ' if noisy else ''}{shown(one['value'], one['unit'])}"
    return (
        f"{text} (up to {shown_bound(one['bound'], one['unit'])})"
        if one["bound"] is not None and one["value"] is not None
        else text
    )
