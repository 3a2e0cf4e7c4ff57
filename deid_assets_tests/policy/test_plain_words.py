"""Words that versions of YAML read differently, numbers that nothing could compute with, names that collide."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import load_policy, policy_from, shipped_policies
from deid_assets.policy.yaml_text import parse
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import public_values, refusal
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

TWO_MEANINGS = (
    "50:00", "1:30", "190:20:30.15", "+1:00", "yes", "No", "ON", "off", "0o17", "0O17", "017", "-017", "0_7", "0x1F", "0b101",
    "1_000", "1_0.5", "00501", "007.5", "08", ".inf", "-.Inf", ".NaN", "=",
)  # fmt: skip


class TestYaml:
    @pytest.mark.parametrize("word", TWO_MEANINGS)
    @pytest.mark.parametrize("place", ["a: {}", "a: [{}]", "{}: a", "a:\n- b: {}\n"])
    def test_a_word_of_two_meanings_is_refused(self, word, place):
        (fault,) = parse("first: 1\n" + place.format(word)).faults
        assert "write text in quotes" in fault.message and fault.line == (3 if "\n" in place else 2)
        assert word not in fault.message

    @pytest.mark.parametrize("word", TWO_MEANINGS)
    def test_in_quotes_it_is_text(self, word):
        assert parse(f"a: '{word}'\n\"{word}\": 1\n").values == {"a": word, word: 1}

    @pytest.mark.parametrize(
        ("word", "value"),
        [
            ("0", 0), ("-7", -7), ("+7", 7), ("10", 10), ("0.5", 0.5), (".5", 0.5), ("1.", 1.0), ("1e-3", 0.001),
            ("2E+2", 200.0), ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("y", "y"),
            ("N", "N"), ("none", "none"), ("2012-04-01", "2012-04-01"), ("2012-04", "2012-04"), ("1.2.3", "1.2.3"),
            ("e5", "e5"), ("1st", "1st"), ("-", [None]),
        ],
    )  # fmt: skip
    def test_other_words_mean_what_they_say(self, word, value):
        parsed = parse(f"a:\n {word}\n")
        assert not parsed.faults and parsed.values == {"a": value} and type(parsed.values["a"]) is type(value)

    @pytest.mark.parametrize(
        "text", ["a: !!int 50:00\n", "a: !!bool yes\n", "a: !!timestamp 2012-04-01\n", "%YAML 1.1\n---\na: 1\n"]
    )
    def test_tags_and_directives_are_refused(self, text):
        (fault,) = parse(text).faults
        assert "tags and directives are not allowed" in fault.message

    def test_a_threshold_in_minutes_names_line_and_field(self, tmp_path):
        file = tmp_path / "mine.yaml"
        file.write_text("policy: mine\nrisk:\n  gate: {draws: 50:00}\n")
        with pytest.raises(PolicyError, match="line 3, risk.gate.draws: some YAML readers take this word for a number"):
            load_policy(file)


def numbers_of(value, path=()):
    """Every number of a policy, by its path."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from numbers_of(entry, (*path, key))
    elif isinstance(value, list | tuple):
        for position, entry in enumerate(value):
            yield from numbers_of(entry, (*path, position))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def replaced(values: dict, path: tuple, number) -> dict:
    made = changed(values)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = number
    return made


WHOLE = changed(
    SMALL,
    hierarchies__code={"kind": "prefixes", "lengths": [5, 3]},
    provider_graph={"patterns_known": 5, "draws": 100, "pattern_success_at_most": 0.3},
    membership={"draws": 100, "presence_at_most": 0.9, "advantage_at_most": 0.3},
    attribute_disclosure={"l_at_least": 2.0, "t_at_most": 0.4, "homogeneous_share_at_most": 0.3},
    population_estimates={"small_class_share_at_most": 0.1, "unique_share_at_most": 0.1},
    provider_suppression={"providers_at_least": 20},
    demographics={"class_size_at_least": 20},
    attack_sensitivity={"trials": 1_000, "powers": [5, 10, 15], "wrong_shares": [0.1]},
    long_tail={"method": "bins", "width": 5, "risk": 0.1, "cap": 500, "unit": "member", "score": "support"},
    intake={"quarantine_at_most": 0.1},
    opt_outs={"members": [], "matched_at_least": 0.5},
)  # fmt: skip
POLICIES = {"longitudinal": WHOLE, "fraction": changed(SMALL, sample={"fraction": 0.1}), "flat": FLAT}
CASES = [(name, path) for name, values in POLICIES.items() for path in numbers_of(values)]


class TestNumbers:
    @pytest.mark.parametrize("values", POLICIES.values(), ids=POLICIES)
    def test_the_policies_are_valid_as_they_stand(self, values):
        policy_from(values)

    @pytest.mark.parametrize("number", [10**30, -(10**30), 1e300, 5e-324, float("inf"), float("nan")], ids=str)
    @pytest.mark.parametrize(("name", "path"), CASES, ids=str)
    def test_none_may_be_beyond_all_measure(self, name, path, number):
        if number == 5e-324 and path[-1] in ("matched_at_least", "aim", "quarantine_at_most"):
            return  # these are compared only
        with pytest.raises(PolicyError):
            policy_from(replaced(POLICIES[name], path, number))

    def test_a_probability_that_is_next_to_nothing_is_refused_in_words(self):
        (line,) = refusal(risk__threshold=5e-324)
        assert line.startswith("risk.threshold: must be at least 1e-09")


class TestNames:
    def test_columns_that_differ_in_case_only(self):
        values = public_values()
        values["quasi_identifiers"]["members"][1]["release_as"] = values["quasi_identifiers"]["members"][0][
            "release_as"
        ].upper()
        with pytest.raises(PolicyError, match=r"members\[1\].release_as: the release already has a column"):
            policy_from(values)

    @pytest.mark.parametrize("name", ["memberid", "PAYDELAY", "year"])
    def test_columns_that_every_release_has(self, name):
        values = public_values()
        values["quasi_identifiers"]["members"][0]["release_as"] = name
        with pytest.raises(PolicyError, match="the release already has a column"):
            policy_from(values)

    @pytest.mark.parametrize("name", ["manifests", "errors", "x" * 65, "../x", "a/b", "a.b", "a\n", ""])
    def test_names_that_a_folder_must_not_have(self, name):
        assert refusal(policy=name)


def test_a_share_of_opt_outs_that_must_match_is_explained_and_part_of_the_policy():
    one, other = (policy_from(public_values(opt_outs={"members": ["m1"], "matched_at_least": share})) for share in (0.5, 0))
    assert one.hash != other.hash and "fewer than 50%" in explain(one)
    assert all(refusal(opt_outs={"matched_at_least": share}) for share in (-0.1, 1.1, None, True))


def test_the_policies_that_ship_hold_no_word_of_two_meanings():
    assert all(not parse(path.read_text()).faults for path in shipped_policies())
