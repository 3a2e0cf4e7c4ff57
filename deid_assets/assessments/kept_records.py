"""What a table of people shows of every delivered person, kept for later releases (methods#linked-records)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_attributes import attributes_sql
from deid_assets.assessments.cohort_demographics import cells_in, released_labels
from deid_assets.assessments.earlier_releases import EarlierRelease, people_beside, with_common_people
from deid_assets.assessments.kept_rows import Tags
from deid_assets.methods.flat.queries import generalized_records
from deid_assets.methods.releases.linked_records import (
    RecordClasses,
    kept_records,
    records_to_leave_out,
)
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.sources.flat import PERSON
from deid_assets.store.tables import Table, drop_schema, quoted, write_table


@dataclass(frozen=True)
class PeopleTable:
    """The rows of a flat table or of a cohort as a release would show them, with the person whose each is.

    Attributes
    ----------
    beside
        A table of the store; what is compared is written beside it.
    rows
        SELECT of every delivered record: `record`, the labels, the attributes, and the person.
    labels
        Columns of the quasi-identifiers.
    attributes
        The other published columns, by their names in the delivery.
    person
        Column of the person; None if nothing identifies people.
    left_out
        SELECT of the record numbers that are not released.
    """

    beside: Table
    rows: str
    labels: tuple[str, ...]
    attributes: Mapping[str, str]
    person: str | None
    left_out: str

    def without(self, left_out: Table) -> "PeopleTable":
        """The same rows, other ones of which are left out."""
        return replace(self, left_out=f"SELECT record FROM {left_out.sql}")

    def released_tags(self, tags: Tags) -> np.ndarray | None:
        """(n,) uint64, ascending: tags of the people about to be released; None if nothing identifies them."""
        if self.person is None:
            return None
        found = self.beside.query(
            f"SELECT DISTINCT {quoted(self.person)} AS person FROM ({self.rows}) WHERE record NOT IN ({self.left_out})"
        )
        return np.unique(tags(found["person"].tolist()).astype(np.uint64))

    def write_kept(self, tags: Tags) -> Table:
        """Write the kept rows of the release about to be made into the scratch schema of its store.

        Raises
        ------
        ValueError
            If nothing identifies people.
        """
        if self.person is None:
            raise ValueError("nothing identifies the people of this table")
        person = quoted(self.person)
        ids = self.beside.query(f"SELECT DISTINCT {person} AS person FROM ({self.rows}) ORDER BY 1")["person"].tolist()
        tagged, kept = (Table(self.beside.file, "scratch", name) for name in ("person_tags", "kept_records"))
        write_table(tagged, pd.DataFrame({"person": pd.Series(ids, dtype="str"), "tag": tags(ids).astype(np.uint64)}))
        write_table(kept, kept_records(self.rows, self.labels, self.attributes, self.person, tagged, self.left_out))
        return kept


def people_of_records(
    policy: FlatPolicy, records: Table, left_out: Table, domains: Table, levels: Mapping[str, int]
) -> PeopleTable:
    """The records of a flat table at the levels of its release.

    Parameters
    ----------
    records
        Delivered records, with the column of their persons.
    left_out
        record of the records that are not released.
    """
    attributes = {column.column: column.release_as for column in policy.attributes}
    person = None if policy.source.person is None else PERSON
    others = [*attributes.values(), *([] if person is None else [person])]
    rows = generalized_records(records, domains, levels, others)
    return PeopleTable(records, rows, tuple(levels), attributes, person, f"SELECT record FROM {left_out.sql}")


def people_of_cohort(policy: CohortPolicy, people: Table, population: Table) -> PeopleTable:
    """The people of a cohort at the levels of its release; all of them are released. Written into the scratch schema."""
    identified = people.query(f"SELECT record, person{_further(policy)} FROM {people.sql} ORDER BY record")
    labels = released_labels(policy, cells_in(policy, people, population)).set_axis(identified.index)
    shown = Table(people.file, "scratch", "shown_cohort")
    write_table(shown, pd.concat([identified.rename(columns={"person": _PERSON}), labels], axis=1))
    attributes = {one.column: one.release_as for one in policy.attributes}
    return PeopleTable(
        people, f"SELECT * FROM {shown.sql}", tuple(labels), attributes, _PERSON, "SELECT NULL::BIGINT WHERE false"
    )


_PERSON = "_person"
"""No released column starts with an underscore."""


def _further(policy: CohortPolicy) -> str:
    return f", {attributes_sql(policy)}" if policy.attributes else ""


def linked_to_leave_out(
    policy: FlatPolicy, table: PeopleTable, small: pd.DataFrame, releases: Sequence[EarlierRelease], tags: Tags
) -> pd.DataFrame:
    """Choose the records to leave out: the small ones, and others so that nobody stands out beside earlier releases.

    Only the small ones are left out if MaxSup does not allow all of them: the assessment then measures the release as it
    is, and refuses.

    Parameters
    ----------
    small
        record of the records that are left out whatever was released before.
    releases
        Every earlier release.

    Returns
    -------
    pandas.DataFrame
        record int64.
    """
    alone = Table(table.beside.file, "scratch", "small_records")
    try:
        write_table(alone, small)
        released = table.without(alone).released_tags(tags)
        linked = [] if released is None else with_common_people(releases, released)
        linked = [one for one in linked if one.file is not None]
        if not linked:
            return small
        own = table.without(alone).write_kept(tags)
        people, earlier = people_beside(own, linked, policy.kind)
        tagged = Table(own.file, "scratch", "person_tags")
        names = ", ".join(f"r.{quoted(column)}" for column in table.labels)
        found = own.arrays(
            f"""SELECT r.record, t.tag, dense_rank() OVER (ORDER BY {names}) - 1 AS class,
                  r.record IN (SELECT record FROM {alone.sql}) AS small
                FROM ({table.rows}) AS r
                JOIN {tagged.sql} AS t ON t.person = r.{quoted(table.person or "")} ORDER BY r.record"""
        )
    finally:
        drop_schema(alone.file, "scratch")
    of_people = np.searchsorted(people.tags, np.asarray(found["tag"]))
    classes = RecordClasses(of_people, np.asarray(found["class"]), np.asarray(found["small"], dtype=bool))
    left_out = records_to_leave_out(people, classes, earlier, policy.risk.k, policy.population is None)
    if left_out.sum() > np.floor(policy.risk.max_suppressed * len(left_out) + 1e-9):
        return small
    return pd.DataFrame({"record": np.asarray(found["record"])[left_out]})
