"""What one release hides and another shows, and who is missing from the later one (methods#meet, methods#disappearance)."""

from dataclasses import dataclass

import numpy as np

from deid_assets.store.tables import Table


@dataclass(frozen=True)
class Compared:
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


def compared(earlier: Table, later: Table) -> Compared:
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
    return Compared(
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
