"""Earlier releases as assessments see them, and what is said of numbers that count their members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from deid_assets.errors import ReleaseError
from deid_assets.methods.releases.linked_records import ShownPeople, shown_people, with_names_of
from deid_assets.store.tables import Query, Table, scratch_table

BECAUSE = "counts_earlier_releases"
"""Metadata key of an assessment whose numbers count members of earlier releases."""
LONGITUDINAL = "longitudinal"
"""The kind of a release of members and claims, whose policy states none."""

Tags = Callable[[Sequence[str]], np.ndarray]
"""(n,) uint64: the keyed tag of each member, in the order given."""


def because_of(releases: Sequence[str]) -> str:
    """Why a number that counts earlier releases is as high as it is, and what does not lower it."""
    return (
        f"members of this population in earlier releases count too, and are in {', '.join(releases)}; a publication cannot "
        "be undone, and more members in this delivery do not help"
    )


@dataclass(frozen=True)
class EarlierRelease:
    """An earlier release of any kind, as far as it can be compared with a later one.

    Attributes
    ----------
    name
        Policy and number.
    tags
        (n,) uint64: tags of its people, ascending; None if nothing identified them, or if it was made with another secret, so
        that they have no meaning.
    file
        Returns the Parquet file of its kept rows (`comparison.kept_rows`); None if it kept none.
    person
        Name of the column that identifies its people; None if nothing does.
    levels
        The level of each quasi-identifier, by name; None if nothing kept it.
    of_this_delivery
        Whether it was made of the delivery that is about to be released.
    kind
        `kind` of its policy.
    same_secret
        Whether its tags, if it has any, are comparable with those made now.
    keeps_values
        Whether its kept rows tell the values of attributes; those of earlier versions of the product do not.
    """

    name: str
    tags: np.ndarray | None
    file: Callable[[], Path] | None
    person: str | None = None
    levels: Mapping[str, str] | None = None
    of_this_delivery: bool = False
    kind: str = LONGITUDINAL
    same_secret: bool = True
    keeps_values: bool = True


@dataclass(frozen=True)
class Earlier:
    """Earlier releases, by what they mean for the release about to be made.

    Attributes
    ----------
    linked
        Those with people of this release, and with rows to compare; beside members and claims, those of members and claims.
    unknown
        Those that may have people of this release, and cannot be compared.
    tables
        Beside members and claims: flat tables and cohorts with members of this release, and with rows to compare.
    stated
        Those without known people of this release, of which the policy states that their people are others.
    same
        Beside a table: others that were made of the same delivery, which `same_delivery` compares.
    others
        Those that have nobody of this release, by their identifiers.
    apart
        Those of another kind, of which nobody knows whether they have people of this release, because nothing identifies people
        here or there.
    aside
        Beside members and claims: those of members and claims in which nothing identifies members.
    """

    linked: tuple[EarlierRelease, ...] = ()
    unknown: tuple[EarlierRelease, ...] = ()
    tables: tuple[EarlierRelease, ...] = ()
    stated: tuple[EarlierRelease, ...] = ()
    same: tuple[EarlierRelease, ...] = ()
    others: tuple[EarlierRelease, ...] = ()
    apart: tuple[EarlierRelease, ...] = ()
    aside: tuple[EarlierRelease, ...] = ()

    @classmethod
    def sorted_by(cls, releases: Sequence[EarlierRelease], meaning: Callable[[EarlierRelease], str]) -> "Earlier":
        """Sort releases by the attribute to which each belongs."""
        found: dict[str, list[EarlierRelease]] = {}
        for one in releases:
            found.setdefault(meaning(one), []).append(one)
        return cls(**{name: tuple(ones) for name, ones in found.items()})

    @property
    def every(self) -> tuple[EarlierRelease, ...]:
        """All of them."""
        return tuple(one for kept in fields(self) for one in getattr(self, kept.name))

    @property
    def of_others(self) -> tuple[str, ...]:
        """Those whose people are others by a statement or by their identifiers, as policy/number."""
        return tuple(one.name for one in (*self.stated, *self.others))


@dataclass(frozen=True, eq=False)
class EverReleased:
    """The members of all earlier releases of members and claims.

    Attributes
    ----------
    tags
        (n,) uint64: their tags, ascending.
    of_others
        Members of releases made with another secret, whose tags have no meaning: any of them may belong to any population.
    """

    tags: np.ndarray
    of_others: int = 0

    def contain(self, tags: np.ndarray) -> np.ndarray:
        """(m,) bool: whether members with these tags are in any of the comparable releases."""
        return np.isin(tags, self.tags)


def with_common_people(releases: Sequence[EarlierRelease], own: np.ndarray) -> list[EarlierRelease]:
    """The earlier releases with people of a delivery, or of a release, by their tags."""
    return [one for one in releases if one.tags is not None and len(np.intersect1d(one.tags, own))]


def rows_of(releases: Sequence[EarlierRelease], own: Table) -> list[Table]:
    """Read the kept rows of earlier releases into the scratch schema of the store that holds the present release's."""
    tables = []
    for place, one in enumerate(releases):
        if one.file is None:
            raise ReleaseError(f"{one.name} kept no rows, so it cannot be linked")
        kept = Query("SELECT * FROM read_parquet(?)", (str(one.file()),))
        tables.append(scratch_table(own, f"earlier_rows_{place}", kept))
    return tables


def people_beside(own: Table, linked: Sequence[EarlierRelease], kind: str) -> tuple[ShownPeople, list[ShownPeople]]:
    """What the release about to be made shows of people, by its kept rows, and what earlier ones with kept rows do.

    Parameters
    ----------
    kind
        Of the release about to be made.
    """
    people, *earlier = shown_people([own, *rows_of(linked, own)])
    return people, [
        replace(with_names_of(people, shown), same_rows=of_same_rows(one.kind, kind))
        for shown, one in zip(earlier, linked, strict=True)
    ]


def of_same_rows(one: str, other: str) -> bool:
    """Whether releases of two kinds have rows of the same kind: those of flat tables and cohorts are people."""
    return (one == LONGITUDINAL) == (other == LONGITUDINAL)
