"""The twelve specialty groups of the Heritage Health Prize, from a specialty's name or its two-character CMS code.

Source: El Emam et al. 2012, Multimedia Appendix, section 10, which lists names; the CMS provider specialty codes are
assigned by their names, and marked as completions where the appendix has no such name. Group names are spelt as in
the published files (the appendix prints PEDIATRIC, the files Pediatrics).
"""

import functools
import re
from collections.abc import Sequence

import pandas as pd

from deid_assets.reference.codes import plain_code
from deid_assets.reference.tables import read_table, text_frame

_WORD = re.compile(r"[a-z0-9]+")
_JOINING_WORDS = frozenset({"and", "or", "of", "the"})


def specialty_groups(specialties: Sequence[str]) -> pd.DataFrame:
    """Assign a group to specialties.

    Parameters
    ----------
    specialties
        Distinct specialties, as delivered: two-character CMS codes, or names. Case, punctuation, joining words and the
        order of the words do not matter: "Allergy/immunology" and "Immunology and allergy" are one name.

    Returns
    -------
    pandas.DataFrame
        `code` (the specialty as given) and `group`, one row per specialty in the given order; missing
        where neither the appendix nor CMS lists it.

    Examples
    --------
    >>> specialty_groups(["06", "Surgery, thoracic", "Pediatric Cardiology", "Astrology"])["group"].tolist()
    ['Internal', 'Surgery', 'Pediatrics', nan]
    """
    groups = [_group(specialty) for specialty in specialties]
    return text_frame(code=specialties, group=groups)


def _group(specialty: str) -> str | None:
    by_code, by_words = _tables()
    return by_code.get(plain_code(specialty)) or by_words.get(_words(specialty))


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower())) - _JOINING_WORDS


@functools.cache
def _tables() -> tuple[dict[str, str], dict[frozenset[str], str]]:
    """Return the groups by CMS code and by the words of the name."""
    rows = read_table("specialties.csv")
    by_words: dict[frozenset[str], str] = {}
    for row in rows:
        if by_words.setdefault(_words(row["name"]), row["group"]) != row["group"]:
            raise ValueError(f"specialties.csv: {row['name']!r} stands in two groups")
    return {row["cms_code"]: row["group"] for row in rows if row["cms_code"]}, by_words
