"""Intake of a flat table: files that stay inside the delivery, headers, and names of columns, on to the measured risk."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from deid_assets.assessments import record_risk
from deid_assets.assessments.attribute_disclosure import records_disclosure
from deid_assets.assessments.flat_table import population_records
from deid_assets.errors import DeliveryError
from deid_assets.methods.disclosure import attribute_disclosure
from deid_assets.methods.flat import queries
from deid_assets.methods.population import encoding
from deid_assets.methods.preparation.eligibility import NOBODY, OptedOut
from deid_assets.policy.domains import record_domains_of
from deid_assets.policy.flat import OWN_COLUMNS, FlatPolicy
from deid_assets.policy.loading import policy_from
from deid_assets.sources import csv_files, files, flat
from deid_assets.sources.delivery import Delivery
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

COLUMNS = {"a": "a", "b": "b"}


def records_in(folder: Path) -> Table:
    return Table(folder / "store.duckdb", "one", flat.RECORDS)


def read(tmp_path: Path, folder: Path, file: str | None, population: str | None = None, columns=COLUMNS) -> flat.FlatReport:
    layout = flat.FlatLayout(columns, {name: ["1", "2"] for name in columns}, file, population)
    return flat.read_flat_delivery(records_in(tmp_path / "store"), Delivery("one", "flat", (folder,)), layout)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "store").mkdir()
    for place in (tmp_path, tmp_path / "in"):
        (place / "people.csv").write_text("a,b\n1,2\n2,2\n")
    return tmp_path / "in"


class TestFilesStayInside:
    """The digest of a delivery covers what lies in its folder: any other file could change without a trace."""

    @pytest.mark.parametrize("file", ["../people.csv", "{}/people.csv"])
    @pytest.mark.parametrize("of", ["source", "population"])
    def test_a_file_elsewhere_is_refused(self, tmp_path, folder, file, of):
        named = file.format(tmp_path)
        names = (named, None) if of == "source" else ("people.csv", named)
        with pytest.raises(DeliveryError, match="is outside the delivery's folder"):
            read(tmp_path, folder, *names)

    def test_files_in_folders_inside_are_read(self, tmp_path, folder):
        (folder / "below").mkdir()
        (folder / "people.csv").rename(folder / "below" / "people.csv")
        read_both = read(tmp_path, folder, "below/people.csv", "below/people.csv")
        assert read_both.rows_kept == {"records": 2, "population_records": 2}

    @pytest.mark.parametrize("link", ["link.csv", "below"])
    def test_a_link_is_refused_wherever_it_leads(self, tmp_path, folder, link):
        (folder / link).symlink_to(tmp_path if link == "below" else folder / "people.csv")
        with pytest.raises(DeliveryError, match=f"{link}: a symbolic link, which is not followed"):
            read(tmp_path, folder, "people.csv")


def test_a_file_that_is_damaged_where_its_rows_are_is_named(tmp_path, folder):
    """A Parquet file is read only where its rows are used: long after its header and its columns were found to be right."""
    rows = 20_000
    values = [str(1 + number * number % 7) for number in range(rows)]
    pd.DataFrame({"a": values, "b": values}).to_parquet(folder / "people.parquet", compression=None, use_dictionary=False)
    content = bytearray((folder / "people.parquet").read_bytes())
    content[1_000:60_000] = b"\xff" * 59_000
    (folder / "people.parquet").write_bytes(content)
    with pytest.raises(DeliveryError, match=r"^people\.parquet: unreadable file: damaged, so it cannot be read to its end$"):
        read(tmp_path, folder, "people.parquet")


class TestPersons:
    """Noise that hides one record hides nobody who has several."""

    def read(self, tmp_path, folder, rows: str, at_most: int, quarantine: float = 0.0, opted_out=NOBODY) -> flat.FlatReport:
        (folder / "people.csv").write_text("a,b,who\n" + rows)
        persons = flat.Persons("who", at_most, opted_out)
        layout = flat.FlatLayout(
            COLUMNS, {name: ["1", "2"] for name in COLUMNS}, "people.csv", quarantine_at_most=quarantine, persons=persons
        )
        return flat.read_flat_delivery(records_in(tmp_path / "store"), Delivery("one", "flat", (folder,)), layout)

    def test_a_person_with_more_records_is_refused_without_a_name(self, tmp_path, folder):
        with pytest.raises(DeliveryError, match="column who: 3 records belonging to persons who have more than 2") as caught:
            self.read(tmp_path, folder, "1,1,Ann\n2,2,Ann\n1,2,Ann\n1,1,Bob\n", 2)
        assert "Ann" not in str(caught.value)

    def test_records_in_quarantine_count_too(self, tmp_path, folder):
        with pytest.raises(DeliveryError, match="2 records belonging to persons who have more than 1"):
            self.read(tmp_path, folder, "1,1,Ann\n9,2,Ann\n1,1,Bob\n", 1, quarantine=0.5)

    def test_a_record_of_nobody_goes_to_quarantine(self, tmp_path, folder):
        found = self.read(tmp_path, folder, "1,1,Ann\n2,2,\n1,1,Bob\n", 1, quarantine=0.5)
        assert found.quarantined == {("records", "who", "missing person"): 1} and found.rows_kept == {"records": 2}

    @pytest.mark.parametrize("person", ["Bob\t", "\u200bBob", "B\x00b", "Bob\u2028", "A\u00a0n", "Bo\u0301b"])
    def test_a_record_whose_identifier_only_looks_like_that_of_another_goes_to_quarantine(self, tmp_path, folder, person):
        found = self.read(tmp_path, folder, f"1,1,Ann\n2,2,{person}\n1,1,Bob\n", 1, quarantine=0.5)
        assert found.quarantined == {("records", "who", files.UNSEEN): 1} and found.rows_kept == {"records": 2}

    def test_an_accent_is_part_of_an_identifier_as_one_character_with_its_letter(self, tmp_path, folder):
        found = self.read(tmp_path, folder, "1,1,Jos\u00e9\n2,2,Ann B\n1,1,\u65e5\u672c\n", 1)
        assert not found.quarantined and found.rows_kept == {"records": 3}

    def test_blanks_around_an_identifier_make_nobody_another_person(self, tmp_path, folder):
        """As another program pads it: the person would not be found again in the next delivery, or be counted twice in one."""
        with pytest.raises(DeliveryError, match="2 records belonging to persons who have more than 1"):
            self.read(tmp_path, folder, "1,1,Ann\n2,2,Ann  \n1,1,Bob\n", 1)
        rows = "1,1,Ann\n2,2, Ann\n1,1,Bob  \n2,1,Cid\n2,2,   \n"
        found = self.read(tmp_path, folder, rows, 2, quarantine=0.5, opted_out=OptedOut(("Bob",), 1.0))
        assert found.quarantined == {("records", "who", "missing person"): 1, ("records", "who", "opted out"): 1}
        assert found.left_out.people == ("Bob",) and not found.left_out.problems
        records = Table(tmp_path / "store" / "store.duckdb", "one", "records")
        assert records.frame()["_person"].tolist() == ["Ann", "Ann", "Cid"]

    def test_the_person_is_stored_under_a_name_that_no_released_column_has(self, tmp_path, folder):
        self.read(tmp_path, folder, "1,1,Ann\n2,2,Ann\n", 2)
        records = Table(tmp_path / "store" / "store.duckdb", "one", "records")
        assert set(records.columns()) == {"record", "a", "b", "_person"} and records.frame()["_person"].tolist() == ["Ann"] * 2

    def test_records_of_people_who_opted_out_are_left_out_and_break_no_rule(self, tmp_path, folder):
        """However small a share of unusable rows the policy allows."""
        rows = "1,1,Ann\n2,2,Bob\n9,1,Ann\n2,1,Cid\n2,2,Dan\n"
        found = self.read(tmp_path, folder, rows, 2, opted_out=OptedOut(("Ann",), 1.0, ("Cid", "somebody else")))
        assert found.rows_read == {"records": 5} and found.rows_kept == {"records": 2}
        assert found.quarantined == {("records", "who", "opted out"): 3}
        assert (
            found.left_out.people == ("Ann", "Cid")
            and not found.left_out.problems
            and "Ann" not in repr(found) + str(found.metadata())
        )
        store = tmp_path / "store" / "store.duckdb"
        assert Table(store, "one", "records").frame()[["a", "b"]].to_numpy().tolist() == [["2", "2"], ["2", "2"]]
        assert queries.quarantined(Table(store, "one", "quarantined_records"), "records", flat.OPTED_OUT) == (0, 3)

    @pytest.mark.parametrize(
        ("opted_out", "says"),
        [
            (OptedOut(withdrawn=("ann",)), "the home's list of opt-outs: among 1 identifiers listed are some that match no"),
            (OptedOut(("Ann", "X1", "X2"), 0.5), "of 3 identifiers listed fewer than the share 0.5"),
        ],
    )
    def test_a_list_that_may_be_spelled_otherwise_is_a_problem(self, tmp_path, folder, opted_out, says):
        (problem,) = self.read(tmp_path, folder, "1,1,Ann\n2,2,Bob\n", 1, opted_out=opted_out).left_out.problems
        assert problem.startswith("column who: ") and says in problem
        assert "nn" not in problem.replace("cannot", "")

    def test_nobody_is_left_if_everybody_opted_out(self, tmp_path, folder):
        with pytest.raises(DeliveryError, match="column who: 2 rows: opted out"):
            self.read(tmp_path, folder, "1,1,Ann\n2,2,Bob\n", 1, opted_out=OptedOut(withdrawn=("Ann", "Bob")))


class TestHeader:
    def test_a_byte_of_a_later_line_is_not_the_header(self, tmp_path, folder):
        (folder / "people.csv").write_bytes(b"a,b\n1,2\n2,\xff\n")
        with pytest.raises(DeliveryError) as refused:
            read(tmp_path, folder, "people.csv")
        assert "not UTF-8" in str(refused.value) and "header" not in str(refused.value)

    @pytest.mark.parametrize("header", [b"a,\xff,b\n", b"a,b\xe4\r\n", b"\xff\xfea\x00,\x00b\x00\n\x00"])
    def test_a_byte_of_the_first_line_is(self, tmp_path, folder, header):
        (folder / "people.csv").write_bytes(header + b"1,2,2\n")
        with pytest.raises(DeliveryError, match="the first line is not a header in UTF-8"):
            read(tmp_path, folder, "people.csv")

    def test_the_mark_of_the_encoding_is_no_part_of_a_name(self, tmp_path, folder):
        (folder / "people.csv").write_bytes(b'\xef\xbb\xbfa,"b, c"\r\n1,2\r\n')
        assert read(tmp_path, folder, "people.csv", columns={"a": "a", "b": "b, c"}).rows_kept == {"records": 1}


MODULES = (attribute_disclosure, encoding, files, flat, queries, record_risk, csv_files)
AT_ONCE = 16


def words_of(module: ModuleType) -> set[str]:
    """Words in the statements of a module: in its texts that are no docstrings."""
    tree = ast.parse(Path(module.__file__).read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]
    statements = [text for text in texts if re.search(r"\b[A-Z]{2,}\b", text)]
    return {word.lower() for text in statements for word in re.findall(r"[A-Za-z]\w*", text)}


WORDS = sorted(
    set().union(*map(words_of, MODULES)) | {"d", "p", "r", "t", "d0", "d1", "c0", "c1", "select", "order", "value", "place"}
)
"""Whatever the statements name: any of them may be the name of a column."""


def policy_with(quasi_identifiers: tuple[str, ...], attributes: tuple[str, ...]) -> FlatPolicy:
    return policy_from(
        changed(
            FLAT,
            population={"file": "everyone.csv"},
            quasi_identifiers=[{"column": f"{name}!", "release_as": name, "hierarchy": "sex"} for name in quasi_identifiers],
            attributes=[{"column": f"{name}!", "release_as": name} for name in attributes],
            risk={"k": 3, "max_suppressed": 0.2},
        )
    )


def write_rows(file: Path, names: list[str], rows: list[str]) -> None:
    file.write_text("\n".join([",".join(f"{name}!" for name in names), *(",".join([sex] * len(names)) for sex in rows)]) + "\n")


def goes_through(root: Path, policy: FlatPolicy) -> None:
    """From intake to the measured risk, on three records of which one is alone in the population."""
    folder = root / "in"
    folder.mkdir(parents=True)
    names, own = [column.release_as for column in policy.columns], [qi.release_as for qi in policy.quasi_identifiers]
    write_rows(folder / "people.csv", names, ["F", "F", "M"])
    write_rows(folder / "everyone.csv", own, ["F", "F", "M"])
    store = root / "store.duckdb"
    columns = {column.release_as: column.column for column in policy.columns}
    layout = flat.FlatLayout(columns, {name: ["F", "M"] for name in own}, "people.csv", "everyone.csv")
    flat.read_flat_delivery(Table(store, "one", flat.RECORDS), Delivery("one", "flat", (folder,)), layout)
    records, domains, suppressed, released = (
        Table(store, "one", name) for name in (flat.RECORDS, "record_domains", "suppressed_records", "release_records")
    )
    write_table(domains, record_domains_of(policy, records, population_records(policy, records)))
    assert encoding.record_codes(records, domains, own).tolist() == [[0] * len(own)] * 2 + [[1] * len(own)]
    levels = dict.fromkeys(own, 0)
    population = Table(store, "one", flat.POPULATION)
    write_table(suppressed, queries.small_records(records, population, domains, levels, 2))
    assert suppressed.frame()["record"].tolist() == [3]
    others = [column.release_as for column in policy.attributes]
    write_table(released, queries.released_rows(records, suppressed, domains, levels, others))
    assert released.frame().to_numpy().tolist() == [["F"] * len(names)] * 2
    measured = {found.name: found.value for found in record_risk.measured_risk(policy, released, records, domains, levels)}
    assert sorted(measured.values()) == [0, pytest.approx(1 / 3), 2]
    for column in others:
        assert records_disclosure(policy, column, released).tells_nothing, "all who are released have the same"


def test_words_of_the_statements_are_among_the_names():
    assert {"rows", "class_size", "row_key", "class", "members", "beyond", "label", "source_table"} <= set(WORDS)


@pytest.mark.parametrize(
    ("swap", "most"), [(False, 1), *(pytest.param(swap, None, marks=pytest.mark.matrix) for swap in (False, True))]
)
def test_a_column_may_have_any_name_that_the_policy_accepts(tmp_path, swap, most):
    accepted = [word for word in WORDS if word not in OWN_COLUMNS]
    batches = -(-len(accepted) // AT_ONCE)
    for number in range(batches)[:most]:
        names = tuple(accepted[number::batches])
        half = len(names) // 2
        listed = (names[half:], names[:half]) if swap else (names[:half], names[half:])
        goes_through(tmp_path / str(number), policy_with(*listed))
