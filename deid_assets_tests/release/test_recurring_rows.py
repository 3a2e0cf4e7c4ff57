"""Rows of people who seem to be others, and recur."""

from pathlib import Path

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.policy.sections.releases import OtherPeople
from deid_assets.release.recurring_rows import DeliveredRows, recurring_refusals
from deid_assets.store.digests import canonical_json, file_digest
from deid_assets.store.home import StoreLock
from deid_assets.store.tables import Table, connect
from deid_assets_tests.methods.small_tables import small_store

COLUMNS = "MemberID VARCHAR, Year VARCHAR, PlaceSvc VARCHAR, PayDelay VARCHAR"


def claims(first: int, prefix: str) -> list[tuple[str, str, str, str]]:
    """Two claims of each of 30 members, which differ from those of everybody else."""
    return [
        (f"{prefix}{member}", f"Y{year}", "Office", str(first + member * 7 + year)) for member in range(30) for year in (1, 2)
    ]


def published(table: Table, folder: Path) -> Path:
    """Write a table as a release does; return its file."""
    release = folder / "claims" / "0001"
    (release / "data").mkdir(parents=True)
    file = release / "data" / "Claims.parquet"
    with connect(table.file) as connection:
        connection.execute(f"COPY {table.sql} TO '{file}'")
    listed = {"path": "data/Claims.parquet", "sha256": file_digest(file)}
    (release / "manifest.json").write_bytes(canonical_json({"files": [listed]}))
    return file


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({}, "its people are others by their identifiers, but of the rows"),
        ({"other_people": {"claims": "Members of another insurer."}}, "as the policy states under releases.other_people, but"),
    ],
    ids=["by identifiers", "by a statement"],
)
def test_claims_of_members_who_recur_refuse(tmp_path, stated, says):
    with small_store() as store:
        published(store.table("earlier", COLUMNS, claims(0, "m")), tmp_path)
        again, others = (store.table(f"own_{first}", COLUMNS, claims(first, "other ")) for first in (0, 1_000))
        (found,) = recurring_refusals(OtherPeople(**stated), again, tmp_path, ["claims/0001"], None)
        assert found.rule == "people_recur" and "100% more occur once there" in found.text and says in found.text
        assert recurring_refusals(OtherPeople(**stated), others, tmp_path, ["claims/0001"], None) == []


def test_whoever_removes_or_changes_what_was_published_does_not_hide_that_it_recurs(tmp_path):
    with small_store() as store:
        earlier = store.table("earlier", COLUMNS, claims(0, "m"))
        file, own = published(earlier, tmp_path), store.table("own", COLUMNS, claims(0, "other "))
        for harm in (lambda: file.write_bytes(file.read_bytes()[:-1]), file.unlink):
            harm()
            with pytest.raises(ReleaseError, match=r"data/Claims.parquet of release claims/0001 is missing or was changed"):
                recurring_refusals(OtherPeople(), own, tmp_path, ["claims/0001"], None)


TAKEN_IN = "record BIGINT, town VARCHAR, age VARCHAR"


def test_a_delivery_that_a_run_is_at_work_on_is_compared_later(tmp_path):
    """DuckDB opens a file in one process: a store that is read while its run makes tables would break that run, or this one."""
    stored = tmp_path / "store" / "theirs.duckdb"
    stored.parent.mkdir(mode=0o700)
    with connect(stored) as connection:
        connection.execute("CREATE SCHEMA intake; CREATE TABLE intake.records AS SELECT range AS record,"
                           " 'town ' || range AS town, (range % 90)::VARCHAR AS age FROM range(50)")  # fmt: skip
    (tmp_path / "theirs" / "0001").mkdir(parents=True)
    (tmp_path / "theirs" / "0001" / "manifest.json").write_bytes(canonical_json({"files": []}))
    rows = [(number, f"town {number}", str(number % 90)) for number in range(50)]
    with small_store() as store:
        own = store.table("records", TAKEN_IN, rows)
        delivered = DeliveredRows(own, {"theirs/0001": stored}, "this run", lambda run: True)

        def refusals() -> list[str]:
            found = recurring_refusals(OtherPeople(), own, tmp_path, ["theirs/0001"], None, delivered)
            return [one.rule for one in found]

        assert refusals() == ["people_recur"]
        at_work = StoreLock(stored.with_suffix(".lock"))
        at_work.acquire()
        assert refusals() == ["released_meanwhile"]
        at_work.release()
        assert refusals() == ["people_recur"]
        assert at_work.try_acquire(), "what was compared is free again"
        at_work.release()
