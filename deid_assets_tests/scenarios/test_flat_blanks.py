"""Blank cells of a flat table: alone they refuse it, and where the policy says so they are in the class of everything."""

import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from deid_assets.assessments.flat_table import flat_table
from deid_assets.errors import PUBLISHED, REFUSED, DeliveryError, PolicyError
from deid_assets.methods.flat import queries
from deid_assets.policy.domains import record_domains_of
from deid_assets.policy.files import Folder, read_rows
from deid_assets.policy.loading import policy_from
from deid_assets.release.registry.chain import NoiseCharge
from deid_assets.reports.plain_words import explain
from deid_assets.sources import flat
from deid_assets.sources.delivery import Delivery
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, KEY, people, released_rows, run_flat, write_people
from deid_assets_tests.sources.deliveries import write_parquet

FEW = changed(FLAT, risk={"k": 7, "max_suppressed": 0.005})
"""Six blanks of 600 are more than the three records that may be left out, and fewer than the seven that hide each other."""


def joining(policy: dict, level: str | None, column: str = "town") -> dict:
    hierarchies = policy["hierarchies"]
    return changed(policy, hierarchies=hierarchies | {column: hierarchies[column] | {"missing_joins": level}})


def with_six_blanks() -> list[list[str]]:
    rows = [["town 1" if not row[0] else row[0], *row[1:]] for row in people()]
    for row in rows[:600:100]:
        row[0] = ""
    return rows


@pytest.mark.matrix
def test_six_blanks_refuse_a_table_by_name_and_the_remedy_that_is_told_publishes_it(fresh, tmp_path):
    summary = run_flat(fresh, write_people(tmp_path / "in", with_six_blanks()), FEW)
    reasons = " ".join(summary.reasons)
    assert summary.exit_code == REFUSED, summary
    told = r"In the columns home town \(about (-?\d+)\) blanks are classes of their own, also at the coarsest level: "
    found = re.search(told, reasons)
    assert found and abs(int(found[1]) - 6) < 25, "a noisy count stays visible, however small it is"
    assert any(isinstance(line, NoiseCharge) for line in fresh.registry.chain().lines)
    assert "`missing_joins: LEVEL`" in reasons and " 6 " not in reasons
    write_policy(fresh.home.policies, joining(FEW, "any"))
    summary = fresh.run(KEY)
    assert summary.exit_code == PUBLISHED, summary
    rows = released_rows(fresh.home.root)
    assert len(rows) >= 597 and {row["Town"] for row in rows} == {"*"}
    assert min(Counter((row["Town"], row["Age"], row["Sex"]) for row in rows).values()) >= 7


@pytest.mark.matrix
@pytest.mark.parametrize("joined", [None, "any"])
def test_search_store_and_brute_force_count_the_same_classes(tmp_path, joined):
    policy = policy_from(joining(joining(FLAT, joined), joined, "age"))
    rows = [[row[0], "" if number % 31 == 0 else row[1], *row[2:]] for number, row in enumerate(people(240))]
    store = tmp_path / "store.duckdb"
    layout = flat.FlatLayout({column.release_as: column.column for column in policy.columns}, {}, "people.csv")
    delivery = Delivery("one", "flat", (write_people(tmp_path / "in", rows),))
    flat.read_flat_delivery(Table(store, "one", flat.RECORDS), delivery, layout)
    records, domains = Table(store, "one", flat.RECORDS), Table(store, "one", "record_domains")
    write_table(domains, record_domains_of(policy, records, None))
    table = flat_table(policy, records, domains)
    names = [qi.release_as for qi in policy.quasi_identifiers]
    hierarchies = [policy.hierarchy_of(name) for name in names]
    for node in product(*(range(hierarchy.levels) for hierarchy in hierarchies)):
        labels = [
            tuple(
                (hierarchy.missing_label(level) if not value else str(hierarchy.labels([value], level)[0]))
                for hierarchy, level, value in zip(hierarchies, node, row, strict=False)
            )
            for row in rows
        ]
        sizes = Counter(labels)
        small = [number for number, one in enumerate(labels, start=1) if sizes[one] < 7]
        levels = dict(zip(names, node, strict=True))
        found = records.query(queries.small_records(records, None, domains, levels, 7))["record"].tolist()
        assert found == small and table.classes_at(node).below(7) == len(small)
        shown = records.query(f"SELECT * FROM ({queries.generalized_records(records, domains, levels)}) ORDER BY record")
        assert [tuple(None if one != one else one for one in row) for row in shown[names].to_numpy(dtype=object)] == labels


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("district", "level 'district' has several classes; missing values can only join a level with one class"),
        ("towns", "missing_joins does not name a level; levels: town, district, any"),
    ],
)
def test_blanks_join_no_class_of_some_values(level, message):
    """Under the label of a district a blank would hide its people from nobody who knows that it is not of there."""
    with pytest.raises(PolicyError, match=message):
        policy_from(joining(FLAT, level))


def test_prefixes_and_files_may_take_blanks_in_too(tmp_path):
    (tmp_path / "town.csv").write_text("".join(f"town {n};district {n // 4};*\n" for n in range(12)))
    for spec, levels in (
        ({"kind": "prefixes", "lengths": [6, 2, 0], "missing_joins": "0 characters"}, 3),
        ({"kind": "csv", "file": "town.csv", "missing_joins": "level 2"}, 3),
    ):
        policy = policy_from(changed(FLAT, hierarchies=FLAT["hierarchies"] | {"town": spec}), folder=tmp_path)
        hierarchy = policy.hierarchy_of("Town")
        assert [hierarchy.missing_label(level) for level in range(levels)] == [None, None, "*"]
        assert "on, a missing value joins a class" in explain(policy)


@pytest.mark.parametrize(("sign", "shown"), [(",", "','"), ("\t", "tab")])
def test_a_hierarchy_with_another_separator_is_refused(tmp_path, sign, shown):
    (tmp_path / "town.csv").write_text(sign.join(["a", "b", "*"]) + "\n" + sign.join(["c", "b", "*"]) + "\n")
    with pytest.raises(ValueError, match=f"has one column, and a {shown} in each of its 2 rows"):
        read_rows(Folder(tmp_path), "town.csv")


ALLOWED = [str(number) for number in range(20, 30)]


def refused(tmp_path: Path, table: str, **options) -> str:
    folder = tmp_path / "in"
    folder.mkdir()
    write_parquet(folder / "people.parquet", f"SELECT * FROM (VALUES {table}) AS t(age)")
    layout = flat.FlatLayout({"Age": "age"}, {"Age": ALLOWED}, "people.parquet", **options)
    with pytest.raises(DeliveryError) as caught:
        flat.read_flat_delivery(
            Table(tmp_path / "store.duckdb", "one", flat.RECORDS), Delivery("one", "flat", (folder,)), layout
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("('20'), (' 21'), ('22 '), ('x')",
         "2 match without surrounding blanks: trim them in the delivery; 1 like  99, 1 like 99 , 1 like A"),
        ("(20.0::DOUBLE), (21.0)",
         "2 match except for decimals that are 0 (the column has the type DOUBLE): deliver whole numbers, or text; 2 like "
         "99.9"),
        ("('F'), ('M')",
         "none of the 10 values of the hierarchy occurs in the column: does the hierarchy belong to another column?; 2 like A"),
        ("('20'), ('   ')", "1 consist of white space: a missing value is an empty field; 1 like    "),
    ],
)  # fmt: skip
def test_a_value_outside_the_hierarchy_comes_with_what_would_put_it_inside(tmp_path, table, hint):
    assert f"value outside the hierarchy ({hint})" in refused(tmp_path, table)


def test_a_hierarchy_file_of_one_column_is_named(tmp_path):
    said = refused(tmp_path, "('x')", one_column=["Age"])
    assert "the file of the hierarchy has one column: semicolons must separate the value from its labels" in said
