"""Tries are counted by what is judged, not by what it is called; lines of refused ones are as safe as the registry's others."""

import json
import threading
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from deid_assets.assessments.evidence import Context, Requirement, from_frame, judge, to_frame
from deid_assets.errors import RefusedError, ReleaseError
from deid_assets.methods.lattice.candidate_gates import NOT_COARSER, REFUSED
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST, clopper_pearson_upper_bound, confidence_of_try
from deid_assets.release.cumulative import releases_made
from deid_assets.release.keyring import secret_of
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.release.manifest.editions import editions
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry.chain import GENESIS, RefusedTry, read_chain, signed_rotation
from deid_assets.release.registry.clock import parse_time
from deid_assets.release.registry.delivery_tries import DeliveryTries
from deid_assets.release.registry.tries import SampleOfTry, Tried, Tries, ValueClasses, refused_by_draws, tries_of, what_is_next
from deid_assets.store.home import Home
from deid_assets_tests.release import making

SUBJECT = making.SECRET.keyed_digest("delivery of a try", "a" * 64)
SAMPLE = SampleOfTry("member", 600)
ALIKE = SAMPLE.alike(making.SECRET)


def node(name: str) -> str:
    return making.SECRET.keyed_digest("generalization of a try", name)


def tried(name: str, number: int = 1, size: int = 600, subject: str = SUBJECT) -> Tried:
    return Tried(subject, SampleOfTry("member", size).digest(making.SECRET), node(name), number)


def tries(releases: Releases, subject: str = SUBJECT, alike=ALIKE):
    published = {
        (made.policy, made.number): made.tried for made in releases_made(releases.restricted, releases.registry) if made.tried
    }
    return tries_of(releases.registry.chain(), published, subject, alike)


def publish(releases: Releases, of: Tried | None, inputs: str, policy: str = "heritage") -> None:
    with releases.stage(policy) as staging:
        staging.write_file("data/Members.txt", b"member 1")
        making.stage_certificate(staging)
        last = releases.registry.chain().last_time or "2026-01-01T00:00:00Z"
        staging.publish(
            lambda place: editions(making.manifest(place, tried=of), making.protect),
            staging.slot("2024", making.SECRET.keyed_digest("inputs", inputs), last),
        )  # fmt: skip


# How surely


@given(
    excess=st.floats(1.0001, 1.5),
    threshold=st.floats(0.005, 0.2),
    confidence=st.floats(0.9, 0.999),
    draws=st.integers(500, 50_000),
)
def test_what_is_not_safe_passes_in_any_of_three_tries_no_more_often_than_the_policy_says(excess, threshold, confidence, draws):
    """Exactly, from the binomial distribution: a generalization over the threshold, judged on fresh draws in every try."""
    fails_all = 1.0
    for number in range(1, TRIES_AT_MOST + 1):
        fails_all *= 1 - probability_of_passing(threshold * excess, threshold, draws, confidence_of_try(confidence, number))
    assert 1 - fails_all <= (1 - confidence) * (1 + 1e-9)


def test_five_tries_at_the_stated_confidence_would_err_five_times_as_often():
    """At a share just over the threshold the bound is nearly exact: this is what tries are split against."""
    one = probability_of_passing(0.05001, 0.05, 100_000, 0.99)
    assert 0.009 < one < 0.01 and 0.045 < 1 - (1 - one) ** 5 < 0.05


def probability_of_passing(share: float, threshold: float, draws: int, confidence: float) -> float:
    """That the bound of so many draws at this share is within the threshold."""
    low, high = -1, draws
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if clopper_pearson_upper_bound(middle, draws, confidence) <= threshold else (low, middle)
    return float(stats.binom.cdf(low, draws, share)) if low >= 0 else 0.0


@given(confidence=st.floats(0.5, 0.9999))
def test_the_errors_of_all_tries_sum_to_less_than_that_of_the_policy(confidence):
    errors = [1 - confidence_of_try(confidence, number) for number in range(1, TRIES_AT_MOST + 1)]
    assert errors == pytest.approx([(1 - confidence) / 2, (1 - confidence) / 4, (1 - confidence) / 8])
    assert sum(errors) < 1 - confidence
    with pytest.raises(ValueError, match="first try"):
        confidence_of_try(confidence, 0)


# What is counted


def test_tries_are_counted_over_policies_and_nearly_the_same_samples(releases):
    assert tries(releases).next == 1
    releases.note_refused(tried("a"), True)
    releases.note_refused(tried("b", 2, size=601), True)
    releases.note_refused(tried("c", 3, size=1_150), False)
    found = tries(releases)
    assert (found.counted, found.next, found.refused) == (3, 4, {node("a"): True, node("b"): True, node("c"): False})
    assert "policy" not in json.dumps([line.content for line in releases.registry.chain().lines])


def test_another_delivery_and_a_sample_of_another_size_or_key_are_counted_by_themselves(releases):
    releases.note_refused(tried("a"), True)
    assert tries(releases, subject="b" * 64).counted == 0
    for other in (SampleOfTry("member", 1_500), SampleOfTry("member", 240), SampleOfTry("delivery", 600)):
        assert tries(releases, alike=other.alike(making.SECRET)).counted == 0


@given(size=st.integers(1, 10**7), times=st.floats(0.5, 2.0))
def test_samples_within_a_factor_of_two_are_the_same_and_beyond_two_and_a_half_never(size, times):
    other = max(1, round(size * times))
    if size <= 2 * other and other <= 2 * size:
        assert SampleOfTry("member", other).digest(making.SECRET) in SampleOfTry("member", size).alike(making.SECRET)
    assert SampleOfTry("member", -(-size * 5 // 2)).digest(making.SECRET) not in SampleOfTry("member", size).alike(
        making.SECRET
    )


def test_the_same_generalization_is_counted_once_and_keeps_its_number(releases):
    for _ in range(3):
        releases.note_refused(tried("a"), True)
    releases.note_refused(tried("b", 2), True)
    assert len(releases.registry.chain().lines) == 2
    found = tries(releases)
    assert (found.number_of(node("a")), found.number_of(node("b")), found.number_of(node("c"))) == (1, 2, 3)


def test_what_failed_for_more_than_chance_is_told_though_chance_was_told_before_and_not_the_other_way(releases):
    releases.note_refused(tried("a"), True)
    releases.note_refused(tried("a"), False)
    releases.note_refused(tried("a"), True)
    assert [line.by_chance for line in releases.registry.chain().lines] == [True, False]
    assert tries(releases).refused == {node("a"): False} and tries(releases).counted == 1


def test_a_publication_ends_the_count_and_refused_generalizations_stay_refused(releases):
    releases.note_refused(tried("a"), True)
    publish(releases, tried("b", 2), "first")
    found = tries(releases)
    assert (found.counted, found.next, found.refused) == (0, 1, {node("a"): True})
    assert (found.number_of(node("a")), found.number_of(node("b")), found.choosing) == (1, 2, 2)
    releases.note_refused(tried("c"), True)
    assert (tries(releases).counted, tries(releases).choosing) == (1, 2)


@pytest.mark.parametrize("of", [None, tried("b", subject="b" * 64), tried("b", size=1_600)])
def test_a_publication_of_something_else_or_of_nobody_knows_what_ends_no_count(releases, of):
    releases.note_refused(tried("a"), True)
    publish(releases, of, "first", policy="another")
    assert tries(releases).counted == 1


def test_the_public_manifest_says_which_try_it_was_and_nothing_to_compare_deliveries_by(releases):
    publish(releases, tried("b", 2), "first")
    public = (releases.path("heritage", 1) / "manifest.json").read_text()
    assert json.loads(public)["try"] == {"number": 2, "at_most": 3}
    assert SUBJECT not in public and node("b") not in public
    assert next(iter(releases_made(releases.restricted, releases.registry))).tried == tried("b", 2)


# What a generalization is


def domains(**columns) -> pd.DataFrame:
    """Columns of (values, classes by level)."""
    rows = [
        (column, value, level, code, f"{label}{code}")
        for column, (values, levels, label) in columns.items()
        for level, codes in enumerate(levels)
        for value, code in zip(values, codes, strict=True)
    ]
    return pd.DataFrame(rows, columns=["quasi_identifier", "value", "level", "level_code", "label"])


AGE = (["1", "2", "3"], [[0, 1, 2], [0, 0, 1], [0, 0, 0]], "age ")
SEX = (["F", "M"], [[0, 1]], "sex ")


def digest(levels, **columns) -> str:
    return ValueClasses(domains(**columns), making.SECRET).digest(levels)


def test_a_generalization_is_what_it_does_to_values_whatever_it_is_called():
    one = digest({"age": 1, "sex": 0}, age=AGE, sex=SEX)
    renamed = (AGE[0], AGE[1], "another label ")
    assert digest({"sex": 0, "age": 1}, sex=SEX, age=renamed) == one
    # A level put below it, its classes numbered otherwise, its values in another order.
    assert digest({"age": 2, "sex": 0}, sex=SEX, age=(["3", "1", "2"], [[0, 1, 2], [2, 1, 0], [4, 7, 7]], "")) == one
    assert digest({"age": 0, "sex": 0}, age=AGE, sex=SEX) != one
    assert digest({"age": 1, "sex": 0}, age=(["1", "2", "3"], [[0, 1, 2], [0, 1, 1]], ""), sex=SEX) != one


def test_another_name_of_a_declared_column_makes_no_other_generalization():
    of = {
        "paid": '["claims", "bins", "PAID", 0]',
        "money": '["claims", "bins", "PAID", 0]',
        "billed": '["claims", "bins", "B", 0]',
    }
    one, renamed, other = (
        ValueClasses(domains(**{name: AGE}, sex=SEX), making.SECRET, of).digest({name: 1, "sex": 0}) for name in of
    )
    assert one == renamed != other


def test_a_column_whose_values_are_all_one_class_is_as_good_as_none():
    whole = digest({"age": 2, "sex": 0}, age=AGE, sex=SEX)
    assert whole == digest({"sex": 0}, sex=SEX) != digest({"age": 1, "sex": 0}, age=AGE, sex=SEX)
    with pytest.raises(ReleaseError, match="run the whole job again"):
        digest({"age": 7}, age=AGE)


# The line in the registry


def test_the_line_tells_no_name_no_number_of_people_and_no_measurement(releases):
    releases.note_refused(tried("a"), True)
    (line,) = releases.registry.chain().lines
    assert set(line.content) == {
        "kind",
        "subject",
        "sample",
        "node",
        "number",
        "by_chance",
        "previous",
        "time",
        "key",
        "signature",
    }
    assert isinstance(line, RefusedTry) and parse_time(line.time) and (line.number, line.by_chance) == (1, True)


@pytest.mark.parametrize(
    "changes",
    [{"by_chance": False}, {"number": 2}, {"number": 0}, {"node": "f" * 64}, {"subject": "f" * 64},
     {"time": "2026-02-01T00:00:00Z"}, {"key": SigningKey.generated().public.raw.hex()}, {"signature": ""},
     {"by_chance": 1}, {"number": True}],
)  # fmt: skip
def test_a_line_that_was_changed_is_found_even_with_a_new_hash(releases, changes):
    releases.note_refused(tried("a"), True)
    (line,) = releases.registry.chain().lines
    releases.registry.path.write_bytes(replace(line, **changes).line)
    with pytest.raises(ReleaseError, match="line 1 of the registry (records a refused try, but|is not a registry entry)"):
        releases.registry.chain()


def test_a_line_signed_by_a_key_that_was_not_in_force_is_found(releases):
    made = RefusedTry(SUBJECT, "b" * 64, "c" * 64, 1, True, previous=GENESIS, time="2026-02-01T00:00:00Z")
    releases.folder.mkdir(parents=True, exist_ok=True)
    releases.registry.append(made.signed(SigningKey.generated()))
    assert releases.registry.chain().problem is None, "nothing tells yet which key is in force"
    new = SigningKey.generated()
    releases.registry.append(signed_rotation(releases.key, new, "", releases.registry.head, "2026-02-02T00:00:00Z"))
    after = replace(made, previous=releases.registry.head, time="2026-02-03T00:00:00Z")
    with releases.registry.path.open("ab") as file:
        file.write(after.signed(releases.key).line)
    assert read_chain(releases.registry.path).problem.endswith("is signed by a key that was not in force")


def test_a_line_that_was_removed_breaks_the_chain_after_it(releases):
    releases.note_refused(tried("a"), True)
    publish(releases, tried("b", 2), "first")
    _, release = releases.registry.path.read_bytes().splitlines(keepends=True)
    releases.registry.path.write_bytes(release)
    assert read_chain(releases.registry.path).problem.startswith("line 1 ")


@pytest.mark.matrix
def test_a_cut_line_is_repaired_and_written_again(releases):
    publish(releases, None, "first")
    before, journal = releases.registry.path.read_bytes(), releases.journal.file
    known, head = journal.path.read_bytes(), journal.head_path.read_bytes()
    releases.note_refused(tried("a"), True)
    line = releases.registry.path.read_bytes()[len(before) :]
    for length in range(1, len(line)):
        releases.registry.path.write_bytes(before + line[:length])
        journal.path.write_bytes(known)  # it is told after the registry
        journal.head_path.write_bytes(head)
        releases.note_refused(tried("a"), True)
        assert tries(releases).counted == 1 and len(releases.registry.chain().lines) == 2
        releases.registry.path.write_bytes(before)


def test_a_release_that_a_crash_left_without_its_entry_is_registered_first(releases):
    """Its manifest names the head that it follows: a line in between would leave it without its place for ever."""
    publish(releases, tried("a"), "first")
    releases.registry.path.write_bytes(b"")
    releases.note_refused(tried("b"), True)
    release, line = releases.registry.chain().lines
    assert (release.policy, release.number, line.kind) == ("heritage", 1, "refused try")


def test_releases_before_and_after_a_refused_try_are_verified(releases):
    publish(releases, tried("a"), "first")
    releases.note_refused(tried("b"), True)
    publish(releases, tried("c", 2), "second")
    for number in (1, 2):
        report = verify_release(
            releases.path("heritage", number), releases.key.public, releases.registry.path, releases.registry.head
        )
        assert report.ok, report.failures


def test_a_registry_of_another_time_takes_no_line_while_the_clock_is_wrong(releases, monkeypatch):
    publish(releases, None, "first")
    monkeypatch.setattr("deid_assets.release.publication.publish.clock.now", lambda last: "2025-01-01T00:00:00+00:00")
    before = releases.registry.path.read_bytes()
    with pytest.raises(ReleaseError, match="correct the clock"):
        releases.note_refused(tried("a"), True)
    assert releases.registry.path.read_bytes() == before


def test_two_who_note_the_same_at_once_write_one_line(releases):
    started = [threading.Thread(target=releases.note_refused, args=(tried("a"), True)) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert len(releases.registry.chain().lines) == 1


def test_a_home_in_which_a_try_was_refused_makes_no_new_secret_in_silence(tmp_path, monkeypatch):
    """With another secret the digests would be others, and tries would be counted anew."""
    for variable in ("DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND"):
        monkeypatch.delenv(variable, raising=False)
    home = Home(tmp_path / "deid").create()
    Releases(home, SigningKey.load_or_create(home.keys)).note_refused(tried("a"), True)
    with pytest.raises(ReleaseError, match="the secret is missing"):
        secret_of(home, {})


# What measurements say


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([{}], None),
        ([{"bound": 0.009}], True),
        ([{"bound": 0.009}, {"value": 0.0081, "bound": 0.009}], False),
        ([{"value": 0.0081, "bound": 0.009, "gating": False}], None),
        # Counted, not drawn: measured again it is the same.
        ([{"value": 0.0081, "bound": None, "confidence": None, "statistic": "value"}], None),
        # The policy goes by the estimate: no bound stands between.
        ([{"value": 0.0081, "bound": 0.009, "statistic": "value"}], False),
        # Nothing was measured, so nothing was told.
        ([{"value": None, "bound": None}], None),
        ([{"bound": float("nan")}], None),
    ],
)
def test_chance_may_be_why_only_where_every_value_is_within_its_threshold(measured, expected):
    assert refused_by_draws([making.measurement(name=str(n), **changes) for n, changes in enumerate(measured)]) is expected


def test_what_comes_next_is_said():
    assert what_is_next(2) == "this may be chance; running again tries a coarser generalization, as try 2 of 3"
    assert "the last of 3 tries" in what_is_next(4)


# Evidence of this try


REQUIRED = (Requirement("neighbor_attack", "high_risk_share", 0.008, 0.99),)


def rules(number: int, **changes) -> list[str]:
    """The rules by which evidence, measured as its fields say, is refused in this try."""
    confidence = changes.pop("confidence", confidence_of_try(0.99, number))
    item = making.evidence(making.measurement(confidence=confidence), **changes)
    (again,) = from_frame(to_frame([item]))
    assert again == item
    context = Context("2024", "p" * 64, {"neighbor_attack": "a" * 64}, {"neighbor_attack": "1"}, {"neighbor_attack": number})
    return [refusal.rule for refusal in judge([again], REQUIRED, context)]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_evidence_of_this_try_is_accepted_and_that_of_another_is_not(number):
    assert rules(number, try_number=number) == []
    assert rules(number, try_number=number, confidence=0.9999) == [], "a bound that holds more surely will do"
    assert rules(number, try_number=4 - number if number != 2 else 1) == ["evidence_of_another_try"]
    assert rules(number) == ["evidence_of_another_try"]


def test_a_bound_that_holds_less_surely_than_this_try_demands_is_refused():
    assert rules(1, try_number=1, confidence=0.99) == ["laxer_confidence"]
    assert rules(3, try_number=3, confidence=confidence_of_try(0.99, 2)) == ["laxer_confidence"]


@pytest.mark.parametrize("number", ["x", "-1", "1.0", "0"])
def test_a_stored_number_that_is_none_is_not_read(number):
    frame = to_frame([making.evidence(try_number=1)])
    frame["try_number"] = number
    with pytest.raises(ReleaseError, match="try number that is not valid|counted from 1"):
        from_frame(frame)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": "1"}, "missing or unknown fields"),
        ({"number": True}, "missing or unknown fields"),
        ({"more": 1}, "missing or unknown fields"),
        ({"sample": "600"}, "identified by digests"),
        ({"subject": None}, "identified by digests"),
    ],
)
def test_a_stored_try_that_was_changed_is_refused(changes, message):
    stored = tried("a").to_json()
    assert Tried.from_json(stored) == tried("a")
    with pytest.raises(ValueError, match=message):
        Tried.from_json(stored | changes)


SECRET = Secret(b"0123456789abcdef" * 2, "environment")
CODES = {"age": [[0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0]], "place": [[0, 1, 2, 3], [0, 0, 0, 1], [0, 0, 0, 1]]}
DOMAINS = pd.DataFrame(
    [
        (column, str(value), level, code)
        for column, levels in CODES.items()
        for level, codes in enumerate(levels)
        for value, code in enumerate(codes)
    ],
    columns=["quasi_identifier", "value", "level", "level_code"],
)
LATTICE = {(age, place): {"age": age, "place": place} for age in range(3) for place in range(3)}
PARTITIONS = ValueClasses(DOMAINS, SECRET)


class Told(DeliveryTries):
    """Tries of which the registry tells that some nodes were refused, by chance or not."""

    def read(self) -> Tries:
        refused = {PARTITIONS.digest(LATTICE[node]): by_chance for node, by_chance in self.home.items()}
        return Tries(dict.fromkeys(refused, 1), refused, len(refused))


def told(refused: dict) -> DeliveryTries:
    return Told(refused, SECRET, "a" * 64, SampleOfTry("member", 600), PARTITIONS)


def left(refused: dict) -> set:
    return set(LATTICE) - set(told(refused).not_tried_again(LATTICE, LATTICE.__getitem__))


def test_all_are_tried_while_none_was_refused_by_chance():
    assert left({}) == left({(1, 1): False}) == set(LATTICE)


def test_only_what_is_coarser_than_all_that_were_refused_by_chance_is_tried():
    assert left({(1, 0): True}) == {(1, 1), (1, 2), (2, 0), (2, 1), (2, 2)}
    assert left({(1, 0): True, (2, 0): True}) == {(2, 1), (2, 2)}
    assert told({(1, 0): True}).not_tried_again(LATTICE, LATTICE.__getitem__)[(1, 0)] == REFUSED
    assert told({(1, 0): True}).not_tried_again(LATTICE, LATTICE.__getitem__)[(0, 2)] == NOT_COARSER
    assert left({(2, 2): True}) == set()


def test_a_level_that_does_the_same_to_the_values_is_the_same_generalization():
    """Both coarser levels of place put the same values together: what was refused at one was refused at the other."""
    assert left({(1, 1): True}) == {(2, 2)}
    assert told({(1, 1): True}).not_tried_again(LATTICE, LATTICE.__getitem__)[(1, 2)] == REFUSED


@pytest.mark.parametrize("by_chance", [True, False])
def test_what_was_refused_is_not_chosen(by_chance):
    tries = told({(1, 1): by_chance})
    tries.require_not_refused(LATTICE[2, 2])
    with pytest.raises(RefusedError, match="refused before"):
        tries.require_not_refused(LATTICE[1, 2])


def test_after_three_refused_tries_nothing_is_measured_or_chosen():
    tries = told({(0, 0): True, (0, 1): True, (1, 0): True})
    for attempt in (lambda: tries.at(LATTICE[2, 2]), tries.choosing):
        with pytest.raises(RefusedError, match="refused 3 times because of what random draws measured"):
            attempt()


def test_the_gate_refuses_what_was_refused_before_and_nothing_else():
    tries = told({(1, 1): False})
    (refusal,) = tries.refusals(tries.at(LATTICE[1, 1]))
    assert refusal.rule == "refused_before" and refusal.is_judgement
    assert tries.refusals(tries.at(LATTICE[2, 2])) == []
    assert not tries.is_still(tries.at(LATTICE[1, 1])) and tries.is_still(tries.at(LATTICE[2, 2]))
