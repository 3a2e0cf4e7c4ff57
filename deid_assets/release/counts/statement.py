"""What a manifest says of the counts that are published with a release, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from deid_assets.methods.counts.budget import Budget, epsilon, meaning
from deid_assets.methods.counts.published_tables import COLUMNS, masked_tables
from deid_assets.methods.counts.tables import CellName, PublishedCounts
from deid_assets.policy.sections.counts import CountNoise, ProtectedTables
from deid_assets.release.counts.published import shown_of

_NOT_COVERED = (
    "It covers counts that change by at most {most} with one person, not the released rows, and not counts that depend on who "
    "else is in the data: of members in small classes, of suppressed members, of providers"
)


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
        if self.published is None or not isinstance(self.section, ProtectedTables) or not self._tables_are_masked:
            return self.public()
        columns = [column for column in COLUMNS if column != "sd"]
        rows = self.published[columns].astype(object).where(self.published[columns].notna(), None)
        content = [
            [value if isinstance(value, str) or value is None else int(value) for value in row] for row in rows.to_numpy()
        ]
        return self.public() | {"masked_below": self.section.masking.threshold, "masked": content}

    def _meaning(self, spent: float, delta: float) -> str:
        exceptions = []
        if self._tables_are_masked:
            exceptions.append("nor the masked tables")
        if isinstance(self.section, ProtectedTables) and self.section.zeros == "shown":
            exceptions.append("nor the zeros that are shown")
        covered = ", ".join([_NOT_COVERED.format(most=self.contribution), *exceptions])
        return f"All releases so far: {meaning(spent, delta)} {covered}.{f' {self.checked}' if self.checked else ''}"


def masked_counts_of(told: Mapping[str, Any] | None) -> PublishedCounts | None:
    """The masked tables of an earlier release, from its restricted manifest; None if it published none.

    Raises
    ------
    KeyError, ValueError, CountsError
        If they cannot be read.
    """
    if told is None or "masked" not in told:
        return None
    columns = [column for column in COLUMNS if column != "sd"]
    return masked_tables(pd.DataFrame(told["masked"], columns=columns), told["masked_below"])
