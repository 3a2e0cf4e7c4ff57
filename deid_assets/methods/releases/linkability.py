"""How many members of one release can be linked with another by their rows alone (methods#linkability).

The adversary generalizes both releases until values that any of them joins are one class, and compares whole records:
demographics, and how often each class occurs in each history. A record that equals exactly one record of the other release
is linked. Records that also differ by new claims could be linked too, so the share is a lower bound.
"""

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from deid_assets.store.tables import Table, write_table


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
