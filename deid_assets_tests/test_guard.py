"""Errors that nobody foresaw: what is raised in their place names no value, whoever looks at it."""

import stat
import traceback

import pytest

from deid_assets.errors import DeliveryError
from deid_assets.guard import UnforeseenError, without_values

CANARY = "CANARY-4711"


@pytest.fixture
def raised(tmp_path) -> UnforeseenError:
    with pytest.raises(UnforeseenError) as caught, without_values("policy/claims", tmp_path / "store"):
        int(CANARY)
    return caught.value


def test_the_message_says_what_failed_how_and_where_to_look(raised, tmp_path):
    (details,) = (tmp_path / "store" / "errors").iterdir()
    assert str(raised).startswith("policy/claims failed with ValueError")
    assert str(details) in str(raised) and CANARY not in str(raised)


def test_the_details_are_for_the_owner_only(raised, tmp_path):
    (details,) = (tmp_path / "store" / "errors").iterdir()
    assert CANARY in details.read_text()
    assert stat.S_IMODE(details.stat().st_mode) == 0o600
    assert stat.S_IMODE(details.parent.stat().st_mode) == 0o700


def test_a_traceback_of_it_shows_nothing_of_the_original(raised):
    assert CANARY not in "".join(traceback.format_exception(raised))


def test_our_own_errors_and_those_let_through_pass_as_they_are(tmp_path):
    with pytest.raises(DeliveryError, match="a file is missing"), without_values("x", tmp_path):
        raise DeliveryError("a file is missing")
    with pytest.raises(KeyError), without_values("x", tmp_path, (KeyError,)):
        raise KeyError("known")
    assert not (tmp_path / "errors").exists()


def test_without_an_error_nothing_happens(tmp_path):
    with without_values("x", tmp_path):
        pass
    assert not (tmp_path / "errors").exists()
