"""Attack 2: released members matched with a list of everybody by age and sex (methods#voter-list)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deid_assets.assessments.assessment import (
    CANDIDATE,
    HALF,
    Adversary,
    Assessed,
    Assessment,
    Gate,
    Image,
    Shown,
    Work,
    limit_of,
)
from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.evidence import Measurement, made_up
from deid_assets.assessments.matching import Attempts, ClassSizes, formulas, gate_on, linkages, linked, released_names, sizes_of
from deid_assets.assessments.planted_members import label, members_of, plant_members
from deid_assets.assessments.planting import PLAIN, Attack, as_certain, demographic_groups, plant, planted_store, released_sizes
from deid_assets.assessments.population_table import read_table
from deid_assets.assessments.precedents import HERITAGE, MARKETER
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.methods.attacks.file_classes import class_numbers, class_sizes
from deid_assets.methods.attacks.identified_file import compared, delivered_people, listed_people, released_people
from deid_assets.methods.attacks.inpatient_classes import MEMBER_LEVEL
from deid_assets.methods.attacks.marketer_risk import matched_share
from deid_assets.methods.canaries.planting import Findings
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, write_table

NAME = "voter_list_attack"
VOTER_LIST = "voter_list_match"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: released members matched with a list of everybody by age and sex."""
    policy, tables = work.policy, work.tables
    attack, levels = policy.voter_list_attack, chosen_levels(policy, tables["chosen_generalization"])
    # The table of a policy has age and sex. Without one, a list may have what the policy declares of people, too.
    declared = [name for name, made in policy.columns.declared.members.items() if not made.of_events]
    known = [*MEMBER_LEVEL, *declared] if attack.table is None else [c for c in MEMBER_LEVEL if c in attack.table.columns]
    columns = [column for column in known if policy.publishes(column)]
    shown: dict[str, Shown] = {}
    listed = None
    if columns and attack.table is not None:
        listed = Table(tables["release_members"].file, "scratch", "listed")
        shown |= read_table(policy, attack.table, levels, listed)

    def match(tables: Mapping[str, Table], listed: Table | None, of: str) -> tuple[Measurement, ...]:
        found = matched_people(policy, levels, columns, tables, listed, work.stream_key(of))
        return voter_list_measurements(attack.at_most, *found, work.commitment)

    measured = match(tables, listed, "voter list")
    like = {name: tables[name] for name in ("member_profiles", "value_domains", "pseudonym_crosswalk", "release_members")}
    canaries = voters_of_canaries(
        policy, levels, like, columns, listed,
        lambda planted: match(planted, planted.get("listed"), "canaries of the voter list"),
    )  # fmt: skip
    drawn = [found for found in measured if found.unit == "probability"]
    figure = neighbor_attack_figure([(found.name, found.value, found.bound, found.threshold) for found in drawn])
    shown |= {
        "identified_file": "delivery" if attack.table is None else attack.table.file,
        "columns": columns,
        "matched": Image(figure, "share of released members matched with a voter list"),
    }
    return Assessed(measured, canaries, shown=shown)


def matched_people(
    policy: Policy,
    levels: Mapping[str, int],
    columns: Sequence[str],
    tables: Mapping[str, Table],
    listed: Table | None,
    key: bytes,
) -> tuple[ClassSizes | None, Attempts | None]:
    """Attack 2: the classes that released members and people form on the columns, and simulated linkages.

    Parameters
    ----------
    tables
        The asset's inputs by name.
    listed
        The list of people, as `read_table` reads it; None: the delivery, for which true matches are known.
    """
    if not columns:
        return None, None
    profiles, members = tables["member_profiles"], tables["release_members"]
    if listed is None:
        people = delivered_people(profiles, tables["value_domains"], {c: levels[c] for c in columns})
    else:
        people = listed_people(listed, columns)
    released = released_people(members, tables["pseudonym_crosswalk"], profiles, released_names(policy, columns))
    rows = Table(members.file, "scratch", "voter_list_rows")
    write_table(rows, compared(people, released, columns))
    sizes = sizes_of(rows, class_sizes(rows.sql, columns))
    return sizes, linked(rows, class_numbers(rows.sql, columns), key) if listed is None else None


def voter_list_measurements(
    at_most: float | None, sizes: ClassSizes | None, attempts: Attempts | None, commitment: str
) -> tuple[Measurement, ...]:
    """Attack 2: the share of released members matched by age and sex.

    Parameters
    ----------
    at_most
        Threshold of the gate; None if there is no gate.
    sizes
        None if the release shows neither age nor sex.
    attempts
        None if true matches are unknown.
    """
    share = matched_share(sizes.released, sizes.population) if sizes and sizes.records else None
    section = "methods#voter-list; El Emam et al. 2012"
    return (
        gate_on(VOTER_LIST, share, at_most, section),
        *formulas("voter_list", sizes, section, "share of released members"),
        *linkages("voter_list", attempts, section, commitment),
    )


def voters_of_canaries(
    policy: Policy,
    levels: Mapping[str, int],
    like: Mapping[str, Table],
    columns: Sequence[str],
    listed: Table | None,
    attack: Attack,
) -> Findings:
    """Whether attack 2 matches members as often as known; if it lacks a column, it matches nobody.

    Parameters
    ----------
    listed
        The list that the policy names, as read; None if the delivery is the list.
    """
    if not columns:
        return as_certain({VOTER_LIST: None}, attack(like))
    groups = demographic_groups(columns, 5)
    sizes = np.array(released_sizes(groups))
    people = sum(group.people for group in groups)
    certain = {
        # Members missing from the list count as found.
        VOTER_LIST: np.where(sizes > 0, 1 / np.maximum(sizes, 1), 1.0).mean(),
        "voter_list_not_in_the_file": (sizes == 0).mean(),
        "voter_list_expected": len(groups) / people,
    }
    if listed is None:
        certain |= {"voter_list_linked_if_alone_precision": 1.0, "voter_list_linked_if_alone_recall": (sizes == 1).mean()}
    with planted_store() as file:
        tables = plant_members(file, policy, levels, like, members_of(groups))
        if listed is not None:
            rows = [
                {"person": number, "weight": group.people}
                | {column: label(group.own.get(column, PLAIN), levels[column]) for column in columns}
                for number, group in enumerate(groups)
            ]
            tables["listed"] = plant(file, listed, rows, "listed")
        return as_certain(certain, attack(tables))


def _noisy(policy: Policy) -> Iterator[Measurement]:
    yield made_up("voter_list_not_in_the_file", "share of released members", "marketer_risk")


VOTER_LIST_ATTACK = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody with a list of everybody's age and sex, who links all records.",
        "Voter lists can be had in many states.",
        f"{MARKETER}; {HERITAGE}, attack 2: accepts .05",
    ),
    version="3",
    policy_sections=("voter_list_attack", "quasi_identifiers", "hierarchies", "intake", "columns"),
    inputs=("member_profiles", "value_domains", "pseudonym_crosswalk", "chosen_generalization", *CANDIDATE),
    measure=assess,
    draws="reported",
    shaped_by={"marketer_risk": ("voter_list_attack",)},
    noisy=_noisy,
    gates=(
        Gate(
            VOTER_LIST,
            "voter_list_match_within_threshold",
            "The expected share of released members matched with a list of everybody's age and sex is at most the allowed one "
            "(marketer risk).",
            "Released members expected to be matched correctly with a list of everybody's age and sex (marketer risk).",
            HALF,
            lambda policy: limit_of(policy.voter_list_attack.at_most),
        ),
    ),
)
