"""The graph of materializations behind a release, as the event log recorded it when each was made."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from deid_assets.release.lineage.records import Materialized

Fetch = Callable[[str, int], Materialized | None]
"""Reads the materialization of an asset by the number of its event; None if the log has no such event."""


@dataclass(frozen=True)
class Lineage:
    """Everything that a release was made from.

    Attributes
    ----------
    release
        The materialization of the release.
    before
        Every materialization that it was made from, by key of its asset, and those that its manifest names besides.
    lost
        (asset, input) pairs: the asset was made from an event of the input that the log no longer contains.
    differing
        Assets of which two versions were read on the way to the release.
    outside
        Assets of others that were read and have no event in the log, such as a table that another system writes.
    """

    release: Materialized
    before: Mapping[str, Materialized]
    lost: tuple[tuple[str, str], ...] = ()
    differing: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """The part of the keys that the release and the assets of its policy share."""
        return self.release.asset.rpartition("/")[0]

    def named(self, name: str) -> Materialized | None:
        """The materialization of the policy's asset with this name."""
        return self.before.get(f"{self.prefix}/{name}")

    @cached_property
    def depths(self) -> dict[str, int]:
        """By asset: the number of arrows on the longest path that leads to it; inputs come before what is made of them."""
        found: dict[str, int] = {}
        for asset in self._in_order:
            known = self._all[asset].inputs
            found[asset] = 1 + max((found[one] for one in known if one in found), default=-1)
        return found

    def arrows(self) -> list[tuple[str, str]]:
        """Input and asset of each arrow, without those that a longer path already shows.

        Examples
        --------
        >>> def made(asset, event, **inputs):
        ...     return Materialized(asset, event, "run", "", None, None, None, inputs)
        >>> lineage = Lineage(made("c", 3, a=1, b=2), {"a": made("a", 1), "b": made("b", 2, a=1)})
        >>> lineage.arrows()
        [('a', 'b'), ('b', 'c')]
        """
        reach: dict[str, set[str]] = {}
        shown = []
        for asset in self._in_order:
            inputs = [one for one in self._all[asset].inputs if one in self._all]
            behind = {one: set().union(*(reach[other] for other in inputs if other != one)) for one in inputs}
            shown += [(one, asset) for one in inputs if one not in behind[one]]
            reach[asset] = set(inputs).union(*(reach[one] for one in inputs))
        return shown

    @property
    def _all(self) -> dict[str, Materialized]:
        return {**self.before, self.release.asset: self.release}

    @cached_property
    def _in_order(self) -> tuple[str, ...]:
        """Every asset after its inputs: an event is newer than those it was made from."""
        return tuple(made.asset for made in sorted(self._all.values(), key=lambda one: one.event))


def lineage_of(release: Materialized, fetch: Fetch, besides: Iterable[Materialized] = ()) -> Lineage:
    """Follow the inputs of a release through the log, whatever assets they are.

    Parameters
    ----------
    release
        The materialization of the release.
    fetch
        Reads the event log.
    besides
        Materializations that the manifest names although the release did not read them.
    """
    before = {made.asset: made for made in besides}
    prefix = release.asset.rpartition("/")[0]
    lost: set[tuple[str, str]] = set()
    differing: set[str] = set()
    outside: set[str] = set()
    waiting = [release, *before.values()]
    while waiting:
        made = waiting.pop()
        for asset, event in made.inputs.items():
            known = before.get(asset)
            if known is not None:
                if known.event != event:
                    differing.add(asset)
                continue
            found = None if event is None else fetch(asset, event)
            if found is not None:
                before[asset] = found
                waiting.append(found)
            elif event is None and asset.rpartition("/")[0] != prefix:
                outside.add(asset)
            else:
                lost.add((made.asset, asset))
    return Lineage(release, before, tuple(sorted(lost)), tuple(sorted(differing)), tuple(sorted(outside)))
