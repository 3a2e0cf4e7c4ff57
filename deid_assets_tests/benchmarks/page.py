"""Writes docs/benchmarks.md: each of its blocks is what the command at its head prints, with the machine and its load.

python -m deid_assets_tests.benchmarks all [WORD ...] [--desynpuf FOLDER] [--interpreter PYTHON] [--home FOLDER]

With words, only blocks whose command contains one of them are made anew. A block whose command needs what is not given stays
as it is, and this says so. The page is written after each block, so that nothing is lost when one fails.
"""

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import deid_assets

PAGE = Path(deid_assets.__file__).parent / "docs" / "benchmarks.md"
GIVEN = {
    "desynpuf": "folder of DE-SynPUF's samples",
    "interpreter": "a Python that has anjana and pycanon",
    "home": "home of a default `deid run`",
}
"""What commands of the page may ask for: `{home}` in a command is what `--home` gives."""

_BLOCK = re.compile(r"(<!-- printed by: (?P<command>.+?) -->\n)(?P<printed>.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A part of the page: the command that prints it, and what it printed last."""

    command: str
    printed: str

    @property
    def needs(self) -> set[str]:
        """Names of GIVEN that the command asks for."""
        return {name for _, name, _, _ in Formatter().parse(self.command) if name is not None}

    def arguments(self, given: Mapping[str, str]) -> list[str]:
        """The command with what is given, and this interpreter for `python`."""
        return [sys.executable if word == "python" else word.format(**given) for word in shlex.split(self.command)]


def blocks(page: str) -> list[Block]:
    """All blocks of a page, in order."""
    return [Block(found["command"], found["printed"]) for found in _BLOCK.finditer(page)]


def with_printed(page: str, command: str, printed: str) -> str:
    """The page, with what the command printed in its block."""
    return _BLOCK.sub(
        lambda found: f"{found[1]}\n{printed.strip()}\n\n{found[4]}" if found["command"] == command else found[0], page
    )


def main(listed: Sequence[str]) -> None:
    """Run the commands of the page, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.benchmarks all", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only blocks whose command contains one of these")
    for name, what in GIVEN.items():
        parser.add_argument(f"--{name}", metavar="PATH", help=what)
    asked = vars(parser.parse_args(listed))
    given = {name: asked[name] for name in GIVEN if asked[name] is not None}
    chosen = [
        block
        for block in blocks(PAGE.read_text())
        if not asked["words"] or any(word in block.command for word in asked["words"])
    ]
    for block in chosen:
        if missing := block.needs - set(given):
            print(f"left as it is, needs {', '.join(f'--{name}' for name in sorted(missing))}: {block.command}")
            continue
        print(block.command, flush=True)
        ended = subprocess.run(block.arguments(given), stdout=subprocess.PIPE, text=True, check=False)
        if ended.returncode or not ended.stdout.strip():
            sys.exit(f"this ended with code {ended.returncode}; its block and all later ones are left as they are")
        PAGE.write_text(with_printed(PAGE.read_text(), block.command, ended.stdout))
