"""Secret values that the environment gives: in a variable, in a file, or as the output of a command.

Nothing of a value is ever repeated in an error. Errors of a command are not either, because they may contain it.
"""

import os
import shlex
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deid_assets.errors import ReleaseError

SECONDS = 60
"""A command that takes longer fails."""


@dataclass(frozen=True)
class Given:
    """A secret value, and where it came from in words.

    Attributes
    ----------
    value
        Its bytes, without white space around them.
    origin
        Such as "file DEID_SECRET_FILE".
    """

    value: bytes = field(repr=False)
    origin: str


def variables_of(name: str) -> tuple[str, str, str]:
    """The variables that may give a value: the value itself, a file, a command."""
    return name, f"{name}_FILE", f"{name}_COMMAND"


def given(name: str, variables: Mapping[str, str]) -> Given | None:
    """The value that the environment gives; None if it gives none.

    Parameters
    ----------
    name
        The variable with the value itself, such as "DEID_SECRET". With "_FILE" after it, it names a file; with "_COMMAND",
        a command that runs without a shell, and whose standard output is the value.
    variables
        The environment.

    Raises
    ------
    ReleaseError
        If two of the three are set, if the file or the command fails, or if everybody may read the file.
    """
    stated = [one for one in variables_of(name) if one in variables]
    if len(stated) > 1:
        raise ReleaseError(f"{' and '.join(stated)} are set: set one of them, so that there is no doubt which one counts")
    if not stated:
        return None
    (variable,) = stated
    _, file, command = variables_of(name)
    if variable == file:
        return Given(_from_file(variable, Path(variables[variable])), f"file {variable}")
    if variable == command:
        return Given(_from_command(variable, variables[variable]), f"command {variable}")
    return Given(variables[variable].strip().encode(), f"environment variable {variable}")


def _from_file(variable: str, path: Path) -> bytes:
    """The content of the file. Its group may read it: orchestrators mount secrets for a group."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & stat.S_IROTH:
                raise ReleaseError(
                    f"the file that {variable} names can be read by everybody (mode {stat.S_IMODE(mode):04o}): `chmod 600` it, "
                    "and replace what is in it if others have access to this machine"
                )
            return file.read().strip()
    except OSError as error:
        raise ReleaseError(f"the file that {variable} names cannot be read: {error.strerror}") from None


def _from_command(variable: str, command: str) -> bytes:
    try:
        words = shlex.split(command)
        ran = subprocess.run(words, capture_output=True, check=True, timeout=SECONDS)  # noqa: S603 - the owner's own
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"the command in {variable} ended with code {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"the command in {variable} took over {SECONDS} seconds") from None
    except (OSError, ValueError, IndexError):
        raise ReleaseError(f"the command in {variable} cannot be run: it must be a program and its arguments") from None
    return ran.stdout.strip()
