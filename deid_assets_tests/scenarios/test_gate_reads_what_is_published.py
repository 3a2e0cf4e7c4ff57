"""The gate judges the staged files, not the tables that they were made from: rows that are not the store's refuse."""

import pytest

from deid_assets.assets import release as release_asset
from deid_assets.errors import PUBLISHED
from deid_assets.release.publication import publish
from deid_assets.release.publication.publish import Staging
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline
from deid_assets_tests.scenarios.test_gate_refuses import refused
from deid_assets_tests.stages import STAGES

NOT_THE_STORES = "the staged rows differ from those that the restricted store gives"
ONE_MEMBER = '(SELECT min("MemberID") FROM candidate.release_members)'
OTHER_MEMBER = '(SELECT max("MemberID") FROM candidate.release_members)'
SUPPRESSED = """(SELECT min(x.pseudonym) FROM preparation.pseudonym_crosswalk AS x
    JOIN generalization.suppressed_members AS s ON x.kind = 'member' AND x.original_id = s.member_id)"""

FLIPPED_SEX = """UPDATE candidate.release_members SET "Sex" = CASE "Sex" WHEN 'F' THEN 'M' ELSE 'F' END"""
RESTORED_PROVIDER = """
    UPDATE candidate.release_claims SET "ProviderID" = (
        SELECT max(pseudonym) FROM preparation.pseudonym_crosswalk WHERE kind = 'provider'
    ) WHERE rowid IN (SELECT rowid FROM candidate.release_claims WHERE "ProviderID" IS NULL LIMIT 1)"""
EDITS = {
    "a sex, a stay and a provider": {
        "release_members": f"""{FLIPPED_SEX} WHERE "MemberID" = {ONE_MEMBER}""",
        "release_days_in_hospital": """
            UPDATE candidate.release_days_in_hospital
            SET "DaysInHospital" = CASE "DaysInHospital" WHEN '0' THEN '1+' ELSE '0' END WHERE rowid = 0""",
        "release_claims": RESTORED_PROVIDER,
    },
    "a suppressed member slipped back in, and a comorbidity": {
        "release_members": f"""
            INSERT INTO candidate.release_members
            SELECT {SUPPRESSED}, * EXCLUDE ("MemberID") FROM candidate.release_members LIMIT 1""",
        "release_claims": """
            UPDATE candidate.release_claims
            SET "CharlsonIndex" = CASE "CharlsonIndex" WHEN '5+' THEN '0' ELSE '5+' END WHERE rowid = 0""",
    },
    "claims of two members swapped": {
        "release_claims": f"""
            UPDATE candidate.release_claims SET "MemberID" = CASE "MemberID" WHEN {ONE_MEMBER} THEN {OTHER_MEMBER}
            WHEN {OTHER_MEMBER} THEN {ONE_MEMBER} ELSE "MemberID" END""",
    },
    "one claim more": {
        "release_claims": "INSERT INTO candidate.release_claims SELECT * FROM candidate.release_claims LIMIT 1",
    },
}


SEEN_BY_DEFAULT = "a sex, a stay and a provider"
"""An edit of each table; `release/test_judgement.py` states it cell for cell."""


@pytest.mark.matrix
@pytest.mark.parametrize(
    "edit", [pytest.param(edit, marks=[] if edit == SEEN_BY_DEFAULT else pytest.mark.matrix) for edit in EDITS]
)
def test_a_candidate_edited_in_the_store_refuses(pipeline, edit):
    """Twice over: the evidence is about other rows, and these are not what the store gives at this generalization."""
    pipeline.edit_store(KEY, *EDITS[edit].values())
    refused(pipeline, "it judged rows other than those staged", *(f"{name}: {NOT_THE_STORES}" for name in EDITS[edit]))


@pytest.mark.matrix
def test_a_candidate_edited_before_it_was_judged_refuses(pipeline):
    """The evidence is then about the edited rows, and no attack fails: only the restricted store tells, to the gate and to the
    why ledger, which counts the values that were blanked.
    """
    pipeline.edit_store(KEY, RESTORED_PROVIDER)
    judged = pipeline.run(KEY, STAGES["assessment"])
    assert [check.split(":")[0] for check in judged.failed_checks] == ["unaccounted_values_within_threshold"]
    refused(pipeline, NOT_THE_STORES)


def tamper(staging: Staging, name: str = "Claims.csv") -> None:
    """Change one byte of a staged file, and keep the file readable as a table."""
    file = staging.folder / "data" / name
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b",Y1,", b",Y2,", 1))


@pytest.mark.matrix
def test_all_that_is_wrong_with_the_files_is_named_at_once(pipeline, monkeypatch):
    """A CSV file tampered with, a Parquet file that holds something else, and a formula among the rows."""
    done = tamper_with_claims(monkeypatch)
    swap_members(monkeypatch)
    edit_formula(pipeline)
    refused(pipeline, *TAMPERED, SWAPPED, FORMULA)
    assert done


@pytest.mark.matrix
def test_a_file_tampered_with_before_it_is_read_back_refuses(pipeline, monkeypatch):
    done = tamper_with_claims(monkeypatch)
    refused(pipeline, *TAMPERED)
    assert done


TAMPERED = ("release_claims: the staged rows differ from those", "judged rows other")


def tamper_with_claims(monkeypatch) -> list[str]:
    honest = Staging.reader
    done: list[str] = []

    def tampered(staging, path):
        if not done and path.endswith("Claims.csv"):
            tamper(staging)
            done.append(path)
        return honest(staging, path)

    monkeypatch.setattr(Staging, "reader", tampered)
    return done


@pytest.mark.matrix
def test_a_parquet_file_swapped_after_it_was_compared_refuses(pipeline, monkeypatch):
    """Risk is measured on the CSV file: a Parquet file that holds something else must not be published beside it."""
    swap_members(monkeypatch)
    refused(pipeline, SWAPPED)


SWAPPED = "data/Members.parquet is not what the judged rows give, byte for byte"


def swap_members(monkeypatch) -> None:
    honest = publish.read_back

    def swapped(connection, path, columns, digest):
        rows = honest(connection, path, columns, digest)
        if path.name == "Members.parquet":
            connection.execute(
                f"""COPY (SELECT * REPLACE ('F' AS "Sex") FROM read_parquet('{path}')) TO '{path}' (FORMAT parquet)"""
            )
        return rows

    monkeypatch.setattr(publish, "read_back", swapped)


@pytest.mark.matrix
def test_a_formula_in_a_candidate_refuses(pipeline):
    edit_formula(pipeline)
    refused(pipeline, FORMULA)


FORMULA = "data/Members: column Sex, fewer than 11 cells: a beginning that a spreadsheet takes for a formula"


def edit_formula(pipeline: Pipeline) -> None:
    pipeline.edit_store(KEY, f"""UPDATE candidate.release_members SET "Sex" = '=1+1' WHERE "MemberID" = {ONE_MEMBER}""")


def test_a_file_tampered_with_after_it_was_judged_is_not_published(pipeline, monkeypatch):
    name = "Members.parquet"
    honest = release_asset._judge
    done = []

    def tampered(*args, **kwargs):
        judged = honest(*args, **kwargs)
        (staging,) = pipeline.home.releases.glob("small/.staging-*")
        file = staging / "data" / name
        file.chmod(0o600)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        done.append(name)
        return judged

    monkeypatch.setattr(release_asset, "_judge", tampered)
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert done and summary.exit_code != PUBLISHED and summary.release is None
    assert "changed after it was written" in " ".join(summary.reasons) and name in " ".join(summary.reasons)
    assert pipeline.published_bytes() == before and pipeline.releases == ["small/0001"]
