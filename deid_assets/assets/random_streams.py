"""Keys of the random streams of a running asset, and the tries of its delivery and sample that draws judge.

`release.keys` says what the streams depend on.
"""

from collections.abc import Iterable
from functools import lru_cache

from deid_assets.assessments.evidence import Measurement
from deid_assets.assets.publishing import releases_of, tell_witnesses
from deid_assets.assets.step import Step
from deid_assets.methods.population.encoding import released_members, sorted_released_ids
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy
from deid_assets.release.keys import gate_purpose, stream_key_of
from deid_assets.release.registry.delivery_tries import DeliveryTries
from deid_assets.release.registry.tries import SampleOfTry, Tried, ValueClasses, refused_by_draws
from deid_assets.resources import Workplace
from deid_assets.sources.delivery import CLAIM_COLUMNS, MEMBER_COLUMNS
from deid_assets.store.digests import combined_digest, rows_digest
from deid_assets.store.tables import Table, connect

CANONICAL = {"members": MEMBER_COLUMNS, "claims": CLAIM_COLUMNS}
"""The tables that key the streams of a delivery, with their columns."""


def stream_key(step: Step[AnyPolicy], purpose: str, number: int = 1) -> bytes:
    """The 16-byte key of a random stream of this delivery.

    It depends on the secret, the members and claims that were taken in, and the purpose. Names of policies, deliveries
    and files, and the text of the policy, can be changed without changing what is judged, so they must not give fresh
    draws. Each try that draws judge has its own streams; `number` identifies it.
    """
    return stream_key_of(step.secret, taken_in_digest(step), purpose, number)


def taken_in_digest(step: Step[AnyPolicy]) -> str:
    """Digest of the members and claims that were taken in; restricted, because guesses could be tested against it."""
    taken_in = [step.table(name) for name in CANONICAL]
    return _digest_of_taken_in(step.context.run.run_id, *taken_in)


@lru_cache(maxsize=4)
def _digest_of_taken_in(run_id: str, *tables: Table) -> str:
    """Digest of the tables, computed once per run, because every stream has its own name.

    It covers the canonical columns and no others. How many codes of a claim cannot be read does not count: earlier versions did
    not keep it, and whoever has the same members and claims under another version must not get fresh draws. Nor do columns
    that a policy declares: whoever declares one more must not get fresh draws of the others.
    """
    (file,) = {table.file for table in tables}
    with connect(file) as connection:
        return combined_digest(
            {
                table.name: rows_digest(connection, f"SELECT COLUMNS(lambda c: c IN {CANONICAL[table.name]}) FROM {table.sql}")
                for table in tables
            }
        )


def gate_stream_key(step: Step[AnyPolicy], profiles: Table, number: int) -> bytes:
    """The 16-byte key of the gate's own stream: of this delivery and of the members sampled from it; see `gate_purpose`."""
    sampled = profiles.query(sorted_released_ids(profiles))["member_id"].tolist()
    return stream_key(step, gate_purpose(sampled), number)


def delivery_tries(step: Step[Policy], profiles: Table, domains: Table) -> DeliveryTries:
    """The tries of the delivery and sample of the running asset."""
    policy, secret = step.policy, step.secret
    size = len(released_members(profiles))
    return DeliveryTries(
        step.home,
        secret,
        secret.keyed_digest("delivery of a try", taken_in_digest(step)),
        SampleOfTry(policy.sample.keyed_by, size),
        ValueClasses(domains.frame(), secret, policy.origins),
    )


def note_if_refused(workplace: Workplace, tried: Tried, measured: Iterable[Measurement]) -> None:
    """Record a try that draws refuse in the registry; call it before any measurement is reported."""
    by_chance = refused_by_draws(measured)
    if by_chance is not None:
        releases = releases_of(workplace)
        releases.note_refused(tried, by_chance)
        tell_witnesses(releases)
