"""What `deid run` says while it works: a line for every table that is finished, and one that lives.

On a terminal the live line is drawn anew all the time; elsewhere it is printed every ten seconds.
"""

import contextlib
import enum
import sys
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from deid_assets.forecast import Forecast, duration_in_words

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Detail(enum.Enum):
    """How much is said."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


class Progress:
    """What is going on.

    Parameters
    ----------
    console
        Where it is said. The live line is drawn on a terminal, and printed now and then elsewhere.
    detail
        QUIET: nothing is said. VERBOSE: also what steps tell of themselves, a line each.
    every
        Seconds between two lines where there is no terminal.
    as_json
        Whether what comes of the work is one JSON document on standard output.
    """

    def __init__(self, console: Console, detail: Detail = Detail.NORMAL, every: float = EVERY, as_json: bool = False):
        self.console, self.detail, self.as_json, self._every = console, detail, as_json, every
        self._doing, self._told, self._since, self._stage = "", "", time.monotonic(), ""
        self._step: str | None = None
        self._forecast: Forecast | None = None
        self._worked: dict[str, float] = {}

    @contextlib.contextmanager
    def working(self, heading: str, typical: str | None = None) -> Iterator[None]:
        """Say what begins; meanwhile the live line shows it.

        Parameters
        ----------
        typical
            Its name among the typical steps, if it is no step of a run: it tells how fast this machine is.
        """
        self._doing, self._told, self._since, self._step = heading, "", time.monotonic(), None
        with contextlib.nullcontext() if self.detail is Detail.QUIET else self._said(heading):
            yield
        if typical is not None:
            self._worked[typical] = time.monotonic() - self._since

    @contextlib.contextmanager
    def _said(self, heading: str) -> Iterator[None]:
        self.console.print(escape(heading))
        if self.console.is_terminal:
            with self.console.status(_Live(self.line)):
                yield
            return
        over = threading.Event()
        printer = threading.Thread(target=self._print_until, args=(over,), daemon=True)
        printer.start()
        try:
            yield
        finally:
            over.set()
            printer.join()

    def _print_until(self, over: threading.Event) -> None:
        while not over.wait(self._every):
            self.console.print(Text("  ") + self.line(), soft_wrap=True)

    def follow(self, forecast: Forecast) -> None:
        """A run begins, of which this is the forecast."""
        self._forecast = forecast
        while self._worked:
            forecast.worked(*self._worked.popitem())

    def doing(self, step: str, name: str) -> None:
        """A step of the run begins; `name` is what people call it."""
        self._doing, self._told, self._since = name, "", time.monotonic()
        if self._forecast is not None:
            self._forecast.began(step, self._since)
        self._step = step

    def did(self, step: str) -> None:
        """A step of the run ended."""
        if self._forecast is not None:
            self._forecast.ended(step, time.monotonic())

    def tell(self, text: str) -> None:
        """A step tells how far it is."""
        self._told = text
        if self.detail is Detail.VERBOSE:
            self.console.print(Text(f"  {self._doing}: {text}", style="dim"), soft_wrap=True)

    def made(self, stage: str, table: str, rows: int | None, seconds: float | None) -> None:
        """A table is finished; its stage stands at the first one."""
        if self.detail is Detail.QUIET:
            return
        shown = "" if stage == self._stage else stage
        self._stage = stage
        self.console.print(
            f"  {shown:15}{table:28}"
            f"{f'{rows:>14,} rows' if rows is not None else '':19}"
            f"{f'{seconds:>8.1f} s' if seconds is not None else ''}"
        )

    def note(self, text: str) -> None:
        """Something that people should know before the run ends."""
        if self.detail is not Detail.QUIET:
            self.console.print(f"[bold]note[/bold]  {escape(text)}")

    def line(self) -> Text:
        """Where the run is, when it ends, and how far the step is; what matters most stands first.

        Never longer than the terminal is wide, so that it stays one line.
        """
        now, step = time.monotonic(), self._step
        spent = f"{self._doing} {duration_in_words(now - self._since)}"
        if step is None or self._forecast is None:
            said = [spent, self._told]
        else:
            before = self._forecast.last_time(step)
            spent += f" ({before})" if before else ""
            said = [f"{self._forecast.position(step)}: {spent}", self._forecast.end(now) or "", self._told]
        line = Text(", ".join(one for one in said if one))
        line.truncate(max(self.console.width - 4, 10), overflow="ellipsis")
        return line


class _Live:
    """Drawn anew at every refresh."""

    def __init__(self, line: Callable[[], Text]):
        self._line = line

    def __rich__(self) -> Text:
        return self._line()


def progress_of(as_json: bool = False, detail: Detail = Detail.NORMAL) -> Progress:
    """What goes on in this process, on standard output, or on standard error where the output is a JSON document."""
    stream = sys.stderr if as_json else sys.stdout
    # Without a terminal, rich would assume 80 columns and cut numbers.
    console = Console(file=stream, highlight=False, width=None if stream.isatty() else 110)
    return Progress(console, detail, as_json=as_json)
