"""How much of each column's information a release keeps, and the refusal of one that keeps too little to be useful.

A release without information passes every privacy gate. So what it keeps is measured, shown beside the verdict, and
compared with the policy's `detail_at_least`.
"""

from collections.abc import Mapping

from deid_assets.assessments.evidence import INFORMATION, Measurement, Method, Refusal, down
from deid_assets.methods.lattice.certificate import rounding_step

KEPT = "information_kept"
"""Measured per column; the measurement is named "<released name>/information_kept"."""


def kept_name(column: str) -> str:
    """Name of a column's measurement.

    Examples
    --------
    >>> kept_name("Sex")
    'Sex/information_kept'
    """
    return f"{column}/{KEPT}"


def disclosed_share(share: float, people: int) -> float:
    """A share at the precision at which it may be disclosed: exact shares are functions of the delivered rows.

    Steps are those of the public certificate's losses. Rounding is down, so that a release never looks richer than it
    is.

    Examples
    --------
    >>> disclosed_share(0.4567, 20_000), disclosed_share(1.0, 600), disclosed_share(0.0, 600)
    (0.456, 1.0, 0.0)
    """
    return _down(share, rounding_step(people))


def _down(share: float, step: float) -> float:
    return 1.0 if share >= 1 - 1e-9 else down(share, step)


def enough_detail(kept: Mapping[str, float], at_least: Mapping[str, float], people: int, fewest: int | None = None) -> bool:
    """Whether every column keeps as much as the policy requires, however many people remain.

    Parameters
    ----------
    kept
        Share of information left, by the released name of each generalized column.
    at_least
        The policy's `detail_at_least`.
    people
        Released members or records.
    fewest
        The fewest of them that may remain at the gate; steps are wider for fewer people. None means all of them.
    """
    # Steps are whole thousandths; a narrower step does not always leave more.
    narrowest, widest = (round(1000 * rounding_step(number)) for number in (people, people if fewest is None else fewest))
    steps = [thousandths / 1000 for thousandths in range(narrowest, widest + 1)]
    return all(_down(kept[column], step) >= share for column, share in at_least.items() for step in steps)


def detail_measurements(
    kept: Mapping[str, float], at_least: Mapping[str, float], people: int, however_coarse: bool = False
) -> tuple[Measurement, ...]:
    """What each generalized column keeps, rounded down; a gate if the policy requires a least share.

    Parameters
    ----------
    kept, at_least, people
        As for `enough_detail`.
    however_coarse
        Whether the release is published with less, too: then no share is a gate.

    Raises
    ------
    KeyError
        If the policy names a column that was not measured.
    """
    unmeasured = set(at_least) - set(kept)
    if unmeasured:
        raise KeyError(f"not measured: {', '.join(sorted(unmeasured))}")
    method = Method(KEPT, "methods#information-loss")
    measured = (
        method.at_least(kept_name(column), INFORMATION, disclosed_share(share, people), at_least.get(column))
        for column, share in kept.items()
    )
    return tuple(one.ungated if however_coarse else one for one in measured)


def detail_refusals(measured: tuple[Measurement, ...]) -> list[Refusal]:
    """Refuse a release as useless if a column keeps less than the policy requires."""
    return [
        Refusal(
            "too_little_detail", found.name, found.value, found.threshold,
            f"too little detail: {found.name.rpartition('/')[0]} keeps less of its information than detail_at_least "
            "requires; release from a larger population, list fewer quasi-identifiers, require less, or publish it however "
            "coarse it is (publish_however_coarse: true), which its headline then says",
            found.unit,
        )
        for found in measured
        if found.gating and not found.passed
    ]  # fmt: skip
