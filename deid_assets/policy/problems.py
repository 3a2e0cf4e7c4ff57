"""What is wrong with a policy, and where: rules and readers of its text report it alike."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and positions from the top of a policy."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, and at which field: keys and positions from the top of the file."""

    path: Path
    message: str

    @property
    def field(self) -> str:
        """The path in readable form.

        Examples
        --------
        >>> Problem(("dimensions", 0, "columns"), "").field
        'dimensions[0].columns'
        """
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.removeprefix(".")


def did_you_mean(word: object, allowed: Sequence[str] | Mapping[str, object]) -> str:
    """Return '; did you mean x?' if an allowed word is close, else ''.

    Examples
    --------
    >>> did_you_mean("treshold", ["threshold", "loss"])
    '; did you mean threshold?'
    """
    close = difflib.get_close_matches(str(word), list(allowed), n=1)
    return f"; did you mean {close[0]}?" if close else ""
