"""Keys of the random streams that choose and judge: what they depend on, and what they must not depend on."""

from functools import lru_cache

import dagster as dg

from deid_assets.assets.stage_asset import prefix_of
from deid_assets.resources import Workplace
from deid_assets.store.digests import bytes_digest, canonical_json, tables_digest
from deid_assets.store.tables import Table

_TAKEN_IN = ("members", "claims")


def stream_key(context: dg.AssetExecutionContext, workplace: Workplace, purpose: str, number: int = 1) -> bytes:
    """The 16-byte key of a random stream of this delivery.

    It depends on the secret, the members and claims that were taken in, and the purpose. Names of policies, deliveries
    and files, and the text of the policy, can be changed without changing what is judged, so they must not give fresh
    draws. Each try that draws judge has its own streams; `number` identifies it.
    """
    of_try = (purpose,) if number == 1 else (purpose, f"try {number}")
    return workplace.secret().derive("stream", taken_in_digest(context), *of_try)[:16]


def taken_in_digest(context: dg.AssetExecutionContext) -> str:
    """Digest of the members and claims that were taken in; restricted, because guesses could be tested against it."""
    policy, table = prefix_of(context), context.resources.io_manager.table
    taken_in = [table(dg.AssetKey([policy, name]), context.partition_key) for name in _TAKEN_IN]
    return _digest_of_taken_in(context.run.run_id, *taken_in)


@lru_cache(maxsize=4)
def _digest_of_taken_in(run_id: str, *tables: Table) -> str:
    """Digest of the tables, computed once per run, because every stream has its own name."""
    return tables_digest({table.name: table for table in tables})


def gate_stream_key(context: dg.AssetExecutionContext, workplace: Workplace, profiles: Table, number: int) -> bytes:
    """The 16-byte key of the gate's own stream: of this delivery and of the members sampled from it.

    Levels, thresholds and suppressed members are deliberately excluded. Some changes of these cost almost nothing, such
    as a class for values that nobody has, or a threshold moved by a billionth, and would give fresh draws after a
    refusal. Another try, of which there are three, has other draws.
    """
    sampled = profiles.query(f"SELECT member_id FROM {profiles.sql} WHERE released ORDER BY member_id")["member_id"]
    return stream_key(context, workplace, f"gate {bytes_digest(canonical_json(sampled.tolist()))}", number)
