"""What one release hides and another shows, and who is missing from the later one (methods#meet, methods#disappearance).

How many members can be linked by their rows alone is told as well (methods#linkability): the adversary generalizes both
releases until values that any of them joins are one class, and compares whole records: demographics, and how often each class
occurs in each history. A record that equals exactly one record of the other release is linked. Records that also differ by new
claims could be linked too, so the share is a lower bound.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from deid_assets.store.tables import Table, write_table


@dataclass(frozen=True)
class ComparedReleases:
    """The members and values of two releases.

    Attributes
    ----------
    members
        Members of both releases.
    added, withdrawn
        Members of the later release only, and of the earlier one only.
    values
        Values of claims of members of both releases that either release shows and that both deliveries contain.
    hidden_by_earlier, hidden_by_later
        How many of these values the one release hides and the other shows.
    """

    members: int
    added: int
    withdrawn: int
    values: int
    hidden_by_earlier: int
    hidden_by_later: int

    @property
    def hidden_share(self) -> float:
        """Share of the values that one of the releases hides and the other shows; 0 if there are none."""
        return (self.hidden_by_earlier + self.hidden_by_later) / max(self.values, 1)


def compared(earlier: Table, later: Table) -> ComparedReleases:
    """Compare what two releases show.

    Parameters
    ----------
    earlier, later
        Their kept rows (`kept_rows.kept_rows`), in one file.
    """
    members = later.query(
        f"""WITH a AS (SELECT DISTINCT tag FROM {earlier.sql} WHERE released),
              b AS (SELECT DISTINCT tag FROM {later.sql} WHERE released)
            SELECT count(*) FILTER (a.tag IS NOT NULL AND b.tag IS NOT NULL) AS both_of_them,
              count(*) FILTER (a.tag IS NULL) AS added, count(*) FILTER (b.tag IS NULL) AS withdrawn
            FROM a FULL JOIN b USING (tag)"""
    ).iloc[0]
    # A value that a delivery lacks is not hidden by its release.
    values = later.query(
        f"""SELECT coalesce(sum(greatest(a.held, b.held)), 0) AS shown,
              coalesce(sum(greatest(least(a.known, b.held) - least(a.held, b.held), 0)), 0) AS by_earlier,
              coalesce(sum(greatest(least(b.known, a.held) - least(a.held, b.held), 0)), 0) AS by_later
            FROM (SELECT tag, quasi_identifier, service_day, value, known::BIGINT AS known, held::BIGINT AS held
                  FROM {earlier.sql} WHERE released AND service_day IS NOT NULL) AS a
            JOIN (SELECT tag, quasi_identifier, service_day, value, known::BIGINT AS known, held::BIGINT AS held
                  FROM {later.sql} WHERE released AND service_day IS NOT NULL) AS b
              USING (tag, quasi_identifier, service_day, value)"""
    ).iloc[0]
    return ComparedReleases(
        int(members["both_of_them"]), int(members["added"]), int(members["withdrawn"]),
        int(values["shown"]), int(values["by_earlier"]), int(values["by_later"]),
    )  # fmt: skip


def withdrawn_standing_out(earlier: Table, later: Table, k: int) -> int:
    """Count the members of an earlier release whom the later one lacks, and who stand out as missing.

    They could be recognized as one of fewer than k: of their demographic class in the earlier release, fewer than k delivered
    members are missing from the later release, released before or not. Members of classes smaller than k are at risk without
    a later release, and are counted elsewhere.

    Parameters
    ----------
    earlier, later
        Their kept rows, in one file.
    k
        Smallest class size that is large enough, 1 / threshold.
    """
    found = later.arrays(
        f"""SELECT dense_rank() OVER (ORDER BY shown) - 1 AS class, e.released,
              e.tag NOT IN (SELECT tag FROM {later.sql} WHERE released) AS missing
            FROM (SELECT tag, bool_and(released) AS released,
                    list({{'column': quasi_identifier, 'label': label}} ORDER BY quasi_identifier) AS shown
                  FROM {earlier.sql} WHERE service_day IS NULL GROUP BY tag) AS e"""
    )
    class_of = np.asarray(found["class"])
    missing, released = (np.asarray(found[name], dtype=bool) for name in ("missing", "released"))
    size, lacking = np.bincount(class_of), np.bincount(class_of, missing)
    return int((released & missing & (lacking[class_of] < k) & (size[class_of] >= k)).sum())


def linkable_share(release: Table, other: Table) -> float:
    """Return the share of the members of one release whose record equals exactly one record of another release.

    Parameters
    ----------
    release, other
        Their kept rows (`kept_rows.kept_rows`), in one file.

    Returns
    -------
    float
        In [0, 1]; 0 if nobody is released.
    """
    joined = Table(release.file, "scratch", "classes_joined")
    write_table(joined, joined_classes(release, other))
    found = release.query(
        f"""WITH own AS ({_records(release, joined, 0)}), others AS ({_records(other, joined, 1)})
            SELECT count(*) AS all_records, count(*) FILTER (n = 1) AS linked
            FROM own LEFT JOIN (SELECT record, count(*) AS n FROM others GROUP BY record) USING (record)"""
    ).iloc[0]
    return float(found["linked"] / max(found["all_records"], 1))


def joined_classes(release: Table, other: Table) -> pd.DataFrame:
    """Return the coarsest classes that both releases show: quasi_identifier, release (0 or 1), label, joined.

    Labels are joined if one of the releases does not tell them apart. Quasi-identifiers that only one release shows,
    and labels of values that only one delivery has, are left out.
    """
    pairs = release.query(
        f"""SELECT a.quasi_identifier, a.label AS first, b.label AS second
            FROM (SELECT DISTINCT quasi_identifier, value, label FROM {release.sql}) AS a
            JOIN (SELECT DISTINCT quasi_identifier, value, label FROM {other.sql}) AS b
              ON a.quasi_identifier = b.quasi_identifier AND a.value IS NOT DISTINCT FROM b.value
            ORDER BY ALL"""
    )
    found = []
    for name, own in pairs.groupby("quasi_identifier"):
        first, first_labels = pd.factorize(own["first"], use_na_sentinel=False)
        second, second_labels = pd.factorize(own["second"], use_na_sentinel=False)
        size = len(first_labels) + len(second_labels)
        edges = coo_array((np.ones(len(own)), (first, second + len(first_labels))), shape=(size, size))
        _, component = connected_components(edges, directed=False)
        labels = [(0, label) for label in first_labels] + [(1, label) for label in second_labels]
        found += [(name, number, label, int(own_class)) for (number, label), own_class in zip(labels, component, strict=True)]
    frame = pd.DataFrame(found, columns=["quasi_identifier", "release", "label", "joined"])
    return frame.astype({"quasi_identifier": "str", "label": "str", "release": "int64", "joined": "int64"})


def _records(release: Table, joined: Table, number: int) -> str:
    """SELECT a record of each released member: a sum of hashes, the same for equal multisets of classes, in any order."""
    return f"""SELECT sum(hash(r.quasi_identifier, coalesce(j.joined, -1))::HUGEINT * r.held) AS record
        FROM {release.sql} AS r
        JOIN (SELECT DISTINCT quasi_identifier FROM {joined.sql}) USING (quasi_identifier)
        LEFT JOIN {joined.sql} AS j
          ON j.release = {int(number)} AND j.quasi_identifier = r.quasi_identifier AND j.label IS NOT DISTINCT FROM r.label
        WHERE r.released GROUP BY r.tag"""
