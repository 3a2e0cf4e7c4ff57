"""The registry is append-only: whatever else is done to it shows."""

from dataclasses import replace

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import SigningKey
from deid_assets.release.registry import chain as registry_chain
from deid_assets.store.digests import canonical_json, parse_json


def entry(number: int, previous: str, **changes) -> registry_chain.Entry:
    fields = {"policy": "heritage", "delivery": "2024", "inputs_digest": f"{number:064x}", "manifest_digest": "c" * 64}
    return registry_chain.Entry(**{"number": number, "previous": previous, "time": "2024-01-01T00:00:00Z"} | fields | changes)


@pytest.fixture
def registry(tmp_path) -> registry_chain.Registry:
    """Three entries."""
    made = registry_chain.Registry(tmp_path / "registry.jsonl")
    for number in (1, 2, 3):
        made.append(entry(number, made.head))
    return made


def lines(registry):
    return registry.path.read_bytes().splitlines(keepends=True)


def test_a_registry_that_does_not_exist_is_empty(tmp_path):
    registry = registry_chain.Registry(tmp_path / "registry.jsonl")
    assert registry.head == registry_chain.GENESIS
    assert registry.chain().entries == ()
    assert registry.repair() is False
    assert not registry.path.exists()


def test_entries_are_chained_and_found(registry):
    first, second, third = registry.chain().entries
    assert (first.previous, second.previous, third.previous) == (registry_chain.GENESIS, first.hash, second.hash)
    assert registry.head == third.hash
    assert registry.already_released("heritage", f"{2:064x}") == second
    assert registry.already_released("other_policy", f"{2:064x}") is None
    assert registry.already_released("heritage", "e" * 64) is None


def test_appending_leaves_what_was_there(registry):
    before = registry.path.read_bytes()
    registry.append(entry(4, registry.head))
    assert registry.path.read_bytes().startswith(before)


@pytest.mark.parametrize("number", [1, 3])
def test_numbers_are_used_once(registry, number):
    with pytest.raises(ReleaseError, match="does not follow"):
        registry.append(entry(number, registry.head))


def test_an_entry_that_does_not_follow_the_head_is_refused(registry):
    with pytest.raises(ReleaseError, match="does not follow"):
        registry.append(entry(4, registry_chain.GENESIS))


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (lambda text: [text[1], text[0], text[2]], 1),
        (lambda text: [text[0], text[2], text[1]], 2),
        (lambda text: [text[1], text[2]], 1),
        (lambda text: [text[0], text[2]], 2),
        (lambda text: [*text, text[2]], 4),
        (lambda text: [text[0], text[1].replace(b"2024-01-01", b"2024-01-02"), text[2]], 2),
        (lambda text: [text[0], text[1].replace(b":", b": ", 1), text[2]], 2),
        (lambda text: [text[0], b"\n", text[1], text[2]], 2),
        (lambda text: [text[0], b"[]\n", text[1]], 2),
        (lambda text: [text[0], b'{"number":1}\n', text[1]], 2),
    ],
)
def test_a_changed_chain_is_found_at_its_line_and_stops_everything(registry, tamper, line):
    registry.path.write_bytes(b"".join(tamper(lines(registry))))
    chain = registry_chain.read_chain(registry.path)
    assert chain.problem.startswith(f"line {line} ")
    assert len(chain.entries) == line - 1
    for act in (registry.chain, registry.repair, lambda: registry.append(entry(9, registry_chain.GENESIS))):
        with pytest.raises(ReleaseError, match=f"line {line} "):
            act()


def test_a_rewritten_entry_breaks_the_chain_after_it_even_with_a_new_hash(registry):
    first, second, third = lines(registry)
    forged = replace(registry.chain().entries[1], delivery="2023").line
    registry.path.write_bytes(first + forged + third)
    assert registry_chain.read_chain(registry.path).problem.startswith("line 3 ")


def test_a_last_line_cut_anywhere_is_repaired_and_the_rest_kept(registry):
    whole = registry.path.read_bytes()
    *kept, last = lines(registry)
    fourth = entry(4, registry.head).line
    for length in range(1, len(fourth)):
        registry.path.write_bytes(whole + fourth[:length])
        assert len(registry.chain().entries) == 3
        assert registry.repair() is True
        # An entry that lacks only its line feed is whole.
        assert registry.path.read_bytes() == (whole + fourth if length == len(fourth) - 1 else whole)
        assert registry.repair() is False


def test_a_tail_of_another_chain_is_removed(registry):
    whole = registry.path.read_bytes()
    registry.path.write_bytes(whole + entry(4, registry_chain.GENESIS).line[:-1])
    registry.repair()
    assert registry.path.read_bytes() == whole


def test_nothing_is_appended_to_a_cut_line(registry):
    registry.path.write_bytes(registry.path.read_bytes() + b'{"de')
    with pytest.raises(ReleaseError, match="repair"):
        registry.append(entry(4, registry.head))


def test_an_entry_says_what_the_manifest_says():
    value = {
        "policy": {"name": "heritage"},
        "number": 3,
        "delivery": {"key": "2024"},
        "inputs_digest": "a" * 64,
        "registry_previous": registry_chain.GENESIS,
        "created": "2024-01-01T00:00:00Z",
    }
    made = registry_chain.Entry.from_manifest(canonical_json(value))
    assert (made.policy, made.number, made.delivery, made.previous) == ("heritage", 3, "2024", registry_chain.GENESIS)
    assert parse_json(made.line)["hash"] == made.hash
    for broken in (b"", b"[]", b"3", canonical_json(value | {"number": "3"}), canonical_json(value | {"policy": "x"})):
        with pytest.raises(ReleaseError):
            registry_chain.Entry.from_manifest(broken)


def problem_of(registry: registry_chain.Registry, *added: registry_chain.Line) -> str:
    """What is wrong with a registry once somebody who can write the file has added these lines to it."""
    registry.path.write_bytes(registry.path.read_bytes() + b"".join(line.line for line in added))
    chain = registry_chain.read_chain(registry.path)
    assert len(chain.lines) == 3 + len(added) - 1, "only the last line contradicts those before it"
    return chain.problem


def test_a_line_that_uses_a_number_again_breaks_the_chain(registry):
    assert problem_of(registry, entry(2, registry.head, manifest_digest="d" * 64)) == (
        "line 4 of the registry uses the number of an earlier release"
    )


def test_a_rotation_that_contradicts_an_earlier_one_breaks_the_chain(registry):
    first, second, third = (SigningKey.generated() for _ in range(3))
    time = "2024-01-02T00:00:00Z"
    rotated = registry_chain.signed_rotation(first, second, "", registry.head, time)
    whole = registry.path.read_bytes()
    assert "replaces a key that was not in force" in problem_of(
        registry, rotated, registry_chain.signed_rotation(first, third, "", rotated.hash, time)
    )
    registry.path.write_bytes(whole)
    assert "brings back a key that was replaced" in problem_of(
        registry, rotated, registry_chain.signed_rotation(second, first, "", rotated.hash, time)
    )


def test_a_rotation_to_the_same_key_breaks_the_chain(registry):
    key = SigningKey.generated()
    assert "not which one it replaces" in problem_of(
        registry, registry_chain.signed_rotation(key, key, "", registry.head, "2024-01-02T00:00:00Z")
    )


@pytest.mark.parametrize("signature", ["", "00", "no hexadecimal digits"])
def test_a_line_without_a_signature_that_can_be_read_breaks_the_chain(registry, signature):
    key = SigningKey.generated()
    correction = registry_chain.ClockCorrection(
        "the clock was ahead", previous=registry.head, time="2024-01-01T00:00:00Z"
    ).signed(key)
    assert "its signature is not valid" in problem_of(registry, replace(correction, signature=signature))
    rotated = registry_chain.KeyRotation(
        "", key.public.raw.hex(), "lost", registry_chain.GENESIS, correction.time, "", signature
    )
    with pytest.raises(ReleaseError, match="its signatures are not valid"):
        rotated.require_signed()


def test_a_time_that_cannot_be_read_goes_back_and_is_never_the_latest(registry):
    odd = entry(4, registry.head, time="yesterday")
    later = entry(5, odd.hash, time="2024-01-03T00:00:00Z")
    registry.path.write_bytes(registry.path.read_bytes() + odd.line + later.line)
    chain = registry.chain()
    assert chain.times_that_go_back() == (4,)
    assert chain.last_time == "2024-01-03T00:00:00Z"
    registry.path.write_bytes(registry.path.read_bytes() + entry(6, later.hash, time="tomorrow").line)
    assert registry.chain().last_time == "2024-01-03T00:00:00Z"
