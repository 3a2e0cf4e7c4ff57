"""Categories, blocks and chapters of diagnosis codes, each coarser than the one before.

Sources: National Center for Health Statistics, International Classification of Diseases, Ninth Revision, Clinical Modification:
seventeen chapters, and the supplementary classifications of factors (V) and external causes (E), whose blocks are not listed
here. Centers for Disease Control and Prevention, ICD-10-CM tabular list, edition of April 2026, as the package simple-icd-10-cm
1.5.0 holds it: `icd10cm_blocks.csv` has the blocks that have categories of their own, so that no category is in two, and a row
apart for a category that its block's name does not span (C4A, M1A, Z3A).

Every name of ICD-10-CM begins with the prefix of the system, as its codes do: "icd10cm:4" is no chapter of ICD-9-CM.
"""

import functools
from dataclasses import dataclass

from deid_assets.reference.codes import ICD10CM_PREFIX, DiagnosisSystem, bare, is_icd9, is_icd10cm, plain_code, system_of
from deid_assets.reference.tables import read_table


@dataclass(frozen=True)
class Block:
    """A block of ICD-10-CM.

    Attributes
    ----------
    name
        First and last category as published, with the prefix of the system.
    chapter
        Name of its chapter.
    title
        As published.
    """

    name: str
    chapter: str
    title: str


@functools.cache
def chapters_of(system: DiagnosisSystem) -> tuple[tuple[str, str, str, str], ...]:
    """Name, first and last category, and title, of each chapter of a system.

    Examples
    --------
    >>> chapters_of("icd10cm")[1]
    ('icd10cm:2', 'C00', 'D49', 'Neoplasms')
    """
    prefix = ICD10CM_PREFIX if system == "icd10cm" else ""
    rows = (row for row in read_table("chapters.csv") if row["system"] == system)
    return tuple((prefix + row["name"], row["first"], row["last"], row["title"]) for row in rows)


def category(code: str) -> str:
    """Return the category of a diagnosis code, its first three characters; of an external cause of ICD-9-CM, four.

    Examples
    --------
    >>> category("428.0"), category("V5789"), category("E8889"), category("icd10cm:E11.9")
    ('428', 'V57', 'E888', 'icd10cm:E11')
    """
    plain = plain_code(code)
    if system_of(plain) == "icd10cm":
        return plain[: len(ICD10CM_PREFIX) + 3]
    return plain[: 4 if plain.startswith("E") else 3]


def category_sql(column: str) -> str:
    """Return SQL for the category of the plain codes of a column.

    Examples
    --------
    >>> import duckdb
    >>> codes = "(VALUES ('4280'), ('V5789'), ('E8889'), ('icd10cm:E119')) AS codes (code)"
    >>> duckdb.sql(f"SELECT {category_sql('code')} FROM {codes}").fetchall()
    [('428',), ('V57',), ('E888',), ('icd10cm:E11',)]
    """
    lengths = f"WHEN {column} LIKE '{ICD10CM_PREFIX}%' THEN {len(ICD10CM_PREFIX) + 3} WHEN {column} LIKE 'E%' THEN 4"
    return f"left({column}, CASE {lengths} ELSE 3 END)"


def block(code: str) -> str | None:
    """Return the block of a code of ICD-10-CM; None if it is no such code, or in no block.

    Examples
    --------
    >>> block("icd10cm:E11.9"), block("icd10cm:M1A.00X0"), block("25000")
    ('icd10cm:E08-E13', 'icd10cm:M05-M14', None)
    """
    found = _block(code)
    return found.name if found else None


def chapter(code: str) -> str | None:
    """Return the name of a code's chapter; None if it is no code, or in no chapter.

    Examples
    --------
    >>> chapter("428"), chapter("V57"), chapter("E888"), chapter("000"), chapter("heart"), chapter("icd10cm:E119")
    ('7', 'V', 'E', None, None, 'icd10cm:4')
    """
    if is_icd10cm(code):
        found = _block(code)
        return found.chapter if found else None
    if not is_icd9(code):
        return None
    own = category(code)
    return next(
        (number for number, first, last, _ in chapters_of("icd9cm") if len(first) == len(own) and first <= own <= last), None
    )


@functools.cache
def blocks() -> tuple[Block, ...]:
    """Return every block of ICD-10-CM, in the order of the tabular list.

    Examples
    --------
    >>> blocks()[0]
    Block(name='icd10cm:A00-A09', chapter='icd10cm:1', title='Intestinal infectious diseases')
    """
    return tuple(dict.fromkeys(found for _, _, found in _spans()))


def _block(code: str) -> Block | None:
    """Return the block of a code: a row of one category goes before a span, as C7A is within C76-C80 by its letters."""
    if not is_icd10cm(code):
        return None
    return _block_of_category(bare(category(code)))


@functools.cache
def _block_of_category(own: str) -> Block | None:
    spans = [(first != last, found) for first, last, found in _spans() if first <= own <= last]
    return min(spans, key=lambda span: span[0])[1] if spans else None


@functools.cache
def _spans() -> tuple[tuple[str, str, Block], ...]:
    return tuple(
        (
            row["first"],
            row["last"],
            Block(ICD10CM_PREFIX + row["block"], ICD10CM_PREFIX + row["chapter"], row["title"]),
        )
        for row in read_table("icd10cm_blocks.csv")
    )
