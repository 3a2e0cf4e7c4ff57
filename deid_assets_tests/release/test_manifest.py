"""The public edition holds protected counts only; the restricted one everything."""

import json
import math
import re
from dataclasses import replace

import pytest

from deid_assets.assessments.evidence import LEFT_OUT
from deid_assets.errors import ReleaseError
from deid_assets.release.manifest.editions import ReleasedFile, ShownPolicy, Slot, editions, package_versions
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.registry.chain import GENESIS
from deid_assets.store.digests import bytes_digest, canonical_json
from deid_assets_tests.release.making import POLICY, evidence, manifest, measurement, protect

FILE = ReleasedFile("data/Claims.csv", "f" * 64, 100, 60, "a" * 64)
SLOT = Slot("heritage", 1, GENESIS, "0" * 64, "0123456789abcdef", "b" * 64, "2024-01-01T00:00:00Z", (FILE,), "c" * 64)
PEOPLE = {"unit": "members", "bound": None, "confidence": None, "statistic": "value"}


def read(made):
    return json.loads(made.public), json.loads(made.restricted)


def only_measurement(made):
    return json.loads(made.public)["evidence"][0]["measurements"][0]


def made_with(*measurements, noise=lambda cell, shape, count: -count):
    return editions(manifest(SLOT, evidence=(evidence(*measurements),)), noise)


def test_both_editions_are_canonical_and_say_what_was_asked():
    made = editions(manifest(SLOT, delivery_key="2024"), protect)
    public, restricted = read(made)
    assert (canonical_json(public), canonical_json(restricted)) == (made.public, made.restricted)
    assert set(public) == {
        "format",
        "edition",
        "number",
        "created",
        "registry_previous",
        "journal_head",
        "signer",
        "delivery",
        "inputs_digest",
        "recipients",
        "code_version",
        "packages",
        "lineage",
        "files",
        "secret_commitment",
        "not_compared",
        "reference",
        "policy",
        "evidence",
        "attrition",
        "restricted_edition",
    }
    assert public["files"] == [
        {"path": "data/Claims.csv", "sha256": "f" * 64, "bytes": 100, "rows": 60, "rows_digest": "a" * 64}
    ]
    assert public["recipients"] == {"recipient_class": "public", "terms_of_use": "no attempt to identify"}
    assert public["delivery"] == {"key_digest": "0123456789abcdef"}
    assert restricted["delivery"] == {"key": "2024", "key_digest": "0123456789abcdef", "digest": "d" * 64}
    assert public["restricted_edition"] == bytes_digest(made.restricted)


def test_exact_counts_are_in_the_restricted_edition_only():
    steps = (
        AttritionStep("members", "members", 71_234_567),
        AttritionStep("removed_members", "members", 8_765_432, "members", "sensitive conditions"),
        AttritionStep("rare_members", "members", 7, "removed_members"),
        AttritionStep("claims", "claims", 61_234_567),
    )
    counted = measurement(name="smallest_class", value=5_554_321, threshold=20, comparison="at_least", **PEOPLE)
    made = editions(manifest(SLOT, attrition=steps, evidence=(evidence(counted),)), protect)
    for exact in (b"71234567", b"8765432", b"5554321", b"61234567"):
        assert exact in made.restricted and exact not in made.public
    public, restricted = read(made)
    assert abs(public["attrition"][2]["rows_out"] - 7) < 25 and public["attrition"][3]["rows_out"] is None
    assert restricted["attrition"][2] == {
        "stage": "rare_members",
        "unit": "members",
        "source": "removed_members",
        "rows_in": 8_765_432,
        "rows_out": 7,
        "reason": "",
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
    shown = only_measurement(made_with(share, noise=lambda cell, shape, count: count + 5))
    assert shown["value"] == 25 / 10_005
    negative = only_measurement(made_with(share, noise=lambda cell, shape, count: count - 30))
    assert negative["value"] == -10 / 9_970
    few = measurement(**PEOPLE | {"unit": "share of members", "value": 0.2, "sample_size": 5})
    assert [
        only_measurement(made_with(few, noise=lambda cell, shape, count: count + 5))[of] for of in ("value", "sample_size")
    ] == [
        "T",
        10,
    ]
    unsized = measurement(**PEOPLE | {"unit": "share of members", "value": 0.002, "sample_size": None})
    assert only_measurement(made_with(unsized))["value"] is None


def test_the_public_edition_does_not_confirm_a_guess_of_who_opted_out():
    """Neither the policy's text nor any hash of it: the list of one member could be guessed."""
    made = editions(manifest(SLOT), protect)
    assert b"member 31" in made.restricted and b"member 31" not in made.public
    assert b"p" * 64 in made.restricted and b"p" * 64 not in made.public
    assert json.loads(made.public)["policy"]["hash"] == bytes_digest(json.dumps(POLICY).encode())


def test_the_restricted_edition_is_salted_and_the_salt_not_published():
    """Else exact counts could be tried until the digest in the public edition fits."""
    made = editions(manifest(SLOT), protect)
    salt = json.loads(made.restricted)["salt"]
    assert len(salt) == 64 and salt.encode() not in made.public
    with pytest.raises(ReleaseError, match="salt"):
        manifest(SLOT, salt=b"")


def test_editions_repeat_byte_for_byte():
    first, second = (editions(manifest(SLOT), protect) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": ShownPolicy("other", "p", "t", "t")}, "under which it is staged"),
        ({"terms_of_use": ""}, "terms of use"),
        ({"evidence": ()}, "needs evidence"),
        ({"evidence": (evidence(), evidence())}, "once for each assessment"),
        ({"attrition": (AttritionStep("a", "members", 1), AttritionStep("a", "members", 1))}, "twice"),
        ({"attrition": (AttritionStep("a", "members", 1, "b"), AttritionStep("b", "members", 1))}, "not named before"),
        ({"secret_commitment": ""}, "commitment"),
    ],
)
def test_a_manifest_that_contradicts_itself_cannot_be_made(changes, message):
    with pytest.raises(ReleaseError, match=message):
        manifest(SLOT, **changes)


def test_one_thing_that_is_counted_is_one_cell_and_what_shapes_it_is_part_of_it():
    """Two policies that count the same show one number, and two that count differently have independent noise."""

    def shown(shape: str, counted: str = "") -> list[int]:
        steps = tuple(AttritionStep(f"stage_{n}", "members", 1000, shape=shape) for n in range(50))
        found = evidence(*(measurement(name=f"found_{n}", **PEOPLE | {"value": 1000}) for n in range(50)))
        made = editions(manifest(SLOT, attrition=steps, evidence=(found,), shapes={"node_risk": counted}), protect)
        public = json.loads(made.public)
        return [step["rows_out"] for step in public["attrition"]] + [
            one["value"] for one in public["evidence"][0]["measurements"]
        ]

    assert shown("one") == shown("one") and shown("one")[50:] == shown("another")[50:]
    assert shown("one")[:50] != shown("another")[:50] and shown("one")[50:] != shown("one", "another")[50:]
    assert len(set(shown("one"))) > 3


class TestWhatTheFilesTell:
    """Where files tell a number exactly, a noisy one beside it would only tell the noise of its cell."""

    def test_rows_of_a_file_are_exact(self):
        steps = (AttritionStep("sampled", "members", 64), AttritionStep("released", "members", 60, "sampled", file=FILE.path))
        public, _ = read(editions(manifest(SLOT, attrition=steps), lambda cell, shape, count: count + 1000))
        assert [(step["rows_in"], step["rows_out"], step["protected"]) for step in public["attrition"]] == [
            (None, 1064, True), (1064, 60, False),
        ]  # fmt: skip

    def test_a_step_that_is_not_as_its_file_tells_is_refused(self):
        for step in (
            AttritionStep("released", "members", 61, file=FILE.path),
            AttritionStep("a", "members", 60, file="data/no.csv"),
        ):
            with pytest.raises(ReleaseError, match="does not have as many rows as the file"):
                manifest(SLOT, attrition=(step,))

    def test_numbers_that_rows_tell_are_exact(self):
        share = measurement(**PEOPLE | {"unit": "share of published rows", "value": 0.25, "sample_size": 60})
        shown = only_measurement(made_with(share))
        assert (shown["value"], shown["sample_size"]) == (0.25, 60) and "protected" not in shown

    def test_of_a_share_of_what_is_released_the_whole_is_exact_and_the_part_protected(self):
        share = measurement(**PEOPLE | {"unit": "share of released members", "value": 0.25, "sample_size": 60})
        shown = only_measurement(made_with(share, noise=lambda cell, shape, count: count + 3))
        assert (shown["value"], shown["sample_size"], shown["protected"]) == (18 / 60, 60, True)

    def test_a_share_left_out_is_made_of_the_attrition_and_has_no_noise_of_its_own(self):
        steps = (AttritionStep("records", "records", 64), AttritionStep("released", "records", 60, "records", file=FILE.path))
        share = measurement(**PEOPLE | {"unit": LEFT_OUT, "value": 4 / 64, "sample_size": 64})
        made = editions(manifest(SLOT, attrition=steps, evidence=(evidence(share),)), lambda cell, shape, count: count + 6)
        shown = only_measurement(made)
        assert (shown["value"], shown["sample_size"]) == (10 / 70, 70)


def test_package_versions_name_python_and_duckdb():
    versions = package_versions()
    assert re.match(r"3\.\d+\.\d+", versions["python"]) and versions["duckdb"]
    assert replace(manifest(SLOT), packages=versions).packages["numpy"]
