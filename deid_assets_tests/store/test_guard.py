"""Errors that nobody foresaw: what is raised in their place names no value, whoever looks at it."""

import errno
import os
import sqlite3
import stat
import traceback

import pytest

from deid_assets.errors import DeliveryError
from deid_assets.store.guard import UnforeseenError, without_values
from deid_assets.store.tables import connect

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


def nothing_of_the_original(raised: BaseException) -> bool:
    """Neither in what is shown nor in what the error was raised from, however it is asked."""
    seen, told = [raised], []
    for error in seen:
        told += [str(error), repr(error.__dict__)]
        seen += [other for other in (error.__cause__, error.__context__) if other is not None]
    return CANARY not in " ".join([*told, *traceback.format_exception(raised)])


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"/store/{CANARY}")


FAILING = {
    "a folder that is a file": lambda store, patch: store.write_text("not a folder"),
    "a folder below a file": lambda store, patch: (store.mkdir(), (store / "errors").write_text("not a folder")),
    "a folder that is a dangling link": lambda store, patch: (store.mkdir(), (store / "errors").symlink_to("/nowhere/x")),
    "a full disk": lambda store, patch: patch.setattr(os, "open", no_space),
    "a disk that is full at the first byte": lambda store, patch: patch.setattr(
        os, "open", lambda *_, call=os.open: call("/dev/full", os.O_WRONLY)
    ),
    "a folder of somebody else": lambda store, patch: patch.setattr(os, "chmod", no_space),
    "no more memory": lambda store, patch: patch.setattr(traceback, "format_exception", lambda *_: 1 / 0),
}


@pytest.mark.parametrize("failing", FAILING)
def test_where_the_details_cannot_be_kept_they_are_lost_and_nothing_is_chained(failing, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        FAILING[failing](tmp_path / "store", patch)
        with pytest.raises(UnforeseenError) as caught, without_values("policy/claims", tmp_path / "store"):
            int(CANARY)
    assert str(caught.value).startswith("policy/claims failed with ValueError; its details could not be saved: ")
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert nothing_of_the_original(caught.value)


def test_a_text_that_is_no_unicode_is_kept(tmp_path):
    with pytest.raises(UnforeseenError), without_values("x", tmp_path):
        raise ValueError(f"{CANARY} \udc80")
    (details,) = (tmp_path / "errors").iterdir()
    assert f"{CANARY} \\udc80" in details.read_text()


def test_what_the_system_says_of_an_error_is_said_and_its_file_is_not(tmp_path):
    said = "x failed with OSError .No space left on device.; "
    with pytest.raises(UnforeseenError, match=said) as caught, without_values("x", tmp_path):
        no_space()
    assert nothing_of_the_original(caught.value)


def test_a_full_disk_is_named_also_behind_another_error(tmp_path):
    full = sqlite3.OperationalError("a statement")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    with pytest.raises(UnforeseenError, match="x failed with RuntimeError .the disk is full.; "), without_values("x", tmp_path):
        raise RuntimeError(CANARY) from full


def test_where_memory_runs_out_the_setting_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DEID_DUCKDB_GB", "0.25")
    said = "DuckDB needs more than 0.25 GB of memory, or a disk .* DEID_DUCKDB_GB says how many gigabytes it may use"
    with (
        pytest.raises(UnforeseenError, match=f"x failed with OutOfMemoryException .{said}.; ") as caught,
        without_values("x", tmp_path),
        connect(tmp_path / "store.duckdb") as connection,
    ):
        # Bits of an aggregate cannot be spilled.
        connection.execute(f"SELECT bitstring_agg(i, 0, 80000000), '{CANARY}' AS who FROM range(100) t(i) GROUP BY i")
    assert nothing_of_the_original(caught.value)


def test_our_own_errors_are_cut_from_what_they_were_raised_from(tmp_path):
    def raised_from(kind):
        try:
            int(CANARY)
        except ValueError as original:
            raise kind("what people may read") from original

    def raised_meanwhile(kind):
        try:
            int(CANARY)
        except ValueError:
            raise kind("what people may read")  # noqa: B904

    for kind in (DeliveryError, KeyError):
        for fail in (raised_from, raised_meanwhile):
            with pytest.raises(kind) as caught, without_values("x", tmp_path, (KeyError,)):
                fail(kind)
            assert nothing_of_the_original(caught.value)


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
