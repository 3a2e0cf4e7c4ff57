"""Which numbers the public edition of a manifest shows, and in which form.

Numbers are of six kinds, identified by their unit:

* they count nobody (draws, probabilities, distances): shown, probabilities to two digits;
* the released files reveal them to anyone who counts rows ("published members"): shown as they are;
* they count people: protected counts, negative ones kept; those of a masked table as in the table;
* they are shares of people: a protected count over the number of those people, which is exact if the files reveal it
  ("share of released members") and protected otherwise; 'T' if that number is below 11;
* they say what absence discloses ("factor of odds", "share of absent members"): rounded up to two digits, of a factor to two
  digits of what exceeds 1, so that they stay bounds and give no count of eligible or removed members;
* they count claims: omitted. One member may have a hundred claims, which noise made for one person does not hide. Tables
  that are published with the release count them if the policy asks for it, with noise for all claims of a member.

Two noisy versions of one number could be averaged. So a cell is defined by what is counted and the parts of the policy
that affect it (`shape`). Two policies that count the same show the same number; two that count differently have
independent noise.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from deid_assets.assessments.evidence import FACTOR, Evidence, Exposure, Measurement
from deid_assets.assessments.worst_classes import without_labels
from deid_assets.methods.counts.cohort import ATTRITION, REMAINING
from deid_assets.methods.counts.protected_counts import shown_if_large
from deid_assets.methods.counts.tables import CellName
from deid_assets.release.counts.noise import Protect

MEASUREMENT = "measurement"
"""The table of cells that measurements count."""

_LARGEST = 1e6
"""Larger factors have no bound."""


@dataclass(frozen=True)
class AttritionStep:
    """How many of the rows of one stage another stage kept.

    Parameters
    ----------
    stage
        Name of the stage, unique.
    unit
        What is counted: "members", "records" or "claims".
    count
        Rows out.
    source
        The stage that provided the rows; None for the first.
    reason
        Why rows were removed, in words.
    file
        Path of the released file with these rows, which reveals the number; empty otherwise.
    shape
        Parts of the policy that affect the number, as a text used only to derive the noise.
    """

    stage: str
    unit: str
    count: int
    source: str | None = None
    reason: str = ""
    file: str = ""
    shape: str = ""


@dataclass(frozen=True)
class PublicNumbers:
    """Create the public form of counts, measurements and evidence.

    Parameters
    ----------
    protect
        Adds the noise of a cell.
    shapes
        Parts of the policy that affect what is measured, by the name of the measurement or else by its method; "" for
        the rest.
    masked
        What masked tables show of their cells, a count, 'T' or 'H': a noisy number beside it would narrow what it hides.
    """

    protect: Protect
    shapes: Mapping[str, str]
    masked: Mapping[CellName, int | str] = field(default_factory=dict)

    def attrition(self, steps: Iterable[AttritionStep]) -> list[dict]:
        """Rows in and out. Rows in are the source's rows out: one cell, one number, no second noisy version."""
        return attrition_json(steps, self._rows_out, told=True)

    def measurements(self, measured: Iterable[Measurement]) -> None:
        """Protect measurements whose public form nobody needs: with `Plan.note`, it lists their cells."""
        for one in measured:
            self._measurement(one, [])

    @classmethod
    def cells(cls, measured: Iterable[Measurement]) -> frozenset[str]:
        """Name the measurements, or their groups, for which the public edition needs noise."""
        found: set[str] = set()

        def note(name: CellName, shape: str, count: int) -> int:
            found.add(name.row)
            return count

        cls(note, {}).measurements(measured)
        return frozenset(found)

    def evidence(self, item: Evidence, delivery: str, attrition: Iterable[Mapping]) -> dict:
        """Evidence without exact numbers about people, and without the hash of the whole policy.

        Parameters
        ----------
        delivery
            Placeholder for the delivery's key.
        attrition
            Attrition as in the public edition; a share of records removed is computed from its numbers.
        """
        told = item.to_json()
        del told["policy_hash"]
        attrition = list(attrition)
        measured = [self._measurement(one, attrition) for one in without_labels(item.measurements)]
        return told | {"partition": delivery, "measurements": measured}

    def _rows_out(self, step: AttritionStep) -> int | str | None:
        if step.file:
            return step.count
        if step.unit not in ("members", "records"):
            return None
        name = CellName(ATTRITION, step.stage, REMAINING)
        return self.masked[name] if name in self.masked else self.protect(name, step.shape, step.count)

    def _measurement(self, measured: Measurement, attrition: list[Mapping]) -> dict:
        """A measurement with protected numbers if they are about people; threshold and outcome are unchanged.

        A bound follows from value and sample size and would reveal the exact value. It is omitted, unless it is the
        value.
        """
        told = measured.to_json()
        exposure = measured.exposure
        if exposure is Exposure.CHANCE:
            # The ratio of two attacks is alpha, and alpha with the number of released rows gives the exact population.
            return told | {name: two_digits(told[name]) for name in ("value", "bound")}
        if exposure in (Exposure.NOBODY, Exposure.IN_FILES):
            return told
        if exposure is Exposure.LARGE_COUNTS:
            value = _factor(told["value"]) if measured.unit == FACTOR else two_digits(told["value"])
            return told | {"value": value, "bound": None, "sample_size": None}
        value, size = _left_out(attrition) if exposure is Exposure.ATTRITION else self._protected(measured)
        bound = value if measured.bound == measured.value else None
        return told | {"value": value, "bound": bound, "sample_size": size, "protected": True}

    def _protected(self, measured: Measurement) -> tuple[float | int | str | None, int | None]:
        """A protected count, or a share of two; and the number of people it was measured on."""
        value, whole = measured.value, measured.sample_size
        size = whole
        if whole is not None and measured.exposure is not Exposure.WHOLE_IN_FILES:
            # Measurements of one group, "group/what", share the same people: their number is one cell.
            size = self._counted(measured, measured.name.partition("/")[0], "sample size", whole)
        if value is None or not math.isfinite(value):
            return None, size
        if not measured.unit.startswith("share of "):
            return (self._counted(measured, measured.name, "count", int(value)) if value == int(value) else None), size
        if not whole or size is None:
            return None, size
        count = self._counted(measured, measured.name, "count", round(value * whole))
        return _share(count, size), size

    def _counted(self, measured: Measurement, name: str, what: str, count: int) -> int:
        """One cell per counted quantity, whichever assessment counted it: independent noises could be averaged."""
        of_rest = self.shapes.get("", "")
        shape = self.shapes.get(measured.name, self.shapes.get(measured.method, of_rest))
        return self.protect(CellName(MEASUREMENT, name, what), shape, count)


def attrition_json(
    steps: Iterable[AttritionStep], rows_out: Callable[[AttritionStep], int | str | None], told: bool = False
) -> list[dict]:
    """The steps as JSON values.

    Parameters
    ----------
    rows_out
        The number that an edition shows.
    told
        Whether to state for each number that it is protected.
    """
    shown: dict[str, int | str | None] = {}
    found = []
    for step in steps:
        shown[step.stage] = rows_out(step)
        found.append(
            {
                "stage": step.stage,
                "unit": step.unit,
                "source": step.source,
                "rows_in": None if step.source is None else shown[step.source],
                "rows_out": shown[step.stage],
                "reason": step.reason,
                **({"protected": not step.file} if told else {}),
            }
        )
    return found


def two_digits(number: float | str | None) -> float | str | None:
    """A number rounded up to two significant digits, so that a bound stays one.

    Examples
    --------
    >>> two_digits(0.01234), two_digits(0.5), two_digits(None)
    (0.013, 0.5, None)
    """
    if not isinstance(number, float) or number <= 0:
        return number
    scale = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / scale - 1e-9) * scale:.2g}")


def _factor(number: float | str | None) -> float | str | None:
    """A factor whose excess over 1 is rounded up to two digits; one without a bound is what it is.

    Examples
    --------
    >>> _factor(1.1315), _factor(1.0204), _factor(1.0), _factor(1e9)
    (1.14, 1.021, 1.0, 1000000000.0)
    """
    excess = two_digits(number - 1) if isinstance(number, float) else None
    return number if not isinstance(excess, float) or excess >= _LARGEST else round(1 + excess, 6)


def _share(count: int, size: int) -> float | str:
    """Suppress a share of too few people, judged by the displayed number of them."""
    return shown_if_large(count / size if size > 0 else 0.0, size)


def _left_out(attrition: list[Mapping]) -> tuple[float | str | None, int | None]:
    """The share of members or records that the last step removed: the number released is public, the rest is one cell.

    None where a mask hides how many there were.
    """
    people = [step for step in attrition if step["unit"] in ("members", "records")]
    last = people[-1] if people else {}
    size, released = last.get("rows_in"), last.get("rows_out")
    if not isinstance(size, int) or not isinstance(released, int) or last["protected"]:
        return None, None  # masked, or not shown
    return _share(size - released, size), size
