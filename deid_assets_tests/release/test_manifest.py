"""The public edition holds protected counts only; the restricted one everything."""

import json
import math
import re
from dataclasses import replace

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.digests import bytes_digest, canonical_json
from deid_assets.release.keys import Secret
from deid_assets.release.manifest import (
    AttritionStep,
    Place,
    PolicyText,
    ReleasedFile,
    editions,
    keyed_counts,
    package_versions,
)
from deid_assets.release.registry import GENESIS
from deid_assets_tests.release.making import DELIVERY_DIGEST, POLICY, SECRET, evidence, manifest, measurement

FILE = ReleasedFile("data/Claims.csv", "f" * 64, 100, 60, "a" * 64)
PLACE = Place("heritage", 1, GENESIS, "0" * 64, "2024", "b" * 64, "2024-01-01T00:00:00Z", (FILE,))
PEOPLE = {"unit": "members", "bound": None, "confidence": None, "statistic": "value"}


def read(made):
    return json.loads(made.public), json.loads(made.restricted)


def only_measurement(made):
    return json.loads(made.public)["evidence"][0]["measurements"][0]


def made_with(*measurements, protect=lambda cell, count: -count):
    return editions(manifest(PLACE, evidence=(evidence(*measurements),)), protect)


def test_both_editions_are_canonical_and_say_what_was_asked():
    made = editions(manifest(PLACE), keyed_counts(SECRET, DELIVERY_DIGEST))
    public, restricted = read(made)
    assert (canonical_json(public), canonical_json(restricted)) == (made.public, made.restricted)
    assert set(public) == {
        "format", "edition", "number", "created", "registry_previous", "signer", "delivery", "inputs_digest",
        "recipients", "code_version", "packages", "lineage", "files", "secret_commitment", "policy", "evidence",
        "attrition", "restricted_edition",
    }
    assert public["files"] == [
        {"path": "data/Claims.csv", "sha256": "f" * 64, "bytes": 100, "rows": 60, "rows_digest": "a" * 64}
    ]
    assert public["recipients"] == {"recipient_class": "public", "terms_of_use": "no attempt to identify"}
    assert public["delivery"] == {"key": "2024"}
    assert public["restricted_edition"] == bytes_digest(made.restricted)


def test_exact_counts_are_in_the_restricted_edition_only():
    steps = (
        AttritionStep("members", "members", 71_234_567),
        AttritionStep("removed_members", "members", 8_765_432, "members", "sensitive conditions"),
        AttritionStep("rare_members", "members", 7, "removed_members"),
    )
    counted = measurement(name="smallest_class", value=5_554_321, threshold=20, comparison="at_least", **PEOPLE)
    made = editions(
        manifest(PLACE, attrition=steps, evidence=(evidence(counted),)), keyed_counts(SECRET, DELIVERY_DIGEST)
    )
    for exact in (b"71234567", b"8765432", b"5554321"):
        assert exact in made.restricted and exact not in made.public
    public, restricted = read(made)
    assert public["attrition"][2]["rows_out"] == "T"
    assert restricted["attrition"][2] == {
        "stage": "rare_members", "unit": "members", "source": "removed_members",
        "rows_in": 8_765_432, "rows_out": 7, "reason": "",
    }
    # Rows in and the source's rows out are one cell: two independent looks would average the noise away.
    assert public["attrition"][1]["rows_in"] == public["attrition"][0]["rows_out"]
    assert abs(public["attrition"][0]["rows_out"] - 71_234_567) < 25


def test_numbers_about_nobody_stay_exact():
    shown = only_measurement(made_with(measurement()))
    assert (shown["value"], shown["bound"], shown["sample_size"]) == (0.0041, 0.0047, 1_000_000)
    assert "protected" not in shown


@pytest.mark.parametrize(
    ("changes", "value", "bound", "size"),
    [
        ({"value": 17, "sample_size": None}, -17, None, None),
        ({"value": 17, "bound": 17, "confidence": 0.9, "sample_size": 200}, -17, -17, -200),
        ({"value": 17, "bound": 19, "confidence": 0.9, "sample_size": 200}, -17, None, -200),
        ({"value": 17.5}, None, None, -1_000_000),
        ({"value": None}, None, None, -1_000_000),
        ({"value": math.nan}, None, None, -1_000_000),
        ({"value": math.inf}, None, None, -1_000_000),
        ({"unit": "a unit that nobody declared", "value": 17}, -17, None, -1_000_000),
    ],
)
def test_numbers_about_people_are_protected_or_left_out(changes, value, bound, size):
    shown = only_measurement(made_with(measurement(**PEOPLE | {"threshold": 20} | changes)))
    assert (shown["value"], shown["bound"], shown["sample_size"]) == (value, bound, size)
    assert shown["threshold"] == 20 and shown["protected"] is True


def test_a_share_of_people_is_shown_by_protected_counts():
    share = measurement(**PEOPLE | {"unit": "share of members", "value": 0.002, "sample_size": 10_000})
    shown = only_measurement(made_with(share, protect=lambda cell, count: count + 5))
    assert shown["value"] == 25 / 10_005
    marked = only_measurement(made_with(share, protect=lambda cell, count: count if count > 50 else "T"))
    assert (marked["value"], marked["sample_size"]) == (None, 10_000)
    unsized = measurement(**PEOPLE | {"unit": "share of members", "value": 0.002, "sample_size": None})
    assert only_measurement(made_with(unsized))["value"] is None


def test_the_public_edition_does_not_confirm_a_guess_of_who_opted_out():
    """Neither the policy's text nor any hash of it: the list of one member could be guessed."""
    made = editions(manifest(PLACE), keyed_counts(SECRET, DELIVERY_DIGEST))
    assert b"member 31" in made.restricted and b"member 31" not in made.public
    assert b"p" * 64 in made.restricted and b"p" * 64 not in made.public
    assert json.loads(made.public)["policy"]["hash"] == bytes_digest(json.dumps(POLICY).encode())


def test_the_restricted_edition_is_salted_and_the_salt_not_published():
    """Else exact counts could be tried until the digest in the public edition fits."""
    made = editions(manifest(PLACE), keyed_counts(SECRET, DELIVERY_DIGEST))
    salt = json.loads(made.restricted)["salt"]
    assert len(salt) == 64 and salt.encode() not in made.public
    with pytest.raises(ReleaseError, match="salt"):
        manifest(PLACE, salt=b"")


def test_editions_repeat_byte_for_byte():
    first, second = (editions(manifest(PLACE), keyed_counts(SECRET, DELIVERY_DIGEST)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": PolicyText("other", "p", "t", "t")}, "staged under"),
        ({"terms_of_use": ""}, "terms of use"),
        ({"evidence": ()}, "needs evidence"),
        ({"evidence": (evidence(), evidence())}, "each assessment once"),
        ({"attrition": (AttritionStep("a", "members", 1), AttritionStep("a", "members", 1))}, "twice"),
        ({"attrition": (AttritionStep("a", "members", 1, "b"), AttritionStep("b", "members", 1))}, "not named before"),
        ({"secret_commitment": ""}, "commitment"),
    ],
)
def test_a_manifest_that_contradicts_itself_cannot_be_made(changes, message):
    with pytest.raises(ReleaseError, match=message):
        manifest(PLACE, **changes)


def test_protected_counts_depend_on_cell_delivery_and_secret_and_not_on_the_count():
    protect = keyed_counts(SECRET, DELIVERY_DIGEST)
    noise = [protect(f"cell {n}", 1000) - 1000 for n in range(2000)]
    assert noise == [protect(f"cell {n}", 5000) - 5000 for n in range(2000)]
    for other in (keyed_counts(SECRET, "e" * 64), keyed_counts(Secret(b"x" * 32, "environment"), DELIVERY_DIGEST)):
        assert noise != [other(f"cell {n}", 1000) - 1000 for n in range(2000)]
    # methods.md 14: mean 0, standard deviation 2.5166, P(noise = 0) = .1585; four standard errors.
    mean = sum(noise) / 2000
    assert abs(mean) < 4 * 2.5166 / math.sqrt(2000)
    assert abs(math.sqrt(sum(n * n for n in noise) / 2000) - 2.5166) < 4 * 2.5166 / math.sqrt(4000)
    assert abs(noise.count(0) / 2000 - 0.1585) < 4 * math.sqrt(0.1585 * 0.8415 / 2000)


def test_small_counts_are_marked_by_the_noisy_count():
    protect = keyed_counts(SECRET, DELIVERY_DIGEST)
    shown = [protect(f"cell {n}", 12) for n in range(300)]
    assert "T" in shown and all(count == "T" or count >= 11 for count in shown)


def test_package_versions_name_python_and_duckdb():
    versions = package_versions()
    assert re.match(r"3\.\d+\.\d+", versions["python"]) and versions["duckdb"]
    assert replace(manifest(PLACE), packages=versions).packages["numpy"]
