"""`deid policy new --from`: look at a delivery, and write a policy that `deid policy check` accepts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import DeliveryError, how_many
from deid_assets.policy.form import FORMAT
from deid_assets.policy.proposal.claims import BASE, propose_claims
from deid_assets.policy.proposal.flat import propose_flat
from deid_assets.policy.proposal.layouts import Recognized, recognize
from deid_assets.policy.proposal.looking import BESIDE, DeliveredTable, Look, look_at
from deid_assets.policy.proposal.writing import Text
from deid_assets.policy.scaffold import Heading, like_shipped, quoted_text, require_free_name, shipped_values, write_new

_KEYS = {"members": "member_id", "claims": "claim_id"}
_UNITS = {"members": ("person", "span"), "claims": ("claim", "claim line")}


@dataclass(frozen=True)
class Proposal:
    """A policy as it was written.

    Attributes
    ----------
    file
        Its file.
    recognized
        What was found in the delivery, a line for each table.
    doubts
        What somebody has to check, in the order of the policy.
    """

    file: Path
    recognized: tuple[str, ...]
    doubts: tuple[str, ...]


def propose(delivery: Path, file: Path, heading: Heading, folder: Path | None = None) -> Proposal:
    """Write a policy for a delivery. Names of its columns and files are in it, and no values.

    Parameters
    ----------
    delivery
        A file or a folder.
    file
        Where to write the policy; must not exist yet.
    heading
        What is said of the policy.
    folder
        As of `look_at`.

    Raises
    ------
    DeliveryError
        If the delivery cannot be read.
    PolicyError
        If the file exists already, or the arguments make no valid policy; nothing is then written.
    """
    require_free_name(file, heading.name)
    look = look_at(delivery, folder)
    found = recognize(look)
    lines = tuple(_recognized(look, found))
    text = Text()
    text.comment(
        "Proposed by `deid policy new --from` from the shapes and counts of a delivery. What to check is marked CHECK."
    )
    for line in lines:
        text.comment(line)
    if found.like is not None:
        text.lines.append("#")
        content = text.yaml + like_shipped(found.like, heading)
        doubts = (f"the thresholds, and whom they assume, are those of {found.like}",)
        return Proposal(write_new(file, content, heading), lines, doubts)
    text.add("format", FORMAT)
    text.add("policy", heading.name)
    for field, value in (("title", heading.title), ("description", heading.purpose)):
        text.lines.append(f"{field}: {quoted_text(value)}")
    text.lines.append(f"owners: {heading.owners_text}")
    text.check("who receives the release, and on what terms")
    text.add("recipients", {key: str(value).strip() for key, value in shipped_values(BASE)["recipients"].items()})
    if found.members is not None and found.claims is not None:
        propose_claims(text, heading.name, look, found)
    else:
        propose_flat(text, heading.name, look, _largest(delivery, look))
    written = write_new(file, text.yaml, heading, text.files)
    return Proposal(written, lines, tuple(text.doubts))


def _largest(delivery: Path, look: Look) -> DeliveredTable:
    if len(look.tables) > 1 and not any(table.rows > 1 for table in look.tables):
        raise DeliveryError(f"{delivery.name}: no table has more than one row")
    return max(look.tables, key=lambda table: table.rows)


def _recognized(look: Look, found: Recognized) -> Iterator[str]:
    """What the delivery contains, a line for each table."""
    if found.layout is not None:
        yield f"Layout: {found.layout}."
    used: list[DeliveredTable] = [one.table for one in found.further]
    if found.members is None or found.claims is None:
        largest = max(look.tables, key=lambda table: table.rows)
        yield f"{largest.shown}: a flat table, {_size(largest)}"
        used = [largest]
    else:
        for role, (table, known) in (("members", found.members), ("claims", found.claims)):
            used.append(table)
            key = table.column(known.columns.get(_KEYS[role], ""))
            unit = "" if key is None else f", one row per {_UNITS[role][key.distinct < key.filled]}"
            yield f"{table.shown}: {role}{unit}, {_size(table)}"
        for table, role in found.also if found.like is not None else ():
            used.append(table)
            yield f"{table.shown}: {role}, {_size(table)}"
        used += [*(table for table, _ in found.events), *found.vocabulary.values()]
        for table, events in found.events if found.like is None else ():
            yield f"{table.shown}: {events.name}, a table of events, {_size(table)}"
        for table in found.vocabulary.values():
            yield f"{table.shown}: says what concepts mean, {_size(table)}"
        for one in found.further:
            what = "for you to describe or to leave out" if one.left_out is None else "left out"
            yield f"{one.table.shown}: {one.holds}, {what}, {_size(one.table)}"
    others = [table for table in look.tables if table not in used]
    if others:
        yield f"not used: {', '.join(f'{table.shown} ({_size(table)})' for table in others)}"
    for why in dict.fromkeys(look.passed_over.values()):
        passed = [name for name, reason in look.passed_over.items() if reason == why]
        yield f"not looked at: {how_many(len(passed), 'file ._*', 'files ._*') if why == BESIDE else ', '.join(passed)}: {why}"
    if look.packed:
        yield "A run reads no zip file of several tables: unpack it into a folder."


def _size(table: DeliveredTable) -> str:
    return f"{how_many(table.rows, 'row')}, {how_many(len(table.columns), 'column')}"
