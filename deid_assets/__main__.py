"""The `deid` command. Signals are answered from here on: importing the rest takes seconds."""

import atexit
import gc
import os
import sys
import threading
from collections.abc import Sequence

from deid_assets.interruption import answer_signals, received, say


def main() -> None:
    """Execute the command line, and end the process."""
    answer_signals()
    _say_at_once(sys.argv[1:])
    # Half a million objects of libraries are made at the start, and stay: looking for garbage after every 700 took a second.
    gc.set_threshold(20_000)
    try:
        from deid_assets.command_line.main import main as command

        command(prog_name="deid")
    except Exception:
        raise
    except BaseException as ended:
        leaving = ended if received() is None else SystemExit(say())
        if isinstance(leaving, SystemExit):
            _end(leaving.code)
        raise leaving from None


def _end(code: object) -> None:
    """End the process with this code, and leave its memory to the system: to free each object takes a sixth of a small run.

    What was registered for the end is called, and what was written is handed over, as ever. Returns, so that the interpreter
    ends as usual, where it has to wait for a thread, to print the code, or to say that its output was not taken.
    """
    waited_for = [one for one in threading.enumerate() if one is not threading.current_thread() and not one.daemon]
    if waited_for or not (code is None or isinstance(code, int)):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code or 0)


def _say_at_once(words: Sequence[str]) -> None:
    """Say that a run begins, where a run speaks: what it needs is loaded for seconds."""
    if words[:1] != ["run"] or not {"--quiet", "-q", "--help", "-h"}.isdisjoint(words):
        return
    print("Starting a run: loading the program", file=sys.stderr if "--json" in words else sys.stdout, flush=True)


if __name__ == "__main__":
    main()
