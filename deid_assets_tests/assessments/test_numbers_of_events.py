"""Numbers of rows of any tables of events: what is cut of small random tables, and whom the files name, by brute force."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments import neighbor_attack, number_of_claims, planting
from deid_assets.assessments.demographic_risk import DEMOGRAPHIC_RISK
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.neighbor_attack import ATTACK_SENSITIVITY, analysis_rows, sensitivity_measurements
from deid_assets.assessments.number_of_claims import (
    LISTED_NUMBERS,
    NUMBERED,
    claim_bins_of,
    limit_of,
    number_of_events_risk,
    numbers_measured,
    reference_classes,
)
from deid_assets.assets.preparation import _cut_for_bins
from deid_assets.errors import PolicyError
from deid_assets.methods.attacks.attack_sensitivity import Trials, cell_of, claim_bins
from deid_assets.methods.lattice.diagnosis import PolicyChange
from deid_assets.methods.long_tail import number_of_claims as cut
from deid_assets.methods.long_tail.truncation import without
from deid_assets.methods.population.claim_records import MISSING, ClaimRecords
from deid_assets.policy.changes import changed_sections
from deid_assets.policy.loading import policy_from, with_sections
from deid_assets.policy.models import Policy
from deid_assets.release.keys import Secret
from deid_assets.store.parts import ByPerson, Parts
from deid_assets.store.tables import ALL_EVENTS, Table
from deid_assets_tests import examples
from deid_assets_tests.assessments.planted_layouts import Canaries
from deid_assets_tests.methods.small_tables import SmallStore, small_store
from deid_assets_tests.scenarios.fills_delivery import FILLS, TABLE_OF_DRUGS
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

TABLES, YEARS = ("claims", "fills"), (1, 2)
NUMBERS = [(of, per) for of in (("claims",), ("fills",), TABLES, (ALL_EVENTS,)) for per in ("member", "member_year")]
NAMES = ["_".join((*of, per)) for of, per in NUMBERS]
SECTION: dict[str, Any] = {"of": ["fills"], "per": "member", "width": 5}
REFERENCE = {"age": "any", "days_in_hospital": "none or any"}
MEMBER = "member_id VARCHAR, age INTEGER, sex VARCHAR, days_in_hospital_y2 INTEGER, days_in_hospital_y3 INTEGER"
SHOWN = "age VARCHAR, sex VARCHAR, days_in_hospital_y2 VARCHAR"
ENOUGH = 3

Person = tuple[str, tuple[int, ...]]
"""Sex, and how many rows of each table in each year: claims of year 1 and 2, fills of year 1 and 2."""
people = st.lists(
    st.tuples(st.sampled_from("FM"), st.tuples(st.integers(1, 6), *[st.integers(0, 5)] * 3)), min_size=1, max_size=14
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("policies")
    (found / "drugs.csv").write_text(TABLE_OF_DRUGS)
    return found


def policy_with(folder, section: dict[str, Any] | None, **changes: Any) -> Policy:
    numbers = None if section is None else {"reference": REFERENCE} | section
    return write_policy(folder, changed(FILLS, number_of_claims=numbers, **changes))


def of_few(policy: Policy, **section: Any) -> Policy:
    """The same where three are enough, and of other numbers: as few as no policy may say."""
    risk, demographics = (
        policy.risk.model_copy(update={"threshold": 1 / ENOUGH}),
        policy.demographics.model_copy(update={"class_size_at_least": ENOUGH}),
    )
    numbers = policy.number_of_claims_section.model_copy(update=section)
    return policy.model_copy(update={"risk": risk, "demographics": demographics, "number_of_claims": numbers})


def rows_of(drawn: Iterable[Person]) -> list[tuple[str, str, int, str]]:
    return [
        (f"{table} {year} {who} {n}", f"p{who}", year, table)
        for who, (_, numbers) in enumerate(drawn)
        for (table, year), number in zip(product(TABLES, YEARS), numbers, strict=True)
        for n in range(number)
    ]


def bins_by_hand(rows: Iterable[tuple], member: str, policy: Policy) -> tuple[int, ...]:
    """The bins of one member, from rows of (id, member, year, table)."""
    section, own = policy.number_of_claims_section, [row for row in rows if row[1] == member]
    return tuple(
        -(-sum(row[2] in years and (of == ALL_EVENTS or row[3] == of) for row in own) // section.width)
        for of in section.of
        for years in ([(year,) for year in YEARS] if section.per == "member_year" else [YEARS])
    )


def cut_by_product(store: SmallStore, policy: Policy, drawn: list[Person]) -> list[tuple]:
    """What stays of the rows of a population."""
    members = store.table("members", MEMBER, [(f"p{who}", 50, sex, 0, 0) for who, (sex, _) in enumerate(drawn)])
    rows = rows_of(drawn)
    grouped = store.table("grouped", "claim_id VARCHAR, member_id VARCHAR, year INTEGER, event_table VARCHAR", rows)
    scores = store.table(
        "scores", "claim_id VARCHAR, score DOUBLE", [(row[0], place % 7 / 7) for place, row in enumerate(rows)]
    )
    step = SimpleNamespace(
        policy=policy,
        secret=Secret(bytes(range(32)), "environment"),
        names=("p", "d"),
        tell=lambda _: None,
        by_person=lambda make, *tables: ByPerson(make, tables, Parts(2, bytes(8))),
    )
    return store.rows(without(grouped, _cut_for_bins(step, members, grouped, scores, [])))


@pytest.mark.parametrize(("of", "per"), NUMBERS, ids=NAMES)
@settings(max_examples=examples.of(48), deadline=None)
@given(people, st.sampled_from((1, 2, 5)))
def test_every_bin_of_every_class_is_empty_or_large_enough(folder, of, per, drawn, width):
    policy = of_few(policy_with(folder, SECTION), of=of, per=per, width=width)
    with small_store() as store:
        kept = cut_by_product(store, policy, drawn)
    assert len(set(kept)) == len(kept) and set(kept) <= set(rows_of(drawn)), "rows are left out, and none is made"
    if of != (ALL_EVENTS,):
        others = [[row for row in rows if row[3] not in of] for rows in (kept, rows_of(drawn))]
        assert sorted(others[0]) == sorted(others[1]), "a number that is not listed is not cut"
    found = {who: bins_by_hand(kept, f"p{who}", policy) for who in range(len(drawn))}
    sizes = Counter((drawn[who][0], bins) for who, bins in found.items())
    for sex in "FM":
        own = [size for (one, _), size in sizes.items() if one == sex]
        if sum(own) >= ENOUGH:
            assert min(own) >= ENOUGH, (sizes, drawn)
        else:
            everything = [row for row in rows_of(drawn) if drawn[int(row[1][1:])][0] == sex]
            assert {row for row in kept if drawn[int(row[1][1:])][0] == sex} == set(everything), "a cut would help nobody"


@pytest.mark.parametrize(("of", "per"), NUMBERS, ids=NAMES)
@settings(max_examples=examples.of(24), deadline=None)
@given(people, st.data())
def test_who_is_found_by_the_files_is_who_shares_demographics_and_bins_with_too_few(folder, of, per, drawn, data):
    policy = of_few(policy_with(folder, SECTION), of=of, per=per, width=data.draw(st.sampled_from((1, 2, 5))))
    released = data.draw(st.sets(st.sampled_from(range(len(drawn))), min_size=1))
    # Of the released, the files may show fewer rows than the store.
    files = [row for row in rows_of(drawn) if int(row[1][1:]) in released and not row[0].endswith("4")]
    everybody = {who: (sex, bins_by_hand(rows_of(drawn), f"p{who}", policy)) for who, (sex, _) in enumerate(drawn)}
    shown = {who: (drawn[who][0], bins_by_hand(files, f"p{who}", policy)) for who in released}
    sizes = Counter(everybody.values())
    with small_store() as store:
        held = events(store, drawn)
        risk = number_of_events_risk(
            *candidate_of(store, policy, drawn, released, held, files), policy.number_of_claims_section
        )
        columns = "member_id VARCHAR, member_number INTEGER, claims INTEGER, number_of_fills INTEGER"
        profiles = store.table("profiles", columns, [(f"p{who}", who, 0, 0) for who in range(len(drawn))])
        bins = claim_bins_of(policy, profiles, held)
    # Who shows what nobody in the population has is alone.
    assert risk.released_below_k == sum(sizes[one] < ENOUGH for one in shown.values())
    assert risk.released == len(released)
    # Columns of years without a row at all are not counted.
    expected = np.array([bins for _, bins in everybody.values()])
    assert partition(bins) == partition(expected) and bins.sum() == expected.sum()


def events(store: SmallStore, drawn: list[Person]) -> Table:
    return store.table("held", "claim_id VARCHAR, member_id VARCHAR, year INTEGER, event_table VARCHAR", rows_of(drawn))


def candidate_of(
    store: SmallStore, policy: Policy, drawn: list[Person], released: Iterable[int], held: Table, files: list[tuple]
) -> tuple[Candidate, Table, Table]:
    """A release, the population and the released members."""
    population = store.table(
        "population", f"member_id VARCHAR, {SHOWN}", [(f"p{who}", "any", sex, "0") for who, (sex, _) in enumerate(drawn)]
    )
    members = store.table(
        "released", f'"MemberID" VARCHAR, {SHOWN}', [(f"p{who}", "any", drawn[who][0], "0") for who in sorted(released)]
    )
    shown = [(member, f"Y{year}", table) for _, member, year, table in files]
    claims = store.table("shown", '"MemberID" VARCHAR, "Year" VARCHAR, event_table VARCHAR', shown)
    return Candidate(policy, {}, {"held": held, "release_claims": claims}), population, members


def partition(values: np.ndarray) -> list[int]:
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1).tolist()


@pytest.mark.parametrize(("of", "per"), NUMBERS, ids=NAMES)
@settings(max_examples=examples.of(24), deadline=None)
@given(people, st.sampled_from((1, 2, 5)))
def test_a_neighbor_who_knows_values_too_knows_the_same_bins(folder, of, per, drawn, width):
    policy = of_few(policy_with(folder, SECTION), of=of, per=per, width=width)
    place = {one: number for number, one in enumerate(of)}
    owners = [[row for row in rows_of(drawn) if row[1] == f"p{who}"] for who in range(len(drawn))]
    records = ClaimRecords(
        np.concatenate([[0], np.cumsum([len(own) for own in owners])]),
        np.zeros((1, len(rows_of(drawn))), dtype=np.int32),
        np.array([row[2] - 1 for own in owners for row in own]),
        np.full(len(rows_of(drawn)), MISSING),
        counted=np.array([0 if of == (ALL_EVENTS,) else place.get(row[3], MISSING) for own in owners for row in own]),
    )
    expected = np.array([bins_by_hand(rows_of(drawn), f"p{who}", policy) for who in range(len(drawn))])
    assert partition(claim_bins(records, width, per == "member_year")) == partition(expected)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (["claims"], [[1], [2], [4]]),
        (["fills"], [[0], [3], [1]]),
        (["fills", "claims"], [[0, 1], [3, 2], [1, 4]]),
        ([ALL_EVENTS], [[1], [5], [5]]),
    ],
)
def test_a_neighbor_who_knows_values_too_counts_the_rows_of_the_files_that_are_listed(folder, of, expected):
    policy = policy_with(folder, SECTION | {"of": of, "width": 1})
    claims = [
        planting.PlantedClaim(who, {"event_table": table})
        for who, both in enumerate([(1, 0), (2, 3), (4, 1)])
        for table, number in zip(TABLES, both, strict=True)
        for _ in range(number)
    ]
    with small_store() as store, planting.planted_store() as file:
        members = [planting.PlantedMember({}, {}, released=True)] * 3
        released = planting.plant_members(file, Canaries(store, policy).candidate, members, claims)
        records = neighbor_attack._records(released, neighbor_attack.released_tables(released))
    assert claim_bins(records.held, 1, by_year=False).tolist() == expected


def test_a_member_with_a_number_of_fills_of_their_own_is_at_risk_and_is_cut(folder):
    """Of twenty-one alike in everything else one has thirty fills: the files would name them, and after the cut nobody."""
    drawn = [("F", (2, 0, 1, 0))] * 20 + [("F", (2, 0, 30, 0))]
    policy = policy_with(folder, SECTION)
    with small_store() as store:
        before = candidate_of(store, policy, drawn, range(21), events(store, drawn), rows_of(drawn))
        found = {name: number_of_events_risk(*before, one) for name, one in numbers_measured(policy).items()}
        assert {name: one.released_below_k for name, one in found.items()} == {
            LISTED_NUMBERS: 1, NUMBERED: 0, "number_of_all_events_high_risk_share": 1,
        }  # fmt: skip
        left = cut_by_product(store, policy, drawn)
        held = store.table("held", "claim_id VARCHAR, member_id VARCHAR, year INTEGER, event_table VARCHAR", left)
        after = candidate_of(store, policy, drawn, range(21), held, left)
        assert number_of_events_risk(*after, policy.number_of_claims_section).released_below_k == 0
        # A file with one fill more than the cut left says more than the bin, and its member is alone again.
        more = [*left, *[("more", "p20", 1, "fills")]]
        told = candidate_of(store, policy, drawn, range(21), held, more)
        assert number_of_events_risk(*told, policy.number_of_claims_section).released_below_k == 1
    assert sum(row[1] == "p20" and row[3] == "fills" for row in left) == 5


def test_the_numbers_that_are_listed_are_the_gate_and_all_others_are_reported(folder):
    silent, fills = policy_with(folder, None), policy_with(folder, SECTION)
    each = [f"number_of_{one}_high_risk_share" for one in (*TABLES, ALL_EVENTS)]
    assert list(numbers_measured(silent)) == each and not any(limit_of(silent, one) for one in each)
    assert list(numbers_measured(fills)) == [LISTED_NUMBERS, each[0], each[2]], "fills have one name"
    gates = {one.measurement: one.threshold for one in DEMOGRAPHIC_RISK.required(fills)}
    assert gates[LISTED_NUMBERS] == fills.risk.max_high_risk_share and not gates.keys() & set(each)
    both = policy_with(folder, SECTION | {"of": [*TABLES]})
    assert list(numbers_measured(both)) == [LISTED_NUMBERS, *each]


@pytest.mark.parametrize(("of", "named"), [(["claims"], "number_of_claims"), (["fills"], "numbers_of_events")])
def test_who_knows_values_too_is_a_gate_of_the_same_numbers(folder, of, named):
    gated = policy_with(folder, SECTION | {"of": of, "with_values": {"at_most": 0.1}})
    required = {one.measurement: one.threshold for one in ATTACK_SENSITIVITY.required(gated)}
    assert {name: limit for name, limit in required.items() if "with_values" in name} == {f"{named}_known_with_values": 0.1}
    cells = [
        cell_of(row, power, Trials(np.zeros(9, int), np.ones(9, bool), np.full(9, 20)), 0.1, lambda successes: (0.0, 0.2))
        for row in analysis_rows(gated)
        for power in gated.attack_sensitivity.powers
    ]
    measured = {one.name: one for one in sensitivity_measurements(gated, cells, "c" * 64, 1)}
    assert measured[f"{named}_known_with_values"].gating and f"{named}_known_within_5_power_5_given_membership" in measured


def test_a_section_of_claims_has_the_hash_that_it_had(folder):
    section = {name: value for name, value in SECTION.items() if name != "of"}
    one, other = (policy_with(folder, section | of) for of in ({}, {"of": ["claims"]}))
    assert "of" not in one.content("number_of_claims")["number_of_claims"] and one.hash == other.hash
    assert policy_with(folder, SECTION).hash != one.hash


@pytest.mark.parametrize(
    ("section", "changes", "said"),
    [
        ({"of": ["fill"]}, {}, "names no table of events 'fill'; did you mean fills?; tables: claims, fills, all_events"),
        ({"of": ["fills", "fills"]}, {}, "names a table twice"),
        ({"of": ["fills", ALL_EVENTS]}, {}, "each would be cut for two numbers"),
        ({"of": []}, {}, "number_of_claims.of"),
        (
            {"of": [ALL_EVENTS]},
            {"long_tail": {"method": "bins", "width": 5, "risk": 0.1, "unit": "member", "score": "support"}},
            "all_events does not go with bins of long_tail",
        ),
        (
            {},
            {
                "source__events": {"all_events": FILLS["source"]["events"]["fills"]},
                "columns": {"all_events": FILLS["columns"]["fills"]},
            },
            "all_events are the rows of all tables: choose another name",
        ),
    ],
)
def test_what_cannot_hold_is_refused(folder, section, changes, said):
    with pytest.raises(PolicyError) as refused:
        policy_with(folder, SECTION | section, **changes)
    assert said in str(refused.value)


@pytest.mark.parametrize("of", [None, ["fills"], [*TABLES], [ALL_EVENTS]])
@pytest.mark.parametrize("per", ["member", "member_year"])
class TestCanaries:
    def found(self, folder, of, per) -> float:
        policy = policy_with(folder, None if of is None else SECTION | {"of": of, "per": per})
        with small_store() as store:
            return Canaries(store, policy).demographic_risk().share

    def test_are_found(self, folder, of, per):
        assert self.found(folder, of, per) == 1

    def test_are_missed_by_who_counts_the_rows_of_all_tables_as_those_of_one(self, folder, monkeypatch, of, per):
        monkeypatch.setattr(number_of_claims, "is_of", lambda events, table: "true")
        assert self.found(folder, of, per) < 1

    def test_are_missed_by_who_counts_claims_only(self, folder, monkeypatch, of, per):
        monkeypatch.setattr(number_of_claims, "is_of", lambda events, table: "event_table = 'claims'")
        assert self.found(folder, of, per) < 1

    def test_are_missed_by_who_overlooks_the_last_number(self, folder, monkeypatch, of, per):
        honest = number_of_claims.counted_events
        monkeypatch.setattr(number_of_claims, "counted_events", lambda *of: dict([*honest(*of).items()][:-1]))
        assert self.found(folder, of, per) < 1

    def test_are_missed_by_who_overlooks_the_years(self, folder, monkeypatch, of, per):
        honest = number_of_claims.counted_events
        monkeypatch.setattr(
            number_of_claims,
            "counted_events",
            lambda section, events: honest(section.model_copy(update={"per": "member"}), events),
        )
        by_year = of is not None and per == "member_year"
        assert (self.found(folder, of, per) < 1) == by_year


def test_canaries_are_missed_by_who_overlooks_the_years_of_claims_where_there_is_no_other_table(monkeypatch):
    section = {"per": "member_year", "reference": {"age": "20 years", "days_in_hospital": "none or any"}}
    with small_store() as store:
        planted = Canaries(store, policy_from(changed(SMALL, number_of_claims=section)))
        assert planted.demographic_risk().share == 1
        monkeypatch.setattr(number_of_claims, "counted_events", lambda section, events: {"n0": "true"})
        assert planted.demographic_risk().share < 1


def test_without_its_columns_a_table_has_no_number(folder):
    """What a refusal offers: to leave fills out leaves the number of claims, and no policy where only fills are counted."""
    both, fills = (policy_with(folder, SECTION | {"of": of}) for of in ([*TABLES], ["fills"]))
    after = with_sections(both, **yaml.safe_load(changed_sections(both, PolicyChange(("drug",)))))
    assert after.number_of_claims.of == ("claims",) and after.event_tables == ("claims",)
    assert changed_sections(fills, PolicyChange(("drug",))) is None
    together = policy_with(folder, SECTION | {"of": [ALL_EVENTS]})
    after = with_sections(together, **yaml.safe_load(changed_sections(together, PolicyChange(("drug",)))))
    assert after.number_of_claims.of == ("claims",), "all events that are left"


def test_one_number_has_one_name():
    """Another name would give it other draws and other noise."""
    section = {"of": [ALL_EVENTS], "per": "member", "reference": {"age": "20 years", "days_in_hospital": "none or any"}}
    with pytest.raises(PolicyError, match="all_events are the claims where there is no other table of events: name claims"):
        policy_from(changed(SMALL, number_of_claims=section))


def test_none_is_a_bin_of_its_own_where_it_is_told():
    """Of twenty with a fill and nineteen without, one loses theirs, so that twenty have none; the others lose nothing more."""
    counts = np.array([[1]] * 25 + [[0]] * 19)
    assert cut.truncate_within_classes(counts, np.zeros(44, dtype=int), 5, 20, bytes(16), True).sum() == 24
    assert cut.truncate_within_classes(counts, np.zeros(44, dtype=int), 5, 20, bytes(16)).sum() == 25


SECTION_OF_CLAIMS = {"per": "member", "width": 5, "reference": {"age": "20 years", "days_in_hospital": "none or any"}}
RELEASED = '"MemberID" VARCHAR, age VARCHAR, sex VARCHAR, days_in_hospital_y2 VARCHAR'


def policy(**changes):
    return policy_from(changed(SMALL, number_of_claims=SECTION_OF_CLAIMS | changes))


def test_who_was_not_enrolled_is_in_no_class_of_those_who_stayed(store):
    """Top-coding must leave a missing number of days missing, although the least of it and a number is the number."""
    days = [None, None, *range(100)]
    rows = [(f"m{number:03}", 30, "F", own, None) for number, own in enumerate(days)]
    ids, classes = reference_classes(policy(), store.table("members", MEMBER, rows))
    assert ids == sorted(ids) and len(set(classes[:2])) == 1
    assert len(set(classes)) == 3, "not enrolled; no day; any"
    assert classes[0] not in classes[2:] and len(set(classes[3:])) == 1


def test_classes_are_those_of_the_reference_and_no_finer(store):
    rows = [("a", 20, "F", 1, None), ("b", 39, "F", 5, None), ("c", 40, "F", 1, None), ("d", 20, "M", 1, None)]
    _, classes = reference_classes(policy(), store.table("members", MEMBER, rows))
    assert classes[0] == classes[1] and len(set(classes)) == 3


CLAIMS = [("a", 1)] * 3 + [("b", 1)] * 2 + [("b", 2)] * 2 + [("c", 2)] * 6 + [("d", 1)] * 5


def measured(store, released_claims, **changes):
    """Members a, b, c and d share their demographics; a and b are released, as A and B."""
    population = store.table(
        "population", RELEASED.replace('"MemberID"', "member_id"), [(name, "20-39", "F", "0") for name in "abcd"]
    )
    released = store.table("released", RELEASED, [("A", "20-39", "F", "0"), ("B", "20-39", "F", "0")])
    held = store.table("held", "member_id VARCHAR, year INTEGER", CLAIMS)
    shown = store.table("shown", '"MemberID" VARCHAR, "Year" VARCHAR', released_claims)
    candidate = Candidate(policy(**changes), {}, {"held": held, "release_claims": shown})
    return number_of_events_risk(candidate, population, released, candidate.policy.number_of_claims)


FILES = [("A", "Y1")] * 3 + [("B", "Y1")] * 2 + [("B", "Y2")] * 2


@pytest.mark.parametrize(
    ("changes", "files", "smallest"),
    [
        # Of three, four, six and five claims three are in the bin [1, 5].
        ({}, FILES, 3),
        ({"width": 50}, FILES, 4),
        ({"width": 1}, FILES, 1),
        # By year a, b and d have up to five in the first, and only b has some in the second.
        ({"per": "member_year"}, FILES, 1),
        # The files decide about the released: seven claims of B, and only c has so many in the population.
        ({}, [*FILES, *[("B", "Y2")] * 3], 1),
    ],
)
def test_what_the_files_show_is_counted_in_the_population(changes, files, smallest, store):
    risk = measured(store, files, **changes)
    assert risk.released == 2 and risk.smallest == smallest and risk.share_below_k == 1


def test_bins_are_in_the_order_of_the_members(store):
    profiles = store.table("profiles", "member_id VARCHAR, member_number INTEGER", [("c", 0), ("b", 1), ("e", 2)])
    held = store.table("held", "member_id VARCHAR, year INTEGER", CLAIMS)
    assert claim_bins_of(policy(), profiles, held).tolist() == [[2], [1], [0]]
    assert claim_bins_of(policy(per="member_year"), profiles, held).tolist() == [[0, 2], [1, 1], [0, 0]]
    assert claim_bins_of(policy_from(SMALL), profiles, held) is None
    assert claim_bins_of(policy(), profiles, held).dtype == np.int64
