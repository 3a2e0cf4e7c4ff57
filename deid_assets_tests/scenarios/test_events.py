"""Claims and fills of drugs: another table of events is measured, cut, released and traced like the claims."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import yaml

from deid_assets.errors import PolicyError
from deid_assets.methods.lattice.diagnosis import PolicyChange
from deid_assets.policy.changes import changed_sections
from deid_assets.policy.loading import SHIPPED, load_policy, policy_from, with_sections
from deid_assets.policy.upgrade import upgraded
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.fills_delivery import DRUGS, FILLS, SENSITIVE, TABLE_OF_DRUGS, delivery_with_fills
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy

MEMBERS = 4_000


def written(folder: Path, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "drugs.csv").write_text(TABLE_OF_DRUGS)
    return write_policy(folder, changed(FILLS, **changes))


def refusal(folder: Path, **changes) -> str:
    with pytest.raises(PolicyError) as refused:
        written(folder, **changes)
    return str(refused.value)


def of_events(**changes):
    """The source's other tables, with changes of the one of fills."""
    return {"fills": FILLS["source"]["events"]["fills"] | changes}


class TestPolicy:
    def test_each_table_has_its_columns(self, tmp_path):
        policy = written(tmp_path)
        assert policy.event_tables == ("claims", "fills")
        assert policy.claim_columns_of("claims") == ("place",) and policy.claim_columns_of("fills") == ("drug",)
        assert policy.pattern_of_care[-2:] == ("drug", "event_table") and "supply" not in policy.pattern_of_care

    def test_format_2_says_the_same(self, tmp_path):
        before = written(tmp_path)
        text = upgraded((tmp_path / "fills.yaml").read_text())
        (tmp_path / "fills.yaml").write_text(text)
        after = load_policy(tmp_path / "fills.yaml")
        assert "same_as: claims.provider_id" in text and after.hash == before.hash

    def test_who_is_another_provider_is_said_in_format_2(self, tmp_path):
        written(tmp_path)
        text = upgraded((tmp_path / "fills.yaml").read_text()).replace(
            "same_as: claims.provider_id", "same_as: claims.vendor_id"
        )
        (tmp_path / "fills.yaml").write_text(text)
        with pytest.raises(PolicyError, match=r"can be claims\.provider_id"):
            load_policy(tmp_path / "fills.yaml")

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"source__events": of_events(columns={"member_id": "member"})}, "one of service_date, year must be mapped"),
            ({"source__events": of_events(same_as_claims=["vendor_id"])}, "vendor_id is not mapped"),
            ({"source__events": {"drugs": of_events()["fills"]}}, "no table of the source"),
            ({"source__events": {"drugs": of_events()["fills"]}}, "has no quasi-identifier"),
            ({"source__events": {"fills_2": of_events()["fills"]}}, "source.events.fills_2"),
            ({"source__events": {"attrition": of_events()["fills"]}}, "would have the name of another"),
            (
                {"quasi_identifiers__claims": FILLS["quasi_identifiers"]["claims"][::-1]},
                "list the columns table by table, in this order: claims, fills",
            ),
            ({"quasi_identifiers__claims": FILLS["quasi_identifiers"]["claims"][1:]}, "none is of claims"),
            (
                {"columns__claims": {"event_table": FILLS["columns"]["fills"]["supply"]}},
                "the store already has a column event_table",
            ),
            ({"columns__fills": {"drug": FILLS["columns"]["fills"]["drug"] | {"kind": "text"}}}, "columns.fills.drug"),
            (
                {"columns__fills": FILLS["columns"]["fills"] | {"place": FILLS["columns"]["fills"]["supply"]}},
                "the store already has a column place",
            ),
            (
                {"columns__fills": FILLS["columns"]["fills"] | {"who": {"kind": "text", "from": "prescriber", "meaning": "x"}}},
                "is provider_id, which only a pseudonym",
            ),
            (
                {
                    "columns__fills": {
                        "drug": {"kind": "text", "from": "ndc", "meaning": "code"},
                        "supply": FILLS["columns"]["fills"]["supply"],
                    },
                    "hierarchies__drug": {"kind": "prefixes", "lengths": [None, 0]},
                },
                "declares none of fills",
            ),
        ],
    )  # fmt: skip
    def test_what_cannot_work_is_refused_where_it_is_written(self, tmp_path, changes, said):
        assert said in refusal(tmp_path, **changes)

    def test_a_refusal_can_offer_to_leave_the_table_out(self, tmp_path):
        policy = written(tmp_path)
        after = with_sections(policy, **yaml.safe_load(changed_sections(policy, PolicyChange(("drug",)))))
        assert after.event_tables == ("claims",) and not after.attributes and not after.reviewed_attributes
        assert list(after.claim_names) == ["place"] and "fills" not in after.content("columns").get("columns", {})

    def test_prescriptions_of_desynpuf_are_such_a_table(self, tmp_path):
        (tmp_path / "drugs.csv").write_text(TABLE_OF_DRUGS)
        text = (SHIPPED / "desynpuf.yaml").read_text()
        values = yaml.safe_load(
            text.replace("source: {kind: desynpuf,", "source: {kind: desynpuf, events: {prescriptions: {}},")
        )
        drug = {"kind": "ndc", "from": "PROD_SRVC_ID", "file": "drugs.csv", "meaning": "kind of drug"}
        drug |= {"role": "quasi_identifier", "hierarchy": "drug", "release_as": "Drug"}
        values["columns"]["prescriptions"] = {"drug": drug}
        values["dimensions"].append({"name": "drug", "columns": ["drug"]})
        values["hierarchies"]["drug"] = {"kind": "prefixes", "lengths": [None, 0]}
        policy = policy_from(values, tmp_path)
        assert policy.event_tables == ("claims", "prescriptions") and policy.listed_columns_of_events == {
            "prescriptions": ("drug",)
        }
        with pytest.raises(PolicyError, match="has no quasi-identifier"):
            policy_from(yaml.safe_load(text) | {"source": {"kind": "desynpuf", "events": {"prescriptions": {}}}}, tmp_path)

    def test_a_table_without_codes_says_so(self, tmp_path):
        columns = {"dose": {"kind": "text", "from": "days", "meaning": "dose"}, "supply": FILLS["columns"]["fills"]["supply"]}
        listed = [FILLS["quasi_identifiers"]["claims"][0], {"column": "dose", "release_as": "Dose", "hierarchy": "dose"}]
        policy = written(
            tmp_path,
            source__events=of_events(without_codes="Doses tell nothing of what they are doses of."),
            columns__fills=columns,
            quasi_identifiers__claims=listed,
            hierarchies__dose={"kind": "prefixes", "lengths": [None, 0]},
            dimensions=[*FILLS["dimensions"][:-1], {"name": "dose", "columns": ["dose"]}],
        )
        assert policy.claim_columns_of("fills") == ("dose",)


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Iterator[tuple[Pipeline, Path, list[str]]]:
    """A home with a release of claims and fills, the delivery, and members with a sensitive or broken fill each."""
    root = tmp_path_factory.mktemp("fills")
    tables = delivery_with_fills(root, MEMBERS)
    with duckdb.connect() as connection:
        # Their claims are harmless: each has a fill of a drug that nobody else has, or one that breaks a rule.
        who = f"SELECT DISTINCT member FROM read_csv('{tables}/fills.csv', all_varchar = true) ORDER BY 1 LIMIT 40"
        planted = [row[0] for row in connection.execute(who).fetchall()]
        rows = [
            (member, "2008-03-04", "doctor", code)
            for member, (code, _) in zip(planted, [*SENSITIVE.values()] * 10, strict=False)
        ]
        rows += [(member, "not a day", "doctor", DRUGS["statin"]) for member in planted[20:]]
    with (tables / "fills.csv").open("a") as file:
        file.writelines(f"{','.join(row)},30\n" for row in rows)
    written(root / "policies")
    code, printed = deid_here(root / "home", "run", "--policy", root / "policies" / "fills.yaml", "--delivery", tables)
    assert code == PUBLISHED, printed
    with pipeline_in(root / "home", "fills") as pipeline:
        yield pipeline, tables, planted


def data(pipeline: Pipeline, table: str) -> str:
    """A published table, as SQL."""
    return f"read_csv('{pipeline.home.releases / 'fills' / '0001' / 'data' / table}.csv', all_varchar = true)"


def test_each_table_of_events_has_a_file_of_its_columns(released):
    pipeline, _, _ = released
    columns = [duckdb.sql(f"FROM {data(pipeline, table)}").columns for table in ("Claims", "Fills")]
    assert columns[0] == ["MemberID", "ProviderID", "Vendor", "PCP", "Year", "PlaceSvc", "PayDelay", "CharlsonIndex", "SupLOS"]
    assert columns[1] == ["MemberID", "ProviderID", "Year", "DrugGroup", "DaysOfSupply"]
    told = json.loads((pipeline.home.releases / "fills" / "0001" / "data" / "dictionary.json").read_text())["tables"]
    assert [one["name"] for one in told["Fills"]["columns"]] == columns[1]


def test_the_fills_are_the_delivered_ones_at_the_released_level_and_below_the_cut(released):
    """Counted again from the delivery: nothing is added, every row is somebody's, and only the long tail is cut."""
    pipeline, tables, _ = released
    store = pipeline.store_file("tables")
    groups = ", ".join(f"('{code}', '{group}')" for group, code in DRUGS.items())
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{store}' AS s (READ_ONLY)")
        shown = f"SELECT MemberID AS who, Year AS y, DaysOfSupply AS days, DrugGroup AS grp FROM {data(pipeline, 'Fills')}"
        connection.execute(f"CREATE TABLE shown AS {shown}")
        coarse = connection.execute("SELECT max(grp) = 'any' FROM shown").fetchall()[0][0]
        # Those of newborns are left out, as their claims are.
        connection.execute(
            f"""CREATE TABLE delivered AS
                SELECT x.pseudonym::VARCHAR AS who, 'Y' || (year(f.filled) - 2006) AS y, f.days,
                    {"'any'" if coarse else "g.grp"} AS grp
                FROM (SELECT * REPLACE (try_strptime(filled, '%Y-%m-%d')::DATE AS filled)
                      FROM read_csv('{tables}/fills.csv', all_varchar = true)) AS f
                JOIN read_csv('{tables}/members.csv', all_varchar = true) AS m ON m.id = f.member
                JOIN s.preparation.pseudonym_crosswalk AS x ON x.kind = 'member' AND x.original_id = f.member
                JOIN (VALUES {groups}) AS g(code, grp) ON g.code = f.ndc
                WHERE f.filled - m.born::DATE > 28"""
        )
        assert connection.execute("SELECT count(*) FROM (FROM shown EXCEPT ALL FROM delivered)").fetchall() == [(0,)]
        cut, to_the_cap = connection.execute(
            """WITH d AS (SELECT who, y, count(*) AS n FROM delivered WHERE who IN (SELECT who FROM shown) GROUP BY ALL),
                k AS (SELECT who, y, count(*) AS n FROM shown GROUP BY ALL)
            SELECT count_if(coalesce(k.n, 0) < d.n), count_if(k.n < d.n AND k.n = (SELECT max(n) FROM k))
            FROM d LEFT JOIN k USING (who, y)"""
        ).fetchall()[0]
        assert cut == to_the_cap, "fills are cut to the cap of fills, and only above it"


def test_a_prescriber_who_gives_care_has_one_pseudonym(released):
    pipeline, _, _ = released
    ids = duckdb.sql(f"SELECT DISTINCT ProviderID FROM {data(pipeline, 'Fills')} WHERE ProviderID IS NOT NULL")
    kinds = pipeline.table("tables", "pseudonym_crosswalk").frame()
    providers = set(kinds.loc[kinds["kind"] == "provider", "original_id"])
    assert ids.aggregate("count(*) > 0").fetchall() == [(True,)]
    assert not [one for one in providers if one.startswith("fills")], "prescribers are the providers of claims"


def test_nobody_is_released_with_a_sensitive_or_unreadable_fill(released):
    """HIV, or treatment of addiction, that shows in fills alone removes the person as a diagnosis does."""
    pipeline, _, planted = released
    removed = pipeline.table("tables", "removed_members").frame().groupby("member_id")["sensitive"].any()
    assert set(planted) <= set(removed.index)
    assert all(removed[member] for member in planted[:20]), "they are removed for their codes"
    crosswalk = pipeline.table("tables", "pseudonym_crosswalk").frame()
    theirs = crosswalk.loc[(crosswalk["kind"] == "member") & crosswalk["original_id"].isin(planted), "pseudonym"].astype(str)
    for table in ("Members", "Claims", "Fills"):
        shown = {row[0] for row in duckdb.sql(f"SELECT DISTINCT MemberID FROM {data(pipeline, table)}").fetchall()}
        assert not shown & set(theirs) and len(shown) > 300


def test_how_many_rows_members_have_of_each_table_is_reported(released):
    pipeline, _, _ = released
    manifest = json.loads((pipeline.home.releases / "fills" / "0001" / "manifest.json").read_text())
    (measured,) = [item["measurements"] for item in manifest["evidence"] if item["asset"] == "demographic_risk"]
    told = {found["name"]: found["gating"] for found in measured if found["name"].startswith("number_of_")}
    assert told == {f"number_of_{events}_high_risk_share": False for events in ("claims", "fills", "all_events")}
    report = (pipeline.home.releases / "fills" / "0001" / "report.html").read_text()
    assert "number of claims or of fills or of events. The share of released members" in " ".join(report.split())


def test_the_release_is_verified_audited_and_accounted_for(released):
    pipeline, _, _ = released
    root = pipeline.home.root
    assert deid_here(root, "key", "export", "--output", root.parent / "key.pem")[0] == 0
    assert deid_here(root, "verify", root / "releases" / "fills" / "0001", "--key", root.parent / "key.pem")[0] == 0
    assert deid_here(root, "audit", "fills/0001")[0] == 0
    audit = json.loads((root / "store" / "manifests" / "fills" / "0001.audit.json").read_text())
    traced = {(one["table"], one["column"]): one["delivered"] for one in audit["columns"]}
    assert traced["Fills", "DrugGroup"] == ["fills.ndc"] and traced["Fills", "DaysOfSupply"] == ["fills.days"]
    assert traced["Fills", "ProviderID"] == ["claims.provider", "fills.prescriber"]
    ledger = pipeline.table("tables", "why_ledger").frame()
    rows = ledger[(ledger["source_table"] == "fills") & (ledger["source_column"] == "")].sort_values("place")
    shown = duckdb.sql(f"SELECT count(*) FROM {data(pipeline, 'Fills')}").fetchall()[0][0]
    assert int(rows["remaining"].iloc[-1]) == shown and int(rows.loc[rows["step"] == "intake", "lost"].iloc[0]) == 20
