"""Hierarchies of diagnosis codes: code, category, block, chapter, any (methods#codes)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from deid_assets.reference.chapters import block, category, chapter, chapters_of
from deid_assets.reference.codes import ICD10CM_PREFIX, DiagnosisSystem, bare, plain_code

Level = Literal["code", "category", "block", "chapter", "any"]

ANY = "*"
_CUT: Mapping[Level, Callable[[str], str | None]] = MappingProxyType(
    {"code": plain_code, "category": category, "block": block, "chapter": chapter, "any": lambda code: ANY}
)
LEVELS: tuple[Level, ...] = tuple(_CUT)
"""Finest first."""


@dataclass(frozen=True)
class Diagnoses:
    """Diagnosis codes of one system, with or without dots.

    Examples
    --------
    >>> rule = Diagnoses("icd10cm", ("code", "category", "block", "chapter"))
    >>> values = np.array(["E11.9", "E119", "b20"], dtype=object)
    >>> [rule.labels(values, level) for level in range(3)]
    [['E119', 'E119', 'B20'], ['E11', 'E11', 'B20'], ['E08-E13', 'E08-E13', 'B20']]
    >>> rule.labels(values, 3)[0]
    'E00-E89 Endocrine, nutritional and metabolic diseases'
    """

    system: DiagnosisSystem
    levels: tuple[Level, ...]
    scope = "codes of the coding system"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is a code in a chapter of the system, as bool."""
        found = (isinstance(value, str) and chapter(self._canonical(value)) is not None for value in values)
        return np.fromiter(found, dtype=bool, count=len(values))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return the code, category, block or chapter of each value."""
        name = self.levels[level]
        found = [bare(_CUT[name](self._canonical(value)) or "") for value in values]
        return [self._titles()[label] for label in found] if name == "chapter" else found

    def all_values(self) -> None:
        """Not listed."""

    def all_labels(self, level: int) -> list[str] | None:
        """The chapters, and the single class of everything; codes, categories and blocks are not listed."""
        return {"chapter": [*self._titles().values()], "any": [ANY]}.get(self.levels[level])

    def classes(self, level: int) -> list[str] | None:
        """As for `all_labels`."""
        return {"chapter": [*self._titles().values()], "any": ["any code"]}.get(self.levels[level])

    def structure(self) -> list[str]:
        """The system and the levels."""
        return [self.system, *self.levels]

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Levels nest if each is coarser than the one before it; of ICD-9-CM, no blocks are listed."""
        found = []
        if [*self.levels] != [level for level in LEVELS if level in self.levels]:
            found.append(f"levels do not nest; in order, they are {', '.join(LEVELS)}")
        if self.system == "icd9cm" and "block" in self.levels:
            found.append("level 'block': ICD-9-CM has no list of blocks here; leave it out")
        return found

    def _canonical(self, value: str) -> str:
        return (ICD10CM_PREFIX if self.system == "icd10cm" else "") + plain_code(value)

    def _titles(self) -> dict[str, str]:
        """The label of each chapter, by its name."""
        return {bare(name): f"{first}-{last} {title}" for name, first, last, title in chapters_of(self.system)}
