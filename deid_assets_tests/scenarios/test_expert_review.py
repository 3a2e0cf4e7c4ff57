"""Experts get profiles of released members without diagnoses; their answers are scored against a key that stays inside."""

import csv
import json
import stat

import pytest

from deid_assets.command_line.expert_review_files import COLUMNS, PROFILES
from deid_assets_tests.scenarios.command_line import ERROR, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY


def rows(file) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def export(home, output, reviewers=2, policy="small", delivery=KEY):
    return deid_here(
        home,
        "expert-review",
        "export",
        "--policy",
        policy,
        "--delivery",
        delivery,
        "--reviewers",
        reviewers,
        "--output",
        output,
    )


@pytest.fixture(scope="module")
def exported(published, tmp_path_factory):
    """The folder of an export for two reviewers, its home, and what was printed."""
    folder = tmp_path_factory.mktemp("expert") / "review"
    home = published.pipeline.home
    code, printed = export(home.root, folder)
    assert code == 0, printed
    return folder, home, printed


def key_of(home) -> dict[tuple[int, int], list[str]]:
    (file,) = (home.store / "small").glob(f"{KEY}.expert-review-*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return {(reviewer, profile): answer for reviewer, profile, *answer in json.loads(file.read_text())["key"]}


def answered(folder, tmp_path, answer) -> list:
    """The sheets of both reviewers, filled in."""
    sheets = []
    for reviewer in (1, 2):
        given = rows(folder / f"reviewer-0{reviewer}" / "answers.csv")
        for row in given:
            group, chapter, code = answer(reviewer, int(row["profile"]))
            row |= {"condition_group": group, "chapter": chapter, "three_digit_code": code}
        sheets.append(tmp_path / f"sheet-{reviewer}.csv")
        with sheets[-1].open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(given)
    return sheets


def test_each_reviewer_gets_twenty_profiles_that_only_the_owner_can_read(exported):
    folder, _, printed = exported
    assert {file.name for file in folder.iterdir()} == {"reviewer-01", "reviewer-02"}
    for reviewer in folder.iterdir():
        assert stat.S_IMODE(reviewer.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in reviewer.iterdir()} == {0o600}
        assert sorted(int(row["profile"]) for row in rows(reviewer / "members.csv")) == list(range(1, PROFILES + 1))
        assert {
            row["condition_group"] + row["chapter"] + row["three_digit_code"] for row in rows(reviewer / "answers.csv")
        } == {""}
    assert "2 folders" in unwrapped(printed)


def test_profiles_show_neither_identifiers_nor_diagnoses(exported):
    folder, home, _ = exported
    shown = rows(folder / "reviewer-01" / "claims.csv")
    assert shown and set(shown[0]) == {"profile", "Year", "PlaceSvc", "PayDelay", "SupLOS"}
    pseudonyms = {row["MemberID"] for row in rows(home.releases / "small" / "0001" / "data" / "Members.csv")}
    text = " ".join(file.read_text() for file in folder.rglob("*.*"))
    assert pseudonyms and not [one for one in pseudonyms if one in text]


def test_the_same_export_draws_the_same_profiles(exported, tmp_path):
    folder, home, _ = exported
    code, printed = export(home.root, tmp_path / "again")
    assert code == 0, printed
    for file in sorted(folder.rglob("*.csv")):
        assert (tmp_path / "again" / file.relative_to(folder)).read_bytes() == file.read_bytes()


def test_right_answers_are_all_right(exported, tmp_path):
    folder, home, _ = exported
    key = key_of(home)
    sheets = answered(folder, tmp_path, lambda *place: key[place])
    code, printed = deid_here(home.root, "expert-review", "score", "--json", *sheets)
    assert code == 0, printed
    found = json.loads(printed)
    assert found["reviewers"] == 2
    assert [(one["level"], one["right"], one["profiles"]) for one in found["scores"]] == [
        ("condition_group", 40, 40), ("chapter", 40, 40), ("code", 40, 40)
    ]  # fmt: skip


def test_a_sheet_of_one_reviewer_is_scored_by_itself_and_says_what_was_not_answered(exported, tmp_path):
    folder, home, _ = exported
    key = key_of(home)
    sheet = answered(folder, tmp_path, lambda *place: (key[place][0], "", "999") if place[1] <= 10 else ("", "", ""))[1]
    code, printed = deid_here(home.root, "expert-review", "score", sheet)
    assert code == 0
    said = unwrapped(printed)
    assert "1 reviewer, 20 profiles" in said
    assert "condition group right 10 of 20 (50.0%, interval 27.2% to 72.8%; reviewers 50% to 50%), answered 10" in said
    assert "chapter right 0 of 20" in said and "answered 0" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("three_digit_code", "code"), "has other columns"),
        (lambda text: text.replace(",1,1,", ",1,99,"), "1 answer is of no profile"),
        (lambda text: text.replace(",1,1,", ",1,x,"), "line 2: reviewer and profile must be the numbers"),
        (lambda text: text.replace(",1,2,", ",1,1,"), "line 3: this profile of this reviewer was answered"),
        (lambda text: text.splitlines()[0], "the sheets are empty"),
        (lambda text: "\n".join([text.splitlines()[0], "0123456789ab,1,1,,,"]), "no key of export 0123456789ab"),
        (lambda text: "\n".join([text.splitlines()[0], "*,1,1,,,"]), "do not name their export"),
    ],
)  # fmt: skip
def test_sheets_that_cannot_be_scored(exported, tmp_path, change, message):
    folder, home, _ = exported
    sheet = answered(folder, tmp_path, lambda *place: ("", "", ""))[0]
    sheet.write_text(change(sheet.read_text().replace("\r\n", "\n")))
    code, printed = deid_here(home.root, "expert-review", "score", sheet)
    assert code == ERROR and message in unwrapped(printed), printed


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"policy": "nobody"}, "there is no policy nobody"),
        ({"delivery": "other"}, "there is no restricted store"),
        ({"delivery": "../x"}, "a delivery's key may contain"),
        ({"reviewers": 99}, "99 reviewers need 1980 released members"),
    ],
)
def test_exports_that_cannot_be_made(exported, tmp_path, asked, message):
    _, home, _ = exported
    code, printed = export(home.root, tmp_path / "none", **asked)
    assert code == ERROR and message in unwrapped(printed), printed
    assert not (tmp_path / "none").exists()


def test_nothing_is_overwritten_and_nothing_goes_among_the_releases(exported):
    folder, home, _ = exported
    code, printed = export(home.root, folder)
    assert code == ERROR and "is there already" in unwrapped(printed)
    code, printed = export(home.root, home.releases / "review")
    assert code == ERROR and "contains releases only" in unwrapped(printed)
