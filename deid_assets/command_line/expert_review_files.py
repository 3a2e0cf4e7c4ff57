"""What `deid expert-review` does: write profiles and answer sheets, keep the key, and read answers.

Profiles are rows of the release, without identifiers. They are restricted nevertheless: who holds the release could find the
members of profiles in it, and with them their answers.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from deid_assets.errors import StoreError, how_many
from deid_assets.methods.inference.expert_review import Condition, Score, conditions, profile_rows, scores
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.policy.loading import policies_in
from deid_assets.policy.models import Policy
from deid_assets.reference.chapters import chapters_of
from deid_assets.reference.codes import bare
from deid_assets.reference.groups import condition_ranges
from deid_assets.release.keyring import secret_of
from deid_assets.sources.delivery import NAMES, systems_of
from deid_assets.stages import STAGE_OF, asset_of
from deid_assets.store import durable
from deid_assets.store.digests import regular_bytes
from deid_assets.store.home import Home, plain_key
from deid_assets.store.tables import Table

PROFILES = 20
"""Of each reviewer, as in the book."""
COLUMNS = ("review", "reviewer", "profile", "condition_group", "chapter", "three_digit_code")
_HIDDEN = ("ProviderID", "Vendor", "PCP", "CharlsonIndex")
"""Identifiers, and what is made of diagnoses beside the condition group."""
_SHEET_AT_MOST = 1_000_000


@dataclass(frozen=True)
class Review:
    """An export: its name, where its files are, and where the key is."""

    name: str
    folder: Path
    key: Path
    reviewers: int


def export(home: Home, policy_name: str, delivery: str, reviewers: int, folder: Path) -> Review:
    """Write the profiles and the answer sheet of each reviewer, and the key into the restricted store.

    The profiles are drawn at random, by the secret; no member is in two. The same export of the same candidate again draws the
    same; that of another candidate has a name and a key of its own.

    Raises
    ------
    StoreError
        If there is no such candidate, it has too few members, or a file is there already.
    """
    policy = policies_in(home.policies).get(policy_name)
    if policy is None or not policy.has_events:
        raise StoreError(f"there is no policy {policy_name} with claims; see `deid policy list`")
    tables = _tables(home, policy, delivery)
    found = tables["members"].query(conditions(tables["claims"], tables["delivered"], tables["crosswalk"], tables["members"]))
    wanted = reviewers * PROFILES
    if len(found) < wanted:
        raise StoreError(
            f"{how_many(reviewers, 'reviewer needs', 'reviewers need')} {wanted} released members with a diagnosis, {PROFILES} "
            "each; there are fewer. Ask for fewer reviewers"
        )
    root = folder.resolve()
    if root.is_relative_to(home.releases.resolve()):
        raise StoreError("the folder of releases contains releases only; choose another folder with --output")
    seed = secret_of(home).derive("expert review", policy_name, delivery, str(reviewers))
    drawn = generator_of(seed).choice(len(found), wanted, replace=False)
    members = found["MemberID"].to_numpy()[drawn]
    truth = [Condition.of(found["condition_group"].iloc[row], found["code"].iloc[row]) for row in drawn]
    rows = [
        [1 + place // PROFILES, 1 + place % PROFILES, one.condition_group, one.chapter, one.code]
        for place, one in enumerate(truth)
    ]
    name = _name(seed, members.tolist(), rows)
    key = home.store / policy_name / f"{delivery}.expert-review-{name}.json"
    files: dict[Path, bytes] = {}
    for reviewer in range(1, reviewers + 1):
        own = members[(reviewer - 1) * PROFILES : reviewer * PROFILES]
        numbers = {int(member): number for number, member in enumerate(own, start=1)}
        files |= {
            folder / f"reviewer-{reviewer:02}" / file: content
            for file, content in _files(tables, numbers, policy, name, reviewer).items()
        }
    _write(files)
    durable.replace(key, json.dumps({"review": name, "key": rows}).encode(), 0o600)
    return Review(name, folder, key, reviewers)


def score(home: Home, sheets: Sequence[Path]) -> tuple[str, list[Score], list[Score]]:
    """Compare answer sheets of one export with its key.

    Returns
    -------
    review, scores, of_reviewers
        Name of the export; each level over all profiles; and each level of each reviewer, one after the other.

    Raises
    ------
    StoreError
        If a sheet cannot be read, is of another export, or answers a profile twice or one that does not exist.
    """
    answers: dict[tuple[int, int], Condition] = {}
    reviews: set[str] = set()
    for sheet in sheets:
        for number, row in enumerate(_rows(sheet), start=2):
            place = _place(sheet, number, row)
            if place in answers:
                raise StoreError(f"{sheet}, line {number}: this profile of this reviewer was answered before")
            answers[place] = Condition(row["condition_group"], row["chapter"], row["three_digit_code"])
            reviews.add(row["review"].strip())
    if len(reviews) != 1:
        raise StoreError("the sheets are empty, or of several exports; score each export by itself")
    (review,) = reviews
    key = _key(home, review)
    strange = sum(place not in key for place in answers)
    if strange:
        raise StoreError(
            f"{how_many(strange, 'answer is', 'answers are')} of no profile of export {review}; check reviewer and profile"
        )
    reviewers = sorted({reviewer for reviewer, _ in answers})
    own = ({place: one for place, one in answers.items() if place[0] == reviewer} for reviewer in reviewers)
    return review, scores(key, answers), [one for of_reviewer in own for one in scores(key, of_reviewer)]


def _name(seed: bytes, members: Sequence[int], rows: Sequence[Sequence[object]]) -> str:
    """Name of an export. Answers about a candidate are never scored with the key of one that replaced it."""
    return hashlib.sha256(seed + json.dumps([members, rows]).encode()).hexdigest()[:12]


def _tables(home: Home, policy: Policy, delivery: str) -> dict[str, Table]:
    """The tables of the candidate, by what they are used for."""
    file = home.store / policy.name / f"{plain_key(delivery)}.duckdb"
    names = {"members": "release_members", "days": "release_days_in_hospital", "released": "release_claims",
             "claims": asset_of(policy, "held"),
             "delivered": "eligible_claims", "crosswalk": "pseudonym_crosswalk"}  # fmt: skip
    if not file.is_file():
        raise StoreError(f"there is no restricted store of policy {policy.name} and delivery {delivery}; run `deid run` first")
    found = {use: Table(file, STAGE_OF[name], name) for use, name in names.items()}
    there = found["members"].query("SELECT table_schema, table_name FROM information_schema.tables")
    present = set(zip(there["table_schema"], there["table_name"], strict=True))
    missing = [table.name for table in found.values() if (table.schema, table.name) not in present]
    if missing:
        raise StoreError(f"the restricted store lacks {', '.join(missing)}; run `deid run` for this delivery first")
    return found


def _files(
    tables: Mapping[str, Table], numbers: Mapping[int, int], policy: Policy, review: str, reviewer: int
) -> dict[str, bytes]:
    """The files of one reviewer, by name."""
    found, systems = {}, systems_of(policy.diagnosis_codes)
    hidden = [*_HIDDEN, *(qi.release_as for qi in policy.quasi_identifiers.all if qi.column == "condition_group")]
    for use, file in (("members", "members"), ("days", "days_in_hospital"), ("released", "claims")):
        rows = tables[use].query(profile_rows(tables[use], numbers, hidden))
        found[f"{file}.csv"] = rows.to_csv(index=False).encode()
    sheet = [[review, reviewer, number, "", "", ""] for number in numbers.values()]
    found["answers.csv"] = _csv(COLUMNS, sheet)
    groups = sorted({one.group for one in condition_ranges()})
    choices = [["condition_group", name, ""] for name in groups]
    choices += [
        ["chapter", bare(name), f"{first}-{last} {title} ({NAMES[system]})"]
        for system in systems
        for name, first, last, title in chapters_of(system)
    ]
    found["choices.csv"] = _csv(("column", "answer", "meaning"), choices)
    explanation = (resources.files(__package__) / "expert_review.txt").read_text("utf-8")
    found["README.txt"] = explanation.format(
        review=review, reviewer=reviewer, profiles=len(numbers), systems=" or ".join(NAMES[one] for one in systems)
    ).encode()
    return found


def _csv(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def _write(files: Mapping[Path, bytes]) -> None:
    """Write files that only their owner can read, into folders that only their owner can enter."""
    for file, content in files.items():
        try:
            durable.owner_only(file.parent)
            durable.create(file, content, 0o600)
        except FileExistsError:
            raise StoreError(f"{file} is there already; choose another folder with --output") from None
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}") from None


def _rows(sheet: Path) -> list[dict[str, str]]:
    try:
        text = regular_bytes(sheet, _SHEET_AT_MOST).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise StoreError(f"{sheet} cannot be read as CSV in UTF-8") from None
    reader = csv.DictReader(text.splitlines(), restval="")
    if reader.fieldnames is None or set(COLUMNS) - set(reader.fieldnames):
        raise StoreError(f"{sheet} has other columns than {', '.join(COLUMNS)}; keep the first line as it was")
    return list(reader)


def _place(sheet: Path, number: int, row: Mapping[str, str]) -> tuple[int, int]:
    if not (row["reviewer"].strip().isdecimal() and row["profile"].strip().isdecimal()):
        raise StoreError(f"{sheet}, line {number}: reviewer and profile must be the numbers of the sheet that was sent")
    return int(row["reviewer"]), int(row["profile"])


def _key(home: Home, review: str) -> dict[tuple[int, int], Condition]:
    """The key of an export."""
    files = [file for file in home.store.glob("*/*.expert-review-*.json") if file.stem.endswith(f"-{review}")]
    if len(files) != 1:
        raise StoreError(
            f"this home has no key of export {review}: it was made in another home, or its store was purged"
            if review.isalnum()
            else "the sheets do not name their export; keep the column review as it was"
        )
    rows = json.loads(regular_bytes(files[0]))["key"]
    return {(reviewer, profile): Condition(*condition) for reviewer, profile, *condition in rows}
