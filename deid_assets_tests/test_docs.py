"""README and docs: their links resolve, their YAML examples are policies that load, their command lines are those of `deid`."""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
import yaml
from click.shell_completion import BashComplete
from click.testing import CliRunner

import deid_assets
from deid_assets.command_line.main import main
from deid_assets.errors import PolicyError
from deid_assets.policy.files import Folder
from deid_assets.policy.hierarchies.specs import IntervalLevel
from deid_assets.policy.loading import SHIPPED, policy_from
from deid_assets.policy.reference import reference
from deid_assets.policy.sections.columns import Concept
from deid_assets.reference.groups import known_codes
from deid_assets.release.home_rules import rules_from
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.sources.synthetic.layouts import write_omop, write_tuva
from deid_assets.stages import WORK_OF, Work
from deid_assets.store.tables import Table
from deid_assets_tests import examples, package_graph
from deid_assets_tests.scenarios.test_flat_release import FLAT
from deid_assets_tests.stages import STAGES

DOCS = Path(deid_assets.__file__).parent / "docs"
DEPLOYMENT = DOCS / "deployment"
PROJECT = Path(examples.__file__).parent / "claims_project"
README = DOCS.parent.parent / "README.md"
PAGES = (README, *sorted(DOCS.glob("*.md")))

LINES_OF_README = 150

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def anchors(page: Path) -> set[str]:
    """The anchors that a renderer of Markdown makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def shell_parts(page: Path) -> Iterator[str]:
    """Every command of a page's shell examples, without comments."""
    for text in blocks(page, "bash"):
        for line in text.splitlines():
            if not line.startswith("#"):
                yield from (part.strip() for part in re.split(r"&&|\|\|", line))


def commands(page: Path) -> Iterator[list[str]]:
    """Every `deid` command of a page's shell examples, as words after `deid`."""
    for part in shell_parts(page):
        found = re.match(r"(\.venv/bin/|docker compose exec code )deid\b", part)
        if found:
            yield shlex.split(part[found.end() :], comments=True)


def commands_in_text(page: Path) -> Iterator[list[str]]:
    """Every `deid` command that a page names in its text, as words after `deid`."""
    for text in re.findall(r"`deid ([^`]+)`", BLOCK.sub("", page.read_text(encoding="utf-8"))):
        yield shlex.split(text)


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words name, and the words after its name."""
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        name, *words = words
        assert name in command.commands, f"deid has no command {name}"
        command = command.commands[name]
    return command, words


def commands_below(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    """The names of every command that does something, as words after `deid`."""
    if not isinstance(command, click.Group):
        yield names
        return
    if command.invoke_without_command:
        yield names
    for name, below in command.commands.items():
        yield from commands_below(below, *names, name)


def commands_in_table() -> list[tuple[str, ...]]:
    """Those in the table of commands: after the first of a line, one has the same group, or it is of the top."""
    section = (DOCS / "operate.md").read_text(encoding="utf-8").split("## Commands\n")[1].split("\n## ")[0]
    found = []
    for cell in re.findall(r"^\| (`deid [^|]+) \|", section, re.MULTILINE):
        first, *others = [tuple(name.removeprefix("deid ").split()) for name in re.findall(r"`([^`]+)`", cell)]
        found += [first, *(other if f"`deid {other[0]}`" in cell else (*first[:-1], *other) for other in others)]
    return found


def test_the_table_of_commands_has_every_command_once():
    assert sorted(commands_in_table()) == sorted(commands_below(main))


def test_the_readme_shows_the_stages_of_a_run_in_their_order():
    diagram = README.read_text(encoding="utf-8").split("## How data flows\n")[1].split("```")[1]
    assert re.findall(r"^│? (\w+) {2,}\S", diagram, re.MULTILINE) == ["delivery", *STAGES]


def extras() -> set[str]:
    """The optional dependencies of the package."""
    return set(
        tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )


def variables_in_docs() -> set[str]:
    """The environment variables in the table of settings."""
    section = (DOCS / "deployment.md").read_text(encoding="utf-8").split("## Settings\n")[1].split("\n## ")[0]
    return set(re.findall(r"`((?:DEID|OPENLINEAGE)_[A-Z_]+)`", section))


def test_the_table_of_settings_has_every_variable_that_the_code_reads():
    code = "".join(path.read_text(encoding="utf-8") for path in DOCS.parent.rglob("*.py"))
    given_in_three_ways = {
        f"{name}{ending}" for name in ("DEID_SECRET", "DEID_SIGNING_KEY") for ending in ("_FILE", "_COMMAND")
    }
    assert variables_in_docs() == set(re.findall(r'"((?:DEID|OPENLINEAGE)_[A-Z_]+)"', code)) | given_in_three_ways


def require_known(part: str) -> None:
    """Refuse a shell command that no test knows: of a module that is not there, of an extra that the package lacks."""
    words = shlex.split(part, comments=True)
    match words:
        case [".venv/bin/deid", *_] | ["python3", "-m", "venv", ".venv"]:
            return
        case [".venv/bin/python", "-c", program]:
            compile(program, "<docs>", "exec")
        case [".venv/bin/python", "-m", "pytest", "-n", "2"]:
            return
        case [".venv/bin/python", "-m", module, *options]:
            found = importlib.util.find_spec(module)
            assert found is not None, f"there is no module {module}"
            if found.submodule_search_locations:
                found = importlib.util.find_spec(f"{module}.__main__")
            source = Path(found.origin).read_text(encoding="utf-8")
            if (command := Path(found.origin).with_name(f"{options[0] if options else ''}.py")).is_file():
                source += command.read_text(encoding="utf-8")
            assert [option for option in options if option.startswith("--") and f'"{option}"' not in source] == []
        case [".venv/bin/dg", "scaffold", "defs", name, _]:
            assert name.removeprefix("deid_assets.") in dir(deid_assets)
        case [".venv/bin/pip", "install", *options, "-e", what]:
            assert [word for word in options if word not in ("-q", "-c", "requirements.lock")] == []
            assert what == "." or what.removeprefix(".[").removesuffix("]") in extras()
        case ["cd", folder]:
            assert (README.parent / folder).is_dir()
        case ["ssh-keygen", "-t", "ed25519", "-f", _]:
            return
        case ["umask", "077"] | ["openssl", "rand", "-hex", "32", ">", "secret"]:
            return
        case ["echo", stated, ">", ".env"]:
            assert f"${{{stated.split('=')[0]}:?" in (DEPLOYMENT / "compose.yaml").read_text(encoding="utf-8")
        case ["sudo", "chown", number, "secret"]:
            assert f"--uid {number} " in (DEPLOYMENT / "Containerfile").read_text(encoding="utf-8")
        case ["docker", "compose", "up", "--build", "--wait"]:
            return
        case ["docker", "compose", "exec", service, "deid", *_]:
            assert service in yaml.safe_load((DEPLOYMENT / "compose.yaml").read_text(encoding="utf-8"))["services"]
        case ["export", stated]:
            assert stated.split("=")[0] in variables_in_docs()
        case ["eval", "$(_DEID_COMPLETE=bash_source .venv/bin/deid)"]:
            assert "complete" in BashComplete(main, {}, "deid", "_DEID_COMPLETE").source()
        case _:
            raise AssertionError(f"no test knows the command {part!r}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
class TestPage:
    def test_relative_links_resolve(self, page):
        broken = []
        for link in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(link)
        assert broken == []

    def test_commands_are_those_of_deid(self, page):
        for words in commands(page):
            command, rest = command_of(words)
            command.make_context(command.name, list(rest), parent=click.Context(main, **main.context_settings))

    def test_commands_in_the_text_are_those_of_deid_and_have_its_options(self, page):
        for words in commands_in_text(page):
            command, rest = command_of(words)
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in rest if word.startswith("-")} <= known, words

    def test_every_shell_command_is_known_to_a_test(self, page):
        for part in shell_parts(page):
            require_known(part)

    def test_files_of_the_code_that_are_named_exist(self, page):
        named = set(re.findall(r"`(deid_assets(?:_tests)?/[\w/.-]+)`", BLOCK.sub("", page.read_text(encoding="utf-8"))))
        assert {path for path in named if not (README.parent / path).exists()} == set()


def test_the_sections_of_methods_that_the_code_cites_exist():
    known = anchors(DOCS / "methods.md")
    cited = {
        (found, path.name)
        for path in sorted(DOCS.parent.rglob("*.py"))
        for found in re.findall(r"methods#([a-z0-9-]+)", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 20 and {one for one in cited if one[0] not in known} == set()


def test_the_readme_is_short_and_has_the_command_lines_of_continuous_integration():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_OF_README
    for marker in ("run", "test"):
        assert re.search(rf"^<!-- {marker} -->\n```bash\npython3 -m venv [^\n]+\n```$", text, re.MULTILINE)


def test_the_docs_are_there():
    named = {"tutorial", "own-data", "policies", "operate", "audit", "threat-model", "glossary", "decisions", "benchmarks"}
    assert named <= {page.stem for page in PAGES}


def shipped(name: str) -> dict[str, Any]:
    """The text of a policy that ships, as values."""
    return yaml.safe_load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"))


def example(page: str, key: str) -> dict[str, Any]:
    """The first YAML example of a page that has a section of this name."""
    return next(values for text in blocks(DOCS / page, "yaml") if key in (values := yaml.safe_load(text)))


def test_the_component_of_the_page_on_other_projects_is_that_of_the_example_project():
    """Which is loaded, run and read in tests of its own; its folders are relative."""
    (text,) = blocks(DOCS / "embedding.md", "yaml")
    shown, run = yaml.safe_load(text), yaml.safe_load((PROJECT / "claims_project/defs/release/defs.yaml").read_text())
    for name in ("home", "sensor"):
        run["attributes"].pop(name)
    assert shown["attributes"].pop("sensor") == {"folder": "/in", "complete_when": "_SUCCESS"}
    assert shown == run


def test_every_yaml_example_is_read_by_a_test_below():
    found = [(page.name, tuple(yaml.safe_load(text))) for page in PAGES for text in blocks(page, "yaml")]
    assert [page for page, _ in found] == [
        *["counts.md"] * 5, "demographics.md", "embedding.md", *["layouts.md"] * 2, *["operate.md"] * 2, *["own-data.md"] * 10,
        *["policies.md"] * 4, "threat-model.md", "utility.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "key"),
    [
        ("counts.md", "counts"),
        ("operate.md", "approval"),
        ("own-data.md", "source"),
        ("policies.md", "number_of_claims"),
        ("threat-model.md", "provider_graph"),
        ("utility.md", "utility"),
    ],
)
def test_sections_fit_the_default_policy(page, key):
    policy_from(shipped("heritage-public") | example(page, key))


def write_secret(path: Path) -> None:
    path.write_text("fedcba9876543210" * 2)
    path.chmod(0o600)


def test_the_example_of_a_table_of_counts_is_protected_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, protected = blocks(DOCS / "counts.md", "csv")[:2]
    (tmp_path / "diagnoses.csv").write_text(given)
    write_secret(tmp_path / "secret")
    words = next(words for words in commands(DOCS / "counts.md") if "diagnoses.csv" in words)
    assert CliRunner().invoke(main, words).exit_code == 0
    assert (tmp_path / "protected" / "diagnoses.csv").read_text() == protected


def test_the_declaration_of_tables_of_counts(tmp_path, monkeypatch):
    """With files that it could be of."""
    monkeypatch.chdir(tmp_path)
    write_secret(tmp_path / "secret")
    (stated,) = [text for text in blocks(DOCS / "counts.md", "yaml") if "hierarchies" in yaml.safe_load(text)]
    (tmp_path / "tables.yaml").write_text(stated)
    (tmp_path / "diagnoses.csv").write_text(blocks(DOCS / "counts.md", "csv")[0])
    (tmp_path / "chapters.csv").write_text("code,chapter\nInfections,A\nPregnancy,O\nMalformations,Q\n")
    (tmp_path / "regions.csv").write_text("region,age,n\nnorth,0-17,131\nnorth,18-64,1076\nnorth,65+,1399\n")
    words = next(words for words in commands(DOCS / "counts.md") if "--declaration" in words)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "adults,minors" in (tmp_path / "protected" / "diagnoses.csv").read_text()


def test_the_rules_of_a_home():
    (text,) = [text for text in blocks(DOCS / "operate.md", "yaml") if "approvers" in yaml.safe_load(text)]
    rules = rules_from(text.encode(), "the page")
    assert rules.approvers == ("Anna Muster", "Ben Example") and rules.laxest["public"]["risk.k"].at_least == 11


def test_a_policy_with_dates():
    values, shown = shipped("claims-dates"), example("own-data.md", "dates")
    columns = shown.pop("columns")["claims"]
    values["columns"]["claims"] |= columns
    values["hierarchies"] |= {column["hierarchy"]: {"kind": "fixed"} for column in columns.values()}
    policy = policy_from(values | shown)
    assert ("service_period", "ServicePeriod") in [(one.column, one.release_as) for one in policy.quasi_identifiers.claims]


def test_a_policy_with_declared_columns(tmp_path):
    """Each of the example gets a hierarchy."""
    (tmp_path / "revenue_codes.csv").write_text("0120;stay\n0450;emergency\n", encoding="utf-8")
    values, shown = shipped("heritage-public"), example("policies.md", "columns")
    for table, declared in shown["columns"].items():
        values["columns"][table] |= declared
    numbers = {"kind": "intervals", "levels": [{"name": "any", "starts": [0]}]}
    values["hierarchies"] |= dict.fromkeys(("spent", "paid"), numbers)
    values["hierarchies"] |= {name: {"kind": "fixed"} for name in ("race", "zip3", "bill", "practice")}
    policy = policy_from(values, tmp_path)
    assert policy.columns.claims["bill"].values == ("stay", "emergency", "other")
    assert [one.release_as for one in policy.attributes] == ["Network"]


def with_tables(containing: str) -> dict:
    """The default policy with the tables of the example that contains this text."""
    values = shipped("heritage-public")
    (shown,) = [one for text in blocks(DOCS / "own-data.md", "yaml") if containing in text and (one := yaml.safe_load(text))]
    columns = {table: values["columns"][table] | own for table, own in shown["columns"].items()}
    columns["members"] |= {
        name: {**columns["members"][name], "from": name} for name in ("days_in_hospital_y2", "days_in_hospital_y3")
    }
    months = {"kind": "intervals", "from": 0, "to": 12, "levels": [{"name": "any or none", "starts": [0, 1]}]}
    return values | {**shown, "columns": columns, "hierarchies": values["hierarchies"] | {"months": months}}


def test_a_policy_of_lines_and_spans():
    """The example leaves out columns that the default policy has."""
    policy = policy_from(with_tables("unit: span"))
    assert (policy.source.members.unit, policy.source.claims.unit, policy.source.members.gaps_at_most) == ("span", "line", 1)


def test_a_policy_of_other_tables_of_events(tmp_path):
    """The example leaves out the columns of members and claims."""
    (tmp_path / "drugs.csv").write_text("00093-1048-01;diabetes;metformin\n", encoding="utf-8")
    values = with_tables("unit: span")
    shown, counted = [
        one for text in blocks(DOCS / "own-data.md", "yaml") if "fills:" in text and (one := yaml.safe_load(text))
    ]
    values["source"]["events"] = shown["source"]["events"]
    values["columns"] |= shown["columns"]
    for table, columns in counted["columns"].items():
        values["columns"][table] = values["columns"][table] | columns
    values["hierarchies"] |= {"drug": {"kind": "fixed"}, "days": {"kind": "fixed"}}
    values |= {"adversary": example("own-data.md", "adversary")["adversary"]}
    policy = policy_from(values | {"reviewed_attributes": {"DaysOfSupply": "Only the pharmacy knows it."}}, tmp_path)
    assert policy.adversary.scenarios == (("claims",), ("fills",))
    (anchor,) = policy.columns.declared.anchors
    assert anchor.tables == ("claims", "fills") and anchor.by_year
    assert policy.event_tables == ("claims", "fills") and policy.source.events["fills"].same_as_claims == ("provider_id",)


def released(name: str) -> dict[str, str]:
    return {"role": "quasi_identifier", "hierarchy": name, "release_as": name.capitalize()}


@pytest.mark.parametrize("layout", ["tuva", "omop"])
def test_policies_of_layouts_read_the_results_of_the_generator_with_the_lines_of_the_page(tmp_path, layout):
    """Every result of a listed test is in a bin, and nobody has an unknown code."""
    lines, of_cdm = (yaml.safe_load(text) for text in blocks(DOCS / "layouts.md", "yaml"))
    values = shipped(layout)
    table = {"tuva": "results", "omop": "measurements"}[layout]
    result = lines["columns"]["results"]["result"] | (of_cdm if layout == "omop" else {})
    stated = values["source"]["events"].get(table, {})
    values["source"]["events"][table] = lines["source"]["events"]["results"] | stated
    values["columns"][table] = values["columns"].get(table, lines["columns"]["results"]) | {"result": result}
    values["dimensions"] += lines["dimensions"]
    values["hierarchies"] |= lines["hierarchies"]
    policy = policy_from(values, SHIPPED)
    write = {"tuva": write_tuva, "omop": write_omop}[layout]
    write_delivery(tmp_path / "made", 300, 3, Contents(icd10cm=True, fills=True, results=True))
    delivery = write(tmp_path / "made", tmp_path / "delivery", "icd10cm")
    store, reading = tmp_path / "store" / "one.duckdb", Reading(policy.source, 0.0, policy.columns.declared, "icd10cm")
    report = read_delivery(store, Delivery("one", "tables", (delivery,)), reading, known_codes)
    listed = [code for test in result["tests"].values() for code in test["codes"]]
    made = duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/made/results.parquet' WHERE list_contains({listed}, loinc)")
    claims = Table(store, "intake", "claims")
    (read,) = claims.query(f"SELECT count(result) AS read, sum(unreadable_declared) AS unknown FROM {claims.sql}").itertuples()
    assert report.quarantined == () and read.unknown == 0 and read.read == made.fetchall()[0][0] > 100
    values = with_tables("unit: span")
    (shown,) = [
        one for text in blocks(DOCS / "own-data.md", "yaml") if "kind: result" in text and (one := yaml.safe_load(text))
    ]
    values["source"]["events"] = {
        "results": {"file": "results.csv", "without_codes": "The two tests tell of no listed condition."}
    }
    values["columns"] |= shown["columns"]

    def with_values(hierarchy: dict[str, Any]) -> Any:
        hierarchies = values["hierarchies"] | {"result": hierarchy}
        return policy_from(values | {"hierarchies": hierarchies, "dimensions": dimensions})

    dimensions = values["dimensions"]
    labels = with_values({"kind": "fixed"}).columns.of_events["result"].values
    assert len(labels) == 6 and labels[1] == "glucose 100 to below 126 mg/dL"
    assert f"`{labels[1]}`" in (DOCS / "own-data.md").read_text(encoding="utf-8")
    dimensions = [*dimensions, {"name": "result", "columns": ["result"]}]
    listed = {label: ["any"] for label in labels}
    levels = {"kind": "codes", "level_names": ["bin", "any"]}
    assert with_values(levels | {"values": listed}).event_tables == ("claims", "results")
    del listed[labels[-1]]
    with pytest.raises(PolicyError, match="hierarchies.result|columns.results.result"):
        with_values(levels | {"values": listed})
    del values["source"]["events"]["results"]["without_codes"]
    values["columns"]["results"] |= {"bill": {"kind": "revenue_group", "from": "REV", "meaning": "x"} | released("bill")}
    values["hierarchies"] |= {"bill": {"kind": "fixed"}}
    with pytest.raises(
        PolicyError, match="a laboratory test may tell of a condition as a diagnosis does: say in without_codes"
    ):
        with_values({"kind": "fixed"})


def test_a_policy_of_concepts_and_their_vocabulary(tmp_path):
    """The example leaves out the columns of members and claims, and those of events that are no codes."""
    values = with_tables("unit: span")
    (shown,) = [one for text in blocks(DOCS / "own-data.md", "yaml") if "vocabulary:" in text and (one := yaml.safe_load(text))]
    (tmp_path / "drugs.csv").write_text("19073183;antibiotics;amoxicillin\n", encoding="utf-8")
    mapped = {"member_id": {"from": "person_id", "role": "pseudonym"}, "service_date": {"from": "day", "role": "dropped"}}
    values["source"] |= {key: shown["source"][key] for key in ("unknown_codes", "events", "vocabulary")}
    values["columns"] |= {table: mapped | own for table, own in shown["columns"].items()}
    values["hierarchies"] |= {"drug": {"kind": "fixed"}}
    values["dimensions"] = [*values["dimensions"], {"name": "condition", "columns": ["condition"]}]
    policy = policy_from(values, tmp_path)
    assert policy.event_tables == ("claims", "conditions", "drugs") and policy.listed_columns == ("condition", "drug")
    table = next(text for text in blocks(DOCS / "own-data.md", "") if text.startswith("372328"))
    (tmp_path / "conditions.csv").write_text(table, encoding="utf-8")
    own = {"kind": "concept", "of": "diagnosis", "from": "x", "meaning": "x", "file": "conditions.csv"}
    found = Concept.model_validate(own, context=Folder(tmp_path)).meanings
    assert found["372328"].stands_for == ("icd10cm:H6690",) and found["4214956"].stands_for == ()


def test_a_flat_policy(tmp_path):
    (tmp_path / "adult_hierarchy_sex.csv").write_text("Male;*\nFemale;*\n", encoding="utf-8")
    (tmp_path / "adult_hierarchy_marital-status.csv").write_text("Divorced;*\nWidowed;*\n", encoding="utf-8")
    policy = policy_from(example("own-data.md", "format"), tmp_path)
    assert policy.risk.k == 5 and policy.person_column is None and len(policy.columns) == 3


def test_totals_of_columns_that_are_not_released():
    values, shown = with_tables("unit: span"), example("counts.md", "columns")
    members = values["columns"]["members"] | shown["columns"]["members"]
    policy = policy_from(values | {"columns": values["columns"] | {"members": members}, "counts": shown["counts"]})
    assert [total.by for total in policy.counts.totals] == [("age", "sex"), ()]


def test_counts_of_a_flat_table_and_several_records_of_a_person():
    """The example has columns of another table than that of the tests, but for Age and Likes."""
    section, source = (yaml.safe_load(text) for text in blocks(DOCS / "counts.md", "yaml")[3:])
    source["source"]["file"] = FLAT["source"]["file"]
    policy = policy_from(FLAT | section | source)
    assert (policy.records_per_person, policy.counts.ordered) == (3, ("Age",))


def test_a_policy_of_a_cohort():
    policy = policy_from(example("demographics.md", "columns"))
    assert policy.released_columns == ("Person", "Age", "Sex", "Race", "State", "HbA1c", "Admitted")


def test_tables_of_a_population(tmp_path):
    (tmp_path / "st-est00int-agesex.csv").write_text("NAME,SEX,AGE,POPESTIMATE2008\nCalifornia,1,30,5\n", encoding="utf-8")
    (tmp_path / "discharges.csv").write_text("PATIENT,YEAR,AGE,SEX,LOS,DX1,CPT\n1,2008,30,M,2,4280,99213\n", encoding="utf-8")
    policy_from(shipped("heritage-public") | example("policies.md", "inpatient_attack"), tmp_path)


def test_a_level_that_missing_values_join():
    values = [yaml.safe_load(text) for text in blocks(DOCS / "policies.md", "yaml")]
    ((level,),) = [found for found in values if isinstance(found, list)]
    level |= {name: tuple(level[name]) for name in ("starts", "labels")}
    assert IntervalLevel(**level).missing_joins == 0


def test_the_policy_reference_is_what_the_command_prints_and_leaves_no_key_unexplained():
    text = (DOCS / "policy-reference.md").read_text(encoding="utf-8")
    assert text == reference()
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 100 and all(len(row) == 4 and row[3].strip() for row in rows)


def test_the_picture_of_the_packages_is_drawn_from_the_code():
    assert f"```mermaid\n{package_graph.drawn()}\n```" in (DOCS / "architecture.md").read_text(encoding="utf-8")


def test_the_table_of_how_work_divides_is_that_of_the_stages():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    steps = {work: ", ".join(f"`{name}`" for name, own in WORK_OF.items() if own is work) for work in Work}
    rows = [f"| {work.label} | {work.meaning} | {steps[work]} |" for work in Work]
    assert "\n".join(["| work | what it means | steps |", "|---|---|---|", *rows]) + "\n\n" in text


def test_every_package_is_explained():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in package_graph.packages() if f"| `{name}/` |" not in text] == []
