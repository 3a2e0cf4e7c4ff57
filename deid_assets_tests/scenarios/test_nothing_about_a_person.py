"""Unmistakable values are planted in a delivery: outside the restricted store none is found, whatever happens."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from deid_assets import resources
from deid_assets.assets import preparation
from deid_assets.checks import of_assets
from deid_assets.errors import ERROR, PUBLISHED
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import deid
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS
from deid_assets_tests.scenarios.fills_delivery import DRUGS, FILLS, TABLE_OF_DRUGS, fills_of
from deid_assets_tests.scenarios.policies import write_policy
from deid_assets_tests.scenarios.tables_delivery import (
    CLAIMS_HEADER,
    claim,
    good_tables,
    tables_of_synthetic,
    write_csv,
)

MEMBER, PROVIDER, TEXT, BIRTH = "QZMEMBER", "QZPROVIDER", "QZRARETEXT", "1931-07-29"
"""Every member and provider is called so, with a number; many are born on that day; the text is in unusable cells."""

CANARIES = (MEMBER, PROVIDER, TEXT, BIRTH)
RESTRICTED = ("store", "keys", "deliveries")


@dataclass(frozen=True)
class PlantedRun:
    home: Home
    temporary: Path
    exit_code: int
    printed: str


def planted(folder: Path) -> Path:
    """A delivery to publish, with canaries in every place where a value can stand."""
    write_delivery(folder.parent / "synthetic", MEMBERS, seed=5)
    fills_of(tables_of_synthetic(folder.parent / "synthetic", folder))
    with duckdb.connect() as connection:
        for name, select in (
            (
                "members",
                f"""SELECT '{MEMBER}' || id AS id, sex, CASE WHEN date_part('year', born) < 1935 THEN DATE '{BIRTH}'
                    ELSE born END AS born, days_y2, days_y3""",
            ),
            (
                "claims",
                f"""SELECT no, '{MEMBER}' || member AS member, '{PROVIDER}' || provider AS provider, day,
                    CASE WHEN hash(no) % 1000 = 0 THEN '{TEXT}' ELSE specialty END AS specialty, place, cpt,
                    CASE WHEN hash(no) % 1000 = 1 THEN '{TEXT}' ELSE los::VARCHAR END AS los, admitted, "left",
                    CASE WHEN hash(no) % 1000 = 2 THEN '{TEXT}' ELSE dx END AS dx, '{TEXT}' AS note""",
            ),
            (
                "fills",
                f"""SELECT '{MEMBER}' || member AS member, '{PROVIDER}' || prescriber AS prescriber,
                    CASE WHEN hash(member, filled) % 400 = 0 THEN '{TEXT}' ELSE filled::VARCHAR END AS filled,
                    CASE WHEN hash(member, filled) % 400 = 1 THEN '{TEXT}' ELSE ndc END AS ndc,
                    CASE WHEN hash(member, filled) % 400 = 2 THEN '{TEXT}' ELSE days::VARCHAR END AS days, '{TEXT}' AS note""",
            ),
        ):
            file = folder / f"{name}.csv"
            types = "types = {ndc: VARCHAR}" if name == "fills" else "all_varchar = false"
            connection.execute(f"CREATE TABLE {name} AS {select} FROM read_csv('{file}', {types})")
            connection.execute(f"COPY {name} TO '{file}' (HEADER)")
    return folder


def run_on(root: Path, temporary: Path, delivery: Path) -> PlantedRun:
    """`deid run` with a folder of its own for temporary files."""
    temporary.mkdir()
    home = Home(root).create()
    (home.policies / "drugs.csv").write_text(TABLE_OF_DRUGS)
    write_policy(home.policies, FILLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        code, printed = deid(root, "run", "--policy", "fills", "--delivery", delivery)
    return PlantedRun(home, temporary, code, printed)


@pytest.fixture(scope="module")
def published_run(tmp_path_factory) -> PlantedRun:
    folder = tmp_path_factory.mktemp("planted")
    return run_on(folder / "deid", folder / "tmp", planted(folder / "in"))


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory) -> PlantedRun:
    """A delivery of which far too many cells are unusable."""
    folder = tmp_path_factory.mktemp("broken")
    rows = [
        claim(0, no=TEXT, member=f"{MEMBER}1", day=BIRTH),
        claim(1, no=TEXT, provider=f"{PROVIDER}1"),
        *(claim(n, day=TEXT) for n in range(2, 10)),
        *(claim(n, los=TEXT) for n in range(10, 20)),
        *(claim(n, dx=TEXT) for n in range(20, 30)),
        *(claim(n, member=f"{MEMBER}{n}") for n in range(30, 40)),
    ]
    delivery = good_tables(folder / "in")
    write_csv(delivery / "claims.csv", CLAIMS_HEADER, rows)
    fill = {"member": "person-1", "filled": "2008-03-04", "prescriber": f"{PROVIDER}1", "ndc": DRUGS["statin"], "days": "30"}
    fills = [fill | {column: f"{MEMBER}{TEXT}" if column == "member" else TEXT} for column in fill for _ in range(5)]
    write_csv(delivery / "fills.csv", tuple(fill), fills)
    return run_on(folder / "deid", folder / "tmp", delivery)


RUNS = pytest.mark.parametrize("run", [pytest.param("published_run", marks=pytest.mark.matrix), "failed_run"])


def outside_the_store(home: Home) -> Iterator[Path]:
    """Every file under DEID_HOME but those that its owner alone may read."""
    for path in sorted(home.root.rglob("*")):
        if path.is_file() and path.relative_to(home.root).parts[0] not in RESTRICTED:
            yield path


def content_of(path: Path) -> bytes:
    """What a file says; Parquet is compressed, and read."""
    if path.suffix == ".parquet":
        return str(duckdb.sql(f"SELECT * FROM '{path}'").fetchall()).encode()
    return path.read_bytes()


def leaks(paths) -> list[tuple[str, str]]:
    found = [(path, content_of(path)) for path in paths]
    return [(path.name, canary) for path, content in found for canary in CANARIES if canary.encode() in content]


@pytest.mark.matrix
def test_the_planted_delivery_is_published_and_its_unusable_rows_are_quarantined(published_run):
    """Or the search below would find nothing because nothing was there."""
    assert published_run.exit_code == PUBLISHED, published_run.printed
    store = published_run.home.store / "fills" / "in.duckdb"
    with duckdb.connect(str(store), read_only=True) as connection:
        for sql in (
            f"SELECT count(*) FROM intake.members WHERE member_id LIKE '{MEMBER}%'",
            f"SELECT count(*) FROM intake.claims WHERE provider_id LIKE '{PROVIDER}%'",
            f"SELECT count(*) FROM intake.members WHERE birth_date = DATE '{BIRTH}'",
            f"SELECT count(*) FROM intake.claims WHERE provider_id LIKE '{PROVIDER}%' AND event_table = 'fills'",
            "SELECT count(*) FROM intake.quarantined_rows",
            "SELECT count(*) FROM intake.quarantined_rows WHERE source_table = 'fills'",
        ):
            assert connection.execute(sql).fetchall()[0][0] > 20, sql


@pytest.mark.matrix
def test_a_published_run_tells_nothing_of_a_person(published_run):
    paths = list(outside_the_store(published_run.home))
    assert any(path.suffix == ".db" for path in paths), "the event log is searched"
    assert any(path.name == "manifest.json" for path in paths)
    assert leaks(paths) == []


def test_a_failed_run_tells_nothing_of_a_person(failed_run):
    assert failed_run.exit_code == ERROR and "unparseable date" in failed_run.printed
    assert leaks(outside_the_store(failed_run.home)) == []


@RUNS
def test_nothing_is_printed_of_a_person(run, request):
    printed = request.getfixturevalue(run).printed
    assert [canary for canary in CANARIES if canary in printed] == []


@RUNS
def test_no_temporary_file_is_left_with_a_person_in_it(run, request):
    assert leaks(path for path in request.getfixturevalue(run).temporary.rglob("*") if path.is_file()) == []


@RUNS
def test_what_may_identify_is_for_the_owner_alone(run, request):
    home = request.getfixturevalue(run).home
    for name in RESTRICTED:
        assert (home.root / name).stat().st_mode & 0o077 == 0, name
    for file in (home.root / "store").rglob("*.duckdb"):
        assert file.stat().st_mode & 0o077 == 0


ERRORS = (
    ValueError(f"invalid literal: '{MEMBER}17'"),
    duckdb.ConversionException(f"Could not convert string '{TEXT}' to INT32"),
    KeyError(f"{PROVIDER}3"),
)
PLACES = {
    "an asset": (preparation, "sample_size"),
    "a table": (resources, "write_table"),
    "a check": (of_assets, "violations"),
}


@pytest.mark.parametrize(
    ("place", "error"), [*(("an asset", error) for error in ERRORS), ("a table", ERRORS[1]), ("a check", ERRORS[1])]
)
@pytest.mark.matrix
def test_an_error_that_nobody_foresaw_leaves_no_value_in_the_event_log(pipeline, monkeypatch, capfd, place, error):
    """Messages of libraries may quote a cell: Dagster would store them, with those that they were raised from."""

    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(*PLACES[place], fails)
    summary = pipeline.run(KEY, ["released_sample"])
    assert summary.exit_code == ERROR
    assert leaks(outside_the_store(pipeline.home)) == []
    shown = "".join([*summary.reasons, *capfd.readouterr()])
    assert [canary for canary in CANARIES if canary in shown] == []
    assert type(error).__name__ in " ".join(summary.reasons), "a person is told what kind of error it was"
