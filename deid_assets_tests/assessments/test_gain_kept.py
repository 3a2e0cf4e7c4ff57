"""Which condition groups are predicted, from which features, and what is told of the gain: rounded, or silent with a reason."""

import numpy as np
import pytest

from deid_assets.assessments import gain_kept
from deid_assets.assessments.compared_tables import NextYear, _coarsest_claims, coarsest_levels
from deid_assets.assessments.evidence import exposure_of
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.methods.utility.gains import Gain, Interval, Target
from deid_assets.methods.utility.prediction import Examples
from deid_assets.policy.loading import policy_by_name
from deid_assets_tests.assessments.test_utility import compared

CLAIMS = "member_id VARCHAR, year INTEGER, condition_group VARCHAR"


def claims(*shares: tuple[str, int]) -> list[tuple]:
    """Of 100 members with a claim in year 2, how many have one of a group; everybody has one without."""
    rows = [(str(member), 2, None) for member in range(100)]
    return rows + [(str(member), 2, group) for group, number in shares for member in range(number) for _ in range(2)]


class TestTargets:
    @pytest.mark.parametrize(
        ("shares", "chosen"),
        [
            ([("A", 60), ("B", 31), ("C", 12), ("D", 3)], ("B", "C", "D")),
            ([("A", 10), ("B", 10), ("C", 2)], ("A", "B", "C")),
            ([("A", 5)], ("A",)),
            ([], ()),
        ],
        ids=["nearest by ratio", "ties by name, each once", "fewer groups than kinds", "no group"],
    )
    def test_groups_are_chosen_by_their_share_of_member_years(self, shares, chosen, store):
        table = store.table("claims", CLAIMS, claims(*shares) + [("1", 1, "Z")] * 40)
        assert tuple(gain_kept.condition_group_targets(table).values()) == chosen

    def test_an_event_is_a_claim_of_the_group_in_the_year_after(self, store):
        grouped = store.table("claims", CLAIMS, [("a", 2, "G"), ("b", 3, "G"), ("b", 1, "G"), ("c", 2, "H"), ("d", 2, "G")])
        people = store.table("people", "number BIGINT, member_id VARCHAR", [(7, "a"), (8, "b"), (9, "c")])
        member, year = np.array([7, 7, 8, 8, 9]), np.array([1, 2, 1, 2, 1])
        days = Examples(member, np.zeros((5, 1)), np.zeros(5, dtype=np.int64), np.log1p(np.arange(5.0)))
        nothing = np.zeros((5, 1))
        found = gain_kept.targets_of(NextYear(people, year, days, days, nothing, nothing, member), grouped)
        assert [(one.name, one.event) for one in found] == [
            ("days_in_hospital", False), ("common_condition_group_H", True), ("middling_condition_group_G", True),
        ]  # fmt: skip
        assert found[0].truth.tolist() == days.truth.tolist()
        assert found[1].truth.tolist() == [0, 0, 0, 0, 1] and found[2].truth.tolist() == [1, 0, 0, 1, 0]


def test_labels_become_those_of_the_coarsest_level_and_blanks_stay_blank(store):
    policy = policy_by_name("heritage_public")
    levels = dict.fromkeys(coarsest_levels(policy), 0)
    names = policy.claim_names
    top = coarsest_levels(policy)["place"]
    assert top > 0
    domain = "quasi_identifier VARCHAR, value VARCHAR, level INTEGER, label VARCHAR, base_code INTEGER"
    rows = [("place", value, level, label, code)
            for code, value in enumerate(("Office", "Home"))
            for level, label in ((0, value), (top, "any"))]  # fmt: skip
    listed = ", ".join(f'"{name}" VARCHAR' for name in names.values())
    shown = [(1, 1, *("Home" if column == "place" else None for column in names)), (2, 1, *(None for _ in names))]
    made = compared(store, [], [])
    after = store.table("after", f"member BIGINT, year INTEGER, {listed}", shown)
    found = _coarsest_claims(
        Candidate(policy, levels, {"value_domains": store.table("domains", domain, rows)}),
        type(made)(made.members_before, made.members_after, made.claims_before, after, (), tuple(names.values())),
    ).frame("member")  # fmt: skip
    assert found[names["place"]].fillna("").tolist() == ["any", ""] and found["member"].tolist() == [1, 2]


def next_year_of(rows: int, label: np.ndarray) -> NextYear:
    """One feature is delivered, and a label released beside it."""
    generator = np.random.default_rng(1)
    member, feature = np.arange(rows), generator.integers(3, size=(rows, 1)).astype(float)
    delivered = Examples(member, feature, member, np.zeros(rows))
    shown = Examples(member, np.hstack([feature, label[:, None]]), member, np.zeros(rows))
    return NextYear(None, member, delivered, shown, np.ones((rows, 1)), feature, member)  # type: ignore[arg-type]


class TestGains:
    def test_too_few_members_have_none(self):
        few = gain_kept.FEWEST - 1
        target = Target("event", np.zeros(few), event=True)
        assert gain_kept.gains([target], next_year_of(few, np.zeros(few)), 200, np.random.default_rng(0)) == {"event": None}

    def test_a_label_made_from_the_event_is_a_leak_of_labels_and_one_by_chance_is_none(self):
        generator = np.random.default_rng(2)
        event = generator.integers(2, size=1_000).astype(float)
        made_from = np.where(generator.random(1_000) < 0.2, event, 2.0)
        for label, leaks in ((made_from, True), (generator.permutation(made_from), False)):
            found = gain_kept.gains(
                [Target("event", event, event=True)], next_year_of(1_000, label), 200, np.random.default_rng(3)
            )["event"]
            assert (found.gain.leak >= 3) == leaks
            assert found.leak_of_labels is None if not leaks else found.leak_of_labels >= 3

    def test_a_cut_that_depends_on_the_event_is_a_leak_and_none_of_labels(self):
        """What the release tells without its labels, such as how many claims were kept, tells it as well."""
        generator = np.random.default_rng(4)
        event = generator.integers(2, size=1_000).astype(float)
        cut = np.where(generator.random(1_000) < 0.2, event, 2.0)
        made = next_year_of(1_000, cut)
        made = NextYear(made.people, made.year, made.delivered, made.released, cut[:, None], made.with_classes, made.year)
        found = gain_kept.gains([Target("event", event, event=True)], made, 200, np.random.default_rng(3))["event"]
        assert found.gain.leak >= 3 and found.leak_of_labels < 3

    def test_of_many_members_a_sample_is_predicted(self, monkeypatch):
        seen = []

        def losses(targets, features, member, folds):
            seen.append((*(len(target.truth) for target in targets), *(len(of) for of in features), folds.shape[1]))
            return [np.random.default_rng(0).random((len(np.unique(member)), 1 + len(features))) for _ in targets]

        monkeypatch.setattr(gain_kept, "member_losses", losses)
        monkeypatch.setattr(gain_kept, "MEMBERS", 60)
        gain_kept.gains(
            [Target("event", np.zeros(900), event=True)], next_year_of(900, np.zeros(900)), 200, np.random.default_rng(0)
        )
        assert set(seen) == {(60,) * 6}


def gain(**changes) -> Gain:
    values = {
        "losses": np.zeros(5), "gain": Interval(0.1234, 0.1111, 0.13), "label_gain": Interval(0.0567, 0.0333, 0.09),
        "kept": Interval(0.7777, 0.7333, 0.8111), "label_kept": Interval(0.5432, 0.4321, 0.6543), "leak": 0.44,
    }  # fmt: skip
    return Gain(**values | changes)


def told(one: Gain | None, of_labels: float | None = None, released: int = 20_000) -> dict:
    found = None if one is None else gain_kept.Predicted(one, of_labels)
    return {one.name: one for one in gain_kept.gain_measurements({"days_in_hospital": found}, released, "c" * 64)}


class TestMeasurements:
    def test_shares_and_their_intervals_are_rounded_outwards(self):
        found = told(gain())
        kept, of_labels = found["days_in_hospital/share_of_gain_kept"], found["days_in_hospital/share_of_label_gain_kept"]
        assert (kept.value, kept.bound, of_labels.value, of_labels.bound) == (0.77, 0.73, 0.54, 0.43)
        assert found["days_in_hospital/share_of_gain_kept_upper_bound"].value == 0.82
        assert found["days_in_hospital/share_of_label_gain_kept_upper_bound"].value == 0.66
        assert (found["days_in_hospital/gain"].value, found["days_in_hospital/gain"].bound) == (0.122, 0.11)
        assert found["days_in_hospital/leak"].value == 0.5
        assert all(not exposure_of(one.unit).counts_people and not one.gating for one in found.values())

    @pytest.mark.parametrize(
        ("one", "released", "kept", "of_labels"),
        [
            (None, 20_000, "too few members", "too few members"),
            (gain(kept=None, gain=Interval(0.01, -0.01, 0.03)), 20_000, "delivery predicts nothing", "54 % (43 to 66)"),
            (gain(label_kept=None, label_gain=Interval(0.01, 0.0, 0.03)), 20_000, "77 % (73 to 82)", "labels add nothing"),
            (gain(gain=Interval(0.02, 0.001, 0.03)), 20_000, "delivery predicts nothing", "54 % (43 to 66)"),
            (gain(label_gain=Interval(0.02, 0.03, 0.05)), 600, "63 % (63 to 84)", "labels add nothing"),
        ],
        ids=["too few members", "no gain", "no label gain", "less than 25 members", "less than 25 members of few"],
    )
    def test_silence_is_told_in_words(self, one, released, kept, of_labels):
        found = {name: own.to_json() for name, own in told(one, released=released).items()}
        assert gain_kept.predicted_targets(found) == ("days_in_hospital",)
        assert gain_kept.share_in_words(found, "days_in_hospital", "share_of_gain_kept") == kept
        assert gain_kept.share_in_words(found, "days_in_hospital", "share_of_label_gain_kept") == of_labels
        assert (
            f"days in hospital: kept of the gain: {kept}, of what labels of claims add: {of_labels}"
            == gain_kept.kept_in_words(found)
        )
        assert b"days in hospital" in gain_kept.kept_figure(found)
        if not kept[0].isdigit():
            assert kept.encode() in gain_kept.kept_figure(found)
