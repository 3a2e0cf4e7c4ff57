"""Whether the rows of a release recur in an earlier one whose people seem to be others, by a statement or by identifiers."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from deid_assets.assessments.evidence import RELEASED_MEANWHILE, Refusal
from deid_assets.errors import ReleaseError
from deid_assets.policy.sections.longitudinal import PSEUDONYM_COLUMNS
from deid_assets.policy.sections.releases import OtherPeople
from deid_assets.reference.known_columns import EVENT_TABLE, YEARS
from deid_assets.release.counts.published import FILES as COUNTS
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.published_tables import MEMBERS, days_file
from deid_assets.sources.flat import PERSON
from deid_assets.store.digests import file_digest, parse_json, regular_bytes
from deid_assets.store.home import StoreLock
from deid_assets.store.tables import Table, quoted, rows_of

_FEWEST = 2
"""Columns that rows must have in common to be compared: the values of one column recur in every population."""
_TAKEN_IN = ("records", "cohort_people")
_IDENTIFIERS = ("record", "person", PERSON)
"""Columns that tell records apart, whoever they are of."""


@dataclass(frozen=True, eq=False)
class HashedRows:
    """What rows there are, as numbers, and how often.

    Attributes
    ----------
    seen
        (n,) uint64: each row that occurs, once.
    times
        (n,) int64: how often.
    """

    seen: np.ndarray
    times: np.ndarray


def beyond_chance(own: HashedRows, theirs: HashedRows) -> float:
    """Share of the rows that occur once here and once there, beyond what is expected of other people of the same population.

    A row that occurs once here is expected 2 F2 / F1 times among as many other people, where F1 rows occur once here and F2
    twice (Good 1953, The population frequencies of species, Biometrika 40:237-264).

    Examples
    --------
    Ten rows that all differ recur, or do not:

    >>> once = np.ones(10, dtype=np.int64)
    >>> own = HashedRows(np.arange(10, dtype=np.uint64), once)
    >>> beyond_chance(own, own), beyond_chance(own, HashedRows(own.seen + np.uint64(5), once))
    (1.0, 0.5)
    """
    singles, pairs = own.seen[own.times == 1], int((own.times == 2).sum())
    if not len(singles):
        return 0.0
    share = float(np.isin(singles, theirs.seen[theirs.times == 1]).mean())
    chance = 2 * pairs / len(singles) * int(theirs.times.sum()) / int(own.times.sum())
    return share - min(chance, 1.0)


@dataclass(frozen=True)
class DeliveredRows:
    """The rows of people as they were taken in, and where those of earlier releases were.

    Attributes
    ----------
    rows
        Of the delivery about to be released.
    stores
        Name of a release, as policy/number, to the store of its delivery, which may have been removed since.
    run_id, is_over
        The run that releases, and whether another one has ended: as in `StoreLock`.
    """

    rows: Table
    stores: Mapping[str, Path]
    run_id: str
    is_over: Callable[[str], bool]

    def recurring(self, name: str) -> float | None:
        """`beyond_chance` of the delivery of an earlier release; 0 without anything to compare, None while a run is at work."""
        store = self.stores.get(name)
        if store is None or not store.is_file() or store == self.rows.file:
            return 0.0
        # DuckDB lets one process open a file: without the lock, either of the two runs would fail.
        lock = StoreLock(store.with_suffix(".lock"), self.run_id, self.is_over)
        if not lock.try_acquire():
            return None
        try:
            return self._beside(store)
        finally:
            lock.release()

    def _beside(self, store: Path) -> float:
        shares = [0.0]
        for table in _TAKEN_IN:
            theirs = Table(store, "intake", table)
            there = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'intake' AND table_name = ?"
            if theirs.query(there, [table]).empty:
                continue
            common = sorted(set(self.rows.columns()) & set(theirs.columns()) - set(_IDENTIFIERS))
            if len(common) >= _FEWEST:
                own, other = (_rows(one, one.sql, common, ()) for one in (self.rows, theirs))
                shares.append(beyond_chance(own, other))
        return max(shares)


def recurring_refusals(
    stated: OtherPeople,
    staged: Table,
    releases: Path,
    names: Iterable[str],
    pseudonym: str | None,
    delivered: DeliveredRows | None = None,
) -> list[Refusal]:
    """Refuse if people are others, by a statement or by their identifiers, and too many rows recur.

    Rows are compared by the columns that both releases publish, without pseudonyms; and as they were delivered, which is
    finer, as long as the stores of both are there. Only rows that occur once count: others recur in any population. Of claims,
    a row is all claims of a member.

    Parameters
    ----------
    staged
        The rows of people, or the claims, as read back from the files.
    releases
        Folder of the published releases.
    names
        Releases, as policy/number, of people who seem to be others.
    pseudonym
        Column of the pseudonyms of people; None if the release has none.
    delivered
        The rows as they were taken in; None compares what is published only.

    Returns
    -------
    list of Refusal
        Also of each release whose delivery another run is at work on: it cannot be compared now.

    Raises
    ------
    ReleaseError
        If a file of an earlier release is not as its manifest lists it: what was published is not known then.
    """
    found = []
    for name in names:
        share = _published(staged, releases, name, pseudonym)
        if delivered is not None:
            as_delivered = delivered.recurring(name)
            if as_delivered is None:
                text = f"{name}: another run is at work on its delivery, whose rows are compared with those here; run again"
                found.append(Refusal(RELEASED_MEANWHILE, name, None, None, text))
                continue
            share = max(share, as_delivered)
        if share > stated.recurring_at_most:
            believed = stated.are_others(name)
            whose = "as the policy states under releases.other_people" if believed else "by their identifiers"
            remedy = "Take the statement back, and" if believed else "So"
            text = (
                f"{name}: its people are others {whose}, but of the rows that occur "
                f"once here {share:.0%} more occur once there, too, than is expected of others, and at most "
                f"{stated.recurring_at_most:.0%} may (releases.recurring_at_most). {remedy} identify people by the same column "
                "in both, spelled alike; or, if some people are in both, state the share that may"
            )
            found.append(Refusal("people_recur", name, share, stated.recurring_at_most, text, "share of rows"))
    return found


def _published(staged: Table, releases: Path, name: str, pseudonym: str | None) -> float:
    """`beyond_chance` of the tables of an earlier release; 0 if nothing can be compared."""
    # Rows of a member are compared together, and an earlier release may have fewer tables of events.
    alone = [staged]
    if EVENT_TABLE in staged.columns():
        tables = staged.query(f"SELECT DISTINCT {EVENT_TABLE} AS name FROM {staged.sql} ORDER BY name")["name"]
        alone = [rows_of(staged, table) for table in tables]
    files = list(_tables_of(releases, name))
    return max((_recurring(one, file, pseudonym) for one in alone for file in files), default=0.0)


def _recurring(staged: Table, file: Path, pseudonym: str | None) -> float:
    """`beyond_chance` of one table of an earlier release; 0 if nothing can be compared."""
    own = set(staged.columns()) - {pseudonym, EVENT_TABLE, *PSEUDONYM_COLUMNS}
    schema = staged.query("SELECT name FROM parquet_schema(?) WHERE num_children IS NULL", [str(file)])
    theirs = schema["name"].tolist()
    common = sorted(own & set(theirs))
    if len(common) < _FEWEST or ("MemberID" in staged.columns()) != ("MemberID" in theirs):
        return 0.0
    here = _rows(staged, staged.sql, common, staged.columns())
    return beyond_chance(here, _rows(staged, "read_parquet(?)", common, theirs, [str(file)]))


def _tables_of(releases: Path, name: str) -> Iterator[Path]:
    """The tables of people, or of events, of an earlier release, each as its manifest lists it."""
    for listed in parse_json(regular_bytes(releases / name / MANIFEST))["files"]:
        table, form = PurePosixPath(listed["path"]).stem, PurePosixPath(listed["path"]).suffix
        if form != ".parquet" or table in (MEMBERS, *COUNTS, *map(days_file, YEARS)):
            continue
        file = releases / name / listed["path"]
        if not file.is_file() or file_digest(file) != listed["sha256"]:
            raise ReleaseError(
                f"{listed['path']} of release {name} is missing or was changed, so that it is not known whether its rows recur "
                "in this one: put it back from a backup or from a copy"
            )
        yield file


def _rows(
    beside: Table, rows: str, columns: Sequence[str], every: Container[str], parameters: Sequence[object] = ()
) -> HashedRows:
    """The rows by some columns, as numbers: each row, or all rows of a member together."""
    listed = ", ".join(f"{quoted(column)}::VARCHAR" for column in columns)
    row = f"to_json([{listed}])::VARCHAR"
    shown = f"SELECT {row} AS row FROM {rows}"
    if "MemberID" in every:
        shown = f'SELECT to_json(list({row} ORDER BY {row}))::VARCHAR AS row FROM {rows} GROUP BY "MemberID"'
    found = beside.arrays(f"SELECT hash(row) AS seen, count(*) AS times FROM ({shown}) GROUP BY seen", parameters)
    return HashedRows(np.asarray(found["seen"], dtype=np.uint64), np.asarray(found["times"], dtype=np.int64))
