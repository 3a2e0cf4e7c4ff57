"""Which column of a release is what in an OMOP CDM, by the policy that its public manifest shows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from deid_assets.errors import ReleaseError
from deid_assets.policy.sections.longitudinal import PSEUDONYM_COLUMNS
from deid_assets.reference.known_columns import AGES, GROUPED, MEMBERS
from deid_assets.store.tables import events_file

Target = Literal["condition_occurrence", "procedure_occurrence", "drug_exposure", "measurement", "observation"]
VISITS = events_file("claims")
_KINDS: Mapping[str, Target] = {
    "diagnosis": "condition_occurrence", "procedure": "procedure_occurrence", "drug": "drug_exposure",
    "ndc": "drug_exposure", "cpt_section": "procedure_occurrence", "hcpcs_letter": "procedure_occurrence",
    "result": "measurement",
}  # fmt: skip
_GROUPS: Mapping[str, Target] = {GROUPED["diagnosis"]: "condition_occurrence", GROUPED["procedure"]: "procedure_occurrence"}
_TESTS = re.compile("measure|lab|test")
_SEX = next(name for name, column in MEMBERS.items() if column.values == ("F", "M"))


@dataclass(frozen=True)
class Cell:
    """A column of a file of the release, and the table of the CDM that its values are rows of."""

    table: str
    column: str
    target: Target


@dataclass(frozen=True)
class Layout:
    """What the columns of a release are.

    Attributes
    ----------
    date
        The released date of every event.
    age_label, sex_label
        Released columns of members; None: there is none.
    members
        Every released column of members.
    events
        Every released column of an event that is a fact, by the file that has it. Pseudonyms, the date and the year are none.
    """

    date: str
    age_label: str | None
    sex_label: str | None
    members: tuple[str, ...]
    events: Mapping[str, tuple[Cell, ...]]


def layout_of(policy: Mapping[str, Any], columns: Mapping[str, Sequence[str]]) -> Layout:
    """Read what the columns are.

    Parameters
    ----------
    policy
        The policy as the public manifest shows it.
    columns
        Name of each file of members or events -> its columns.

    Raises
    ------
    ReleaseError
        If the release has no calendar dates of events: the CDM has no event without one.
    """
    dates = policy.get("dates")
    if not dates or dates.get("format", "dates") != "dates":
        raise ReleaseError(
            "an OMOP CDM has no event without a date, and this release has no dates: its policy needs a section dates with "
            "format: dates"
        )
    of_members = {one["column"]: one["release_as"] for one in policy["quasi_identifiers"]["members"]}
    released = {
        one["release_as"]: one["column"] for one in (*policy["quasi_identifiers"]["claims"], *policy.get("attributes", ()))
    }
    kinds = {name: one for table, own in policy.get("columns", {}).items() if table != "members" for name, one in own.items()}
    passed = {*PSEUDONYM_COLUMNS, "Year", dates["release_as"]}
    events = {
        file: tuple(Cell(file, name, _target(file, released.get(name), kinds)) for name in names if name not in passed)
        for file, names in columns.items()
        if file != "Members"
    }
    return Layout(
        dates["release_as"],
        next((of_members[name] for name in AGES if name in of_members), None),
        of_members.get(_SEX),
        tuple(name for name in columns["Members"] if name != "MemberID"),
        events,
    )


def _target(file: str, column: str | None, kinds: Mapping[str, Mapping[str, Any]]) -> Target:
    """What a released column of events is; what no table of the CDM is for is an observation."""
    if column is None:
        return "observation"
    if column in _GROUPS:
        return _GROUPS[column]
    made = kinds.get(column, {})
    target = _KINDS.get(str(made.get("of" if made.get("kind") == "concept" else "kind")), "observation")
    return "measurement" if target == "procedure_occurrence" and _TESTS.search(file.lower()) else target
