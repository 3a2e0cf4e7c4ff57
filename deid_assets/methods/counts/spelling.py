"""One spelling for one cell: a cell that is spelled otherwise than before would not be recognized as the same people."""

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.tables import CellName

_BETWEEN_PARTS = re.compile(r"(?<!\\);")
_NO_VALUE = re.compile(r"(?<![\w.])0+(?=[0-9])|(?<=[0-9])[.]0+(?![\w.])")
_SIGNS = "\"',\\"


def require_one_spelling(cells: Collection[CellName], others: Collection[CellName], where: str) -> None:
    """Refuse cells that others have under another spelling only.

    Case, blanks, quotes, commas, invisible characters, the encoding of accents, the width of letters, the kind of dash,
    leading zeros, a final .0 and the order of the parts of a name do not tell cells apart. Cells that both have as they are
    written do.

    Parameters
    ----------
    cells, others
        Names of the cells that are judged, and of those beside them.
    where
        Who has the others, for the message.

    Raises
    ------
    CountsError
        If there is such a cell. The message tells how many.
    """
    new, missed = set(cells).difference(others), set(others).difference(cells)
    if not new or not missed:
        return

    plain = set(map(_plain_name, missed))
    if found := sum(_plain_name(name) in plain for name in new):
        raise CountsError(
            f"{how_many(found, 'cell is', 'cells are')} spelled otherwise than in {where}, and would count as other people: "
            "they differ only in case, blanks, quotes, dashes, leading zeros, the encoding of a letter or the order of parts. "
            "Write names, columns and codes of the same people alike, and give cells of other people names that differ by more"
        )


def require_one_spelling_in(files: Iterable[tuple[Path, Iterable[CellName]]]) -> None:
    """Refuse files with cells that files before them have under another spelling only.

    Parameters
    ----------
    files
        The path and the cells of each.

    Raises
    ------
    CountsError
        If there is such a file. The message names the first.
    """
    before = set[CellName]()
    for path, own in files:
        cells = set(own)
        try:
            require_one_spelling(cells, before, "the files before")
        except CountsError as error:
            raise CountsError(f"{path}: {error}") from None
        before |= cells


def _plain_name(name: CellName) -> tuple[str, ...]:
    return (_plain(name.table), *sorted(map(_plain, _BETWEEN_PARTS.split(name.row))), _plain(name.column))


@lru_cache(maxsize=100_000)
def _plain(text: str) -> str:
    """Text without what does not tell cells apart."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kinds = ((one, unicodedata.category(one)) for one in folded)
    seen = "".join(
        "-" if kind == "Pd" or one == "−" else one for one, kind in kinds if kind[0] not in "ZC" and one not in _SIGNS
    )
    return _NO_VALUE.sub("", seen)
