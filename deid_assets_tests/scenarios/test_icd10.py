"""A delivery of ICD-10-CM is refused whatever the policy says of unknown codes and lists: nothing would be found in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic
from deid_assets_tests.stages import STAGES

DOTLESS = ("E119", "E785", "E039", "I10", "J449", "F1020")
"""Codes of ICD-10-CM, of which the first three have the form of external causes in ICD-9-CM."""


@pytest.fixture(
    scope="module",
    params=[1, *(pytest.param(every, marks=pytest.mark.matrix) for every in (2, 11, 50))],
    ids=["all", "half", "nine per cent", "two per cent"],
)
def delivery(request, tmp_path_factory) -> Path:
    """Of all claims, or of some, the diagnosis is one of ICD-10-CM."""
    return with_icd10(tmp_path_factory.mktemp("icd10"), 600, request.param)


def with_icd10(folder: Path, members: int, every: int) -> Path:
    """A delivery in which the diagnosis of every so manyth claim is one of ICD-10-CM; returns its folder."""
    write_delivery(folder / "made", members, 3)
    tables = tables_of_synthetic(folder / "made", folder / "tables")
    codes = ", ".join(f"'{code}'" for code in DOTLESS)
    code = f"list_extract([{codes}], 1 + (hash(no) % {len(DOTLESS)})::INTEGER)"
    replaced = f"* REPLACE (CASE WHEN no::BIGINT % {every} = 0 THEN {code} ELSE dx END AS dx)"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE claims AS SELECT {replaced} FROM read_csv('{tables}/claims.csv', all_varchar = true)")
        connection.execute(f"COPY claims TO '{tables}/claims.csv' (HEADER)")
    return tables


@pytest.mark.matrix
def test_no_remedy_publishes_it_and_all_are_told_the_same(delivery, tmp_path):
    said = set()
    nobody = {"code_list": None, "rare_visible_diseases": False}
    for number, (unknown, lists, quarantined) in enumerate(
        [
            ("quarantine", {}, 0.05),
            ("quarantine", {}, 0.2),
            ("quarantine", nobody, 0.2),
            ("blank", {}, 0.05),
            ("blank", {"code_list": None}, 0.2),
            ("blank", nobody, 0.2),
        ]
    ):
        home = Home(tmp_path / f"{number}" / "deid").create()
        values = changed(TABLES, source__unknown_codes=unknown, intake__quarantine_at_most=quarantined)
        values["removal"] |= lists | {"readable_codes_at_least": 0.5, "sensitive_members_at_least": None}
        write_policy(home.policies, values)
        code, printed = deid_here(home.root, "run", "--policy", "tables", "--delivery", delivery, "--quiet")
        told = unwrapped(printed)
        assert code == ERROR and "of dx are codes of ICD-10-CM, where diagnosis_codes says ICD-9-CM" in told, printed
        assert "code_list: null" not in told
        assert not list(home.releases.glob("*/0*"))
        said.add(told)
    assert len(said) == 1, said


@pytest.mark.matrix
class TestOfFewerThanOneInAHundred:
    """They may be sensitive ones, which no list finds: whoever has one is not released while others are removed for codes."""

    @pytest.mark.parametrize(
        ("unknown", "reason"), [("blank", "a code that cannot be read"), ("quarantine", "a claim in quarantine")]
    )
    def test_their_members_are_left_out_whatever_becomes_of_the_codes(self, few, tmp_path, unknown, reason):
        with prepared(tmp_path, few, changed(TABLES, source__unknown_codes=unknown)) as ask:
            having = set(ask(f"SELECT DISTINCT member FROM read_csv('{few}/claims.csv') WHERE dx IN {DOTLESS}"))
            removed = ask("SELECT DISTINCT member_id FROM preparation.removed_members")
            for_it = ask(f"SELECT member_id FROM preparation.removed_members WHERE reason = '{reason}' AND NOT sensitive")
            drawn = ask("SELECT member_id FROM preparation.released_sample")
        assert len(having) > 50 and having <= set(removed) and len(having & set(for_it)) > 0.9 * len(having)
        assert len(drawn) > 500 and not having & set(drawn)

    def test_where_nobody_is_removed_groups_and_the_index_are_blank(self, few, tmp_path):
        values = changed(TABLES, source__unknown_codes="blank", removal__code_list=None, removal__rare_visible_diseases=False)
        with prepared(tmp_path, few, values) as ask:
            removed = ask("SELECT member_id FROM preparation.removed_members WHERE reason <> 'a claim in quarantine'")
            claims = ask(
                "SELECT (condition_group, charlson) FROM preparation.grouped_claims"
                " WHERE claim_id IN (SELECT claim_id FROM intake.claims WHERE unreadable_diagnoses = 1)"
            )
        assert not removed and len(claims) > 50 and set(claims) == {(None, None)}


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Path:
    """Nine claims in a thousand have a diagnosis of ICD-10-CM."""
    return with_icd10(tmp_path_factory.mktemp("few"), 3_000, 111)


@contextmanager
def prepared(folder: Path, delivery: Path, values: dict) -> Iterator[Callable[[str], list]]:
    """Members of the delivery are drawn, and claims grouped; yields what reads the first column of a query on the store."""
    with pipeline_in(folder / "deid", "tables") as pipeline:
        write_policy(pipeline.home.policies, values)
        pipeline.register("few", "tables", delivery)
        made = pipeline.run("few", [*STAGES["intake"], *STAGES["preparation"]], stages=False).rows
        assert {"released_sample", "grouped_claims"} <= set(made)
        with duckdb.connect(pipeline.store_file("few"), read_only=True) as connection:
            yield lambda sql: [row[0] for row in connection.execute(sql).fetchall()]


def in_icd10(folder: Path, members: int) -> Path:
    """A delivery of CSV tables coded in ICD-10-CM; returns its folder."""
    write_delivery(folder / "made", members, 3, Contents(icd10cm=True))
    return tables_of_synthetic(folder / "made", folder / "tables")


STATED = changed(TABLES, diagnosis_codes="icd10cm", source__years={"first": 2019})
PLANTED = {"person-hiv": "B20", "person-alcohol": "F10.20", "person-abuse": "T74.11XA", "person-contact": "Z21"}


class TestStated:
    @pytest.mark.matrix
    def test_a_delivery_is_published(self, tmp_path):
        home = Home(tmp_path / "deid").create()
        write_policy(home.policies, STATED)
        code, printed = deid_here(
            home.root, "run", "--policy", "tables", "--delivery", in_icd10(tmp_path, 3_000), "--key", "d", "--quiet"
        )
        assert code == PUBLISHED, printed
        (release,) = home.releases.glob("tables/0*")
        with duckdb.connect(home.store / "tables" / "d.duckdb", read_only=True) as store:
            codes, groups = (
                {row[0] for row in store.execute(sql).fetchall()}
                for sql in (
                    "SELECT DISTINCT diagnosis_1 FROM intake.claims WHERE diagnosis_1 IS NOT NULL",
                    "SELECT DISTINCT condition_group FROM preparation.grouped_claims WHERE condition_group IS NOT NULL",
                )
            )
            charlson = store.execute("SELECT count(*) FROM preparation.grouped_claims WHERE charlson <> '0'").fetchall()[0][0]
        assert all(code.startswith("icd10cm:") for code in codes) and len(groups) > 35 and charlson > 1_000
        cells = {str(cell) for file in release.rglob("*.parquet") for cell in pd.unique(pd.read_parquet(file).values.ravel())}
        assert len(cells) > 30 and not cells & {*codes, *(code.removeprefix("icd10cm:") for code in codes)}

    def test_members_with_a_sensitive_code_are_removed_by_lists_of_its_own_system(self, tmp_path):
        folder = in_icd10(tmp_path, 2_000)
        members, claims = (pd.read_csv(folder / f"{name}.csv", dtype=str) for name in ("members", "claims"))
        planted = claims.head(len(PLANTED)).assign(
            no=[f"planted {n}" for n in range(len(PLANTED))], member=[*PLANTED], dx=[*PLANTED.values()]
        )
        people = members.head(len(PLANTED)).assign(id=[*PLANTED])
        pd.concat([members, people]).to_csv(folder / "members.csv", index=False)
        pd.concat([claims, planted]).to_csv(folder / "claims.csv", index=False)
        with prepared(tmp_path, folder, changed(STATED, removal__code_list="extended")) as ask:
            removed = ask("SELECT member_id FROM preparation.removed_members WHERE sensitive")
        assert {*PLANTED} <= set(removed)


@pytest.mark.matrix
@pytest.mark.parametrize("every", [1, 25, 111])
@pytest.mark.parametrize("unknown", ["quarantine", "blank"])
def test_icd_9_cm_among_icd_10_cm_is_refused_or_its_members_are_left_out(tmp_path, every, unknown):
    folder = in_icd10(tmp_path, 2_000)
    with duckdb.connect() as connection:
        code = "list_extract(['042', '25000', 'V5789', 'E8889', '4019'], 1 + (hash(no) % 5)::INTEGER)"
        replaced = f"* REPLACE (CASE WHEN no::BIGINT % {every} = 0 THEN {code} ELSE dx END AS dx)"
        connection.execute(f"CREATE TABLE c AS SELECT {replaced} FROM read_csv('{folder}/claims.csv', all_varchar = true)")
        having = {
            row[0]
            for row in connection.execute(
                "SELECT DISTINCT member FROM c WHERE dx IN ('042', '25000', 'V5789', '4019')"
            ).fetchall()
        }
        connection.execute(f"COPY c TO '{folder}/claims.csv' (HEADER)")
    values = changed(STATED, source__unknown_codes=unknown)
    if every < 100:
        home = Home(tmp_path / "deid").create()
        write_policy(home.policies, values)
        exit_code, printed = deid_here(home.root, "run", "--policy", "tables", "--delivery", folder, "--quiet")
        assert exit_code == ERROR and "of dx are codes of ICD-9-CM, where diagnosis_codes says ICD-10-CM" in unwrapped(printed)
    else:
        with prepared(tmp_path, folder, values) as ask:
            assert not having & set(ask("SELECT member_id FROM preparation.released_sample"))
