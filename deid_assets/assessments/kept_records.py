"""What a flat release shows of every delivered person, kept for later releases (methods#linked-records)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from deid_assets.assessments.cross_release_risk import rows_of
from deid_assets.assessments.earlier_releases import EarlierRecords
from deid_assets.assessments.kept_rows import Tags
from deid_assets.methods.flat.queries import generalized_records
from deid_assets.methods.releases.linked_records import (
    RecordClasses,
    kept_records,
    records_to_leave_out,
    shown_people,
)
from deid_assets.policy.flat import FlatPolicy
from deid_assets.sources.flat import PERSON
from deid_assets.store.tables import Table, drop_schema, quoted, write_table


def released_people(policy: FlatPolicy, records: Table, left_out: Table, tags: Tags) -> np.ndarray | None:
    """(n,) uint64, ascending: tags of the people about to be released; None if nothing identifies them."""
    if policy.source.person is None:
        return None
    found = records.query(
        f"SELECT DISTINCT {quoted(PERSON)} FROM {records.sql} WHERE record NOT IN (SELECT record FROM {left_out.sql})"
    )
    return np.unique(tags(found[PERSON].tolist()).astype(np.uint64))


def write_kept_records(records: Table, left_out: Table, domains: Table, levels: Mapping[str, int], tags: Tags) -> Table:
    """Write the kept rows of the release about to be made into the scratch schema of its store.

    Parameters
    ----------
    records
        Delivered records, with the column of their persons.
    left_out
        record of the records that are not released.
    """
    ids = records.query(f"SELECT DISTINCT {quoted(PERSON)} FROM {records.sql} ORDER BY 1")[PERSON].tolist()
    tagged, kept = (Table(records.file, "scratch", name) for name in ("person_tags", "kept_records"))
    write_table(tagged, pd.DataFrame({"person": pd.Series(ids, dtype="str"), "tag": tags(ids).astype(np.uint64)}))
    rows = generalized_records(records, domains, levels, [PERSON])
    write_table(kept, kept_records(rows, list(levels), PERSON, tagged, left_out))
    return kept


def with_common_people(releases: Sequence[EarlierRecords], own: np.ndarray) -> list[EarlierRecords]:
    """The earlier releases with people of a delivery, or of a release, by their tags."""
    return [one for one in releases if one.tags is not None and len(np.intersect1d(one.tags, own))]


def linked_to_leave_out(
    policy: FlatPolicy,
    levels: Mapping[str, int],
    records: Table,
    small: pd.DataFrame,
    domains: Table,
    releases: Sequence[EarlierRecords],
    tags: Tags,
) -> pd.DataFrame:
    """Choose the records to leave out: the small ones, and others so that nobody stands out beside earlier releases.

    Only the small ones are left out if MaxSup does not allow all of them: the assessment then measures the release as it
    is, and refuses.

    Parameters
    ----------
    small
        record of the records that are left out whatever was released before.
    releases
        Every earlier release of a flat table.

    Returns
    -------
    pandas.DataFrame
        record int64.
    """
    alone = Table(records.file, "scratch", "small_records")
    try:
        write_table(alone, small)
        released = released_people(policy, records, alone, tags)
        linked = [] if released is None else with_common_people(releases, released)
        if not linked:
            return small
        own = write_kept_records(records, alone, domains, levels, tags)
        people, *earlier = shown_people([own, *rows_of(linked, own)])
        tagged = Table(records.file, "scratch", "person_tags")
        names = ", ".join(f"r.{quoted(column)}" for column in levels)
        found = records.arrays(
            f"""SELECT r.record, t.tag, dense_rank() OVER (ORDER BY {names}) - 1 AS class,
                  r.record IN (SELECT record FROM {alone.sql}) AS small
                FROM ({generalized_records(records, domains, levels, [PERSON])}) AS r
                JOIN {tagged.sql} AS t ON t.person = r.{quoted(PERSON)} ORDER BY r.record"""
        )
    finally:
        drop_schema(records.file, "scratch")
    of_people = np.searchsorted(people.tags, np.asarray(found["tag"]))
    classes = RecordClasses(of_people, np.asarray(found["class"]), np.asarray(found["small"], dtype=bool))
    left_out = records_to_leave_out(people, classes, earlier, policy.risk.k, policy.population is None)
    if left_out.sum() > np.floor(policy.risk.max_suppressed * len(left_out) + 1e-9):
        return small
    return pd.DataFrame({"record": np.asarray(found["record"])[left_out]})
