"""Whom on a list of opt-outs the deliveries of a home have: somebody whom none has is a person that nobody leaves out.

Stores are purged, and those of flat tables and cohorts keep nobody whom they left out. A file of keyed digests therefore
remembers who was found. Without it, people count as unmatched until a delivery has them again.

Which releases of a home hold a person is restricted, too: the answer is about somebody, and goes to the terminal only.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from deid_assets.errors import StoreError, how_many
from deid_assets.methods.preparation.eligibility import matching_query
from deid_assets.policy.base import ReleasePolicy
from deid_assets.release.cumulative import Made, releases_made, tags_in_order
from deid_assets.release.keys import Secret
from deid_assets.release.publication.waiting import REGISTRY
from deid_assets.release.registry.chain import Registry
from deid_assets.store import durable
from deid_assets.store.digests import TEXT_AT_MOST, kept_bytes
from deid_assets.store.home import Home
from deid_assets.store.tables import connect, quoted

FILE = "opt_outs_matched.txt"
"""In the restricted store: keyed digests of people on lists of opt-outs whom a delivery had, one to a line.

Each person has one of their own and one for each policy and delivery, which have one themselves.
"""

_LOCK = ".opt_outs_matched.lock"
_PEOPLE = (("members", "member_id"), ("records", "_person"), ("cohort_people", "person"))
"""Tables of the stage `intake` with a row per person or record, and their columns of people, by kind of policy."""

ALIKE = "case, blanks, quotes, leading zeros, a final .0, invisible characters or script"
"""How an identifier differs from one that looks like it."""


@dataclass(frozen=True, repr=False)
class Known:
    """Which of some identifiers the deliveries of a home have; restricted, and without a repr that could show one.

    Attributes
    ----------
    looked_at
        Deliveries that tell whose their records are, and releases of others.
    unread
        Stores that could not be read, because a run is at work on them or they are damaged.
    matched
        Identifiers that belong to a person of any delivery.
    alike
        Of the others, those that would if case, blanks, leading zeros, the script and the like did not count.
    """

    looked_at: int
    unread: int
    matched: frozenset[str]
    alike: frozenset[str]

    def unmatched(self, listed: Collection[str]) -> int:
        """How many of the identifiers belong to nobody."""
        return len(set(listed) - self.matched)

    def are_enough(self, listed: Collection[str], at_least: float) -> bool:
        """Whether the share of identifiers that belong to somebody is at least this one."""
        return len(listed) - self.unmatched(listed) >= at_least * len(listed)


def known_people(home: Home, identifiers: Collection[str], secret: Secret) -> Known:
    """Look for people in everything that was taken in here.

    Parameters
    ----------
    identifiers
        As deliveries write them.
    secret
        Under which people are remembered, and the members of releases are tagged.
    """
    listed = sorted(set(identifiers))
    remembered = _remembered(home)
    matched = {one for one in listed if _digest(one, secret) in remembered}
    alike, looked_at, unread = set[str](), 0, 0
    for population in _delivered_with_releases(home, secret):
        looked_at += 1
        found = np.isin(tags_in_order(listed, secret), population)
        matched |= {one for one, there in zip(listed, found, strict=True) if there}
    for file in sorted(home.store.glob("*/*.duckdb")):
        try:
            with connect(file, read_only=True) as connection:
                for relation, column in _people_in(connection):
                    looked_at += 1
                    for one, exact in connection.execute(matching_query(relation, quoted(column)), [listed]).fetchall():
                        (matched if exact else alike).add(one)
        except (StoreError, duckdb.Error):
            unread += 1
    return Known(looked_at, unread, frozenset(matched), frozenset(alike - matched))


def remember(home: Home, people: Iterable[str], secret: Secret) -> None:
    """Remember people on lists of opt-outs whom a delivery has.

    Raises
    ------
    ReleaseError, StoreError
        If the file cannot be read or written.
    """
    _write(home, {_digest(one, secret) for one in people})


def remember_delivery(home: Home, policy: str, delivery: str, people: Iterable[str], secret: Secret) -> None:
    """`remember` people on lists of opt-outs whom a delivery has, and that it has them as a policy reads it.

    Raises
    ------
    ReleaseError, StoreError
        If the file cannot be read or written.
    """
    found = set(people)
    here = {_digest_here(one, policy, delivery, secret) for one in ("", *found)}
    _write(home, here | {_digest(one, secret) for one in found})


def share_problems(policy: ReleasePolicy, known: Known) -> tuple[str, ...]:
    """Why the home's list of opt-outs cannot be trusted under a policy, without saying how many match."""
    listed, at_least = policy.opt_outs.withdrawn, policy.opt_outs.matched_at_least
    if known.are_enough(listed, at_least):
        return ()
    return (
        f"the home's list of opt-outs: of {len(listed):,} identifiers listed fewer than the share {at_least:g} "
        "(opt_outs.matched_at_least of the policy) are those of a person of any delivery of this home, so that people who "
        "opted out may be released; check whether they are written as deliveries write them (prefixes, leading zeros, upper "
        "and lower case, white space), and correct them with `deid member opt-in` and `deid member opt-out`. Where many of "
        "those listed are yet to be delivered, state a smaller share; 0 asks for none" + _unread_said(known),
    )


def unmatched_notes(policy: ReleasePolicy, delivery: str, home: Home, secret: Secret) -> tuple[str, ...]:
    """How many people on each list of opt-outs match nobody, in sentences; for the operator only, because they count people.

    Parameters
    ----------
    delivery
        Key of the delivery, which may lack people whom others have.
    """
    elsewhere = elsewhere_note(policy, delivery, home, secret)
    return (
        *unmatched_on(policy.opt_outs.all_members, policy.opt_outs.withdrawn, home, secret),
        *([elsewhere] if elsewhere else []),
    )


def elsewhere_note(policy: ReleasePolicy, delivery: str, home: Home, secret: Secret) -> str | None:
    """How many people on the home's list other deliveries have, and this one has not, as its policy reads it.

    They may have left. Or the policy reads another column, or identifiers are written in another way, and nobody is left out.
    """
    remembered, listed = _remembered(home), policy.opt_outs.withdrawn
    if _digest_here("", policy.name, delivery, secret) not in remembered:
        return None
    known = [one for one in listed if _digest(one, secret) in remembered]
    missing = sum(_digest_here(one, policy.name, delivery, secret) not in remembered for one in known)
    if not missing:
        return None
    all_of_them = ", all that others have" if missing == len(known) else ""
    return (
        f"Opt-outs: {missing:,} of {len(listed):,} identifiers on the home's list{all_of_them}, are those of people whom other "
        "deliveries have, and leave nobody out of this one; unless these people left, look whether the policy names the right "
        "column of the person, and whether this delivery writes identifiers as the others do."
    )


def unmatched_on(listed: Collection[str], withdrawn: Collection[str], home: Home, secret: Secret) -> tuple[str, ...]:
    """The same for the list of a policy and that of the home, as they were when a release was made."""
    if not (listed or withdrawn):
        return ()
    known = known_people(home, [*listed, *withdrawn], secret)
    notes = unmatched_note("the policy's list", listed, known), unmatched_note("the home's list", withdrawn, known)
    return tuple(note for note in notes if note is not None)


def unmatched_note(name: str, listed: Collection[str], known: Known) -> str | None:
    """How many people on a list of opt-outs match nobody; None if everybody is matched."""
    unmatched, alike = known.unmatched(listed), len(known.alike & set(listed))
    if not unmatched:
        return None
    looks = f"; {alike:,} of them differ from that of a person only in {ALIKE}" if alike else ""
    return (
        f"Opt-outs: {unmatched:,} of {len(listed):,} identifiers on {name} are those of no person of any delivery here, and "
        f"leave nobody out{looks}{_unread_said(known)}."
    )


def _unread_said(known: Known) -> str:
    return f" ({how_many(known.unread, 'store')} could not be looked at: a run is at work there, or they are damaged)" * bool(
        known.unread
    )


def _write(home: Home, digests: set[str]) -> None:
    new = digests - _remembered(home)
    if new:
        durable.owner_only(home.store)
        with durable.locked(home.store / _LOCK):
            lines = sorted(new | _remembered(home))
            durable.replace(home.store / FILE, "".join(f"{line}\n" for line in lines).encode(), 0o600)


def _digest(identifier: str, secret: Secret) -> str:
    return secret.keyed_digest("person who opted out and was delivered", identifier)


def _digest_here(identifier: str, policy: str, delivery: str, secret: Secret) -> str:
    """Of a person in a delivery; of the delivery itself without an identifier."""
    return secret.keyed_digest("person who opted out and is in a delivery", policy, delivery, identifier)


def _remembered(home: Home) -> frozenset[str]:
    return frozenset(kept_bytes(home.store / FILE, f"store/{FILE}", TEXT_AT_MOST).decode("ascii", "replace").split())


def _delivered_with_releases(home: Home, secret: Secret) -> Iterator[np.ndarray]:
    """Tags of everybody who was delivered with a release, or released where it kept no roll."""
    for release in releases_made(home.store / "manifests", Registry(home.releases / REGISTRY)):
        if len(release.tags) and release.commitment == secret.commitment():
            yield release.roll().tags


def _people_in(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """The tables with people of one store, each with its column of identifiers."""
    there = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'intake' AND NOT internal"
    ).fetchall()
    return [(f"intake.{quoted(table)}", column) for table, column in _PEOPLE if (table, column) in there]


@dataclass(frozen=True)
class Whereabouts:
    """What is known of one member in one release.

    Attributes
    ----------
    release, delivery
        The release as policy and number, and the key of its delivery.
    released
        Whether the member is in it; None if nobody can tell: it was made with another secret, or nothing identifies
        whose its records are.
    """

    release: str
    delivery: str
    released: bool | None


def whereabouts(member_id: str, made: Iterable[Made], secret: Secret) -> tuple[Whereabouts, ...]:
    """Look for a member in every release.

    Parameters
    ----------
    member_id
        Identifier, as deliveries write it.
    made
        Every release, `cumulative.releases_made`.
    secret
        That of the home, under which members are tagged.
    """
    tag, commitment = tags_in_order([member_id], secret)[0], secret.commitment()

    def released(one: Made) -> bool | None:
        if not len(one.tags) or one.commitment != commitment:
            return None
        return bool(np.isin(tag, one.tags))

    return tuple(Whereabouts(one.name, one.delivery, released(one)) for one in made)
