"""Rows of people who seem to be others, and recur."""

from pathlib import Path

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.policy.sections.releases import OtherPeople
from deid_assets.release.recurring_rows import recurring_refusals
from deid_assets.store.digests import canonical_json, file_digest
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
