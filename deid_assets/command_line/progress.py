"""What `deid run` says while it works: a line for every table that is finished, and on a terminal one that lives."""

import contextlib
import enum
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.text import Text


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
        Where it is said. The live line is drawn on a terminal only.
    detail
        QUIET: nothing is said. VERBOSE: also what steps tell of themselves, a line each.
    """

    def __init__(self, console: Console, detail: Detail = Detail.NORMAL):
        self.console, self.detail = console, detail
        self._doing, self._told, self._since, self._stage = "", "", time.monotonic(), ""

    @contextlib.contextmanager
    def working(self, heading: str) -> Iterator[None]:
        """Say what begins; meanwhile the live line shows it."""
        self.doing(heading)
        if self.detail is Detail.QUIET:
            yield
            return
        self.console.print(escape(heading))
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(_Live(self.line)):
            yield

    def doing(self, step: str) -> None:
        """A step begins."""
        self._doing, self._told, self._since = step, "", time.monotonic()

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
        """The live line; never longer than the terminal is wide, so that it stays one."""
        text = f"{self._doing}  {time.monotonic() - self._since:.0f} s"
        line = Text(f"{text}  {self._told}" if self._told else text)
        line.truncate(max(self.console.width - 4, 10), overflow="ellipsis")
        return line


class _Live:
    """Drawn anew at every refresh."""

    def __init__(self, line: Callable[[], Text]):
        self._line = line

    def __rich__(self) -> Text:
        return self._line()
