"""A command line that cannot be read ends with 64, the customary code, before anything is done."""

import click
import pytest
from click.testing import CliRunner

from deid_assets.command_line.main import main


def commands(command: click.Command, path: tuple[str, ...] = ()):
    """Every command and group, by the words that call it."""
    yield path
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, (*path, name))


def takes_any_number(path: tuple[str, ...]) -> bool:
    """Whether a command takes as many files as there are."""
    command: click.Command = main
    for name in path:
        command = command.commands[name]
    return any(argument.nargs == -1 for argument in command.params if isinstance(argument, click.Argument))


def lines() -> list[tuple[str, ...]]:
    """Wrong lines of every command that there is, and of some options."""
    found = [(*path, "--no-such-option") for path in commands(main)]
    found += [(*path, "one", "two", "three") for path in commands(main) if not takes_any_number(path)]
    return [
        *found,
        (),
        ("key",),
        ("policy",),
        ("run", "--seed", "-1"),
        ("run", "--seed", "one"),
        ("run", "--members", "0"),
        ("run", "--release", "0"),
        ("run", "--members", "100", "--release", "101"),
        ("run", "--delivery", "in", "--members", "100"),
        ("plan", "--delivery", "in", "--seed", "1"),
        ("run", "--key", "../elsewhere"),
        ("run", "--key", ""),
        ("run", "--key", "a..b"),
        ("run", "--policy", ""),
        ("run", "--policy"),
        ("run", "--quiet", "--verbose"),
        ("policy", "new"),
        ("policy", "new", "ours", "--title", "t"),
        ("policy", "new", "ours", "--title", " ", "--owner", "team:us"),
        ("ui", "--port", "0"),
        ("ui", "--port", "70000"),
        ("verify",),
        ("policy", "check"),
        ("clock", "correct"),
        ("verify", "x", "--no-registry", "--head", "0"),
    ]


@pytest.mark.parametrize("line", lines(), ids=" ".join)
def test_a_line_that_cannot_be_read_ends_with_64_and_does_nothing(line, tmp_path, monkeypatch):
    monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
    result = CliRunner().invoke(main, list(line))
    assert result.exit_code == 64, result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "deid").exists()
