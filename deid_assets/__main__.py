"""The `deid` command. Signals are answered from here on: importing the rest takes seconds."""

import gc
import sys
from collections.abc import Sequence

from deid_assets.interruption import answer_signals, received, say


def main() -> None:
    """Execute the command line."""
    answer_signals()
    _say_at_once(sys.argv[1:])
    # Half a million objects of libraries are made at the start, and stay: looking for garbage after every 700 took a second.
    gc.set_threshold(20_000)
    try:
        from deid_assets.command_line.main import main as command

        command(prog_name="deid")
    except Exception:
        raise
    except BaseException:
        if received() is None:
            raise
        raise SystemExit(say()) from None


def _say_at_once(words: Sequence[str]) -> None:
    """Say that a run begins, where a run speaks: what it needs is loaded for seconds."""
    if words[:1] != ["run"] or not {"--quiet", "-q", "--help", "-h"}.isdisjoint(words):
        return
    print("Starting a run: loading the program", file=sys.stderr if "--json" in words else sys.stdout, flush=True)


if __name__ == "__main__":
    main()
