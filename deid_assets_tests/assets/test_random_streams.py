"""What the draws of a stream follow from: the secret, what was taken in, who was sampled; no name and no text."""

from types import SimpleNamespace

import dagster as dg
import pytest

from deid_assets.assets.random_streams import gate_stream_key, stream_key
from deid_assets.release.keys import Secret
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.steps import step_of

SECRET = Secret(b"0123456789abcdef" * 2, "environment")
MEMBERS = "SELECT 'm' || range AS member_id, 30 AS age FROM range(9)"
CLAIMS = "SELECT 'c' || range AS claim_id, 'm' || range AS member_id FROM range(9)"
SAMPLE = "SELECT member_id, member_id < 'm5' AS released FROM ({})"


def keys(
    folder, policy="ours", delivery="2024", secret=SECRET, members=MEMBERS, claims=CLAIMS, sample=SAMPLE, run="first", number=1
):
    """The keys of an assessment's stream, and of the gate's, of a try, in a store of its own."""
    folder = folder / run / policy
    tables = {name: Table(folder / f"{delivery}.duckdb", "intake", name) for name in ("members", "claims", "profiles")}
    for name, content in (("members", members), ("claims", claims), ("profiles", sample.format(members))):
        write_table(tables[name], content)
    workplace = SimpleNamespace(secret=lambda: secret, table=lambda key, _: tables[key.path[-1]])
    own = dg.AssetKey([policy, "neighbor_attack"])
    step = step_of(None, workplace, delivery, selected_asset_keys=[own], run=SimpleNamespace(run_id=run))
    return stream_key(step, "neighbors", number), gate_stream_key(step, tables["profiles"], number)


def test_streams_have_keys_of_their_own(tmp_path):
    assessment, gate = keys(tmp_path)
    assert assessment != gate and len(assessment) == len(gate) == 16


def test_every_try_has_draws_of_its_own(tmp_path):
    found = {key for number in (1, 2, 3) for key in keys(tmp_path, run=f"run {number}", number=number)}
    assert len(found) == 6
    assert keys(tmp_path, run="again", number=2) == keys(tmp_path, number=2), "and again the same ones"


@pytest.mark.parametrize(
    "same",
    [
        {"policy": "ours_again"},
        {"delivery": "2024-again"},
        {"members": f"FROM ({MEMBERS}) ORDER BY member_id DESC"},
    ],
    ids=["another name of the policy", "another key of the delivery", "rows in another order"],
)
def test_what_is_judged_again_is_judged_on_the_same_draws(tmp_path, same):
    assert keys(tmp_path, run="again", **same) == keys(tmp_path)


def test_another_sample_has_draws_of_its_own_at_the_gate(tmp_path):
    others = keys(tmp_path, run="again", sample=SAMPLE.replace("m5", "m6"))
    assert others[0] == keys(tmp_path)[0] and others[1] != keys(tmp_path)[1]


@pytest.mark.parametrize(
    "other",
    [{"secret": Secret(b"another secret of more than 32 bytes", "environment")}, {"claims": f"FROM ({CLAIMS}) LIMIT 8"}],
    ids=["secret", "claims"],
)
def test_another_secret_or_delivery_has_other_draws(tmp_path, other):
    assert not set(keys(tmp_path, run="again", **other)) & set(keys(tmp_path))
