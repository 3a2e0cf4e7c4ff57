"""The commands of the page on own data, run as they are printed, on small deliveries of the form that the page shows."""

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deid_assets.policy.loading import load_policy
from deid_assets.reference.groups import known_codes
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_own_files import write_files
from deid_assets_tests.test_docs import BLOCK, DOCS, blocks, example

PAGE = DOCS / "own-data.md"
PLAIN = blocks(PAGE, "")
PEOPLE = 400
DECIDED = {PUBLISHED, REFUSED}
"""A plan or a run for few people may refuse; what the page says must not be an error."""


def files_of_their_own(here: Path) -> None:
    """A folder of CSV files with other names."""
    write_delivery(here / "made", 600, 5, Contents(further=True, icd10cm=True))
    (here / "in").mkdir()
    write_files(here / "in" / "2012-04", here / "made")


def nothing(here: Path) -> None:
    """The command needs no delivery."""


def tables_of_the_page(here: Path) -> None:
    """The policy with the source of the page, and people like the one that the page shows."""
    code, printed = deid_here(here / ".deid", *words("policy new our_claims --title 'Our claims' --owner team:privacy"))
    assert code == 0, printed
    file = here / "our_claims.yaml"
    values = yaml.safe_load(file.read_text()) | example("own-data.md", "source")
    file.write_text(yaml.safe_dump(changed(values, diagnosis_codes="icd9cm"), sort_keys=False))
    people, claims = (table.splitlines() for table in PLAIN[0].strip().split("\n\n"))
    folder = here / "in" / "2012-04"
    folder.mkdir(parents=True)
    for name, (header, row) in (("enrolment", people), ("claims_2011", claims)):
        numbers = [
            row.replace("P00001", f"P{1 + n:05}")
            .replace("C15", f"C{n}")
            .replace("250.00", ("250.00", "042", "756.4")[n % 40 % 3])
            for n in range(PEOPLE)
        ]
        (folder / f"{name}.csv").write_text("\n".join([header, *numbers]) + "\n")


def samples_of_desynpuf(here: Path) -> None:
    """Two samples of DE-SynPUF."""
    for number in (1, 2):
        shutil.copytree(public_data("desynpuf", f"sample-{1 + number}"), here / "synpuf" / f"sample-{number}")


def adult(here: Path) -> None:
    """The policy of the page, and the files that it names."""
    (here / "adult.yaml").write_text(yaml.safe_dump(example("own-data.md", "format"), sort_keys=False))
    for name in ("adult.csv", "adult_hierarchy_sex.csv", "adult_hierarchy_marital-status.csv"):
        shutil.copyfile(public_data("adult", name), here / name)


def words(command: str) -> list[str]:
    return shlex.split(command)


EXAMPLES: list[tuple[Callable[[Path], None], set[int], Any]] = [
    (files_of_their_own, DECIDED, ()),
    (nothing, {0}, ()),
    (tables_of_the_page, DECIDED, ()),
    (samples_of_desynpuf, DECIDED, pytest.mark.matrix),
    (adult, {PUBLISHED}, ()),
]
"""What each example of commands needs, and the exit codes that it may have."""


def test_every_example_is_below():
    languages = [language for language, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    assert {language: languages.count(language) for language in set(languages)} == {
        "bash": len(EXAMPLES), "yaml": 10, "": 4
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "prepare", "codes"),
    [pytest.param(n, prepare, codes, marks=mark, id=prepare.__name__) for n, (prepare, codes, mark) in enumerate(EXAMPLES)],
)
def test_commands_do_what_they_are_printed_for(tmp_path, monkeypatch, number, prepare, codes):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    for line in blocks(PAGE, "bash")[number].splitlines():
        program, *rest = words(line)
        assert program == ".venv/bin/deid"
        code, printed = deid_here(tmp_path / ".deid", *rest)
        assert code in (codes if rest[0] in ("run", "plan") else {0}), printed


def test_the_delivery_of_the_page_is_read_to_its_last_row(tmp_path, monkeypatch):
    """Formats, names and codes of the two rows are those of the source above them."""
    monkeypatch.chdir(tmp_path)
    tables_of_the_page(tmp_path)
    policy = load_policy(tmp_path / "our_claims.yaml")
    delivery = Delivery("2012-04", "tables", (tmp_path / "in" / "2012-04",))
    report = read_delivery(tmp_path / "store" / "one.duckdb", delivery, Reading(policy.source, 0.0), known_codes)
    assert report.rows_kept == {"members": PEOPLE, "claims": PEOPLE} and report.quarantined == ()


def test_drugs_of_the_page_are_a_table_that_the_policy_reads(tmp_path):
    shown = example("own-data.md", "dimensions")
    (tmp_path / "drugs.csv").write_text(PLAIN[1])
    values = yaml.safe_load((DOCS.parent / "policy" / "shipped" / "heritage-public.yaml").read_text())
    values["columns"]["claims"] |= shown["columns"]["claims"]
    values["dimensions"] += shown["dimensions"]
    values["hierarchies"] |= shown["hierarchies"]
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump(values | {"policy": "ours"}, sort_keys=False))
    drugs = load_policy(tmp_path / "ours.yaml").columns.claims["drug"]
    assert drugs.values == ("antivirals", "diabetes", "dependence") and drugs.names_ingredients


@pytest.mark.parametrize("said", ["kind: days_since, anchor", "everything_known_at_most"])
def test_anchors_and_adversaries_of_the_page_are_of_a_policy_with_fills(tmp_path, said):
    (shown,) = (yaml.safe_load(block) for block in blocks(PAGE, "yaml") if said in block)
    shipped = DOCS.parent / "policy" / "shipped"
    values = yaml.safe_load((shipped / "claims-and-fills.yaml").read_text()) | {"policy": "ours"}
    (tmp_path / "claims-and-fills-drugs.csv").write_bytes((shipped / "claims-and-fills-drugs.csv").read_bytes())
    values["adversary"] |= shown.get("adversary", {})
    values["hierarchies"]["days"] = {"kind": "intervals", "from": 0, "levels": [{"name": "any", "starts": [0]}]}
    for table, columns in shown.get("columns", {}).items():
        values["columns"][table] |= columns
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    policy = load_policy(tmp_path / "ours.yaml")
    assert policy.adversary.knows_less == ("adversary" in shown)
    assert {"since", "fill_since"} <= set(policy.claim_names) or "columns" not in shown
