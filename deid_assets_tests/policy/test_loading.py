"""Reading policies: what is wrong, in which line and field, what is allowed; and never a person's value."""

import os
from pathlib import Path

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy import loading
from deid_assets.policy.loading import (
    PolicyText,
    Record,
    load_policy,
    policies_in,
    policy_by_name,
    policy_called,
    policy_from,
    shipped_policies,
    with_sections,
)
from deid_assets.policy.withdrawals import OptOutLine, note
from deid_assets.reference.groups import condition_ranges
from deid_assets_tests.policy.policy_texts import (
    PUBLIC,
    REMOVED,
    example_policy,
    file_refusal,
    public_text,
    public_values,
    refusal,
)

CANARY = "CANARY-4711"


def line_of(text: str, wanted: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if wanted in line)


class TestShippedPolicies:
    def test_they_load_and_their_names_are_their_files(self):
        names = {path.stem.replace("-", "_"): load_policy(path).name for path in shipped_policies()}
        shipped = (
            "heritage", "heritage_public", "desynpuf", "claims_dates", "claims_2026", "claims_2026_population",
            "claims_and_fills", "omop", "tuva",
        )  # fmt: skip
        assert names == {name: name for name in shipped}

    def test_lattices_have_the_stated_size(self):
        assert policy_by_name("heritage").dimension_levels == (4, 3, 5, 4)
        assert policy_by_name("heritage").node_count == 240
        assert policy_by_name("heritage_public").dimension_levels == (6, 4, 4, 2, 5, 3, 5, 7)
        assert policy_by_name("heritage_public").node_count == 100_800
        assert policy_by_name("desynpuf").dimension_levels == (5, 4, 4, 5, 4)
        assert policy_by_name("desynpuf").node_count == 1600

    def test_thresholds_of_the_paper(self):
        for name in ("heritage", "heritage_public", "desynpuf"):
            policy = policy_by_name(name)
            assert (policy.risk.threshold, policy.risk.max_high_risk_share, policy.adversary.power) == (0.05, 0.008, 5)
            assert policy.safe_class_size == 20

    def test_the_default_differs_from_the_paper_only_in_what_makes_it_coarser_or_smaller(self):
        paper, default = policy_by_name("heritage").content(), policy_by_name("heritage_public").content()
        changed = {section for section in paper if paper[section] != default[section]}
        assert changed == {
            "policy", "title", "description", "hierarchies", "quasi_identifiers", "risk", "number_of_claims", "dimensions",
            "detail_at_least",
        }  # fmt: skip
        assert paper["detail_at_least"].items() < default["detail_at_least"].items(), "of what only the default generalizes"
        assert paper["number_of_claims"] is None, "fewer claims are published where too few members have so many"

        truncated = paper["quasi_identifiers"]["members"].pop(4)
        assert truncated["column"] == "claims_truncated", "a column less is published"
        assert default["quasi_identifiers"] == paper["quasi_identifiers"]
        suppressions = [content["risk"].pop("suppression") for content in (paper, default)]
        assert suppressions == [{"at_most": at_most, "values_at_most": 0, "prefer": "members"} for at_most in (0, 0.03)]
        searches = [content["risk"].pop("search") for content in (paper, default)]
        assert searches[0]["aim"] == searches[1]["aim"] and searches[0]["error"] == searches[1]["error"]
        assert searches[1]["draws_at_most"] < searches[0]["draws_at_most"], "more nodes may stay undecided, none fewer"
        assert default["risk"] == paper["risk"]
        assert default["dimensions"][:4] == paper["dimensions"], "the code columns are searched as well"

    def test_the_finest_levels_of_the_default_are_among_the_papers(self):
        paper, default = policy_by_name("heritage"), policy_by_name("heritage_public")
        for name in ("age", "days_in_hospital", "length_of_stay", "days_since_first_claim"):
            mine, theirs, values = default.hierarchy(name), paper.hierarchy(name), range(121)
            finest = mine.labels(values, 0).tolist()
            assert finest in [theirs.labels(values, level).tolist() for level in range(theirs.levels)], name

    def test_the_code_groups_of_the_default_are_all_listed_and_pooled_within_their_parents(self):
        default = policy_by_name("heritage_public")
        groups = default.hierarchy("condition_group")
        assert sorted(groups.rule.all_values()) == sorted({found.group for found in condition_ranges()})
        for name in ("specialty", "place", "procedure_group", "condition_group"):
            hierarchy = default.hierarchy(name)
            values = hierarchy.rule.all_values()
            assert set(hierarchy.labels(values, hierarchy.levels - 1)) == {"any"}
            for level, level_name in enumerate(hierarchy.level_names):
                if not level_name.startswith("pooled"):
                    continue
                own = hierarchy.labels(values, level)
                for label in {label for label in own if label.endswith(" (pooled)")}:
                    assert sum(own == label) >= 2, "a pool holds two values"
                    parents = {other for other in own if other == label.removesuffix(" (pooled)")}
                    assert not parents, "what is not pooled keeps its own label"

    def test_an_extract_leaves_thresholds_and_adversary_alone(self):
        paper, extract = policy_by_name("heritage").content(), policy_by_name("desynpuf").content()
        for section in ("adversary", "neighbor_attack", "demographics", "provider_suppression", "long_tail"):
            assert extract[section] == paper[section]
        changed = {key for key in paper["risk"] if paper["risk"][key] != extract["risk"][key]}
        assert changed == {"class_size", "population_size", "suppression"}
        # It releases a larger part of its members, of whom few have an inpatient claim.
        assert paper["removal"]["absence_factor_at_most"] == 1.25 and paper["removal"]["absence_posterior_at_most"] is None
        assert extract["removal"]["absence_factor_at_most"] == 1.7 and extract["removal"]["absence_posterior_at_most"] is None

    def test_released_dates_leave_thresholds_and_adversary_alone(self):
        extract, dated = policy_by_name("desynpuf").content(), policy_by_name("claims_dates").content()
        for section in ("adversary", "risk", "neighbor_attack", "demographics", "provider_suppression", "removal", "sample"):
            assert dated[section] == extract[section]


class TestMessages:
    def test_every_problem_is_told_at_once_with_line_and_field(self, tmp_path):
        text = (
            public_text()
            .replace("  threshold: 0.05", "  treshold: 1.5")
            .replace("power: 5", "power: five")
            .replace("rounding: nearest", "rounding: neerest")
            .replace("max_high_risk_share: 0.008", "max_high_risk_share: 1.5")
        )
        assert file_refusal(tmp_path, text) == [
            "policy file mine.yaml cannot be used: 5 problems",
            f"  line {line_of(text, 'adversary:')}, adversary.power: 'five' is not a whole number: highest number of known "
            "values of each quasi-identifier",
            f"  line {line_of(text, 'adversary:')}, adversary.rounding: 'neerest' is not allowed; did you mean "
            "nearest?; allowed: 'nearest', 'floor' or 'ceiling'",
            f"  line {line_of(text, 'risk:')}, risk.threshold: is missing: a member is at high risk above this "
            "probability of re-identification",
            f"  line {line_of(text, 'treshold:')}, risk.treshold: unknown key; did you mean threshold?; allowed: "
            "threshold, max_high_risk_share, worst_class_share_at_most, class_size, population_size, search, gate, "
            "suppression, loss, nodes_by_gain",
            f"  line {line_of(text, 'max_high')}, risk.max_high_risk_share: 1.5 is not allowed: it must be below 1: "
            "share of released members that may be at high risk (MaxSup)",
            "  (rules across several sections are checked once these problems are fixed)",
        ]

    def test_rules_name_lines_too(self, tmp_path):
        text = public_text().replace("draws: 1000000", "draws: 100")
        line = line_of(text, "draws: 100,")
        assert file_refusal(tmp_path, text)[1].startswith(f"  line {line}, risk.gate.draws: 100")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("policy: a\ntitle: b\npolicy: c\n", "line 3, policy: this key occurs twice (first in line 1), but only one of "
                                                 "them can count"),
            ("risk:\n  gate: {draws: 1, draws: 2}\n", "line 2, risk.gate.draws: this key occurs twice (first in line 2), "
                                                      "but only one of them can count"),
            ("policy: [a\n", "line 2, not YAML: did not find expected ',' or ']'"),
            ("a: &x 1\nb: *x\n", "line 1, anchors and aliases are not allowed: write values out"),
            ("a: !!python/object/apply:os.system [x]\n", "line 1, tags and directives are not allowed: quotes "
            "make text, nothing else is needed"),
            ("a: 1\n? [b]\n: 2\n", "line 2, a key must be a plain word or text"),
            ("a: \x01\n", "line 1, not YAML: a character or value in it cannot be read"),
        ],
    )  # fmt: skip
    def test_yaml_that_could_be_misread_is_refused(self, tmp_path, text, message):
        assert file_refusal(tmp_path, text) == ["policy file mine.yaml cannot be used: 1 problem", f"  {message}"]

    def test_several_repeated_keys_are_told_at_once(self, tmp_path):
        assert file_refusal(tmp_path, "a: 1\na: 2\nb: 1\nb: 1\n")[0].endswith("2 problems")

    def test_an_empty_file_lacks_every_required_section(self, tmp_path):
        lines = file_refusal(tmp_path, "")
        assert lines[0] == "policy file mine.yaml cannot be used: 16 problems"
        assert "  recipients: is missing: recipient_class and terms_of_use" in lines

    def test_a_list_is_no_policy(self, tmp_path):
        assert file_refusal(tmp_path, "- 1\n") == [
            "policy file mine.yaml must contain sections such as policy, source and risk, each with its keys"
        ]

    def test_files_that_can_not_be_read(self, tmp_path):
        with pytest.raises(PolicyError, match="policy file .*nowhere.yaml: No such file or directory"):
            load_policy(tmp_path / "nowhere.yaml")
        (tmp_path / "latin.yaml").write_bytes("title: é".encode("latin-1"))
        with pytest.raises(PolicyError, match="latin.yaml is not UTF-8 text"):
            load_policy(tmp_path / "latin.yaml")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"recipients__terms_of_use": REMOVED}, "recipients.terms_of_use: is missing: the terms that recipients "
                                                    "accept; without terms, a release binds nobody"),
            ({"recipients__terms_of_use": "  "}, "recipients.terms_of_use: must not be empty"),
            ({"recipients__recipient_class": REMOVED}, "recipients.recipient_class: is missing: who may receive the "
             "release, such as 'public' or 'contest participants'"),
            ({"risk__threshold": 0}, "risk.threshold: 0 is not allowed: it must be above 0: a member is at high risk "
             "above this probability of re-identification"),
            ({"risk__threshold": 1}, "risk.threshold: 1 is not allowed: it must be below 1: a member is at high risk "
             "above this probability of re-identification"),
            ({"risk__threshold": "0.05"}, "risk.threshold: '0.05' is not a number: a member is at high risk above "
            "this probability of re-identification"),
            ({"risk__threshold": True}, "risk.threshold: true is not a number: a member is at high risk above this "
             "probability of re-identification"),
            ({"risk__threshold": float("nan")}, "risk.threshold: nan is not a finite number: a member is at high risk "
             "above this probability of re-identification"),
            ({"neighbor_attack__unconditional": {"at_most": 1.5}}, "neighbor_attack.unconditional.at_most: 1.5 is not "
                                                                   "allowed: it must be below 1: highest acceptable "
                                                                   "success probability"),
            ({"risk__gate__confidence": 0.3}, "risk.gate.confidence: 0.3 is not allowed: it must be at least 0.5: "
             "confidence of the upper bound, over all tries together"),
            ({"risk__search__aim": 1.01}, "risk.search.aim: 1.01 is not allowed: it must be at most 1: the search accepts "
                                          "nodes whose share at high risk is below this part of max_high_risk_share; above "
                                          "1 it would choose nodes that the gate must refuse"),
            ({"risk__class_size": "conted"}, "risk.class_size: 'conted' is not allowed; did you mean counted?; "
            "allowed: 'counted', 'large_sample', 'truncated_poisson', 'truncated_binomial', 'posterior' or 'test'"),
            ({"sample": {}}, "sample: give either members or fraction"),
            ({"sample": {"members": 5, "fraction": 0.1}}, "sample: give either members or fraction"),
            ({"policy": "heritage-public"}, "policy: a name consists of lower-case letters, digits and underscores, and "
                                            "begins with a letter"),
            ({"owners": ["privacy"]}, "owners[0]: an owner is an e-mail address, or 'team:' and the team's name"),
            ({"owners": []}, "owners: must contain at least 1: who answers for releases: e-mail or team:name"),
            ({"source__kind": "table"}, "source.kind: 'table' is not allowed; did you mean tables?; allowed: "
            "'synthetic', 'desynpuf', 'tables'"),
            ({"source": {}}, "source.kind: is missing: it determines what the other keys mean"),
            ({"hierarchies__sex__valuez": []}, "hierarchies.sex.valuez: unknown key; did you mean values?; allowed: "
            "kind, level_name, values"),
            ({"hierarchies__sex": 3}, "hierarchies.sex: 3 is not a table of keys and values"),
            ({"hierarchies__days_in_hospital__levels": [{"name": "days", "width": 1, "missing_joins": -1}]},
             "hierarchies.days_in_hospital.levels[0].missing_joins: -1 is not allowed: it must be at least 0: missing values "
             "of members join the class of this value; null: they are a class of their own"),
            ({"removal__newborn_days": -1}, "removal.newborn_days: -1 is not allowed: it must be at least 0: claims up to "
                                            "this many days after birth are removed; null: they are kept"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_and_what_is_allowed(self, changes, message):
        assert refusal(**changes) == [message]

    def test_a_quasi_identifier_needs_a_hierarchy(self):
        values = public_values()
        del values["quasi_identifiers"]["claims"][0]["hierarchy"]
        with pytest.raises(PolicyError) as caught:
            policy_from(values)
        assert str(caught.value).splitlines()[1] == (
            "  quasi_identifiers.claims[0].hierarchy: is missing: name of its hierarchy; a column that is published as it is "
            "needs one of kind fixed, because a quasi-identifier without a hierarchy would be published unjudged"
        )

    def test_a_level_that_does_not_nest_is_refused_with_its_line(self, tmp_path):
        text = public_text().replace("starts: [0, 29, 57, 85, 183]", "starts: [0, 30, 57, 85, 183]")
        assert file_refusal(tmp_path, text)[1] == (
            f"  line {line_of(text, '  length_of_stay:')}, hierarchies.length_of_stay: level 'from 4 weeks' does not nest: 1 "
            "of its classes begin inside a class of level 'from 1 week', which a coarser level must keep together; every "
            "cut point of a level must be a cut point of the level before it"
        )

    def test_missing_values_that_leave_their_class_are_refused_with_the_line(self, tmp_path):
        text = public_text().replace("starts: [0, 1]}  ", "starts: [0, 1], missing_joins: 1}  ")
        assert text != public_text()
        assert file_refusal(tmp_path, text)[1] == (
            f"  line {line_of(text, '  days_in_hospital:')}, hierarchies.days_in_hospital: level 'none or any, "
            "enrolment not told' does not nest: missing values leave the class that they join at level 'none or any'"
        )

    def test_missing_values_can_not_join_a_value_that_is_not_covered(self):
        levels = [{"name": "years", "width": 1, "missing_joins": 500}]
        assert refusal(hierarchies__age={"kind": "intervals", "from": 0, "to": 120, "levels": levels}) == [
            "hierarchies.age: missing values join a value that has no class; the hierarchy covers whole numbers from 0 to 120"
        ]

    @pytest.mark.parametrize(
        ("level", "message"),
        [
            ({"name": "a"}, "give either width or starts"),
            ({"name": "a", "width": 5, "starts": [0]}, "give either width or starts"),
            ({"name": "a", "starts": [0], "top": 5}, "top goes with width; with starts, the last class is open anyway"),
            ({"name": "a", "width": 1, "then_every": 5}, "then_every goes with starts"),
            ({"name": "a", "starts": []}, "starts must contain at least one value"),
        ],
    )
    def test_levels_of_intervals(self, level, message):
        assert refusal(hierarchies__age__levels=[level]) == [f"hierarchies.age.levels[0]: {message}"]


class TestFilesOfAPolicy:
    def csv_policy(self, folder: Path, content: str, **extra) -> dict:
        (folder / "place.csv").write_text(content, encoding="utf-8")
        values = public_values(hierarchies__place={"kind": "csv", "file": "place.csv", **extra})
        values["dimensions"].append({"name": "place", "columns": ["place"]})
        return values

    def test_a_hierarchy_from_a_file_beside_the_policy(self, tmp_path):
        values = self.csv_policy(tmp_path, "OFFICE;OUT;*\nHOME;OUT;*\nINPATIENT;IN;*\n")
        policy = policy_from(values, tmp_path)
        assert policy.hierarchy("place").labels(["HOME", "INPATIENT"], 1).tolist() == ["OUT", "IN"]
        assert policy.hierarchy("place").level_names == ("value", "level 1", "level 2")
        assert policy.node_count == 3 * example_policy().node_count
        assert policy.files == ("place.csv",)

    def test_its_content_counts_for_the_hash(self, tmp_path):
        one = policy_from(self.csv_policy(tmp_path, "OFFICE;*\nHOME;*\n"), tmp_path)
        other = policy_from(self.csv_policy(tmp_path, "OFFICE;*\nHOME;other\n"), tmp_path)
        assert one.section_hash("hierarchies") != other.section_hash("hierarchies")
        assert one.section_hash("risk") == other.section_hash("risk")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "file place.csv is empty"),
            ("OFFICE;*\nHOME\n", "file place.csv: 1 row does not have 2 columns as the first row has (the first is row "
            "2); every value needs a label at every level"),
            ("OFFICE;\n", "level 'level 1' skips 1 of 1 value without a label there"),
            ("A;x;1\nB;x;2\n", "level 'level 2' does not nest: it splits 1 of the classes of level 'level 1', "
             "which a coarser level must keep together"),
            ('A;"x\n', "file place.csv is not CSV: a quote is open or misplaced"),
        ],
    )  # fmt: skip
    def test_bad_files(self, tmp_path, content, message):
        with pytest.raises(PolicyError) as caught:
            policy_from(self.csv_policy(tmp_path, content), tmp_path)
        assert str(caught.value).splitlines()[1] == f"  hierarchies.place: {message}"

    def test_a_file_that_is_not_there(self, tmp_path):
        assert refusal(tmp_path, hierarchies__place={"kind": "csv", "file": "gone.csv"}) == [
            "hierarchies.place: file gone.csv, looked for beside the policy: No such file or directory"
        ]
        assert refusal(None, hierarchies__place={"kind": "csv", "file": "gone.csv"}) == [
            "hierarchies.place: file gone.csv cannot be found: this policy is not in a folder"
        ]

    def test_as_many_names_as_columns(self, tmp_path):
        with pytest.raises(PolicyError, match="file place.csv has 2 columns, but 1 level is named"):
            policy_from(self.csv_policy(tmp_path, "A;*\n", level_names=["x"]), tmp_path)


class TestOptOuts:
    def test_from_policy_and_file(self, tmp_path):
        (tmp_path / "out.txt").write_text("m2\n\n m1 \nm2\n", encoding="utf-8")
        policy = policy_from(public_values(opt_outs={"file": "out.txt", "members": ["m3"]}), tmp_path)
        assert policy.opt_outs.all_members == ("m1", "m2", "m3")
        assert policy.files == ("out.txt",)

    def test_no_identifier_is_shown(self, tmp_path):
        (tmp_path / "out.txt").write_text(CANARY, encoding="utf-8")
        policy = policy_from(public_values(opt_outs={"file": "out.txt", "members": [CANARY]}), tmp_path)
        assert CANARY not in repr(policy) and CANARY not in str(policy)
        assert CANARY not in str(policy.public_content())

    @pytest.mark.parametrize(
        "section",
        [
            {"members": {CANARY: 1}},
            {CANARY: 1},
            {"members": [[CANARY]]},
            {"members": CANARY},
            {"file": [CANARY]},
            CANARY,
        ],
    )
    def test_no_message_shows_one(self, tmp_path, section):
        lines = refusal(tmp_path, opt_outs=section)
        assert lines and CANARY not in "".join(lines)

    def test_no_message_shows_one_that_is_a_repeated_key(self, tmp_path):
        text = public_text().replace("opt_outs: {file: null, members: []}", f"opt_outs: {{{CANARY}: 1, {CANARY}: 2}}")
        line = line_of(text, CANARY)
        assert file_refusal(tmp_path, text)[1] == (
            f"  line {line}, opt_outs: this key occurs twice (first in line {line}), but only one of them can count"
        )

    def test_a_number_is_not_an_identifier(self):
        assert refusal(opt_outs={"members": [4711]}) == ["opt_outs.members[0]: this value is not text; write it in quotes"]


class TestByName:
    def test_own_folders(self, tmp_path):
        text = public_text().replace("policy: heritage_public", "policy: ours")
        (tmp_path / "my-file.yaml").write_text(text, "utf-8")
        assert policy_by_name("ours", [tmp_path]).name == "ours"
        assert set(policies_in(tmp_path)) == {*(load_policy(path).name for path in shipped_policies()), "ours"}

    @pytest.mark.parametrize(("said", "meant"), [("heritage-public", "heritage_public"), ("my_file", "ours"), ("Ours", "ours")])
    def test_a_policy_has_one_name_and_what_is_like_it_or_like_its_file_is_suggested(self, tmp_path, said, meant):
        (tmp_path / "my-file.yaml").write_text(public_text().replace("policy: heritage_public", "policy: ours"), "utf-8")
        with pytest.raises(PolicyError, match=f"there is no policy '{said}'; did you mean {meant}[?];"):
            policy_by_name(said, [tmp_path])

    def test_unknown_names(self):
        with pytest.raises(PolicyError) as caught:
            policy_by_name("heritag")
        assert str(caught.value) == (
            "there is no policy 'heritag'; did you mean heritage?; policies: claims_2026, claims_2026_population, "
            "claims_and_fills, claims_dates, desynpuf, heritage, heritage_public, omop, tuva, or the path of a YAML file"
        )

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("policy: broken\nsource: {kind: tables, first_year: 2007}\n", "earlier versions is gone; write years: {first"),
            ("policy: [", "cannot be used"),
            ("policy: 5\n", "cannot be used"),
            ("- a\n", "must contain sections"),
        ],
    )
    def test_one_that_cannot_be_used_stops_no_other(self, tmp_path, text, why):
        (tmp_path / "broken.yaml").write_text(text)
        found = policies_in(tmp_path)
        assert "heritage" in found and "broken" not in found and set(found.unusable) == {"broken"}
        assert policy_called("heritage", tmp_path) == found["heritage"] == policy_by_name("heritage", [tmp_path])
        for use in (found.called, lambda name: policy_called(name, tmp_path), lambda name: policy_by_name(name, [tmp_path])):
            with pytest.raises(PolicyError, match=why):
                use("broken")

    def test_one_name_means_one_policy(self, tmp_path):
        (shipped,) = (path for path in shipped_policies() if path.name == "heritage-public.yaml")
        text = shipped.read_text("utf-8")
        (tmp_path / "copy.yaml").write_text(text, "utf-8")
        assert "heritage_public" in policies_in(tmp_path)
        (tmp_path / "copy.yaml").write_text(text.replace("power: 5", "power: 4"), "utf-8")
        message = "two policies are called heritage_public: heritage-public.yaml and copy.yaml; rename one"
        with pytest.raises(PolicyError, match=message):
            policies_in(tmp_path).called("heritage_public")
        assert "heritage_public" not in policies_in(tmp_path) and "heritage" in policies_in(tmp_path)
        with pytest.raises(PolicyError, match=message):
            policy_called("heritage_public", tmp_path)

    def test_an_asset_asks_for_its_own_policy_only(self, tmp_path):
        ours = public_text().replace("policy: heritage_public", "policy: ours")
        (tmp_path / "ours.yaml").write_text(ours, "utf-8")
        (tmp_path / "theirs.yaml").write_text("policy: theirs", "utf-8")
        assert policy_called("ours", tmp_path) == load_policy(tmp_path / "ours.yaml")
        with pytest.raises(PolicyError, match="theirs.yaml"):
            policy_called("theirs", tmp_path)
        with pytest.raises(PolicyError, match="policy 'gone' no longer exists"):
            policy_called("gone", tmp_path)


class TestPoliciesThatAreKept:
    """Whoever reads a policy again in one process gets what its text says now; only validating it is saved."""

    @pytest.fixture(autouse=True)
    def none_kept(self, monkeypatch) -> None:
        monkeypatch.setattr(loading, "_READ", {})

    @pytest.fixture
    def ours(self, tmp_path) -> Path:
        return self.written(tmp_path / "ours.yaml", power=5)

    def written(self, file: Path, power: int) -> Path:
        text = public_text().replace("policy: heritage_public", f"policy: {file.stem}").replace("power: 5", f"power: {power}")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def test_one_text_is_validated_once(self, ours, monkeypatch):
        first = load_policy(ours)
        monkeypatch.setattr(loading, "_judged", lambda *args: pytest.fail("it was validated again"))
        assert load_policy(ours) is first is policy_called("ours", ours.parent)

    def test_a_changed_text_counts_though_size_and_time_are_those_of_before(self, ours):
        first, times = load_policy(ours), ours.stat()
        self.written(ours, power=4)
        os.utime(ours, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert (ours.stat().st_size, ours.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
        second = load_policy(ours)
        assert (first.adversary.power, second.adversary.power) == (5, 4)
        assert second == policies_in(ours.parent)["ours"] and second.reading != first.reading

    def test_a_text_that_became_wrong_is_refused_each_time_and_right_again_when_it_is_mended(self, ours):
        load_policy(ours)
        right = ours.read_text("utf-8")
        ours.write_text(right.replace("power: 5", "power: five"), "utf-8")
        for _ in range(2):
            with pytest.raises(PolicyError, match="adversary.power: 'five' is not a whole number"):
                load_policy(ours)
        ours.write_text(right, "utf-8")
        assert load_policy(ours).adversary.power == 5
        ours.unlink()
        with pytest.raises(PolicyError, match="No such file"):
            load_policy(ours)

    @pytest.fixture
    def mine(self, tmp_path) -> Path:
        """A policy that names a file."""
        text = public_text().replace("opt_outs: {file: null, members: []}", "opt_outs: {file: out.txt}")
        (tmp_path / "mine.yaml").write_text(text.replace("policy: heritage_public", "policy: mine"), "utf-8")
        (tmp_path / "out.txt").write_text("m1\n", "utf-8")
        return tmp_path / "mine.yaml"

    def test_a_changed_file_that_the_policy_names_counts_though_its_text_size_and_time_are_the_same(self, mine):
        first, out = load_policy(mine), mine.parent / "out.txt"
        times = out.stat()
        out.write_text("m2\n", "utf-8")
        os.utime(out, ns=(times.st_atime_ns, times.st_mtime_ns))
        second = load_policy(mine)
        assert [policy.opt_outs.all_members for policy in (first, second)] == [("m1",), ("m2",)]
        assert first.reading != second.reading
        out.unlink()
        with pytest.raises(PolicyError, match=r"out\.txt"):
            load_policy(mine)

    def test_one_text_with_the_same_files_is_validated_once(self, mine, monkeypatch):
        first = load_policy(mine)
        monkeypatch.setattr(loading, "_judged", lambda *args: pytest.fail("it was validated again"))
        assert load_policy(mine) is first is policy_called("mine", mine.parent)

    def test_who_opts_out_of_all_releases_of_a_home_is_in_policies_read_before(self, ours):
        assert policies_in(ours.parent)["ours"].opt_outs.withdrawn == ()
        note(ours.parent, OptOutLine("m1", True, "asked", "2024-01-01T00:00:00Z"))
        assert policies_in(ours.parent)["ours"].opt_outs.withdrawn == ("m1",)
        assert policy_called("ours", ours.parent).opt_outs.withdrawn == ("m1",)
        note(ours.parent, OptOutLine("m1", False, "misspelled", "2024-01-02T00:00:00Z"))
        assert policies_in(ours.parent)["ours"].opt_outs.withdrawn == ()

    def test_the_same_text_elsewhere_is_another_policy(self, ours, tmp_path):
        elsewhere = self.written(tmp_path / "elsewhere" / "ours.yaml", power=5)
        folders = [load_policy(file).origin.folder.path for file in (ours, elsewhere)]
        assert folders == [ours.parent, elsewhere.parent]

    def test_a_record_of_other_files_is_refused_though_the_text_was_valid_before(self, ours, monkeypatch):
        monkeypatch.setattr(PolicyText, "content", lambda text: ours.read_bytes())
        adopted = PolicyText(ours.parent, Record("ours", "0" * 64, {}))
        assert loading._loaded(adopted).name == "ours"
        for record in (Record("theirs", "0" * 64, {}), Record("ours", "0" * 64, {"out.txt": "1" * 64})):
            with pytest.raises(PolicyError, match="its record belongs to another policy or to other files"):
                loading._loaded(PolicyText(ours.parent, record))

    def test_so_many_are_kept_and_no_more(self, tmp_path, monkeypatch):
        monkeypatch.setattr(loading, "_KEPT", 2)
        files = [self.written(tmp_path / f"policy_{power}.yaml", power) for power in (1, 2, 3)]
        for _ in range(2):
            assert [load_policy(file).adversary.power for file in files] == [1, 2, 3]
            assert len(loading._READ) <= 2


class TestWithSections:
    def test_replaces_and_judges_again(self):
        policy = load_policy(PUBLIC)
        changed = with_sections(policy, sample={"fraction": 0.1})
        assert changed.declared_alpha == 0.1 and policy.declared_alpha is None
        assert changed.section_hash("risk") == policy.section_hash("risk")
        with pytest.raises(PolicyError, match="sample: if all eligible members are released"):
            with_sections(policy, sample={"fraction": 1.0})
        with pytest.raises(PolicyError, match="unknown key; did you mean sample"):
            with_sections(policy, samples={"fraction": 1.0})

    def test_keeps_what_was_read_from_files(self, tmp_path):
        (tmp_path / "out.txt").write_text("m1\n", encoding="utf-8")
        policy = policy_from(public_values(opt_outs={"file": "out.txt"}), tmp_path)
        assert with_sections(policy, sample={"members": 7}).opt_outs.all_members == ("m1",)
