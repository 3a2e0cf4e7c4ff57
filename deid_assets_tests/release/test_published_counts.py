"""The tables of a run, protected, and the gate on the files that they become."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.count_disclosure import CHANCE, DISCLOSED_CELLS, canaries, count_measurements
from deid_assets.methods.counts.budget import best_guess
from deid_assets.methods.counts.cohort import COHORT, RELEASED, TOLD_BY_FILES, UNKNOWN, sums_of
from deid_assets.methods.counts.published_tables import masked_tables, names_of
from deid_assets.methods.counts.tables import CellName, PublishedCounts
from deid_assets.policy.loading import policy_from
from deid_assets.policy.models import Policy
from deid_assets.release.counts.cells import tables_of
from deid_assets.release.counts.cohort import cohort_counts
from deid_assets.release.counts.kinds import LONGITUDINAL
from deid_assets.release.counts.noise import DeliveryNoise
from deid_assets.release.counts.published import file_tables, planned_cells, planned_sums, published_counts, shown_of
from deid_assets.release.counts.statement import CountStatement, masked_counts_of
from deid_assets.release.gate.counts import count_refusals
from deid_assets.release.keys import Secret
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.publication.publish import Staging
from deid_assets.release.registry.chain import Chain
from deid_assets.release.registry.noise_charges import budget_of
from deid_assets.release.staged_files import stage_counts
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.release.making import SECRET, releases_in
from deid_assets_tests.scenarios.policies import SMALL, changed

STEPS = tuple(
    AttritionStep(stage, "members", count, shape=stage)
    for stage, count in (
        ("delivered_members", 1_003), ("members_after_opt_outs", 1_000), ("members_not_removed", 906),
        ("eligible_members", 900), ("sampled_members", 300), ("released_members", 290),
    )
)  # fmt: skip


def policy_with(**counts) -> Policy:
    return policy_from(changed(SMALL, counts=counts))


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, Table]:
    """900 eligible members: seven of unknown sex, two beyond 80, and with 1, 2 .. claims."""
    file = tmp_path_factory.mktemp("store") / "store.duckdb"
    content = {
        "member_profiles": """SELECT 'm' || i AS member_id, CASE WHEN i < 2 THEN 85 ELSE (i % 70) END::INTEGER AS age,
            CASE WHEN i < 7 THEN NULL WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
            CASE WHEN i % 9 = 0 THEN NULL ELSE i % 3 END::INTEGER AS days_in_hospital_y2, 1 + i % 30 AS claims,
            i % 3 = 0 AS released
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
    noisy = [cell for cell in cells if np.isfinite(cell.sd)]
    assert {cell.name for cell in noisy} == set(shown) - {RELEASED} and planned_sums(policy, counts)
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
    (found,) = count_measurements(policy, published, [], 1)
    assert (found.name, found.value, found.passed) == (DISCLOSED_CELLS, 0.0, True)


def test_what_an_earlier_release_shows_of_the_same_people_exposes_a_masked_count(tables):
    policy = policy_with(protection="masked")
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    hidden = published["mark"].eq("H").to_numpy(bool, na_value=False)
    assert hidden.any()
    found = tables_of(counted(policy, tables))
    exact = dict(zip(found.cells, found.counts.tolist(), strict=True))
    told = published[hidden].copy()
    told["count"], told["mark"] = [exact[name] for name in names_of(told)], pd.NA
    earlier = masked_tables(told, 11)
    (found,) = count_measurements(policy, published, [earlier], 1)
    assert found.value > 0 and not found.passed
    of_others = masked_tables(told.assign(same="of another delivery"), 11)
    (found,) = count_measurements(policy, published, [of_others], 1)
    assert found.passed


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
        (found,) = count_measurements(policy, told, [], 1)
        assert found.passed == passes, f"{11 - least} counts remain possible"


def test_what_an_earlier_release_hid_is_not_shown_under_a_lower_threshold(tables):
    strict, lax = policy_with(protection="masked"), policy_with(protection="masked", masking={"threshold": 3, "values": 3})
    counts = counted(strict, tables)
    earlier, later = masked_tables(masked(strict, counts), 11), masked(lax, counts)
    assert later["count"].between(3, 10).any()
    (alone,) = count_measurements(lax, later, [], 1)
    (together,) = count_measurements(lax, later, [earlier], 1)
    assert alone.passed and together.value > 0 and not together.passed
    (again,) = count_measurements(strict, masked(strict, counts), [masked_tables(later, 3)], 1)
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
    (found,) = count_measurements(one, masked(one, counts), [earlier], 1)
    assert found.value > 0 and not found.passed
    same = masked_tables(masked(other, counts.assign(shape=fewer["shape"])), 11)
    (found,) = count_measurements(one, masked(one, counts), [same], 1)
    assert found.passed, "equal counts tell nothing new"


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
    kept = masked_counts_of(told)
    assert kept is not None and kept.cells == masked_tables(published, 11).cells
    assert PublishedCounts.together([kept, masked_tables(published, 11)]).cells == kept.cells
    assert statement.public()["tables"] == "masked" and "masked" not in statement.public()
    assert statement.masked == shown_of(published) and "nor the masked tables" in statement.public()["budget"]["meaning"]


def test_nothing_is_kept_of_noisy_tables(tables):
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    statement = CountStatement(policy.counts, budget_of(Chain((), None, b""), policy.counts), published)
    assert masked_counts_of(statement.restricted()) is None and masked_counts_of(None) is None
    assert statement.masked == {} and statement.public()["tables"] == "noisy"


def test_noise_that_was_averaged_too_often_fails(tables):
    policy = policy_with()
    published = published_counts(policy, counted(policy, tables), noise_of(policy))
    (once,) = count_measurements(policy, published, [], 1)
    (often,) = count_measurements(policy, published, [], 12)
    assert (once.name, once.passed, often.passed) == (CHANCE, True, False) and once.value < often.value


def test_every_canary_is_found():
    assert canaries().share == 1.0


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
        (lambda frame: frame.assign(count=frame["count"] + 1), "other_counts"),
        (lambda frame: frame.assign(sd=9.0), "other_counts"),
        (lambda frame: frame.iloc[:-1], "other_counts"),
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
