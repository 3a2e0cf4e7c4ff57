"""A synthetic delivery is written whole, in the canonical columns, and the same every time."""

import hashlib
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.sources.synthetic import delivery as synthetic
from deid_assets.sources.synthetic.delivery import write_delivery


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    first, again, other = (
        write_delivery(tmp_path / name, 9_000, seed) for name, seed in (("first", 3), ("again", 3), ("other", 4))
    )
    assert digests(first.folder) == digests(again.folder)
    assert (first.members, first.claims) == (again.members, again.claims)
    for name, digest in digests(other.folder).items():
        assert digest != digests(first.folder)[name]


def test_columns_are_the_canonical_ones(tmp_path):
    write_delivery(tmp_path, 10, seed=1)
    described = {name: duckdb.sql(f"DESCRIBE FROM '{tmp_path}/{name}.parquet'").fetchall() for name in ("members", "claims")}
    assert [row[:2] for row in described["members"]] == [
        ("member_id", "VARCHAR"), ("sex", "VARCHAR"), ("age", "INTEGER"), ("birth_date", "DATE"),
        ("days_in_hospital_y2", "INTEGER"), ("days_in_hospital_y3", "INTEGER"),
    ]  # fmt: skip
    assert [row[:2] for row in described["claims"]] == [
        ("claim_id", "BIGINT"), ("member_id", "VARCHAR"), ("provider_id", "VARCHAR"), ("vendor_id", "VARCHAR"),
        ("pcp_id", "VARCHAR"), ("year", "INTEGER"), ("service_date", "DATE"), ("specialty", "VARCHAR"),
        ("place", "VARCHAR"), ("cpt", "VARCHAR"), ("length_of_stay", "INTEGER"), ("pay_delay", "INTEGER"),
        ("diagnosis_1", "VARCHAR"), ("diagnosis_2", "VARCHAR"), ("diagnosis_3", "VARCHAR"), ("diagnosis_4", "VARCHAR"),
    ]  # fmt: skip


def test_progress_is_told_after_every_block(tmp_path):
    told = []
    delivery = write_delivery(tmp_path, synthetic.BLOCK + 1, 1, progress=lambda done, total: told.append((done, total)))
    assert told == [(synthetic.BLOCK, synthetic.BLOCK + 1), (synthetic.BLOCK + 1, synthetic.BLOCK + 1)]
    assert duckdb.sql(f"SELECT count(*) FROM '{delivery.folder / 'claims.parquet'}'").fetchall() == [(delivery.claims,)]


def test_an_interrupted_delivery_leaves_the_former_one(tmp_path):
    write_delivery(tmp_path, 50, seed=1)
    before = digests(tmp_path)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_delivery(tmp_path, 60, seed=2, progress=stop)
    assert digests(tmp_path) == before


@pytest.mark.parametrize(("members", "seed"), [(0, 1), (-5, 1), (10, -1), (10, 1 << 64)])
def test_impossible_requests_are_refused(tmp_path, members, seed):
    with pytest.raises(DeliveryError, match="synthetic delivery"):
        write_delivery(tmp_path / "none", members, seed)
    assert not (tmp_path / "none").exists()


def test_the_smallest_delivery_can_be_written(tmp_path):
    for seed in range(20):
        delivery = write_delivery(tmp_path, 1, seed)
        assert delivery.members == 1
        assert delivery.claims >= 1
