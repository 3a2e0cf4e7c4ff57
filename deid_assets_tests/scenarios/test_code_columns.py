"""A sensitive drug, bill or clinic in a declared column removes its member exactly as the diagnosis does."""

from pathlib import Path

import duckdb

from deid_assets.reference.tables import read_table
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic
from deid_assets_tests.stages import STAGES

SETS = ("hiv", "substance_use", "reproductive", "mental_health")
LISTED = sorted({row["first"] for row in read_table("sensitive_codes.csv") if row["kind"] == "drug"})
NDC = {name: f"9{number:010}" for number, name in enumerate(LISTED)}
HARMLESS = "00093104801"
CODES = {
    "bill": {"0906": "substance use", "0114": "mental health", "1002": "substance use"},
    "supply": {"H0020": "substance use", "S0190": "reproductive", "G0432": "hiv", "J2426": "mental health"},
    "clinic": {"261QM2800X": "substance use", "2084P0800X": "mental health", "261QA0005X": "reproductive"},
}
UNREADABLE = {"bill": "0070", "supply": "W1234", "clinic": "unknown", "drug": "99999999999"}
OTHERS = {"bill": "450", "supply": "A0428", "clinic": "207Q00000X", "drug": HARMLESS}


def policy() -> dict:
    """The tables policy with four columns of codes, and sets that name drugs."""
    kinds = {"bill": "revenue_group", "supply": "hcpcs_letter", "clinic": "taxonomy_kind", "drug": "ndc"}
    columns = {name: {"kind": kind, "from": name, "meaning": f"kind of {name}"} for name, kind in kinds.items()}
    columns["drug"]["file"] = "drugs.csv"
    values = changed(
        TABLES,
        columns={"claims": columns},
        hierarchies__any_text={"kind": "prefixes", "lengths": [None, 0]},
        source__unknown_codes="blank",
        removal__code_list=None,
        removal__sets=list(SETS),
    )
    for name in columns:
        values["quasi_identifiers"]["claims"].append({"column": name, "release_as": name.capitalize(), "hierarchy": "any_text"})
        values["dimensions"].append({"name": name, "columns": [name]})
    return values


def delivered(folder: Path) -> tuple[Path, dict[str, str]]:
    """A delivery in which members have one sensitive or unreadable code each; returns it, and the members with their codes."""
    write_delivery(folder / "made", 2_500, 3)
    tables = tables_of_synthetic(folder / "made", folder / "tables")
    planted = [("drug", code) for code in NDC.values()]
    planted += [(column, code) for column, codes in CODES.items() for code in codes] + [*UNREADABLE.items()]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE claims AS SELECT * FROM read_csv('{tables}/claims.csv', all_varchar = true)")
        # Each has a claim without a sensitive code of another kind, and gets one in one of the columns.
        free = "SELECT min(no) FROM claims WHERE cpt BETWEEN '99200' AND '99300' AND day <> '' GROUP BY member ORDER BY 1"
        claims = [row[0] for row in connection.execute(free).fetchall()][: len(planted)]
        rows = [(claim, column, code) for claim, (column, code) in zip(claims, planted, strict=True)]
        connection.execute("CREATE TABLE planted (claim VARCHAR, col VARCHAR, code VARCHAR)")
        connection.executemany("INSERT INTO planted VALUES (?, ?, ?)", rows)
        columns = ", ".join(
            f"coalesce((SELECT code FROM planted WHERE claim = no AND col = '{name}'), '{other}') AS {name}"
            for name, other in OTHERS.items()
        )
        connection.execute(f"COPY (SELECT *, {columns} FROM claims) TO '{tables}/claims.csv' (HEADER)")
        of_members = dict(connection.execute("SELECT member, code FROM planted JOIN claims ON claim = no").fetchall())
    assert len(of_members) == len(planted)
    return tables, of_members


def test_nobody_with_a_listed_or_unreadable_code_is_released(tmp_path):
    tables, planted = delivered(tmp_path)
    with pipeline_in(tmp_path / "deid", "tables") as pipeline:
        drugs = [f"{code};some;{name} hydrochloride\n" if name != "ritonavir" else f"{code};some;ritonavir\n"
                 for name, code in NDC.items()]  # fmt: skip
        pipeline.home.policies.mkdir(parents=True, exist_ok=True)
        (pipeline.home.policies / "drugs.csv").write_text("".join([*drugs, f"{HARMLESS};some;metformin\n"]))
        write_policy(pipeline.home.policies, policy())
        pipeline.register("d", "tables", tables)
        made = pipeline.run("d", [*STAGES["intake"], *STAGES["preparation"]], stages=False).rows
        assert {"released_sample", "grouped_claims", "rule_needs"} <= set(made)
        with duckdb.connect(pipeline.store_file("d"), read_only=True) as store:
            removed, sample, groups = (
                store.execute(f"SELECT {what}").fetchall()
                for what in (
                    "member_id, bool_or(sensitive) FROM preparation.removed_members GROUP BY 1",
                    "member_id FROM preparation.released_sample",
                    "count(DISTINCT bill), count(DISTINCT clinic) FROM preparation.grouped_claims",
                )
            )
    unreadable = {member for member, code in planted.items() if code in UNREADABLE.values()}
    reasons = dict(removed)
    assert set(planted) <= set(reasons) and not set(planted) & {row[0] for row in sample} and len(sample) > 300
    hidden = {planted[member] for member in set(planted) - unreadable if not reasons[member]}
    assert not hidden, "they are removed, but not for their codes"
    assert len(unreadable) == 4 and groups[0][0] > 1 and groups[0][1] > 1
