"""The `deid` command. Signals are answered from here on: importing the rest takes seconds."""

import gc

from deid_assets.interruption import answer_signals, received, say


def main() -> None:
    """Execute the command line."""
    answer_signals()
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


if __name__ == "__main__":
    main()
