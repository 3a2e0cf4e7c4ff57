"""Policies in format 2 mean what they meant in the earlier form, errors are reported where they are, and comments stay."""

import io
import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deid_assets.command_line.main import main
from deid_assets.errors import PolicyError
from deid_assets.policy.form import ROLES, columns_of, earlier_form
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.loading import load_policy, policy_from, shipped_policies
from deid_assets.policy.upgrade import upgrade_file, upgraded
from deid_assets.policy.yaml_text import parse, to_yaml
from deid_assets.sources.delivery import DELIVERED_CLAIM_COLUMNS, MEMBER_COLUMNS
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import public_values

FLAT: dict[str, Any] = {
    "policy": "register",
    "kind": "flat",
    "title": "A register",
    "description": "One row per person.",
    "owners": ["team:privacy"],
    "recipients": {"recipient_class": "public", "terms_of_use": "No attempt at re-identification."},
    "source": {"kind": "flat", "person": "Who is it?"},
    "quasi_identifiers": [
        {"column": "2010", "release_as": "Y2010", "hierarchy": "cut"},
        {"column": "sex", "release_as": "Sex", "hierarchy": "cut"},
    ],
    "attributes": [{"column": "no", "release_as": "Answer"}],
    "risk": {"k": 5, "max_suppressed": 0.1, "loss": "entropy"},
    "hierarchies": {"cut": {"kind": "prefixes", "lengths": [None, 0]}},
}
TABLES = {
    "kind": "tables",
    "years": {"first": 2009},
    "members": {
        "file": "people.csv",
        "columns": {"member_id": "Person", "sex": "Gender", "birth_date": "Born"},
        "date_formats": {"birth_date": "%d/%m/%Y"},
    },
    "claims": {
        "columns": {
            "member_id": "Person", "provider_id": "Doctor", "service_date": "Day", "paid_date": "Paid", "place": "Where",
            "diagnosis_1": "Dx1", "pay_delay": "Delay",
        },
        "date_formats": {"paid_date": ["%Y-%m-%d", "%d.%m.%Y"]},
    },
}  # fmt: skip
MEANING = {"meaning": "what it is"}


def claims_values() -> dict[str, Any]:
    """A policy of claims with a column map, declared columns of both tables, and an attribute."""
    values = public_values(source=deepcopy(TABLES))
    values["columns"] = {
        "members": {
            "race": {"kind": "text", "from": "RACE", "translated": {"1": "White", "2": "Black"}, **MEANING},
            "spent": {"kind": "sum_of_claims", "from": "Amount", "to": 1, "at_most": 10_000, **MEANING},
        },
        "claims": {
            "amount": {"kind": "rounded", "from": "Amount", "to": 100, "at_most": 10_000, **MEANING},
            "plan": {"kind": "text", "from": "Plan", **MEANING},
        },
    }
    values["attributes"] = [{"column": "amount", "release_as": "Amount"}]
    values["counts"] = values.get("counts", {}) | {"totals": [{"column": "spent"}]}
    values["quasi_identifiers"]["members"].append({"column": "race", "release_as": "Race", "hierarchy": "few"})
    values["quasi_identifiers"]["claims"].insert(0, {"column": "plan", "release_as": "Plan", "hierarchy": "few"})
    values["hierarchies"]["few"] = {"kind": "prefixes", "lengths": [None, 0]}
    values["dimensions"] += [{"name": "race", "columns": ["race"]}, {"name": "plan", "columns": ["plan"]}]
    values["number_of_claims"]["reference"] |= {"race": "0 characters"}
    return values


def everything_of_a_cohort() -> dict[str, Any]:
    return cohort_values(
        columns__person={"column": "id", "release_as": "Person"},
        columns__age={"birth_date": "born", "reference": "2012-12-31"},
        columns__race=None,
        columns__date={"column": "admitted", "first": "2012-01-01", "last": "2012-12-31", "dated": 0.1},
        columns__date_format="%d/%m/%Y",
        demographics__levels={"date": "year"},
        attributes=[
            {"column": "race", "release_as": "Group"},
            {"column": "diagnosed", "release_as": "Diagnosed", "role": "date"},
        ],
    )


EARLIER = {
    "claims": claims_values,
    "the example": public_values,
    "flat": lambda: deepcopy(FLAT),
    "cohort": cohort_values,
    "whole cohort": everything_of_a_cohort,
}


def flow(values: dict[str, Any]) -> str:
    return to_yaml(values, width=10_000, in_flow=True)


def block(values: dict[str, Any]) -> str:
    return to_yaml(values)


def lines_of(values: dict[str, Any]) -> str:
    """Each section in one line."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())


def read(text: str) -> AnyPolicy:
    parsed = parse(text)
    assert not parsed.faults, parsed.faults
    return policy_from(parsed.values)


def with_columns(name: str) -> dict[str, Any]:
    """One of the policies in format 2, as values."""
    return deepcopy(parse(upgraded(block(EARLIER[name]()))).values)


def refusal(values: dict[str, Any]) -> str:
    with pytest.raises(PolicyError) as caught:
        policy_from(values)
    return str(caught.value)


class TestUpgrade:
    @pytest.mark.parametrize("write", [flow, block, lines_of])
    @pytest.mark.parametrize("name", EARLIER)
    def test_a_policy_means_what_it_meant(self, name, write):
        text = write(EARLIER[name]())
        before, after = read(text), read(upgraded(text))
        assert (after.hash, after.public_hash) == (before.hash, before.public_hash)
        assert parse(upgraded(text)).values["format"] == 2
        assert not {"quasi_identifiers", "attributes"} & set(parse(upgraded(text)).values)

    @pytest.mark.parametrize("file", shipped_policies(), ids=lambda file: file.stem)
    def test_what_ships_is_upgraded_already(self, file):
        with pytest.raises(PolicyError, match="in format 2 already"):
            upgraded(file.read_text())

    def test_comments_stay_with_their_columns(self):
        text = (
            block(FLAT)
            .replace("- column: sex", "# as delivered\n- column: sex  # F or M")
            .replace("kind: flat\nt", "kind: flat  # one\nt")
        )
        made = upgraded(f"# ours\n{text}# the end\n")
        assert made.startswith("# ours\nformat: 2\npolicy: register\nkind: flat  # one\n") and made.endswith("# the end\n")
        assert "    # as delivered\n    sex: {" in made
        assert any(line.startswith("    sex: {") and line.endswith("}  # F or M") for line in made.splitlines())

    def test_a_sign_in_quotes_begins_no_comment(self):
        text = block(FLAT).replace("- column: sex", '- column: "sex # 1"')
        assert '"sex # 1": {role: quasi_identifier, release_as: Sex, hierarchy: cut}\n' in upgraded(text)

    @given(st.data())
    def test_any_columns_in_any_order(self, data):
        """Whichever columns are mapped, declared, generalized or passed on, both forms are one policy."""
        if data.draw(st.booleans(), "flat"):
            names = data.draw(
                st.lists(
                    st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), min_size=1).filter(str.strip),
                    min_size=2,
                    max_size=6,
                    unique_by=str.lower,
                )
            )
            listed = [{"column": name, "release_as": f"R{number}"} for number, name in enumerate(names)]
            cut = data.draw(st.integers(1, len(names)))
            values = FLAT | {
                "quasi_identifiers": [one | {"hierarchy": "cut"} for one in listed[:cut]],
                "attributes": listed[cut:],
            }
            if data.draw(st.booleans(), "nobody is identified") or "who is it?" in map(str.lower, names):
                values["source"] = {"kind": "flat"}
        else:
            values = claims_values()
            for table in ("members", "claims"):
                values["quasi_identifiers"][table] = data.draw(st.permutations(values["quasi_identifiers"][table]))
            for table, possible in (("members", MEMBER_COLUMNS), ("claims", DELIVERED_CLAIM_COLUMNS)):
                own = values["source"][table]
                further = data.draw(st.lists(st.sampled_from(possible), unique=True))
                unlike = {name: f"Their {name}" for name in further if name not in ("admission_date", "discharge_date")}
                own["columns"] = dict(data.draw(st.permutations(list((unlike | own["columns"]).items()))))
        write = data.draw(st.sampled_from([flow, block, lines_of]))
        before, after = read(write(values)), read(upgraded(write(values)))
        assert after.hash == before.hash

    def test_roles_say_what_becomes_of_columns(self):
        roles = {(one.table, one.name): one.entry["role"] for one in columns_of(claims_values())}
        assert roles[("members", "member_id")] == roles[("claims", "provider_id")] == "pseudonym"
        assert roles[("members", "spent")] == roles[("members", "birth_date")] == roles[("claims", "diagnosis_1")] == "dropped"
        assert roles[("claims", "amount")] == roles[("claims", "pay_delay")] == "attribute"
        assert roles[("claims", "place")] == roles[("members", "race")] == roles[("claims", "plan")] == "quasi_identifier"
        assert set(roles.values()) | {"direct_identifier"} == set(ROLES)


SHOWN = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))
"""Text without control characters and separators of lines, which YAML changes."""


@given(st.dictionaries(SHOWN, st.lists(SHOWN | st.booleans() | st.integers() | st.none())))
@example({"months": ["08", "09", "0_8", "1:08", "0o8", "=", "off", "~", "2_0", ".5_", "<<", "1e3"], "08": []})
def test_values_are_read_as_they_were_written(values):
    for in_flow in (False, True):
        read_back = parse(to_yaml(values, in_flow=in_flow))
        assert not read_back.faults and read_back.values == values


class TestFile:
    def test_the_text_as_it_was_is_kept_and_as_private(self, tmp_path):
        file = tmp_path / "ours.yaml"
        file.write_text(block(FLAT))
        file.chmod(0o600)
        before = load_policy(file)
        kept = upgrade_file(file)
        assert load_policy(file).hash == load_policy(kept).hash == before.hash and kept.read_text() == block(FLAT)
        assert [path.stat().st_mode & 0o777 for path in (file, kept)] == [0o600, 0o600]
        assert sorted(os.listdir(tmp_path)) == ["ours.yaml", "ours.yaml.before"]

    def test_nothing_is_replaced_that_somebody_kept(self, tmp_path):
        file = tmp_path / "ours.yaml"
        file.write_text(block(FLAT))
        (tmp_path / "ours.yaml.before").write_text("mine")
        with pytest.raises(PolicyError, match=r"ours.yaml.before already exists"):
            upgrade_file(file)
        assert file.read_text() == block(FLAT) and (tmp_path / "ours.yaml.before").read_text() == "mine"
        assert sorted(os.listdir(tmp_path)) == ["ours.yaml", "ours.yaml.before"]

    def test_a_file_that_is_no_policy_stays_as_it_is(self, tmp_path):
        file = tmp_path / "ours.yaml"
        file.write_text(block(FLAT | {"risk": {"k": 1}}))
        with pytest.raises(PolicyError, match="risk"):
            upgrade_file(file)
        assert os.listdir(tmp_path) == ["ours.yaml"]

    def test_the_command_asks(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("ours.yaml").write_text(block(FLAT))
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(SystemExit) as asked:
            main(["policy", "upgrade", "ours.yaml"])
        assert asked.value.code and Path("ours.yaml").read_text() == block(FLAT)
        with pytest.raises(SystemExit) as done:
            main(["policy", "upgrade", "ours.yaml", "--yes"])
        assert not done.value.code and "format: 2" in Path("ours.yaml").read_text()


NULL = object()
"""Stands for null: None removes a key."""


class TestProblems:
    """Each is reported at the place in the text, never at that of the earlier form."""

    @pytest.mark.parametrize(
        ("name", "path", "value", "told"),
        [
            ("claims", "format", 3, "this version reads format 2"),
            ("claims", "diagnosis_codes", None, "is missing: icd9cm, icd10cm, by_date"),
            ("claims", "columns.members.sex.role", "quasi", "is not a role; roles: direct_identifier"),
            ("claims", "columns.members.sex.hierarchy", "sexes", "there is no hierarchy 'sexes'"),
            ("claims", "columns.members.sex.release_as", "1", "a column name consists of"),
            ("claims", "columns.members.sex.from", 5, ""),
            ("claims", "columns.members.sex.fro", "x", "unknown key; did you mean from?"),
            ("claims", "columns.members.member_id.role", "attribute", "this column can be pseudonym"),
            ("claims", "columns.members.birth_date.role", "quasi_identifier", "is missing"),
            ("claims", "columns.members.race.role", "dropped", "unknown key of a column with the role dropped"),
            ("claims", "columns.members.race.role", "attribute", "this column can be quasi_identifier or dropped"),
            ("claims", "columns.claims.plan.role", "dropped", "this column can be quasi_identifier or attribute"),
            ("claims", "columns.claims.amount.to", 300, "at_most must be a multiple of 300"),
            ("claims", "columns.claims.paid_date.date_formats", "%d", ""),
            ("claims", "columns.claims.flavor", {"role": "dropped"}, "no column that is known"),
            ("claims", "columns.claims.flavor", {"from": "F", "role": "dropped"}, "no column that is known"),
            ("claims", "columns.claims.cpt", {"role": "dropped"}, "is missing: name of the column in the delivery"),
            ("claims", "columns.claim", {}, "no table of this policy; did you mean claims?"),
            ("claims", "columns", 5, "is missing"),
            ("claims", "columns.members", [], "is not a table"),
            ("claims", "columns.members.sex", "F", "role: is missing"),
            ("claims", "quasi_identifiers", {}, "each entry is in columns.members or columns.claims, with its role"),
            ("claims", "source", {"kind": "synthetic"}, "only a source of kind tables needs `from`"),
            ("flat", "columns.records.sex.role", "pseudonym", "this column can be direct_identifier or quasi_identifier"),
            ("flat", "columns.records.sex.role", "direct_identifier", "unknown key"),
            ("flat", "columns.records.no.hierarchy", "cut", "unknown key"),
            ("flat", "columns.records.sex.from", "2010", "column 2010 is listed twice"),
            ("flat", "columns.records.also", {"role": "direct_identifier"}, "several columns are direct identifiers"),
            ("flat", "columns.records", {7: {"role": "attribute"}}, "the name of a column is text"),
            ("flat", "columns.records.Who is it?.from", NULL, "nothing (null) is not the name"),
            ("flat", "source.person", "sex", "only the entries in columns.records say this: as the role direct_identifier"),
            ("claims", "source.members.columns", {"sex": "Other"}, "only the entries in columns.members say this: as from"),
            ("claims", "source.claims.columns", NULL, "only the entries in columns.claims say this: as from"),
            ("claims", "source.claims.date_formats", {"paid_date": "%Y"}, "in columns.claims say this: as date_formats"),
            ("claims", "kind", ["flat"], ""),
            ("cohort", "columns.people.sex.column", "ssn", "this key is called from"),
            ("cohort", "columns.people.person.role", "pseudonym", "this column can be direct_identifier"),
            ("cohort", "columns.people.race.from", 5, ""),
            ("cohort", "columns.people.income", {"role": "quasi_identifier"}, "this column can be attribute"),
        ],
    )
    def test_is_told_where_it_is(self, name, path, value, told):
        values = with_columns(name)
        *parents, last = path.split(".")
        table = values
        for key in parents:
            table = table[key]
        if value is None:
            del table[last]
        else:
            table[last] = None if value is NULL else value
        found = refusal(values)
        assert told in found and path.rpartition(".")[0] in found

    def test_the_line_is_that_of_the_text(self, tmp_path):
        file = tmp_path / "ours.yaml"
        lines = upgraded(block(FLAT)).splitlines()
        (number,) = (number for number, line in enumerate(lines) if line.startswith("    sex:"))
        lines[number] = lines[number].replace("hierarchy: cut", "hierarchy: shear")
        file.write_text("\n".join(lines))
        with pytest.raises(
            PolicyError, match=rf"line {number + 1}, columns.records.sex.hierarchy: there is no hierarchy 'shear'"
        ):
            load_policy(file)

    def test_a_text_without_format_is_in_the_earlier_form(self):
        assert earlier_form(FLAT).values == FLAT
        assert "quasi_identifiers" in refusal({key: value for key, value in with_columns("flat").items() if key != "format"})
