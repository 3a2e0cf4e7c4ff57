"""Members who opted out of all future releases of a home: a list beside its policies, which only its owner can read.

Every policy with members applies the list, as if it were part of its section `opt_outs`: a longer list is a changed policy,
so earlier tables are stale and the noise of public counts is drawn anew. Lines are appended and never removed. A line with
`listed` false takes a member off the list, such as one who was misspelled.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.store import durable
from deid_assets.store.digests import REGISTRY_AT_MOST, regular_bytes

FILE = "opt_outs.jsonl"
_LOCK = ".opt_outs.lock"


@dataclass(frozen=True, repr=False)
class OptOutLine:
    """A line of the list; restricted, and without a repr that could show it.

    Attributes
    ----------
    member_id
        Identifier, as deliveries write it.
    listed
        Whether the member is listed from now on, or no longer.
    reason, time
        Why, in words; and when, in ISO 8601.
    """

    member_id: str
    listed: bool
    reason: str
    time: str

    def require_sound(self) -> None:
        """Refuse a line without an identifier or a reason.

        Raises
        ------
        PolicyError
            If one is empty.
        """
        if not (self.member_id and self.member_id == self.member_id.strip() and self.reason.strip()):
            raise PolicyError("an opt-out needs the member's identifier, without surrounding blanks, and a reason")


def withdrawn_members(folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the members on the lists of some folders of policies, in ascending order.

    Raises
    ------
    PolicyError
        If a list cannot be read: nothing may be released then, because somebody may be missing from it.
    """
    listed: dict[str, bool] = {}
    for folder in folders:
        for line in _lines(folder / FILE):
            listed[line.member_id] = line.listed
    return tuple(sorted(member for member, now in listed.items() if now))


def note(folder: Path, line: OptOutLine) -> bool:
    """Append a line to the list of a folder of policies, flushed; return whether it changes anything.

    Raises
    ------
    PolicyError
        If identifier or reason is empty, or the list cannot be read or written.
    """
    line.require_sound()
    file = durable.owner_only(folder) / FILE
    with durable.locked(folder / _LOCK):
        if (line.member_id in withdrawn_members([folder])) == line.listed:
            return False
        *_, tail = _content(file).rpartition(b"\n")
        try:
            if tail:  # what a crash left of a line, which nobody was told of, is removed
                durable.mend_end(file, len(tail), _line_of(tail) is not None)
            durable.append(file, json.dumps(asdict(line), sort_keys=True).encode() + b"\n", 0o600)
        except OSError as error:
            raise PolicyError(f"the list of opt-outs cannot be written: {error.strerror}") from None
        return True


def _content(file: Path) -> bytes:
    return regular_bytes(file, REGISTRY_AT_MOST) if os.path.lexists(file) else b""


def _line_of(text: bytes) -> OptOutLine | None:
    try:
        return OptOutLine(**json.loads(text))
    except (ValueError, TypeError):
        return None


def _lines(file: Path) -> list[OptOutLine]:
    """The lines of a list. One that a crash cut is none: nobody was told of it, and the journal knows all that were."""
    try:
        *texts, tail = _content(file).split(b"\n")
        whole = [*texts, tail] if _line_of(tail) is not None else texts
        found = [OptOutLine(**json.loads(text)) for text in whole]
    except (ReleaseError, ValueError, TypeError):
        found = None
    if found is None or not all(_is_sound(line) for line in found):
        # Without its cause, which may quote a line.
        raise PolicyError(
            f"the list of opt-outs, {file.name} beside the policies of the home, is damaged: restore it from a backup"
        )
    return found


def _is_sound(line: OptOutLine) -> bool:
    texts = (line.member_id, line.reason, line.time)
    return all(isinstance(text, str) and text for text in texts) and isinstance(line.listed, bool)
