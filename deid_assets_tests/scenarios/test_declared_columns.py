"""A policy that declares columns: they are measured, released, described and traced like the others, and refuse like them."""

import json
import math

import duckdb
import pytest
import yaml

from deid_assets.errors import REFUSED, PolicyError
from deid_assets.methods.lattice.candidate_gates import PINNED
from deid_assets.methods.lattice.diagnosis import PolicyChange
from deid_assets.policy.changes import changed_sections
from deid_assets.policy.loading import load_policy, with_sections
from deid_assets.release.manifest.certificate import certificate_problems
from deid_assets.release.public_cells import COHORT_SECTIONS, shape
from deid_assets.release.reproduction import _write_policy
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.wide import COLUMNS, REVENUE, VAST, WIDE


def written(folder, values):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "revenue.csv").write_text(REVENUE)
    return write_policy(folder, values)


def refusal(folder, **changes) -> str:
    with pytest.raises(PolicyError) as refused:
        written(folder, changed(WIDE, **changes))
    return str(refused.value)


def with_column(table: str, name: str, **changes):
    declared = json.loads(json.dumps(COLUMNS))
    declared[table][name] |= changes
    return declared


class TestPolicy:
    def test_one_without_declared_columns_has_the_hash_that_it_had(self, tmp_path):
        plain = write_policy(tmp_path / "a", SMALL)
        empty = write_policy(tmp_path / "b", SMALL | {"columns": {"members": {}}})
        assert plain.hash == empty.hash and "columns" not in plain.content()

    def test_the_table_of_codes_is_part_of_its_content(self, tmp_path):
        one = written(tmp_path, WIDE)
        (tmp_path / "revenue.csv").write_text(REVENUE.replace("0360;stay", "0360;visit"))
        assert load_policy(tmp_path / "wide.yaml").public_hash != one.public_hash
        assert one.public_content()["columns"]["claims"]["revenue"]["file"] == "not shown"

    def test_the_kept_text_makes_the_same_policy_again(self, tmp_path):
        """Two columns may read one table of codes, and its file is written once."""
        again = WIDE["columns"]["claims"]["revenue"] | {"meaning": "bill"}
        listed = [*WIDE["quasi_identifiers"]["claims"], {"column": "bill", "release_as": "Bill", "hierarchy": "revenue"}]
        declared = COLUMNS | {"claims": COLUMNS["claims"] | {"bill": again}}
        moved = [*WIDE["dimensions"], {"name": "bill", "columns": ["bill"]}]
        one = written(tmp_path / "one", changed(WIDE, columns=declared, quasi_identifiers__claims=listed, dimensions=moved))
        file = tmp_path / "again" / "wide.yaml"
        file.parent.mkdir()
        _write_policy(one.content(), file, "2012-01-01T00:00:00Z")
        assert load_policy(file).hash == one.hash

    @pytest.mark.parametrize("without", [("race",), ("network",), ("race", "paid", "sex")])
    def test_a_refusal_can_offer_to_leave_them_out(self, tmp_path, without):
        """The table of codes of a declaration that stays is read again."""
        policy = written(tmp_path, WIDE)
        after = with_sections(policy, **yaml.safe_load(changed_sections(policy, PolicyChange(without))))
        assert not set(after.columns.all) & set(without)
        assert not {qi.column for qi in after.quasi_identifiers.all} & set(without)

    def test_declared_columns_come_last_by_name_whatever_the_order_of_the_text(self, tmp_path):
        turned = changed(WIDE, quasi_identifiers={table: listed[::-1] for table, listed in WIDE["quasi_identifiers"].items()})
        one, other = written(tmp_path / "a", WIDE), written(tmp_path / "b", turned)
        assert one.member_columns == other.member_columns
        assert one.member_columns[3:] == ("county", "emergency", "plan", "race", "zip3")
        assert list(one.claim_names) == list(other.claim_names)
        assert list(one.claim_names)[3:] == ["charged", "discharge", "network", "paid", "revenue"]

    def test_noise_follows_from_what_a_column_is_and_not_from_what_it_is_called(self, tmp_path):
        """Another name or meaning must draw no fresh noise for the same count; other bins must not share noise."""

        def renamed(values):
            text = json.dumps(values).replace('"spent"', '"money"')
            return json.loads(text)

        spent = {"kind": "sum_of_claims", "from": "paid", "to": 1_000, "at_most": 5_000, "meaning": "dollars paid"}
        declared = {"members": COLUMNS["members"] | {"spent": spent}, "claims": COLUMNS["claims"]}
        hierarchy = {"kind": "intervals", "from": 0, "to": 5_000, "levels": [{"name": "any", "starts": [0]}]}
        values = changed(WIDE, columns=declared)
        values["quasi_identifiers"]["members"].append({"column": "spent", "release_as": "Spent", "hierarchy": "spent"})
        values["hierarchies"]["spent"] = hierarchy
        one, other = written(tmp_path / "a", values), written(tmp_path / "b", renamed(values))
        told = json.loads(json.dumps(values))
        told["columns"]["members"]["spent"]["meaning"] = "what was paid"
        coarser = json.loads(json.dumps(values))
        coarser["columns"]["members"]["spent"]["to"] = 500
        assert one.identity("spent") == other.identity("money") == written(tmp_path / "c", told).identity("spent")
        shapes = [
            shape(policy, *COHORT_SECTIONS, "quasi_identifiers") for policy in (one, other, written(tmp_path / "d", coarser))
        ]
        assert shapes[0] == shapes[1] != shapes[2]
        assert one.identity("age") == "age"

    def test_tries_draws_and_kept_rows_go_by_what_a_column_is(self, tmp_path):
        """Another name must give no fresh draws; another column of the same name must not be compared with it."""

        def changed_to(folder, *changes):
            text = json.dumps(WIDE)
            for old, new in changes:
                text = text.replace(old, new)
            return written(tmp_path / folder, json.loads(text))

        one = written(tmp_path / "one", WIDE)
        renamed = changed_to("renamed", ('"paid"', '"money"'), ('"from": "money"', '"from": "paid"'))
        assert renamed.origins["money"] == one.origins["paid"] and renamed.kept_name("money") == one.kept_name("paid")
        assert shape(one, "quasi_identifiers", "dimensions") == shape(renamed, "quasi_identifiers", "dimensions")
        finer = changed_to("finer", ("[0, 100, 1000, 10000]", "[0, 200, 1000, 10000]"))
        assert one.origins["paid"] == finer.origins["paid"] and one.kept_name("paid") != finer.kept_name("paid")
        assert shape(one, "dimensions") != shape(finer, "dimensions")
        assert one.kept_name("age") == "age" and "age" not in one.origins
        assert len(set(one.origins.values())) == len(one.origins) == 10

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"columns": {"members": COLUMNS["members"], "claims": {}}}, "'paid' is not a column of claims"),
            (
                {"columns": COLUMNS | {"members": COLUMNS["members"] | {"sex2": COLUMNS["members"]["race"]}}},
                "is declared and not released",
            ),
            (
                {"columns": COLUMNS | {"members": COLUMNS["members"] | {"claim_id": COLUMNS["members"]["race"]}}},
                "the store already",
            ),
            (
                {"columns": COLUMNS | {"claims": COLUMNS["claims"] | {"position": COLUMNS["claims"]["network"]}}},
                "the store already has a column position",
            ),
            (
                {"columns": with_column("claims", "discharge", **{"from": "provider_id"})},
                "is provider_id, which only a pseudonym",
            ),
            ({"columns": with_column("members", "race", kind="colour")}, "'colour' is not allowed"),
            ({"columns": with_column("members", "emergency", with_values=[" 0450"])}, "has blanks around it"),
            ({"columns": with_column("members", "race", **{"from": "a\x00b"})}, "control characters"),
            (
                {
                    "columns": COLUMNS
                    | {"members": {"plan": {"kind": "age_at", "from": "b", "day": "2011-13-01", "meaning": "x"}}}
                },
                "month must be in 1..12",
            ),
            (
                {
                    "columns": COLUMNS
                    | {"members": {"plan": {"kind": "integer", "from": "b", "at_least": 3, "at_most": 2, "meaning": "x"}}}
                },
                "at_least is above at_most",
            ),
            ({"columns": with_column("members", "race", form="x")}, "unknown key"),
            ({"columns": with_column("claims", "paid", starts=[0, 100, 100])}, "starts must ascend"),
            ({"columns": with_column("claims", "charged", at_most=50_001)}, "a multiple of 1000"),
            ({"columns": with_column("claims", "revenue", file="none.csv")}, "none.csv"),
            ({"hierarchies__charged__to": 5_000}, "larger values would have no class"),
            ({"hierarchies__plan": WIDE["hierarchies"]["paid"]}, "contains text; intervals are for whole numbers"),
            ({"hierarchies__emergency__values": {"no": ["any"]}}, "no class for yes"),
            ({"hierarchies__revenue__values": {"visit": ["any"], "stay": ["any"]}}, "no class for other"),
            (
                {
                    "hierarchies__county": {"kind": "prefixes", "lengths": [*range(200, -1, -1)]},
                    "risk__search__exhaustive": True,
                },
                "of 2,778,624 nodes not all can be measured, at most 2,000,000: say false, to search them best first",
            ),
            ({"attributes": [{"column": "paid", "release_as": "PaidAgain"}]}, "column paid is listed twice"),
            ({"attributes": [{"column": "place", "release_as": "Where"}]}, "'place' is not a declared column of claims"),
            ({"attributes": [{"column": "costly", "release_as": "payDelay"}]}, "the release already has a column payDelay"),
            ({"attributes": []}, "is declared and not released: list it in quasi_identifiers.claims or in attributes"),
            ({"reviewed_attributes": {"Paid": "Everybody may know what was paid."}}, "Paid is not one of the attributes"),
            ({"source": {"kind": "desynpuf"}}, "have no further column in common"),
        ],
    )
    def test_what_cannot_work_is_refused_where_it_is_written(self, tmp_path, changes, said):
        assert said in refusal(tmp_path, **changes)


def home_with_a_release(root, values):
    written(root / "policies", values)
    policy = root / "policies" / f"{values['policy']}.yaml"
    code, printed = deid_here(root / "home", "run", "--policy", policy, "--members", 3000, "--seed", 1)
    assert code == PUBLISHED, printed
    return root / "home"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return home_with_a_release(tmp_path_factory.mktemp("declared"), WIDE)


@pytest.mark.matrix
class TestRelease:
    def test_has_all_sixteen_columns_and_verifies(self, home):
        folder = home / "releases" / "wide" / "0001"
        columns = [one["column"] for table in WIDE["quasi_identifiers"].values() for one in table]
        assert len(columns) == 16
        header = {name: (folder / "data" / f"{name}.csv").read_text().splitlines()[0] for name in ("Members", "Claims")}
        assert header["Members"] == "MemberID,Age,Sex,Race,Zip3,County,Plan,Emergency"
        assert "Charged,Discharge,Network,Paid,Revenue" in header["Claims"] and header["Claims"].endswith("SupLOS,Costly")
        code, printed = deid_here(home, "verify", folder)
        assert code == 0, printed

    def test_the_dictionary_says_what_was_declared(self, home):
        tables = json.loads((home / "releases/wide/0001/data/dictionary.json").read_text())["tables"]
        meanings = {column["name"]: column["meaning"] for table in tables.values() for column in table["columns"]}
        roles = {column["name"]: column["role"] for table in tables.values() for column in table["columns"]}
        assert (roles["Paid"], roles["Costly"]) == ("quasi-identifier", "other")
        for table in COLUMNS.values():
            for name, column in table.items():
                assert meanings[name.capitalize()].startswith(column["meaning"])

    def test_the_audit_traces_each_to_the_delivery(self, home):
        code, printed = deid_here(home, "lineage", "wide/0001")
        assert code == 0, printed
        event = json.loads((home / "store/manifests/wide/0001.openlineage.json").read_text())
        told = json.dumps(event["outputs"])
        for column in ("members.zip", "claims.revenue_code", "claims.paid", "members.race"):
            assert column.partition(".")[2] in told


@pytest.mark.matrix
def test_a_declared_quasi_identifier_with_the_name_of_a_direct_identifier_is_refused(tmp_path):
    listed = WIDE["quasi_identifiers"]
    claims = [one | {"release_as": "PatientName"} if one["column"] == "network" else one for one in listed["claims"]]
    written(tmp_path / "policies", changed(WIDE, quasi_identifiers=listed | {"claims": claims}))
    code, printed = deid_here(
        tmp_path / "home", "run", "--policy", tmp_path / "policies" / "wide.yaml", "--members", 3000, "--seed", 1
    )
    assert code == REFUSED and "quasi-identifier PatientName: its name says that it identifies people" in unwrapped(printed)


@pytest.fixture(scope="module")
def vast_home(tmp_path_factory):
    return home_with_a_release(tmp_path_factory.mktemp("vast"), VAST)


@pytest.mark.matrix
class TestOfALatticeThatIsNotListed:
    def test_is_released_with_a_certificate_that_verifies(self, vast_home):
        folder = vast_home / "releases" / "vast" / "0001"
        content = (folder / "certificate.json").read_bytes()
        certificate = json.loads(content)
        assert certificate["criterion"]["kind"] == "best_first" and certificate["criterion"]["error"] == 0.001
        assert math.prod(dimension["highest_level"] + 1 for dimension in certificate["dimensions"]) == 2_592_000
        code, printed = deid_here(vast_home, "verify", folder)
        assert code == 0 and "the certificate of optimality holds" in printed
        assert certificate_problems(content, "vast", 1) == []
        without = json.dumps(certificate | {"failed": []}).encode()
        assert any("never evaluated is not as stated" in text for text in certificate_problems(without, "vast", 1))

    def test_dollars_are_summed_in_a_file_of_their_own_and_in_no_row_of_a_member(self, vast_home):
        folder = vast_home / "releases" / "vast" / "0001" / "data"
        header, *rows = (line.split(",") for line in (folder / "Totals.csv").read_text().splitlines())
        assert header == ["Total", "Place", "Class", "Count", "Mark", "SD"]
        assert [(row[0], row[2], float(row[5])) for row in rows] == [
            ("spent", "all", 50_000), *(("spent by sex", sex, 50_000) for sex in ("F", "M", "unknown"))
        ]  # fmt: skip
        assert 1_000_000 < int(rows[0][3]) < 60_000_000, "at most 20,000 dollars of each of 3,000 members"
        assert "Spent" not in (folder / "Members.csv").read_text().splitlines()[0]
        tables = json.loads((folder / "dictionary.json").read_text())["tables"]
        assert [column["name"] for column in tables["Totals"]["columns"]] == header
        report = (vast_home / "releases" / "vast" / "0001" / "report.html").read_text()
        assert "What the eligible members have together" in report and "spent by sex" in report
        code, printed = deid_here(vast_home, "policy", "check", vast_home.parent / "policies" / "vast.yaml")
        assert code == 0 and "the sum of spent, also by sex, with noise as many times wider" in unwrapped(printed)

    def test_the_report_says_how_many_nodes_there_are(self, vast_home):
        report = (vast_home / "releases" / "vast" / "0001" / "report.html").read_text()
        assert "The policy allows 2,592,000 generalizations." in report
        assert "one that was not measured may lose less by up to" in report

    def test_a_pinned_generalization_is_chosen_again(self, vast_home, tmp_path):
        written(tmp_path, changed(VAST, releases={"generalization": "pinned"}))
        deid_here(vast_home, "run", "--policy", tmp_path / "vast.yaml", "--members", 3000, "--seed", 2)
        first = json.loads((vast_home / "releases" / "vast" / "0001" / "certificate.json").read_text())["chosen"]["node"]
        store = vast_home / "store" / "vast" / "synthetic-further-3000-2.duckdb"
        with duckdb.connect(str(store), read_only=True) as connection:
            levels = connection.sql("select level from generalization.chosen_generalization").fetchall()
            others = connection.sql("select distinct gate from generalization.passed_over_nodes").fetchall()
        assert [level for (level,) in levels] == first and (PINNED,) in others
