"""What bad input gets: an error that names file, column, line count and rule, and never a value; nothing is published.

Rows that break a rule go to quarantine up to the share that the policy allows; past it the delivery is refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import ERROR
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in, publish_earlier_release
from deid_assets_tests.scenarios.policies import write_policy
from deid_assets_tests.scenarios.tables_delivery import (
    CLAIMS_HEADER,
    MEMBERS_HEADER,
    TABLES,
    claim,
    good_tables,
    member,
    write_csv,
    write_tables,
)

VALUE = "Zyx7731"
"""A value that no message may show: in every broken cell."""

INTAKE = ("members", "claims", "quarantined_rows", "delivered_codes")


@pytest.fixture(scope="module")
def bad_home(tmp_path_factory) -> Iterator[Pipeline]:
    """A home with an earlier release."""
    with pipeline_in(tmp_path_factory.mktemp("bad") / "deid", "tables") as pipeline:
        write_policy(pipeline.home.policies, TABLES)
        publish_earlier_release(pipeline.home)
        yield pipeline


def run_on(pipeline: Pipeline, key: str, folder: Path, only=None) -> RunSummary:
    """Register the folder and run the job on it; whatever comes, the earlier release stays as it is."""
    before = pipeline.published_bytes()
    pipeline.register(key, "tables", folder)
    summary = pipeline.run(key, only)
    assert summary.release is None and pipeline.published_bytes() == before
    assert VALUE not in " ".join(summary.reasons)
    return summary


@dataclass(frozen=True)
class Fault:
    """How a delivery is broken, and what the message must say."""

    name: str
    breaks: Callable[[Path], object]
    says: tuple[str, ...]


def without_column(folder: Path) -> None:
    file = folder / "claims.csv"
    file.write_text(file.read_text().replace(",place,", ",somewhere,", 1))


def rewrite_claims(**changes: str) -> Callable[[Path], object]:
    """Every fourth of 40 claims is broken: 10 lines, far more than the policy allows."""
    rows = [claim(n, **(changes if n % 4 == 0 else {})) for n in range(40)]
    return lambda folder: write_csv(folder / "claims.csv", CLAIMS_HEADER, rows)


def rewrite_members(*extra: dict[str, str]) -> Callable[[Path], object]:
    rows = [member(n) for n in range(10)]
    return lambda folder: write_csv(folder / "members.csv", MEMBERS_HEADER, [*rows, *extra])


def cut_last_line(folder: Path) -> None:
    file = folder / "claims.csv"
    file.write_text(file.read_text() + f"99,{VALUE},do")


WHOLE_FILES = (
    Fault("missing file", lambda folder: (folder / "claims.csv").unlink(), ("claims.csv", "missing file")),
    Fault("missing column", without_column, ("claims.csv", "missing column place")),
    Fault("empty file", lambda folder: (folder / "members.csv").write_text(""), ("members.csv", "empty file")),
    Fault(
        "file without rows",
        lambda folder: write_csv(folder / "members.csv", MEMBERS_HEADER, []),
        ("members.csv", "no rows"),
    ),
)

ROWS = (
    Fault("unparseable date", rewrite_claims(day=VALUE), ("claims.csv: column day: 10 lines: unparseable date",)),
    Fault("wrong type", rewrite_claims(los=VALUE), ("claims.csv: column los: 10 lines: wrong type",)),
    Fault("null member", rewrite_claims(member=""), ("claims.csv: column member: 10 lines: null member id",)),
    Fault("unknown member", rewrite_claims(member=VALUE), ("column member: 10 lines: claim of an unknown member",)),
    Fault("negative stay", rewrite_claims(los="-3"), ("column los: 10 lines: negative length of stay",)),
    Fault("unknown code", rewrite_claims(dx=VALUE), ("column dx: 10 lines: unknown diagnosis code",)),
    Fault(
        "discharge before admission",
        rewrite_claims(admitted="2007-03-04", left="2007-03-01"),
        ("column left: 10 lines: discharge before admission",),
    ),
    Fault("duplicate claim", rewrite_claims(no="7"), ("column no:", "duplicate claim")),
    Fault(
        "duplicate member",
        rewrite_members(member(3), member(3, sex="M")),
        ("members.csv: column id: ", "duplicate member"),
    ),
    Fault("null id", rewrite_members(member(1, id="")), ("members.csv: column id: 1 line: null member id",)),
)


FAULTS = [*WHOLE_FILES, *ROWS]


# The matrix of malformed inputs holds their like by the hundred; a file and a row show here what such a run comes to.
@pytest.mark.matrix
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_broken_delivery_is_refused_with_file_column_lines_and_rule(bad_home, tmp_path, fault):
    folder = good_tables(tmp_path / fault.name)
    fault.breaks(folder)
    summary = run_on(bad_home, fault.name.replace(" ", "-"), folder)
    assert summary.exit_code == ERROR and len(summary.reasons) == 1, summary.reasons
    for text in fault.says:
        assert text in summary.reasons[0], summary.reasons


@pytest.mark.matrix
def test_a_refused_delivery_leaves_the_last_intake_as_it_was(bad_home, tmp_path):
    """The same delivery, sent again and broken: what was taken in before stays."""
    folder = good_tables(tmp_path / "again")
    assert not run_on(bad_home, "again", folder, INTAKE).reasons
    before = bad_home.table("again", "claims").frame("claim_id")
    rewrite_claims(day=VALUE)(folder)
    assert bad_home.run("again", INTAKE).exit_code == ERROR
    assert bad_home.table("again", "claims").frame("claim_id").equals(before)


@pytest.mark.matrix
def test_rows_up_to_the_share_allowed_are_quarantined_and_counted(bad_home, tmp_path):
    broken = [claim(100, day=VALUE), claim(101, member=VALUE), claim(102, los="-1"), claim(103, dx=VALUE)]
    rows = [claim(n) for n in range(100)] + broken
    folder = write_tables(tmp_path / "in", [member(n) for n in range(10)], rows)
    summary = run_on(bad_home, "few-broken", folder, INTAKE)
    assert not summary.reasons
    assert (summary.rows["claims"], summary.rows["quarantined_rows"]) == (100, 4)
    listed = bad_home.table("few-broken", "quarantined_rows").frame("source_row")
    assert listed["rule"].tolist() == [
        "unparseable date", "claim of an unknown member", "negative length of stay", "unknown diagnosis code",
    ]  # fmt: skip
    metadata = bad_home.materialization("claims", "few-broken").metadata
    assert metadata["rows_read"].value == 104 and metadata["rows_quarantined"].value == 4
    assert VALUE not in str(bad_home.materialization("quarantined_rows", "few-broken").metadata)


def test_a_cut_last_line_is_quarantined_and_counted(bad_home, tmp_path):
    """As in the real outpatient file of DE-SynPUF."""
    folder = good_tables(tmp_path / "in", claims=100)
    cut_last_line(folder)
    summary = run_on(bad_home, "cut", folder, INTAKE)
    assert not summary.reasons and summary.rows["claims"] == 100 and summary.rows["quarantined_rows"] == 1


def test_many_cut_lines_refuse_the_delivery(bad_home, tmp_path):
    folder = good_tables(tmp_path / "in", claims=10)
    cut_last_line(folder)
    summary = run_on(bad_home, "many-cut", folder, INTAKE)
    assert summary.exit_code == ERROR and "claims.csv" in summary.reasons[0] and "1 line" in summary.reasons[0]
