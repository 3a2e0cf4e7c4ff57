"""The eight place-of-service groups of the Heritage Health Prize, from the two-digit CMS codes.

Source: El Emam et al. 2012, Multimedia Appendix, section 9, which names the places; methods#codes gives their codes.
Group names are spelt as in the published files. Everything that the appendix does not place elsewhere is Other.
"""

import functools
from collections.abc import Sequence

import pandas as pd

from deid_assets.reference.codes import plain_code
from deid_assets.reference.tables import read_table, text_frame


def place_groups(codes: Sequence[str]) -> pd.DataFrame:
    """Assign a group to place-of-service codes.

    Parameters
    ----------
    codes
        Distinct two-digit CMS codes, as delivered; `1` is no spelling of `01`.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `group`, one row per code in the given order; missing where CMS lists no such
        code.

    Examples
    --------
    >>> place_groups(["11", "23", "24", "98"])["group"].tolist()
    ['Office', 'Urgent Care', 'Ambulance', nan]
    """
    table = _table()
    groups = [table.get(plain_code(code)) for code in codes]
    return text_frame(code=codes, group=groups)


@functools.cache
def place_names() -> dict[str, str]:
    """Return every CMS place-of-service code with its name, in the order of the codes."""
    return {row["code"]: row["name"] for row in read_table("places.csv")}


@functools.cache
def _table() -> dict[str, str]:
    return {row["code"]: row["group"] for row in read_table("places.csv")}
