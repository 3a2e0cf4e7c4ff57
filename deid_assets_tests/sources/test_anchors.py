"""Columns made of events of other tables than claims, before anything is cut: days since an anchor, and what members have."""

from pathlib import Path
from typing import Any

import pytest

from deid_assets.assessments import why_ledger
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.policy.models import Policy
from deid_assets.release.lineage import columns
from deid_assets.schemas import contracts_of
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.store.tables import Table
from deid_assets_tests.scenarios.fills_delivery import FILLS, TABLE_OF_DRUGS
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.tables_delivery import claim, member
from deid_assets_tests.sources.deliveries import csv_text

BOTH = ("claims", "fills")


def since(*tables: str, per: str = "person") -> dict[str, Any]:
    return {"kind": "days_since", "anchor": "first_event", "of": list(tables), "per": per, "meaning": "days since the first"}


def policy_with(folder: Path, claims: dict[str, Any], fills: dict[str, Any], **changes: Any) -> Policy:
    (folder / "drugs.csv").write_text(TABLE_OF_DRUGS)
    declared = {"claims": claims, "fills": FILLS["columns"]["fills"] | fills}
    values = changed(FILLS, columns=declared, **({"hierarchies__since": {"kind": "fixed"}} | changes))
    values["quasi_identifiers"]["claims"] = [
        FILLS["quasi_identifiers"]["claims"][0],
        *({"column": name, "release_as": name.capitalize(), "hierarchy": "since"} for name in claims),
        FILLS["quasi_identifiers"]["claims"][1],
        *({"column": name, "release_as": name.capitalize(), "hierarchy": "since"} for name in fills),
    ]
    return policy_from(values, folder)


def store_of(folder: Path, policy: Policy, claims: list[tuple[str, str]], fills: list[tuple[str, str]]) -> Path:
    """Take in claims and fills, each told as (member, day), and the people who have any."""
    (folder / "in").mkdir()
    people = sorted({who for who, _ in (*claims, *fills)})
    rows = {
        "members": [member(0) | {"id": who} for who in people],
        "claims": [claim(number, member=who, day=day) for number, (who, day) in enumerate(claims)],
        "fills": [
            {"member": who, "filled": day, "prescriber": "doctor-1", "ndc": "00093104801", "days": "30"} for who, day in fills
        ],
    }
    headers = {name: tuple(dict.fromkeys(key for row in own for key in row)) for name, own in rows.items()}
    headers["claims"] = ("no", "member", "provider", "day", "specialty", "place", "cpt", "los", "admitted", "left", "dx")
    for name, own in rows.items():
        (folder / "in" / f"{name}.csv").write_text(csv_text(headers[name], own))
    file = folder / "store.duckdb"
    reading = Reading(policy.source, 1.0, declared=policy.columns.declared)
    read_delivery(file, Delivery("d", "tables", (folder / "in",)), reading, None)
    return file


def taken(folder: Path, policy: Policy, claims: list[tuple[str, str]], fills: list[tuple[str, str]]) -> dict[str, list]:
    """The declared columns of claims and fills, in their order."""
    found = Table(store_of(folder, policy, claims, fills), "intake", "claims").query(
        "SELECT * FROM intake.claims ORDER BY member_id, service_date, event_table, claim_id"
    )
    return {
        name: [(one["event_table"], one[name]) for one in found[found[name].notna()].to_dict("records")]
        for name in policy.columns.of_events
        if name not in ("drug", "supply")
    }


def test_the_worked_example(tmp_path):
    """Claims on days 10 and 40, fills on days 5 and 12 of the year."""
    policy = policy_with(
        tmp_path,
        {"own_days": since("claims"), "together": since(*BOTH)},
        {"fill_days": since("fills"), "fill_together": since(*BOTH)},
    )
    days = {"claims": [("a", "2008-01-10"), ("a", "2008-02-09")], "fills": [("a", "2008-01-05"), ("a", "2008-01-12")]}
    found = {name: [days for _, days in rows] for name, rows in taken(tmp_path, policy, **days).items()}
    assert found == {"own_days": [0, 30], "together": [5, 35], "fill_days": [0, 7], "fill_together": [0, 7]}
    assert len(policy.columns.declared.anchors) == 3


def test_of_each_person_and_year(tmp_path):
    policy = policy_with(tmp_path, {"ever": since(*BOTH), "of_year": since(*BOTH, per="person_year")}, {})
    claims = [("a", "2008-03-01"), ("a", "2009-06-01"), ("a", "2009-06-11"), ("b", "2009-01-02")]
    found = taken(tmp_path, policy, claims, [("a", "2008-02-01"), ("a", "2009-05-31"), ("c", "2007-01-01")])
    assert [days for _, days in found["ever"]] == [29, 486, 496, 0]
    assert [days for _, days in found["of_year"]] == [29, 1, 11, 0]


def test_of_a_year_there_are_at_most_365_days(tmp_path):
    """From the first to the last day of a leap year: a hierarchy that ends covers them, but not the days of all years."""
    months = {"kind": "intervals", "from": 0, "to": 366, "levels": [{"name": "months", "starts": [*range(0, 309, 28)]}]}
    policy = policy_with(tmp_path, {"of_year": since(*BOTH, per="person_year")}, {}, hierarchies__since=months)
    found = taken(tmp_path, policy, [("a", "2008-12-31"), ("b", "2009-01-01")], [("a", "2008-01-01"), ("b", "2009-12-31")])
    assert [days for _, days in found["of_year"]] == [365, 0]
    column = contracts_of(policy)["claims"].columns["of_year"]
    assert [check.error for check in column.checks] == ["0 to 365"]
    with pytest.raises(PolicyError, match="has no largest value"):
        policy_with(tmp_path, {"ever": since(*BOTH)}, {}, hierarchies__since=months)


def test_a_row_in_quarantine_is_no_first_event(tmp_path):
    """A day before the years that are read, and one that cannot be read."""
    policy = policy_with(tmp_path, {"together": since(*BOTH)}, {})
    found = taken(tmp_path, policy, [("a", "2008-03-01")], [("a", "someday"), ("a", "2001-01-01"), ("a", "2008-02-28")])
    assert found["together"] == [("claims", 2)]


@pytest.mark.parametrize(
    ("of", "changes", "said"),
    [
        (("fills",), {}, "does not name claims, so days would be negative"),
        (("claims", "fill"), {}, "fill is no table of events"),
        (("claims", "claims"), {}, "names a table twice"),
        ((), {}, "of"),
        (
            BOTH,
            {"source__events": {"fills": {"file": "fills.csv", "columns": {"member_id": "member", "year": "year"}}}},
            "fills has no service_date",
        ),
        (BOTH, {"dates": {"release_as": "ServiceDate", "derived": "drop"}}, "would undo the drawing of dates"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, of, changes, said):
    with pytest.raises(PolicyError) as refused:
        policy_with(tmp_path, {"together": since(*of)}, {}, **changes)
    assert said in str(refused.value)


def test_the_columns_behind_it_are_the_dates_of_every_table(tmp_path):
    policy = policy_with(tmp_path, {"together": since(*BOTH)}, {})
    assert columns._delivered(policy.content(), "fills/intake/claims", "together") == ("claims.day", "fills.filled")
    # Its values are of no single row that may be in quarantine, so that the ledger counts none there.
    assert why_ledger._delivered_as(policy, ["together", "place"]) == {"place": "place"}


def policy_of_people(folder: Path, **columns: dict[str, Any]) -> Policy:
    """Claims and fills, and what people have of them."""
    (folder / "drugs.csv").write_text(TABLE_OF_DRUGS)
    listed = [{"column": name, "release_as": name.capitalize(), "hierarchy": "as_it_is"} for name in columns]
    made = {name: {"meaning": "of all events", **one} for name, one in columns.items()}
    members = [*FILLS["quasi_identifiers"]["members"], *listed]
    return policy_from(
        changed(FILLS, columns__members=made, quasi_identifiers__members=members, hierarchies__as_it_is={"kind": "fixed"}),
        folder,
    )


ANTIVIRAL = {"kind": "any_of_claims", "of": "fills", "from": "ndc", "with_values": ["00093104801"]}
SUPPLY = {"kind": "sum_of_claims", "of": "fills", "from": "days", "to": 10, "at_most": 90}


def test_what_people_have_of_any_table(tmp_path):
    """Of claims and of fills at once; a fill in quarantine counts for nothing, and people without fills have none."""
    policy = policy_of_people(
        tmp_path,
        billed={"kind": "count_of_claims"},
        filled={"kind": "count_of_claims", "of": "fills"},
        supplied=SUPPLY,
        antiviral=ANTIVIRAL,
    )
    claims = [("a", "2008-03-01"), ("a", "2008-03-02"), ("b", "2008-03-01")]
    fills = [("a", "2008-03-01"), ("a", "someday"), *[("c", "2008-02-28")] * 4]
    people = Table(store_of(tmp_path, policy, claims, fills), "intake", "members").frame().sort_values("member_id")
    found = people[["billed", "filled", "supplied", "antiviral"]].values.tolist()
    assert found == [[2, 1, 30, "yes"], [1, 0, 0, "no"], [0, 4, 90, "yes"]]
    assert columns._delivered(policy.content(), "fills/intake/members", "supplied") == ("fills.days",)


def test_columns_of_claims_are_what_they_were(tmp_path):
    """A policy that states claims has the hash of one that does not, and each table gives draws of its own."""
    unsaid, said = ({"kind": "sum_of_claims", "from": "days", "to": 10, "at_most": 90} | of for of in ({}, {"of": "claims"}))
    policies = [policy_of_people(tmp_path, supplied=one) for one in (unsaid, said, SUPPLY)]
    assert policies[0].hash == policies[1].hash != policies[2].hash
    assert policies[0].origins == policies[1].origins != policies[2].origins


def test_a_table_that_nobody_delivers_is_refused(tmp_path):
    with pytest.raises(PolicyError, match=r"columns\.members\.filled\.of: 'fill' is no table of events; did you mean fills\?"):
        policy_of_people(tmp_path, filled={"kind": "count_of_claims", "of": "fill"})
