"""A release of dates from the delivery to the published files, and what the gate does when dates were not drawn anew."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from deid_assets.assessments.dates import date_refusals
from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.kernel_input import chosen_levels
from deid_assets.assessments.number_of_claims import ORDERED
from deid_assets.assessments.reachable_risk import GO_ON_TAG
from deid_assets.errors import REFUSED
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.dates.errors import ReleasedDates
from deid_assets.methods.dates.intervals import Events, Redrawing, redraw
from deid_assets.policy.loading import policy_from
from deid_assets.store.home import Home
from deid_assets_tests.methods.disclosure.test_ordered_services import windows
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

KEY = "synthetic-3000-1"


def dated_policy(in_order: bool = False) -> dict:
    """The small policy with dates instead of places and stays: as precise as so few members allow, whose order is not known."""
    claims = [
        {"column": "service_interval", "release_as": "DaysSinceLastService", "hierarchy": "as_it_is"},
        {"column": "service_period", "release_as": "ServicePeriod", "hierarchy": "as_it_is"},
    ]
    dates = {"anchor": "year", "width": 364, "derived": "drop", "narrower": {"width": 300, "class_size_at_least": 100}}
    if in_order:
        claims.append({"column": "service_order", "release_as": "LastTwoIntervals", "hierarchy": "as_it_is"})
        dates["intervals_known"] = "in_order"
    return changed(
        SMALL,
        long_tail={"method": "bins", "width": 5, "risk": 0.1, "unit": "member", "score": "balanced"},
        dates=dates,
        quasi_identifiers__claims=claims,
        hierarchies__as_it_is={"kind": "fixed"},
    )


def connected_policy() -> dict:
    """The small policy with dates of service, discharge and payment, and an adversary who knows one value of each column."""
    policy = dated_policy()
    policy["dates"] |= {
        "derived": "recompute",
        "connected": [
            {"offset": "length_of_stay", "release_as": "DischargeDate"},
            {"offset": "pay_delay", "release_as": "PaidDate"},
        ],
    }
    policy["quasi_identifiers"]["claims"].append(
        {"column": "length_of_stay", "release_as": "LengthOfStay", "hierarchy": "length_of_stay"}
    )
    levels = [{"name": "days", "width": 1}, {"name": "two classes", "starts": [0, 300], "labels": ["under 300", "300+"]}]
    policy["hierarchies"]["length_of_stay"] = {"kind": "intervals", "from": 0, "levels": levels}
    policy["dimensions"].append({"name": "length_of_stay", "columns": ["length_of_stay"]})
    policy["adversary"] = {"power": 1}
    policy["neighbor_attack"]["given_membership"]["at_most"] = 0.3
    policy["risk"]["max_high_risk_share"] = 0.1
    return policy


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Iterator[tuple[Pipeline, Path]]:
    root = tmp_path_factory.mktemp("dated") / "deid"
    write_policy(Home(root).create().policies, dated_policy())
    with pipeline_in(root) as pipeline:
        pipeline.synthetic(KEY, 3_000, seed=1)
        summary = pipeline.run(KEY)
        assert not summary.reasons and not summary.failed_checks, summary
        yield pipeline, root / "releases" / "small" / "0001"


@pytest.mark.matrix
def test_dates_are_released_and_what_follows_from_them_is_told(released):
    pipeline, folder = released
    claims = duckdb.sql(f"FROM read_csv('{folder / 'data' / 'Claims.csv'}')")
    assert claims.columns[4:9] == ["Year", "ServiceDate", "DaysSinceLastService", "ServicePeriod", "PayDelay"]
    wrong = claims.filter("ServiceDate IS NOT NULL AND (year(ServiceDate) <> ServicePeriod OR PayDelay IS NOT NULL)")
    assert wrong.aggregate("count(*)").fetchall() == [(0,)]
    assert claims.filter("ServiceDate IS NOT NULL").aggregate("count(*) > 1000").fetchall() == [(True,)]
    told = json.loads((folder / "data" / "dates.json").read_text())
    assert told["column"] == "ServiceDate" and told["anchor"]["generalized_to"] == "year"
    assert told["interval_bins"]["widest_days"] == 364 and told["derived_columns"] == "drop"
    assert told["errors"]["p95_days"] % 7 == 0 and told["errors"]["largest_days"] % 30 == 0
    listed = {file["path"] for file in json.loads((folder / "manifest.json").read_text())["files"]}
    assert "data/dates.json" in listed
    report = (folder / "report.html").read_text()
    assert "95 % of the dates are at most" in report and "lower edges of their bins grow: at a width of 7 days" in report
    assert "Expected to be re-identified, from the measured share at high risk" in report


@pytest.mark.matrix
def test_the_published_dates_are_those_of_the_store_and_not_the_delivered_ones(released):
    pipeline, folder = released
    store = pipeline.table(KEY, "dated_claims")
    rows = store.query(
        f"""SELECT count(*) AS n, count_if(d.service_date = e.service_date) AS same,
                   count_if(d.year <> year(d.service_date) - (SELECT min(year(service_date)) - 1 FROM intake.claims)) AS wrong
            FROM {store.sql} d JOIN preparation.eligible_claims e USING (claim_id) WHERE d.service_date IS NOT NULL"""
    ).iloc[0]
    assert rows["n"] > 1000 and rows["same"] < 0.05 * rows["n"] and rows["wrong"] == 0


@pytest.mark.matrix
def test_the_ui_shows_both_figures_and_the_comparisons(released):
    pipeline, _ = released
    cut = pipeline.materialization("truncated_claims", KEY).metadata
    assert "data:image" in cut["ways_to_cut_figure"].value and "optimal_bins" in cut["ways_to_cut"].value
    dates = pipeline.materialization("dated_claims", KEY).metadata
    assert "data:image" in dates["date_errors"].value
    assert all(way in dates["ways_to_change_dates"].value for way in ("randomized independently", "shifted as a whole"))


@pytest.mark.matrix
def test_every_bin_of_the_number_of_claims_is_empty_or_large_enough(released):
    pipeline, _ = released
    table = pipeline.table(KEY, "truncated_claims")
    width = pipeline.materialization("truncated_claims", KEY).metadata["width_of_bins"].value
    sizes = table.query(
        f"SELECT (n - 1) // {width} AS bin, count(*) AS members FROM (SELECT count(*) AS n FROM {table.sql} GROUP BY member_id)"
        " GROUP BY bin"
    )["members"]
    assert len(sizes) > 3 and sizes.min() >= 10


@pytest.mark.matrix
def test_the_gate_counts_the_bins_again(released, tmp_path):
    """One member of the delivery with more claims than any other: nobody else is in his bin."""
    pipeline, _ = released
    with copy_of(pipeline.home.root, tmp_path / "deid") as copy:
        copy.edit_store(
            KEY,
            """INSERT INTO preparation.dated_claims SELECT c.* FROM preparation.dated_claims c, range(400)
               WHERE claim_id = (SELECT min(claim_id) FROM preparation.dated_claims)""",
        )
        before = copy.published_bytes()
        summary = copy.run(KEY, ["release"])
        assert summary.exit_code == REFUSED and copy.published_bytes() == before
        assert (
            "dated_claims: a bin of the number of claims contains members, but fewer than long_tail.risk requires"
            in " ".join(summary.reasons)
        )


@pytest.mark.matrix
def test_columns_are_traced_to_the_claims_with_released_dates(released):
    pipeline, _ = released
    lineage = pipeline.materialization("release_claims", KEY).metadata["dagster/column_lineage"].value.deps_by_column
    assert {dep.asset_key.path[-1] for dep in lineage["ServiceDate"]} == {"dated_claims"}
    assert "truncated_claims" not in {dep.asset_key.path[-1] for deps in lineage.values() for dep in deps}


@pytest.mark.matrix
def test_ordered_services_are_counted_and_told(released):
    """Counted again by loops over all windows, of the published claims and of those of the delivery with released dates."""
    pipeline, folder = released
    data, chosen = folder / "data", pipeline.table(KEY, "chosen_generalization")
    (evidence,) = from_frame(pipeline.table(KEY, "demographic_risk").frame())
    found = {one.name: one for one in evidence.measurements if one.name in ORDERED}
    policy = policy_from(dated_policy())
    levels = chosen_levels(policy, chosen)
    own = ("age", "sex", "days_in_hospital_y2")
    profiles = pipeline.table(KEY, "member_profiles")
    people = profiles.query(generalized_members(profiles, pipeline.table(KEY, "value_domains"), {c: levels[c] for c in own}))
    population = {row.member_id: tuple(getattr(row, name) for name in own) for row in people.fillna("").itertuples()}
    shown = duckdb.sql(
        f"""SELECT m.MemberID, AgeAtFirstClaim, Sex, DaysInHospital FROM '{data / "Members.parquet"}' m
            LEFT JOIN '{data / "DaysInHospital_Y2.parquet"}' USING (MemberID)"""
    ).df()
    files = {row[0]: tuple(row[1:]) for row in shown.fillna("").itertuples(index=False)}
    columns = "service_date::VARCHAR AS day, service_interval, service_period FROM"
    dated = pipeline.table(KEY, "dated_claims")
    held = dated.query(f"SELECT DISTINCT member_id, {columns} {dated.sql} WHERE service_date IS NOT NULL")
    released_claims = duckdb.sql(
        f"""SELECT DISTINCT MemberID, ServiceDate::VARCHAR, DaysSinceLastService, ServicePeriod
            FROM '{data / "Claims.parquet"}' WHERE ServiceDate IS NOT NULL"""
    ).df()
    of_files, of_population = (
        {who: windows(list(rows.iloc[:, 1:].fillna("").itertuples(index=False, name=None))) for who, rows in frame.groupby(by)}
        for frame, by in ((released_claims, "MemberID"), (held, "member_id"))
    )
    nobody = windows([])
    sizes = Counter(
        (population[who], length, window)
        for who in population
        for length, own in of_population.get(who, nobody)[0].items()
        for window in set(own)
    )
    smallest, risky = [], []
    for who, demographics in files.items():
        by_length, length = of_files.get(who, nobody)
        own_sizes = [sizes[demographics, length, window] for window in by_length[length]]
        smallest.append(min(own_sizes))
        risky.append([np.mean([size < 20 for size in own_sizes]), np.mean([size <= 1 for size in own_sizes])])
    expected = [np.mean(np.array(smallest) < 20), np.mean(np.array(smallest) <= 1), *np.mean(risky, axis=0)]
    assert [found[name].value for name in ORDERED] == pytest.approx(expected)
    assert min(smallest) >= 1 and 0 < expected[3] < expected[0] < 1
    told = [m for item in json.loads((folder / "manifest.json").read_text())["evidence"] for m in item["measurements"]]
    for name in ORDERED:
        of_assessment, of_gate = (one for one in told if one["name"] == name)
        assert of_assessment == of_gate and of_gate["protected"] and not of_gate["gating"]
    assert "one claim of each of three consecutive days with services" in (folder / "report.html").read_text()


@pytest.mark.matrix
def test_ordered_services_refuse_where_the_policy_limits_them(released, tmp_path):
    pipeline, _ = released
    policy = dated_policy()
    policy["dates"]["ordered_services_at_most"] = 0.01
    with copy_of(pipeline.home.root, tmp_path / "deid") as copy:
        write_policy(copy.home.policies, policy)
        summary = copy.run(KEY, ["demographic_risk", "release"])
        assert summary.exit_code == REFUSED and summary.release is None
        (failed,) = summary.failed_checks
        assert failed.startswith("ordered_services_risk_within_threshold"), failed


@pytest.mark.matrix
def test_dates_that_pass_without_the_order_of_intervals_are_refused_where_it_is_known(tmp_path):
    root = tmp_path / "deid"
    write_policy(Home(root).create().policies, dated_policy(in_order=True))
    with pipeline_in(root) as pipeline:
        pipeline.synthetic(KEY, 3_000, seed=1)
        summary = pipeline.run(KEY, tags={GO_ON_TAG: "true"})  # the bounds before the search may refuse already
        assert summary.exit_code == REFUSED and "Failed gates: share at high risk" in summary.reasons[0]
        known = pipeline.table(KEY, "adversary_power")
        assert "service_order" in known.query(f"SELECT DISTINCT quasi_identifier FROM {known.sql}").iloc[:, 0].tolist()


@pytest.mark.matrix
def test_connected_dates_follow_from_what_is_released(tmp_path):
    root = tmp_path / "deid"
    write_policy(Home(root).create().policies, connected_policy())
    with pipeline_in(root) as pipeline:
        pipeline.synthetic(KEY, 3_000, seed=1)
        summary = pipeline.run(KEY)
        assert summary.release is not None and not summary.failed_checks, summary
        data = summary.release / "data"
        claims = f"read_csv('{data / 'Claims.csv'}', types = {{'PayDelay': 'VARCHAR', 'LengthOfStay': 'VARCHAR'}})"
        assert duckdb.sql(f"FROM {claims}").columns[-2:] == ["DischargeDate", "PaidDate"]
        stays, paid, wrong = duckdb.sql(
            f"""SELECT count(DischargeDate), count(PaidDate), count_if(
                    (DischargeDate IS NOT NULL) <> (ServiceDate IS NOT NULL AND coalesce(LengthOfStay = 'under 300', false))
                    OR coalesce(DischargeDate - ServiceDate NOT BETWEEN 0 AND 299, false)
                    OR (PaidDate - ServiceDate) IS DISTINCT FROM try_cast(PayDelay AS INTEGER) AND ServiceDate IS NOT NULL)
                FROM {claims}"""
        ).fetchall()[0]
        assert stays > 100 and paid > 1000 and wrong == 0
        told = json.loads((data / "dates.json").read_text())["connected"]
        assert told["DischargeDate"] == "drawn within the released length_of_stay; may pass the next service, or the years"
        described = json.loads((data / "dictionary.json").read_text())
        assert "date of discharge" in json.dumps(described)


def test_dates_that_were_not_drawn_anew_refuse():
    days = range(13_900, 14_300)
    events = Events(list(range(400)), list(days), [True] * 400)
    width = events.day * 0 + 7
    (refused,) = date_refusals(ReleasedDates(events, events.day, width))
    assert refused.rule == "dates_as_delivered" and refused.measured == 1
    moved = events.day + (events.member % 28)
    assert date_refusals(ReleasedDates(events, moved, width)) == []


def test_intervals_that_were_not_drawn_anew_refuse():
    """A whole sequence that was shifted has no delivered date, and all delivered intervals."""
    generator = np.random.default_rng(4)
    member, step = np.repeat(np.arange(100), 5), generator.integers(2, 60, 500)
    delivered = 14_000 + np.cumsum(step.reshape(100, 5), axis=1).ravel()
    events, width = Events(member, delivered, np.ones(500, dtype=bool)), np.full(500, 7)
    shifted = delivered + np.repeat(1 + np.arange(100) % 28, 5)
    (refused,) = date_refusals(ReleasedDates(events, shifted, width))
    assert refused.rule == "intervals_as_delivered" and refused.measured == 1 and refused.measured > refused.threshold
    window = (int(delivered.min()) - 400, int(delivered.max()) + 400)
    drawn = redraw(events, 7, Redrawing("month", window), bytes(16)).day
    assert date_refusals(ReleasedDates(events, drawn, width)) == []
    tight = redraw(events, 7, Redrawing("month", (int(delivered.min()), int(delivered.max()))), bytes(16)).day
    assert date_refusals(ReleasedDates(events, tight, width)) == []
    narrow = redraw(events, 2, Redrawing("month", window), bytes(16)).day
    assert date_refusals(ReleasedDates(events, narrow, np.full(500, 2))) == []


@pytest.mark.matrix
def test_claims_are_cut_by_the_values_that_are_released_dates_among_them(released):
    """Places and stays are not released here: how rare they are must not decide which claims stay."""
    pipeline, _ = released
    scores = pipeline.table(KEY, "claim_support_scores")
    rows = scores.query(
        f"""WITH days AS (
                SELECT DISTINCT member_id, service_date AS day FROM preparation.eligible_claims
                WHERE service_date IS NOT NULL),
            gaps AS (
                SELECT *, day - lag(day) OVER (PARTITION BY member_id ORDER BY day) AS gap FROM days)
            SELECT CASE WHEN gap IS NULL THEN -1 WHEN gap <= 1 THEN gap ELSE 2 + (gap - 1) // 300 END AS interval,
                   year(day) AS period, count(DISTINCT round(score, 12)) AS scores, any_value(score) AS score
            FROM {scores.sql} JOIN preparation.eligible_claims e USING (claim_id)
            JOIN gaps g ON g.member_id = e.member_id AND g.day = e.service_date GROUP BY ALL"""
    )
    assert len(rows) > 6 and (rows["scores"] == 1).all(), "claims of the same released values score alike"
    assert rows["score"].nunique() > 6
