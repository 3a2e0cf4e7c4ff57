"""Linked releases: members in all of them, each with every generalization (methods#meet).

Records of one member in several releases can be linked, by stable pseudonyms or because long histories are nearly unique.
An adversary who links them knows each value at the meet of the generalizations, the coarsest partition that refines all of
them: two values are told apart if any release tells them apart. D' is the union of what the releases show. The class of a
target consists of the members of all deliveries who fit, whether or not they are released.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from deid_assets.methods.adversary.adversary_power import Rounding, power_of, value_pairs
from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.attacks.neighbor_attack import success_given_membership
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.store.tables import Table, scratch_table

_MEET, _LEVELS = 1, 2
"""Levels of each claim-level quasi-identifier: values, and their classes at the meet."""


@dataclass(frozen=True, eq=False)
class LinkedMembers:
    """Members of several deliveries as one adversary sees them who has linked their releases.

    Attributes
    ----------
    data
        The members of all deliveries, and those who are in every release as targets. Demographics are one column, the
        class under all generalizations. Level 1 of each history is the meet. Nothing is coarser: whether knowledge is lost
        to truncation is decided at the meet, in both readings.
    dimensions
        One for each history.
    adversary
        Recomputes the adversary's power on generalized data.
    tags
        (n,) uint64: tags of the targets, ascending.
    """

    data: LongitudinalData
    dimensions: tuple[Dimension, ...]
    adversary: Adversary
    tags: np.ndarray

    @property
    def node(self) -> tuple[int, ...]:
        """The meet, as a node."""
        return (_MEET,) * len(self.dimensions)

    def computation(self, k: int, extract: bool = False) -> NodeComputation:
        """Return the node computation at the meet.

        Parameters
        ----------
        k
            Smallest class that is not at high risk.
        extract
            Whether the population is the release itself, from whose classes those of a register are estimated.
        """
        return NodeComputation(self.data, self.dimensions, k, only_at=self.node, extract=extract)

    def neighbor_success(self, stream_key: bytes, trials: int) -> np.ndarray:
        """Success of nosey neighbors who know that the target is in every release (attack 1 at the linked record).

        The linked record is narrower than that of either release: it has the values of both, at the meet. The neighbor picks
        among the members of all the releases who match, where in one release alone others match, too.

        Parameters
        ----------
        stream_key
            16 bytes, the key of the stream of draws.
        trials
            Number of simulated neighbors, t.

        Returns
        -------
        (t,) float64
            1/f for the f linked records that match what is known, or 0 where truncation removed part of it everywhere.
        """
        linked = self.data.released_only()
        classes = NodeComputation(linked, self.dimensions, k=1, only_at=self.node).drawn_classes(self.node, stream_key, trials)
        return success_given_membership(~classes.exempt, classes.sizes)


def linked_members(
    releases: Sequence[Table], power: int, rounding: Rounding, events: Mapping[str, str] = MappingProxyType({})
) -> LinkedMembers | None:
    """Link the members of several releases.

    Parameters
    ----------
    releases
        The kept rows of each release (`comparison.kept_rows`), in one file.
    power, rounding
        The adversary's greatest power p_m, and the rounding of its formula.
    events
        The table of events of each claim-level quasi-identifier, where there are several; columns that are not listed are of
        the claims.

    Returns
    -------
    LinkedMembers or None
        None if no member is in every release.
    """
    every = " UNION ALL ".join(f"SELECT {number} AS release, * FROM {one.sql}" for number, one in enumerate(releases))
    members = scratch_table(releases[0], "linked_members", _members(every, len(releases)))
    found = members.arrays(f"SELECT tag, class, released FROM {members.sql} ORDER BY position")
    targets = np.flatnonzero(np.asarray(found["released"], dtype=bool))
    if not len(targets):
        return None
    classes = np.asarray(found["class"], dtype=np.int32)
    columns = members.query(
        f"SELECT DISTINCT quasi_identifier AS name FROM ({every})"
        " WHERE service_day IS NOT NULL AND value IS NOT NULL ORDER BY name"
    )
    domains, held, known, claims = [], [], [], []
    for column in columns["name"]:
        shown = f"SELECT * FROM ({every}) WHERE service_day IS NOT NULL AND quasi_identifier = '{column}'"
        values = scratch_table(members, "linked_values", _values(shown))
        domains.append(_domain(values))
        one = members.arrays(_occurrences(shown, members, values))
        position, code = np.asarray(one["position"]), np.asarray(one["code"])
        held.append(_histories(position, code, np.asarray(one["held"]), len(classes)))
        of_targets = _histories(position, code, np.asarray(one["known"]), len(classes))
        known.append(of_targets.take(targets))
        claims.append(np.bincount(position, np.asarray(one["known"]), len(classes))[targets].astype(np.int64))
    table_of = [events.get(column, "claims") for column in columns["name"]]
    numbers = dict.fromkeys(("claims", *table_of), np.zeros(len(targets), dtype=np.int64))
    for table, own in zip(table_of, claims, strict=True):
        numbers[table] = np.maximum(numbers[table], own)
    number = tuple(numbers[table] for table in table_of)
    powers = tuple(
        power_of(events, value_pairs(own.offsets, own.codes), power, rounding)
        for own, events in zip(known, number, strict=True)
    )
    data = LongitudinalData(
        classes[:, None], (Domain((np.arange(int(classes.max()) + 1),)),), tuple(held), tuple(domains), targets, tuple(known),
        powers,
    )  # fmt: skip
    dimensions = tuple(Dimension(name, (), (place,), _LEVELS) for place, name in enumerate(columns["name"]))
    return LinkedMembers(
        data, dimensions, Adversary(numbers["claims"], power, rounding, number), np.asarray(found["tag"])[targets]
    )


def _members(every: str, releases: int) -> str:
    """SELECT tag, position, class and released of the members of all deliveries; a class shares its labels in each."""
    return f"""SELECT tag, row_number() OVER (ORDER BY tag) - 1 AS position, dense_rank() OVER (ORDER BY shown) - 1 AS class,
          released
        FROM (SELECT tag, bool_and(released) AS released,
                list({{'release': release, 'column': quasi_identifier, 'label': label}} ORDER BY release, quasi_identifier)
                  AS shown
              FROM ({every}) WHERE service_day IS NULL GROUP BY tag HAVING count(DISTINCT release) = {int(releases)})"""


def _values(shown: str) -> str:
    """SELECT value, code and meet of one quasi-identifier: two values are one at the meet if no release separates them.

    A release whose labels depend on the demographic class separates them if they have different labels in any class. Classes
    of members are then at most as large as an adversary would find.
    """
    return f"""SELECT value, row_number() OVER (ORDER BY value) - 1 AS code, dense_rank() OVER (ORDER BY labels) - 1 AS meet
        FROM (SELECT value, list({{'release': release, 'label': label}} ORDER BY release, label) AS labels
              FROM (SELECT DISTINCT value, release, label FROM ({shown}) WHERE value IS NOT NULL) GROUP BY value)"""


def _occurrences(shown: str, members: Table, values: Table) -> str:
    """SELECT position, code, known and held, per member and value: a claim of one day that several releases show counts once.

    Missing values have the code -1.
    """
    return f"""SELECT m.position, coalesce(v.code, -1) AS code, sum(known) AS known, sum(held) AS held
        FROM (SELECT tag, service_day, value, max(known) AS known, max(held) AS held FROM ({shown})
              GROUP BY tag, service_day, value)
        JOIN {members.sql} AS m USING (tag) LEFT JOIN {values.sql} AS v USING (value)
        GROUP BY ALL ORDER BY position, code"""


def _domain(values: Table) -> Domain:
    found = values.arrays(f"SELECT meet FROM {values.sql} ORDER BY code")
    meet = np.asarray(found["meet"], dtype=np.int32)
    return Domain((np.arange(len(meet)), meet))


def _histories(position: np.ndarray, code: np.ndarray, times: np.ndarray, members: int) -> Histories:
    """The values of each member, repeated as often as they occur; rows are ordered by position and code."""
    times = np.where(code < 0, 0, times).astype(np.int64)
    counts = np.bincount(position, times, members).astype(np.int64)
    return Histories(np.concatenate([[0], np.cumsum(counts)]), np.repeat(code, times).astype(np.int32))
