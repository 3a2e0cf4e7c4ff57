"""Dates as days, months, quarters or years: the building blocks of a date hierarchy."""

import datetime
import itertools
from dataclasses import dataclass

import numpy as np

from deid_assets.errors import DeliveryError

DATE_UNITS = ("day", "month", "quarter", "year")
"""Units of dates, from fine to coarse. Weeks are excluded because they straddle months."""


@dataclass(frozen=True)
class Dates:
    """Dates as days, months, quarters or years: '2008-03-07', '2008-03', '2008-Q1', '2008'."""

    units: tuple[str, ...]
    scope = "dates"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is a date (ISO text, or a NumPy or pandas date), as bool."""
        return np.fromiter((_date(value) is not None for value in values), dtype=bool, count=len(values))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return each covered date in the unit of the level."""
        dates = [_date(value) for value in values]
        found = [_date_text(date, self.units[level]) for date in dates if date is not None]
        if len(found) < len(dates):
            raise DeliveryError(f"{len(dates) - len(found)} values are no dates")
        return found

    def all_values(self) -> None:
        """Not listed."""

    def all_labels(self, level: int) -> None:
        """Not listed."""

    def classes(self, level: int) -> None:
        """Not listed."""

    def structure(self) -> list[str]:
        """The units."""
        return list(self.units)

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Dates nest exactly if each unit is coarser than the one before it."""
        ranks = [DATE_UNITS.index(unit) for unit in self.units]
        return [
            f"level '{names[level]}' does not nest: it is not coarser than level '{names[level - 1]}'"
            for level, (before, after) in enumerate(itertools.pairwise(ranks), start=1)
            if after <= before
        ]


def _date(value: object) -> datetime.date | None:
    """Return the value as a date; None if it is not one."""
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, np.datetime64):
        day: datetime.date | None = value.astype("datetime64[D]").item()
        return day
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _date_text(date: datetime.date, unit: str) -> str:
    if unit == "day":
        return date.isoformat()
    if unit == "month":
        return f"{date.year:04}-{date.month:02}"
    return f"{date.year:04}" + (f"-Q{(date.month + 2) // 3}" if unit == "quarter" else "")
