"""The tables of a run, protected, and the gate on the files that they become."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.count_disclosure import CHANCE, DISCLOSED_CELLS, canary_findings, count_measurements
from deid_assets.errors import CountsError, PolicyError
from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.budget import Budget, best_guess
from deid_assets.methods.counts.cohort import COHORT, RELEASED, TOLD_BY_FILES, UNKNOWN, sums_of, totals_counted
from deid_assets.methods.counts.published_tables import (
    COLUMNS,
    EarlierTables,
    NoisyTables,
    disclosed_beside_noise,
    masked_tables,
    names_of,
    noisy_tables,
)
from deid_assets.methods.counts.tables import CellName, PublishedCounts
from deid_assets.policy.loading import policy_from
from deid_assets.policy.models import Policy
from deid_assets.release.counts.cells import definitions_of, tables_of
from deid_assets.release.counts.kinds import LONGITUDINAL, cohort_counts
from deid_assets.release.counts.noise import DeliveryNoise
from deid_assets.release.counts.published import file_tables, planned_cells, planned_sums, published_counts, shown_of
from deid_assets.release.counts.statement import CountStatement, tables_told
from deid_assets.release.gate.judgement import count_refusals
from deid_assets.release.keys import Secret
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import shape
from deid_assets.release.publication.publish import Staging
from deid_assets.release.registry.chain import Chain
from deid_assets.release.registry.noise_charges import budget_of
from deid_assets.release.staged_files import stage_counts
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.release.making import SECRET, releases_in
from deid_assets_tests.scenarios.policies import SMALL, changed

NONE = EarlierTables()
"""No earlier tables."""

STEPS = tuple(
    AttritionStep(stage, "members", count, shape=stage)
    for stage, count in (
        ("delivered_members", 1_003), ("members_after_opt_outs", 1_000), ("members_not_removed", 906),
        ("eligible_members", 900), ("sampled_members", 300), ("released_members", 290),
    )
)  # fmt: skip


def policy_with(**counts) -> Policy:
    return policy_from(changed(SMALL, counts=counts))


MONTHS = {"kind": "integer", "from": "MONTHS", "at_most": 12, "meaning": "months enrolled in the second year"}


def policy_with_totals(**counts) -> Policy:
    """Months enrolled in the second year are summed, and not released."""
    own = changed(SMALL, counts={"totals": [{"column": "months", "by": ["sex", "age"]}, {"column": "months"}]} | counts)
    return policy_from(own | {"columns": {"members": {"months": MONTHS}}})


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, Table]:
    """900 eligible members: seven of unknown sex, two beyond 80, and with 1, 2 .. claims."""
    file = tmp_path_factory.mktemp("store") / "store.duckdb"
    content = {
        "member_profiles": """SELECT 'm' || i AS member_id, CASE WHEN i < 2 THEN 85 ELSE (i % 70) END::INTEGER AS age,
            CASE WHEN i < 7 THEN NULL WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
            CASE WHEN i % 9 = 0 THEN NULL ELSE i % 3 END::INTEGER AS days_in_hospital_y2, 1 + i % 30 AS claims,
            i % 3 = 0 AS released, CASE WHEN i % 5 > 0 THEN i % 13 END::INTEGER AS months
            FROM range(1003) AS r(i)""",
        "eligible_members": "SELECT 'm' || i AS member_id FROM range(900) AS r(i)",
        "claims": "SELECT 'm' || (i % 10) AS member_id FROM range(1000) AS r(i)",
        "eligible_claims": "SELECT 'm' || (i % 10) AS member_id FROM range(55) AS r(i)",
    }
    made = {}
    for name, sql in content.items():
        made[name] = Table(file, "preparation", name)
        write_table(made[name], sql)
    return made


def counted(policy: Policy, tables: Mapping[str, Table]) -> pd.DataFrame:
    return cohort_counts(policy, STEPS, tables, "rows")


def noise_of(policy: Policy, delivery: str = "delivery 1") -> DeliveryNoise:
    return DeliveryNoise.of(SECRET, delivery, policy.counts)


def test_every_class_is_counted_and_all_sums_hold(tables):
    counts = counted(policy_with(claims_per_member=3), tables)
    found = tables_of(counts)
    exact = dict(zip(found.cells, found.counts.tolist(), strict=True))
    assert {one.name for one in found.sums} == {
        "members_after_opt_outs", "members_not_removed", "eligible_members", "sampled_members", "released_members",
        "age", "sex", "days_in_hospital_y2", "number of claims",
    }  # fmt: skip
    assert exact[CellName("attrition", "members_not_removed", "excluded")] == 94
    assert exact[CellName("characteristics", "sex", UNKNOWN)] == 7 and exact[CellName("characteristics", "age", "80+")] == 2
    assert exact[CellName("characteristics", "age", UNKNOWN)] == 0, "a class without members is a cell too"
    assert exact[CellName("claims", "delivered_claims", "remaining")] == 30
    assert exact[CellName("claims", "eligible_claims", "remaining")] == 30
    assert set(found.cells) & TOLD_BY_FILES == {RELEASED}


def test_person_time_is_summed_by_combined_classes_and_hidden_by_noise_as_wide_as_a_year(tables):
    """The rates that recipients compute need no released column."""
    policy = policy_with_totals()
    counts = counted(policy, tables)
    totals = counts[counts["table"] == "totals"]
    exact = {(row.row, row.column): row.count for row in totals.itertuples()}
    months = {i: i % 13 if i % 5 else 0 for i in range(900)}
    assert exact["months", "all"] == sum(months.values())
    assert exact["months by age, sex", "80+ | F"] == 0 == exact["months by age, sex", "80+ | M"]
    assert exact["months by age, sex", "80+ | unknown"] == months[1]
    young = [i for i in months if i >= 7 and i % 2 == 0 and i % 70 < 20]
    assert exact["months by age, sex", "0-19 | F"] == sum(months[i] for i in young)
    assert set(totals["contribution"]) == {12} and (totals["least"] <= totals["count"]).all() and totals["least"].sum()
    assert {one.name for one in tables_of(counts).sums} >= {"months by age, sex"}
    published = published_counts(policy, counts, noise_of(policy))
    file = file_tables(policy, published)["Totals"]
    assert set(file["SD"]) == {30.0} and len(file) == len(totals) and set(file["Total"]) == {"months", "months by age, sex"}
    spread = (file["Count"].to_numpy(float) - totals["count"].to_numpy(float)).std()
    assert 15 < spread < 60
    assert not set(file_tables(policy, published)["Characteristics"]["Variable"]) & set(file["Total"])
    assert "Totals" not in file_tables(
        policy_with(), published_counts(policy_with(), counted(policy_with(), tables), noise_of(policy_with()))
    )


def test_totals_are_in_the_budget_of_noise(tables):
    policy = policy_with_totals()
    counts = counted(policy, tables)
    cells, sums = planned_cells(policy, counts, noise_of(policy)), planned_sums(policy, counts)
    assert any(one.name == "months by age, sex" for one in sums)
    of_totals = [cell for cell in cells if cell.name.table == "totals"]
    assert len(of_totals) == (counts["table"] == "totals").sum() and {cell.sd for cell in of_totals} == {30.0}


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"protection": "masked"}, "needs protection: noise and zeros: noisy"),
        ({"zeros": "shown"}, "needs protection: noise and zeros: noisy"),
        ({"totals": [{"column": "age"}, {"column": "months"}]}, "is not a declared column of members"),
        (
            {"totals": [{"column": "months", "by": ["place"]}]},
            "place is not among the columns that members are counted by: age",
        ),
        ({"characteristics": {"sex": "as it is"}, "totals": [{"column": "months", "by": ["age"]}]}, "counted by: sex"),
        ({"totals": [{"column": "months", "by": ["sex", "sex"]}]}, "says the same twice"),
        ({"totals": [{"column": "months"}, {"column": "months"}]}, "says the same twice"),
        (
            {"totals": [{"column": "months", "by": ["sex", "age"]}, {"column": "months", "by": ["age", "sex"]}]},
            "says the same twice",
        ),
        (
            {"totals": []},
            "is declared and not released: list it in quasi_identifiers.members, sum it (counts.totals), or remove",
        ),
    ],
)
def test_totals_that_could_tell_somebodys_value_or_cannot_be_made_are_no_policy(counts, told):
    with pytest.raises(PolicyError, match=re.escape(told)):
        policy_with_totals(**counts)


def test_two_totals_of_the_same_numbers_are_no_policy_and_share_one_definition(tables):
    """Otherwise their noise could be averaged, in one policy or over several."""
    months = {"kind": "integer", "from": "MONTHS", "meaning": "months"}
    listed = [{"column": "months"}, {"column": "again"}]
    with pytest.raises(PolicyError, match="two noisy sums of the same numbers can be averaged"):
        policy_from(
            changed(SMALL, counts={"totals": listed})
            | {"columns": {"members": {"months": months | {"at_most": 12}, "again": months | {"at_most": 13}}}}
        )
    one = policy_with_totals()
    other = policy_from(
        changed(SMALL, counts={"totals": [{"column": "months", "by": ["age", "sex"]}]})
        | {"columns": {"members": {"months": months | {"at_most": 20}}}}
    )
    defined = [
        {name.column: cell for name, cell in definitions_of(counted(policy, tables)).items() if name.table == "totals"}
        for policy in (one, other)
    ]
    assert defined[0] == defined[1]


def test_totals_by_a_column_that_has_the_name_of_a_count(tmp_path):
    profiles, cohort = (Table(tmp_path / "store.duckdb", "preparation", name) for name in ("profiles", "cohort"))
    write_table(
        profiles, "SELECT 'm' || i AS member_id, i % 2 AS sampled, i AS months, i < 2 AS released FROM range(4) AS r(i)"
    )
    write_table(cohort, "SELECT 'm' || i AS member_id FROM range(4) AS r(i)")
    found = profiles.query(totals_counted(profiles, cohort, "months", ["sampled"]))
    assert found.to_numpy().tolist() == [[0, 2, 0], [1, 4, 1]]


def test_combined_classes_that_read_alike_are_refused(tables):
    """One cell would hold both."""
    stays = {"name": "none or any", "starts": [0, 1], "labels": ["a", "a | b"]}
    own = changed(
        SMALL,
        hierarchies__sex={
            "kind": "codes",
            "level_names": ["value", "group"],
            "values": {"F": ["b | c"], "M": ["c"]},
        },
        hierarchies__days_in_hospital__levels=[stays],
        dimensions=[*SMALL["dimensions"], {"name": "sex", "columns": ["sex"]}],
        counts={
            "characteristics": {"sex": "group", "days_in_hospital_y2": "none or any"},
            "totals": [{"column": "months", "by": ["sex", "days_in_hospital_y2"]}],
        },
    )
    with pytest.raises(CountsError, match="days_in_hospital_y2, sex have the same name"):
        counted(policy_from(own | {"columns": {"members": {"months": MONTHS}}}), tables)


def test_too_many_combined_classes_are_no_policy():
    ages = {"characteristics": {"age": "years", "sex": "as it is", "days_in_hospital_y2": "none or any"}}
    totals = {"totals": [{"column": "months", "by": ["age", "sex", "days_in_hospital_y2"]}]}
    with pytest.raises(PolicyError, match=r"makes 1,\d\d\d classes, and at most 1,000"):
        policy_with_totals(**ages, **totals)


def test_a_sum_without_a_largest_value_is_no_policy():
    number = {"kind": "count_of_claims", "meaning": "number of claims"}
    with pytest.raises(PolicyError, match="cannot be summed: no noise hides what one member adds"):
        policy_from(
            changed(SMALL, counts={"totals": [{"column": "contacts"}]}) | {"columns": {"members": {"contacts": number}}}
        )


def test_noise_is_in_every_cell_but_the_one_that_files_tell(tables):
    policy = policy_with(claims_per_member=3)
    counts = counted(policy, tables)
    published = published_counts(policy, counts, noise_of(policy))
    shown, exact = shown_of(published), tables_of(counts)
    widths = dict(zip(names_of(published), published["sd"], strict=True))
    assert shown[RELEASED] == 290 and widths[RELEASED] == 0
    assert {width for name, width in widths.items() if name.table == "claims"} == {7.5}
    differences = np.array([shown[name] - count for name, count in zip(exact.cells, exact.counts, strict=True)])
    assert 1.5 < differences.std() < 5 and min(shown.values()) < 0, "negative counts are kept"
    cells = planned_cells(policy, counts, noise_of(policy))
    noisy, defined = [cell for cell in cells if np.isfinite(cell.sd)], definitions_of(counts)
    assert {cell.name for cell in noisy} == {defined[name] for name in set(shown) - {RELEASED}} and planned_sums(policy, counts)
    assert set(published["draw"].dropna()) == {cell.draw for cell in noisy}


def test_noise_repeats_for_a_delivery_and_is_drawn_anew_for_another(tables):
    policy = policy_with()
    counts = counted(policy, tables)
    first, again, other = (
        shown_of(published_counts(policy, counts, noise_of(policy, delivery)))
        for delivery in ("delivery 1", "delivery 1", "delivery 2")
    )
    assert first == again
    assert sum(first[name] != other[name] for name in first) > 0.6 * len(first)


@pytest.mark.matrix
def test_two_policies_over_one_delivery_have_independent_noise_where_they_count_differently(tables):
    one = policy_with()
    other = policy_from(changed(SMALL, removal__newborn_days=27, title="Another title"))
    titled = policy_from(changed(SMALL, title="Another title", counts={"lockout": 5}))
    noises = {}
    for name, policy in (("one", one), ("other", other), ("titled", titled)):
        counts = counted(policy, tables)
        classes = counts[counts["table"] == "characteristics"]
        noises[name] = [shown_of(published_counts(policy, classes, noise_of(policy, f"delivery {i}"))) for i in range(40)]
    values = {name: np.array([list(shown.values()) for shown in found]) for name, found in noises.items()}
    exact = values["one"].mean(axis=0)
    assert (values["one"] == values["titled"]).all(), "what only names or limits gives no second look"
    assert abs(np.corrcoef((values["one"] - exact).ravel(), (values["other"] - exact).ravel())[0, 1]) < 0.12


def labelled(ages: Sequence[str]) -> Policy:
    """Ages of four classes with these labels."""
    content = changed(SMALL, counts={"characteristics": {"age": "four"}})
    content["hierarchies"]["age"]["levels"].append({"name": "four", "starts": [0, 20, 60, 80], "labels": list(ages)})
    return policy_from(content)


def test_a_renamed_label_is_the_same_draw_of_the_same_cell(tables):
    """Otherwise new labels would be new draws, as many as somebody likes, which average the noise away."""
    one, other = labelled(["a", "b", "c", "d"]), labelled(["young", "grown", "aged", "old"])
    planned = [planned_cells(policy, counted(policy, tables), noise_of(policy)) for policy in (one, other)]
    assert [cell.draw for cell in planned[0]] == [cell.draw for cell in planned[1]]
    assert [cell.definition for cell in planned[0]] == [cell.definition for cell in planned[1]]
    published = [published_counts(policy, counted(policy, tables), noise_of(policy)) for policy in (one, other)]
    assert published[0]["column"].tolist() != published[1]["column"].tolist()
    for column in ("count", "draw", "same", "definition"):
        assert published[0][column].tolist() == published[1][column].tolist()
    budget = Budget(total=100, lockout=1).charged(planned[0], ())
    assert budget.charged(planned[1], ()) == budget, "the numbers repeat and cost nothing"
    later = planned_cells(other, counted(other, tables), noise_of(other, "delivery 2"))
    with pytest.raises(CountsError, match="cells were published 1 time"):
        budget.charged(later, ())


def test_other_classes_are_other_cells_whatever_they_are_called(tables):
    one = labelled(["a", "b", "c", "d"])
    content = changed(SMALL, counts={"characteristics": {"age": "four"}})
    content["hierarchies"]["age"]["levels"].append({"name": "four", "starts": [0, 40, 60, 80], "labels": ["a", "b", "c", "d"]})
    cells = []
    for policy in (one, policy_from(content)):
        counts = counted(policy, tables)
        cells.append(dict(zip(counts["column"], definitions_of(counts).values(), strict=True)))
    assert cells[0]["a"] != cells[1]["a"] and cells[0]["b"] != cells[1]["b"] and cells[0]["c"] == cells[1]["c"]


def test_words_of_a_policy_shape_no_number():
    content = changed(SMALL)
    words = json.loads(
        json.dumps(content | {"title": "Other", "description": "Other words"}).replace('"AgeAtFirstClaim"', '"Age"')
    )
    words["hierarchies"]["unused"] = {"kind": "fixed"}
    sections = ("source", "quasi_identifiers", "hierarchies")
    own = shape(policy_from(content), *sections)
    assert shape(policy_from(words), *sections) == own
    coarser = changed(SMALL)
    coarser["hierarchies"]["age"]["levels"].append({"name": "four", "starts": [0, 20, 60, 80]})
    assert shape(policy_from(coarser), *sections) != own


def test_zeros_may_be_shown_with_their_reference(tables):
    policy = policy_with(zeros="shown")
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    zero = published[(published["row"] == "age") & (published["column"] == UNKNOWN)].iloc[0]
    assert (zero["count"], zero["sd"]) == (0, 0.0)
    assert (
        "nor the zeros that are shown"
        in CountStatement(policy.counts, budget_of(Chain((), None, b""), policy.counts), published).public()["budget"][
            "meaning"
        ]
    )


def test_masked_tables_end_with_the_cohort_and_hide_enough(tables):
    policy = policy_with(protection="masked")
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    shown = shown_of(published)
    assert "sampled_members" not in {name.row for name in shown} and shown[COHORT] in (900, "H")
    assert shown[CellName("attrition", "members_after_opt_outs", "excluded")] == "T"
    assert shown[CellName("characteristics", "sex", UNKNOWN)] == "T"
    assert planned_cells(policy, counted(policy, tables), noise_of(policy)) == ()
    (found,) = count_measurements(policy, published, NONE, {})
    assert (found.name, found.value, found.passed) == (DISCLOSED_CELLS, 0.0, True)


def test_what_an_earlier_release_shows_of_the_same_people_exposes_a_masked_count(tables):
    policy = policy_with(protection="masked")
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    hidden = published["mark"].eq("H").to_numpy(bool, na_value=False)
    assert hidden.any()
    found = tables_of(counted(policy, tables))
    exact = dict(zip(found.cells, found.counts.tolist(), strict=True))
    told = published.copy()
    told.loc[hidden, "count"] = [exact[name] for name in names_of(told[hidden])]
    told.loc[hidden, "mark"] = pd.NA
    earlier = masked_tables(told, 11)
    (found,) = count_measurements(policy, published, EarlierTables(masked=(earlier,)), {})
    assert found.value > 0 and not found.passed
    of_others = told.assign(same=[f"another.{i}" for i in range(len(told))])
    (own,) = count_measurements(policy, of_others, NONE, {})
    (found,) = count_measurements(policy, published, EarlierTables(masked=(masked_tables(of_others, 11),)), {})
    assert found.value == own.value, "they expose counts of their own delivery alone"


def masked(policy: Policy, counts: pd.DataFrame, secret: Secret = SECRET) -> pd.DataFrame:
    return published_counts(policy, counts, DeliveryNoise.of(secret, "delivery 1", policy.counts))


def test_a_masked_count_of_which_the_released_files_show_most_members_is_disclosed(tables):
    policy = policy_with(protection="masked")
    counts = counted(policy, tables)
    is_old = (counts["row"] == "age") & (counts["column"] == "80+")
    assert counts.loc[is_old, ["count", "least"]].to_numpy().tolist() == [[2, 1]], "one of the two is in the sample"
    published = masked(policy, counts)
    in_the_files = (published["row"] == "age") & (published["column"] == "80+") & (published["mark"] == "T")
    assert in_the_files.sum() == 1
    for least, passes in ((6, True), (7, False), (10, False)):
        told = published.assign(least=published["least"].where(~in_the_files, least))
        (found,) = count_measurements(policy, told, NONE, {})
        assert found.passed == passes, f"{11 - least} counts remain possible"


def test_what_an_earlier_release_hid_is_not_shown_under_a_lower_threshold(tables):
    strict, lax = policy_with(protection="masked"), policy_with(protection="masked", masking={"threshold": 3, "values": 3})
    counts = counted(strict, tables)
    earlier, later = masked_tables(masked(strict, counts), 11), masked(lax, counts)
    assert later["count"].between(3, 10).any()
    (alone,) = count_measurements(lax, later, NONE, {})
    (together,) = count_measurements(lax, later, EarlierTables(masked=(earlier,)), {})
    assert alone.passed and together.value > 0 and not together.passed
    (again,) = count_measurements(strict, masked(strict, counts), EarlierTables(masked=(masked_tables(later, 3),)), {})
    assert not again.passed, "nor is it hidden again"


def test_tables_that_differ_by_a_few_members_from_those_of_another_policy_are_refused(tables):
    """The other policy leaves out one more member of the same delivery: differences of its counts tell who that is like."""
    one, other = (policy_with(protection="masked") for _ in range(2))
    counts = counted(one, tables)
    published = masked(one, counts)
    ages = published[(published["row"] == "age") & (published["count"] > 50)]["column"].tolist()
    fewer = counts.assign(shape=counts["shape"] + "of another policy")
    for age, change in zip(ages[:2], (-1, 1), strict=True):
        fewer.loc[(counts["row"] == "age") & (counts["column"] == age), "count"] += change
    earlier = masked_tables(masked(other, fewer), 11)
    (found,) = count_measurements(one, masked(one, counts), EarlierTables(masked=(earlier,)), {})
    assert found.value > 0 and not found.passed
    same = masked_tables(masked(other, counts.assign(shape=fewer["shape"])), 11)
    (found,) = count_measurements(one, masked(one, counts), EarlierTables(masked=(same,)), {})
    assert found.passed, "equal counts tell nothing new"


def test_masked_tables_of_other_classes_of_the_same_people_are_refused_and_noisy_ones_beside_them(tables):
    """Ages by 20 years and by 40: nobody states which of one make up one of the other, but everybody knows."""
    policy = policy_with(protection="masked")
    counts = counted(policy, tables)
    published = masked(policy, counts)
    coarser = published.copy()
    of_age = coarser["row"] == "age"
    coarser.loc[of_age, "definition"] = [f"{text} and more" for text in coarser.loc[of_age, "definition"]]
    noisy = EarlierTables(noisy=(noisy_tables(coarser.assign(count=100.0, sd=2.5, draw="d", mark=pd.NA)),))
    for earlier in (EarlierTables(masked=(masked_tables(coarser, 11),)), noisy):
        with pytest.raises(CountsError, match=r"tables of this delivery that count otherwise \(age\)"):
            count_measurements(policy, published, earlier, {})
    blur = policy_with()
    own = published_counts(blur, counts, noise_of(blur))
    with pytest.raises(CountsError, match=r"count otherwise \(age\)"):
        count_measurements(blur, own, EarlierTables(masked=(masked_tables(coarser, 11),)), {})


def test_masked_tables_of_another_kind_of_policy_over_one_delivery_are_refused(tables):
    policy = policy_with(protection="masked")
    published = masked(policy, counted(policy, tables))
    records = published.assign(row=[f"{row} of records" for row in published["row"]])
    with pytest.raises(CountsError, match=r"count otherwise \(steps and classes\)"):
        count_measurements(policy, published, EarlierTables(masked=(masked_tables(records, 11),)), {})


def test_masked_tables_are_audited_with_those_made_under_another_secret(tables):
    policy = policy_with(protection="masked")
    counts = counted(policy, tables)
    cells = [
        masked_tables(masked(policy, counts, secret), 11).cells
        for secret in (SECRET, Secret(b"another secret" * 3, "environment"))
    ]
    assert cells[0] == cells[1]


def test_the_meaning_of_the_cost_names_what_it_does_not_cover():
    """One more member in a class of 19 takes all of them out of the count of members in small classes."""
    policy = policy_with()
    told = CountStatement(policy.counts, budget_of(Chain((), None, b""), policy.counts)).public()["budget"]["meaning"]
    assert "not counts that depend on who else is in the data" in told and "of members in small classes" in told


def test_a_manifest_keeps_masked_tables_for_later_releases(tables):
    policy = policy_with(protection="masked")
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    statement = CountStatement(policy.counts, budget_of(Chain((), None, b""), policy.counts), published)
    told = statement.restricted()
    (kept,) = tables_told(json.loads(json.dumps(told)), "delivery 1").masked
    assert kept.cells == masked_tables(published, 11).cells
    assert kept.low.tolist() == masked_tables(published, 11).low.tolist()
    assert PublishedCounts.together([kept, masked_tables(published, 11)]).cells == kept.cells
    assert statement.public()["tables"] == "masked" and "kept" not in statement.public()
    assert statement.masked == shown_of(published) and "nor the masked tables" in statement.public()["budget"]["meaning"]


def test_a_manifest_keeps_noisy_tables_for_later_releases(tables):
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    statement = CountStatement(policy.counts, budget_of(Chain((), None, b""), policy.counts), published)
    told = tables_told(json.loads(json.dumps(statement.restricted())), "delivery 1")
    assert told == EarlierTables(noisy=(noisy_tables(published),)) and tables_told(None, "") == NONE
    assert statement.masked == {} and statement.public()["tables"] == "noisy" and "kept" not in statement.public()


def test_masked_tables_are_not_published_beside_those_of_which_an_earlier_version_kept_too_little(tables):
    policy = policy_with(protection="masked")
    published = masked(policy, counted(policy, tables))
    for told in ({"cells": [], "masked": [], "masked_below": 11}, {"cells": []}):
        with pytest.raises(CountsError, match="earlier version of this product published tables of this delivery"):
            count_measurements(policy, published, tables_told(told, "delivery 1"), {})
        assert count_measurements(policy, published, tables_told(told, "delivery 2"), {})[0].passed


# Masked and noisy tables of the same people


def hidden_of(rows: Sequence[tuple[str, int | None, str | None]]) -> PublishedCounts:
    """A masked group: eligible members, and the classes of one characteristic."""
    frame = pd.DataFrame(
        [
            ("attrition" if name == "all" else "characteristics", "eligible_members" if name == "all" else "sex",
             "remaining" if name == "all" else name, count, mark, None, 1, 0, f"d.{name}", name)
            for name, count, mark in rows
        ],
        columns=list(COLUMNS),
    )  # fmt: skip
    return masked_tables(frame, 11)


def beside(tables: PublishedCounts, told: Mapping[str, tuple[float, float]]) -> list[str]:
    """The disclosed classes beside noisy counts of some, each with its standard deviation."""
    own = {name.column: name for name in tables.cells}
    noisy = NoisyTables(
        tuple(own[name] for name in told), tuple(count for count, _ in told.values()), tuple(sd for _, sd in told.values()),
        tuple(told), (),
    )  # fmt: skip
    return sorted(name.column for name in disclosed_beside_noise(tables, audit_tables(tables), [noisy], SmallCounts()))


@pytest.mark.parametrize(
    ("told", "disclosed"),
    [
        ({"F": (6.0, 2.5)}, []),  # 1.0 to 11.0
        ({"F": (6.0, 1.0)}, []),  # 3.96 to 8.04: the five values 4 to 8, and as many of M
        ({"F": (6.0, 0.9)}, ["F", "M"]),  # 4.15 to 7.85: 5 to 7, and so is M
        ({"F": (-2.0, 2.5)}, ["F", "M"]),  # up to 2.9: F is 2, M is 10
        ({"F": (30.0, 2.5)}, ["F", "M"]),  # no value at all
        ({"F": (6.0, 40.0)}, []),
        ({"F": (6.0, 1.5), "M": (6.0, 1.5)}, []),  # F and 12 - M: as one noise of 1.06, 3.84 to 8.16
        ({"F": (6.0, 1.2), "M": (6.0, 1.2)}, ["F", "M"]),  # as one of .85
        ({"all": (12.0, 0.1)}, []),  # is shown anyway
    ],
)
def test_noisy_counts_narrow_what_masks_leave_possible(told, disclosed):
    """Two hidden counts of 1 to 10 whose sum is 12, so that each is 2 to 10; a noisy count adds 95 % intervals."""
    assert beside(hidden_of([("all", 12, None), ("F", None, "T"), ("M", None, "T")]), told) == disclosed


def test_a_noisy_sum_narrows_its_parts():
    """Three hidden counts of 1 to 10 with a hidden total: a noisy total of 28 to 30 leaves 8 to 10 of each."""
    tables = hidden_of([("all", None, "H"), ("F", None, "T"), ("M", None, "T"), ("U", None, "T")])
    assert beside(tables, {"all": (16.0, 2.5)}) == beside(tables, {"all": (29.0, 5.0)}) == []
    assert beside(tables, {"all": (29.0, 0.6)}) == ["F", "M", "U"]
    assert beside(tables, {"all": (5.0, 0.6)}) == ["all"], "a hidden count that noise tells to be small"
    assert beside(tables, {"all": (40.0, 2.0)}) == ["F", "M", "U"], "no three counts add up to 36 to 44"


def test_a_draw_that_was_published_twice_is_no_second_look():
    tables = hidden_of([("all", 12, None), ("F", None, "T"), ("M", None, "T")])
    own = {name.column: name for name in tables.cells}
    one, again, other = (NoisyTables((own["F"],), (6.0,), (1.2,), (draw,), ()) for draw in ("1", "1", "2"))
    found = [
        len(disclosed_beside_noise(tables, audit_tables(tables), looks, SmallCounts()))
        for looks in ([one], [one, again], [one, other])
    ]
    assert found == [0, 0, 2]


@pytest.mark.matrix
def test_an_attacker_with_both_tables_names_no_count_that_passes_more_often_than_not():
    """Counts of 1 to 10, each beside its noise: the likeliest count is right in at most half of the pairs that pass."""
    draws = np.random.default_rng(5)
    tables = hidden_of([("F", None, "T")])
    right: dict[bool, list[bool]] = {True: [], False: []}
    for sd in (1.2, 2.5, 5.0):
        for _ in range(250):
            count = int(draws.integers(1, 11))
            noisy = float(count + np.rint(draws.normal(0, sd)))
            guess = int(np.clip(noisy, 1, 10))
            right[not beside(tables, {"F": (noisy, sd)})].append(guess == count)
    assert min(map(len, right.values())) > 60
    passed, refused = np.mean(right[True]), np.mean(right[False])
    assert passed < 0.5 and refused > passed


@pytest.mark.parametrize(("sd", "passes"), [(1.5, False), (80.0, True)])
def test_masked_tables_after_noisy_ones_and_noisy_ones_after_masked_are_audited_together(tables, sd, passes):
    hide, blur = policy_with(protection="masked"), policy_with(sd=sd, lockout=1)
    counts = counted(hide, tables)
    hidden, noisy = masked(hide, counts), published_counts(blur, counts, noise_of(blur))
    (alone,) = count_measurements(hide, hidden, NONE, {})
    (after,) = count_measurements(hide, hidden, EarlierTables(noisy=(noisy_tables(noisy),)), {})
    before, _ = count_measurements(blur, noisy, EarlierTables(masked=(masked_tables(hidden, 11),)), {})
    assert alone.passed and (after.passed, before.passed) == (passes, passes)
    other = published_counts(blur, counts, noise_of(blur, "delivery 2"))
    (of_others,) = count_measurements(hide, hidden, EarlierTables(noisy=(noisy_tables(other),)), {})
    assert of_others.passed, "the noisy tables of another delivery count other people"


def test_noise_that_was_averaged_too_often_fails(tables):
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    (_, once) = count_measurements(policy, published, NONE, {})
    before = dict.fromkeys(published["definition"], [2.5] * 11)
    (_, often) = count_measurements(policy, published, NONE, before)
    assert (once.name, once.passed, often.passed) == (CHANCE, True, False) and once.value < often.value


def test_earlier_noise_counts_as_wide_as_it_was(tables):
    """Nine publications with noise of 1.7 before one of 2.5: .473 if all were as wide as the last, .634 truly."""
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    lonely = published[published["table"] == "attrition"].iloc[[0]]
    for widths, expected, passes in (([2.5] * 9, 0.473, True), ([1.7] * 9, 0.634, False)):
        (_, found) = count_measurements(policy, lonely, NONE, dict.fromkeys(lonely["definition"], widths))
        assert found.value == pytest.approx(expected, abs=1e-3) and found.passed == passes


def test_every_canary_is_found():
    assert canary_findings().share == 1.0


def test_distributions_follow_from_published_counts(tables):
    policy = policy_with()
    files = file_tables(policy, published_counts(policy, counted(policy, tables), noise_of(policy)))
    ages = files["Characteristics"].query("Variable == 'age' and Class != 'unknown'")
    expected = (ages["Count"].cumsum() / ages["Count"].sum()).astype(float).round(4)
    assert ages["CumulativeShare"].astype(float).tolist() == expected.tolist()
    assert files["Characteristics"].query("Variable == 'sex'")["CumulativeShare"].isna().all(), "sexes have no order"
    median = files["Distributions"].query("Variable == 'age' and Percentile == 50")["Class"].iloc[0]
    assert median == ages["Class"][expected >= 0.5].iloc[0]
    masked = policy_with(protection="masked")
    hidden = file_tables(masked, published_counts(masked, counted(masked, tables), noise_of(masked)))
    assert hidden["Characteristics"].query("Variable == 'age'")["CumulativeShare"].isna().all()


# The gate


@pytest.fixture
def staging(tmp_path):
    with releases_in(tmp_path).stage("small") as staging:
        yield staging


def store_in(tmp_path: Path) -> Table:
    return Table(tmp_path / "store.duckdb", "counts", "published_counts")


def test_a_file_of_totals_that_is_missing_or_holds_anything_else_is_refused(tables, staging: Staging, tmp_path):
    policy = policy_with_totals()
    published, stored = published_counts(policy, counted(policy, tables), noise_of(policy)), store_in(tmp_path)
    expected = file_tables(policy, published)
    write_table(stored, published)
    staged = stage_counts(staging, expected, stored)
    assert count_refusals(staged, expected, LONGITUDINAL.files) == []
    other = expected | {"Totals": expected["Totals"].assign(Count=expected["Totals"]["Count"] + 1)}
    without, unexpected = ({name: one[name] for name in one if name != "Totals"} for one in (staged, expected))
    for files, hold in ((staged, other), (without, expected), (staged, unexpected)):
        assert [(one.rule, one.name) for one in count_refusals(files, hold, LONGITUDINAL.files)] == [("other_counts", "Totals")]


@pytest.mark.matrix
@pytest.mark.parametrize("counts", [{}, {"protection": "masked"}, {"claims_per_member": 100}])
def test_files_that_hold_what_the_gate_counts_pass(tables, staging: Staging, tmp_path, counts):
    policy = policy_with(**counts)
    stored = store_in(tmp_path)
    write_table(stored, published_counts(policy, counted(policy, tables), noise_of(policy)))
    made = file_tables(policy, stored.frame())
    assert count_refusals(stage_counts(staging, made, stored), made, LONGITUDINAL.files) == []
    assert staging.refusals() == ()
    assert {file.path for file in staging.files} == {
        f"data/{name}.{form}" for name in ("Attrition", "Characteristics", "Distributions") for form in ("csv", "parquet")
    }


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        pytest.param(lambda frame: frame.assign(count=frame["count"] + 1), "other_counts", marks=pytest.mark.matrix),
        pytest.param(lambda frame: frame.assign(sd=9.0), "other_counts", marks=pytest.mark.matrix),
        pytest.param(lambda frame: frame.iloc[:-1], "other_counts", marks=pytest.mark.matrix),
        (lambda frame: frame.assign(mark="X"), "broken_contract"),
    ],
)
def test_files_that_hold_anything_else_are_refused(tables, staging: Staging, tmp_path, change, rule):
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    stored = store_in(tmp_path)
    write_table(stored, published)
    staged = stage_counts(staging, file_tables(policy, change(published)), stored)
    assert rule in {one.rule for one in count_refusals(staged, file_tables(policy, published), LONGITUDINAL.files)}


def test_a_staged_file_that_is_changed_afterwards_is_refused(tables, staging: Staging, tmp_path):
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    stored = store_in(tmp_path)
    write_table(stored, published)
    made = file_tables(policy, published)
    staged = stage_counts(staging, made, stored)
    file = staging.folder / "data/Attrition.csv"
    file.chmod(0o600)
    file.write_text(file.read_text().replace("290", "291"))
    assert count_refusals(staged, made, LONGITUDINAL.files) == [] and {one.rule for one in staging.refusals()} == {
        "changed_file"
    }


# Attackers


@pytest.mark.matrix
def test_nobody_tells_from_repeats_or_another_delivery_whether_one_member_is_in_it():
    """The advantage of the best attacker, who knows all others, over guessing: within the bound that the budget states."""
    policy = policy_with()
    runs, cell = 4_000, CellName("characteristics", "sex", "F")
    generator = np.random.default_rng(3)
    present = generator.integers(0, 2, runs)
    right = {1: 0, 3: 0}
    for run in range(runs):
        for deliveries in right:
            # The same delivery repeats: only different deliveries give fresh numbers.
            seen = [
                noise_of(policy, f"{run}/{delivery}").protect(cell, "", 20 + int(present[run]))
                for delivery in range(deliveries)
                for _ in range(2)
            ]
            right[deliveries] += int((np.mean(seen) > 20.5) == bool(present[run])) if np.mean(seen) != 20.5 else 0.5
    for deliveries, hits in right.items():
        allowed = best_guess(deliveries * 0.08)
        assert 0.5 < hits / runs < allowed + 3 * np.sqrt(0.25 / runs)


def test_sums_follow_from_names_alone():
    assert sums_of([CellName("characteristics", "sex", "F")]) == ()
    assert [one.total for one in sums_of([COHORT, CellName("characteristics", "sex", "F")])] == [COHORT]
