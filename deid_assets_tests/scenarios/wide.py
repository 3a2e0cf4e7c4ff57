"""A policy with eight quasi-identifiers of members and eight of claims, five of each kind declared, for the small delivery."""

from typing import Any

from deid_assets_tests.scenarios.policies import SMALL, changed


def codes(levels: list[str], **values: list[str]) -> dict[str, Any]:
    """A hierarchy of codes: the value, and its labels at the levels above."""
    return {"kind": "codes", "level_names": ["value", *levels], "values": values}


def anything(*values: str) -> dict[str, Any]:
    """A hierarchy of two levels: the value, and any."""
    return {"kind": "codes", "level_names": ["value", "any"], "values": {value: ["any"] for value in values}}


def member(column: str, release_as: str, hierarchy: str | None = None) -> dict[str, str]:
    """A listed quasi-identifier."""
    return {"column": column, "release_as": release_as, "hierarchy": hierarchy or column}


_ANY = {"name": "any", "starts": [0]}
HIERARCHIES: dict[str, Any] = {
    "age": {
        "kind": "intervals", "from": 0, "to": 120,
        "levels": [{"name": "20 years", "width": 20, "top": 80}, {"name": "0-39 or 40+", "starts": [0, 40]}, _ANY],
    },
    "sex": {"kind": "fixed", "values": ["F", "M"]},
    "days_in_hospital": {
        "kind": "intervals", "from": 0,
        "levels": [
            {"name": "none or any", "starts": [0, 1]},
            {"name": "any", "starts": [0], "labels": ["0 or more"], "missing_joins": 0},
        ],
    },
    "race": {
        "kind": "codes", "level_names": ["race", "white or not", "any"], "missing_joins": "any",
        "values": {
            "white": ["white", "any"],
            **{race: ["not white", "any"] for race in ("Black", "Asian", "American Indian", "other")},
        },
    },
    "zip3": {"kind": "prefixes", "lengths": [None, 0], "missing_joins": "0 characters"},
    "county": {"kind": "prefixes", "lengths": [None, 0]},
    "plan": codes(["any"], HMO=["any"], PPO=["any"], HDHP=["any"], EPO=["any"]),
    "emergency": anything("no", "yes"),
    "place": {"kind": "fixed", "level_name": "groups of places"},
    "specialty": {"kind": "prefixes", "lengths": [None, 0]},
    "paid": {
        "kind": "intervals", "from": 0, "to": 10_000,
        "levels": [
            {"name": "bins", "starts": [0, 100, 1_000, 10_000]}, {"name": "below 1,000 or not", "starts": [0, 1_000]}, _ANY
        ],
    },
    "charged": {"kind": "intervals", "from": 0, "to": 50_000, "levels": [{"name": "thousands", "starts": [0, 1_000]}, _ANY]},
    "discharge": {"kind": "prefixes", "lengths": [None, 0]},
    "revenue": anything("visit", "stay", "other"),
    "network": anything("in network", "out of network"),
    "length_of_stay": {"kind": "intervals", "from": 0, "levels": [{"name": "any stay", "starts": [0], "labels": ["any"]}]},
}  # fmt: skip

COLUMNS: dict[str, Any] = {
    "members": {
        "race": {"kind": "text", "from": "race", "meaning": "race as the member stated it"},
        "zip3": {"kind": "zip3", "from": "zip", "meaning": "first three digits of the ZIP code of the member's home"},
        "county": {"kind": "text", "from": "county", "meaning": "county of the member's home, by its FIPS code"},
        "plan": {"kind": "text", "from": "plan", "meaning": "the member's plan"},
        "emergency": {
            "kind": "any_of_claims", "from": "revenue_code", "with_values": ["0450"],
            "meaning": "whether the member was ever in an emergency room",
        },
    },
    "claims": {
        "paid": {"kind": "bins", "from": "paid", "starts": [0, 100, 1_000, 10_000], "meaning": "dollars paid"},
        "charged": {"kind": "rounded", "from": "charged", "to": 1_000, "at_most": 50_000, "meaning": "dollars charged"},
        "discharge": {"kind": "text", "from": "discharge_status", "meaning": "discharge status of a stay"},
        "revenue": {
            "kind": "group", "from": "revenue_code", "file": "revenue.csv", "others": "other", "meaning": "kind of bill"
        },
        "costly": {"kind": "bins", "from": "paid", "starts": [0, 1_000], "meaning": "whether a thousand dollars were paid"},
        "network": {"kind": "text", "from": "network", "meaning": "whether the provider was in the plan's network"},
    },
}  # fmt: skip
REVENUE = "0120;stay\n0200;stay\n0360;stay\n0510;visit\n0450;visit\n0300;visit\n"

MEMBERS = [
    member("age", "Age"),
    member("sex", "Sex"),
    member("days_in_hospital_y2", "DaysInHospital_Y2", "days_in_hospital"),
    *(member(name, name.capitalize()) for name in COLUMNS["members"]),
]
CLAIMS = [
    member("place", "PlaceSvc"),
    member("specialty", "Specialty"),
    member("length_of_stay", "LengthOfStay"),
    *(member(name, name.capitalize()) for name in COLUMNS["claims"] if name != "costly"),
]
_MOVED = [qi["column"] for qi in (*MEMBERS, *CLAIMS) if qi["column"] not in ("sex", "place", "length_of_stay")]

WIDE: dict[str, Any] = changed(
    SMALL,
    policy="wide",
    title="Eight quasi-identifiers of members and eight of claims",
    columns=COLUMNS,
    quasi_identifiers={"members": MEMBERS, "claims": CLAIMS},
    attributes=[{"column": "costly", "release_as": "Costly"}],
    hierarchies={name: HIERARCHIES[name] for name in dict.fromkeys(qi["hierarchy"] for qi in (*MEMBERS, *CLAIMS))},
    dimensions=[{"name": column, "columns": [column]} for column in _MOVED],
    risk__search={"aim": 0.85, "draws_at_most": 100_000, "enough": 3},
)
"""The small policy with all of them: 3 * 2 * 3 * 2**9 * 3 nodes."""


def widths(to: int, *levels: int) -> dict[str, Any]:
    """A hierarchy of numbers: intervals of these widths, then any."""
    return {"kind": "intervals", "from": 0, "to": to, "levels": [*({"name": f"{w}", "width": w} for w in levels), _ANY]}


VAST: dict[str, Any] = changed(
    WIDE,
    policy="vast",
    title="The same with more levels than can be listed, and dollars summed",
    columns__members=COLUMNS["members"]
    | {
        "spent": {"kind": "sum_of_claims", "from": "paid", "to": 1, "at_most": 20_000, "meaning": "dollars paid for all claims"}
    },
    counts={"totals": [{"column": "spent", "by": ["sex"]}]},
    hierarchies__age=widths(120, 5, 10, 20, 40),
    hierarchies__zip3={"kind": "prefixes", "lengths": [None, 2, 1, 0], "missing_joins": "0 characters"},
    hierarchies__county={"kind": "prefixes", "lengths": [None, 4, 3, 2, 1, 0]},
    hierarchies__specialty={"kind": "prefixes", "lengths": [None, 3, 2, 1, 0]},
    hierarchies__charged=widths(50_000, 1_000, 2_000, 4_000, 8_000),
    hierarchies__discharge={"kind": "prefixes", "lengths": [None, 1, 0]},
    risk__search={"aim": 0.85, "draws_at_most": 100_000},
    reviewed_attributes=dict.fromkeys(("PayDelay", "CharlsonIndex", "Costly"), "Only the person and the publisher know it."),
)
"""2,592,000 nodes."""
