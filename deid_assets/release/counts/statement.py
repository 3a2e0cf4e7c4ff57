"""What a manifest says of the counts that are published with a release, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from deid_assets.methods.counts.budget import Budget, epsilon, meaning
from deid_assets.methods.counts.published_tables import COLUMNS, EarlierTables, masked_tables, noisy_tables
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.sections.counts import CountNoise, ProtectedTables
from deid_assets.release.counts.noise import delivery_word
from deid_assets.release.counts.published import shown_of

_NOT_COVERED = (
    "It covers counts that change by at most {most} with one person, not the released rows, and not counts that depend on who "
    "else is in the data: of members in small classes, of suppressed members, of providers"
)

_KEPT = (*COLUMNS, "draw")
"""What the restricted edition keeps of every cell."""


@dataclass(frozen=True, eq=False)
class CountStatement:
    """The counts of a release.

    Attributes
    ----------
    section
        How they are protected.
    budget
        What was spent, this release included.
    published
        The published tables, as `published.published_counts` returns them; None if the policy publishes none.
    contribution
        What one person adds to a count at most.
    checked
        Why a person adds no more; empty where a member, or a row of a cohort, is a person.
    """

    section: CountNoise
    budget: Budget
    published: pd.DataFrame | None = None
    contribution: int = 1
    checked: str = ""

    @property
    def masked(self) -> dict[CellName, int | str]:
        """What masked tables show of their cells; empty where tables are noisy."""
        if self.published is None or not self._tables_are_masked:
            return {}
        return shown_of(self.published)

    @property
    def _tables_are_masked(self) -> bool:
        return isinstance(self.section, ProtectedTables) and self.section.protection == "masked"

    def public(self) -> dict[str, Any]:
        """The part of the public edition."""
        spent, delta = self.budget.spent, self.section.budget.delta
        found: dict[str, Any] = {
            "sd": self.section.sd * self.contribution,
            "mechanism": self.section.mechanism,
            "budget": {
                "spent_rho": round(spent, 9),
                "at_most_rho": self.budget.total,
                "spent_epsilon": round(epsilon(spent, delta), 4),
                "delta": delta,
                "lockout": self.budget.lockout,
                "meaning": self._meaning(spent, delta),
            },
        }
        if self.published is None:
            return found
        shown = [{**name._asdict(), "shown": value} for name, value in shown_of(self.published).items()]
        return found | {"tables": "masked" if self._tables_are_masked else "noisy", "cells": shown}

    def restricted(self) -> dict[str, Any]:
        """The part of the restricted edition: also which cells of later releases count the same people."""
        if self.published is None:
            return self.public()
        rows = self.published[list(_KEPT)].astype(object).where(self.published[list(_KEPT)].notna(), None)
        kept: dict[str, Any] = {
            "columns": list(_KEPT),
            "rows": [
                [
                    value if isinstance(value, str | None) else float(value) if name == "sd" else int(value)
                    for name, value in one
                ]
                for one in (zip(_KEPT, row, strict=True) for row in rows.to_numpy())
            ],
        }
        if isinstance(self.section, ProtectedTables) and self._tables_are_masked:
            kept["masked_below"] = self.section.masking.threshold
        return self.public() | {"kept": kept}

    def _meaning(self, spent: float, delta: float) -> str:
        exceptions = []
        if self._tables_are_masked:
            exceptions.append("nor the masked tables")
        if isinstance(self.section, ProtectedTables) and self.section.zeros == "shown":
            exceptions.append("nor the zeros that are shown")
        covered = ", ".join([_NOT_COVERED.format(most=self.contribution), *exceptions])
        return f"All releases so far: {meaning(spent, delta)} {covered}.{f' {self.checked}' if self.checked else ''}"


def tables_told(told: Mapping[str, Any] | None, delivery_digest: str) -> EarlierTables:
    """The tables of an earlier release, from its restricted manifest.

    Raises
    ------
    KeyError, ValueError, CountsError
        If they cannot be read.
    """
    if told is None or "cells" not in told:
        return EarlierTables()
    if "kept" not in told:
        return EarlierTables(unknown=frozenset({delivery_word(delivery_digest)}))
    kept = told["kept"]
    frame = pd.DataFrame(kept["rows"], columns=kept["columns"])
    if "masked_below" in kept:
        return EarlierTables(masked=(masked_tables(frame, kept["masked_below"]),))
    return EarlierTables(noisy=(noisy_tables(frame),))
