"""What the flags of draws at some nodes tell of others."""

import numpy as np
import pytest

from deid_assets.methods.kernel import known_flags
from deid_assets.methods.kernel.known_flags import KnownFlags

KEY, OTHER_KEY = b"one", b"other"
DRAWS = 16
"""Of a block."""


def flags(*flagged: int, blocks: int = 1) -> np.ndarray:
    return np.isin(np.arange(blocks * DRAWS), flagged)


def told(known: KnownFlags, levels: tuple[int, ...], blocks: range = range(1), key: bytes = KEY) -> tuple[list[int], int]:
    """The draws that are flagged, and how many are not."""
    flagged, cleared = known.implied(key, levels, blocks, DRAWS)
    assert not np.any(flagged & cleared)
    return np.flatnonzero(flagged).tolist(), int(cleared.sum())


@pytest.fixture
def known() -> KnownFlags:
    """Draws 1, 2 and 3 are flagged at a fine node, draw 3 at a coarse one."""
    made = KnownFlags()
    made.learn(KEY, (0, 1), range(1), flags(1, 2, 3))
    made.learn(KEY, (2, 1), range(1), flags(3))
    return made


def test_draws_flagged_at_a_coarser_node_are_flagged_and_those_cleared_at_a_finer_one_are_not(known):
    assert told(known, (1, 1)) == ([3], DRAWS - 3)
    assert told(known, (0, 0)) == ([1, 2, 3], 0)
    assert told(known, (2, 2)) == ([], DRAWS - 1)
    assert told(known, (0, 1)) == ([1, 2, 3], DRAWS - 3), "all is known of a node that was measured"


def test_nodes_that_are_neither_finer_nor_coarser_tell_nothing(known):
    assert told(known, (3, 0)) == ([], 0)
    assert told(known, (0, 2)) == ([], DRAWS - 3), "(2, 1) is neither"


def test_other_blocks_and_streams_tell_nothing(known):
    assert told(known, (1, 1), range(1, 2)) == ([], 0)
    assert told(known, (1, 1), key=OTHER_KEY) == ([], 0)
    known.learn(KEY, (1, 1), range(1, 3), flags(20, blocks=2))
    assert told(known, (1, 1), range(3)) == ([3, 36], (DRAWS - 3) + DRAWS + (DRAWS - 1))


def test_the_nearest_nodes_are_asked_first(monkeypatch, known):
    monkeypatch.setattr(known_flags, "NEAREST", 1)
    known.learn(KEY, (1, 1), range(1), flags(2, 3))
    assert told(known, (3, 1)) == ([], DRAWS - 1)
    assert told(known, (0, 0)) == ([1, 2, 3], 0)


def test_flags_of_older_streams_go_where_there_is_no_room(monkeypatch, known):
    monkeypatch.setattr(known_flags, "BYTES_KEPT", 6)
    known.learn(KEY, (1, 1), range(1), flags(2, 3))
    known.learn(KEY, (1, 2), range(1), flags(2))
    assert told(known, (1, 2)) == ([], DRAWS - 2), "the fourth was not kept"
    known.learn(OTHER_KEY, (0, 0), range(1), flags(5))
    assert told(known, (1, 1)) == ([], 0)
    assert told(known, (0, 0), key=OTHER_KEY) == ([5], DRAWS - 1)


def test_a_node_measured_again_takes_no_more_room(monkeypatch, known):
    monkeypatch.setattr(known_flags, "BYTES_KEPT", 6)
    for _ in range(3):
        known.learn(KEY, (0, 1), range(1), flags(1, 2, 3))
    known.learn(KEY, (1, 2), range(1), flags(2))
    assert told(known, (1, 2)) == ([2], DRAWS - 1)
