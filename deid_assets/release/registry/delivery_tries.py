"""The tries of one delivery and sample, read from the registry: which generalizations may still be tried, and when none."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from deid_assets.assessments.evidence import Refusal
from deid_assets.errors import RefusedError
from deid_assets.methods.lattice.candidate_gates import NOT_COARSER, REFUSED, Node
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.release.cumulative import releases_made
from deid_assets.release.keys import Secret
from deid_assets.release.publication.waiting import REGISTRY
from deid_assets.release.registry.chain import Registry
from deid_assets.release.registry.tries import SampleOfTry, Tried, Tries, ValueClasses, tries_of, what_is_next
from deid_assets.store.home import Home

AFTER_THE_LAST = (
    f"releases of this delivery and sample were refused {TRIES_AT_MOST} times because of what random draws measured, under "
    "whatever policies, and nothing of it has been published since: further tries would eventually pass an unsafe release by "
    "chance. Release another delivery, or a sample of at most two fifths or at least two and a half times the members"
)
REFUSED_BEFORE = (
    "this generalization was refused before because of what random draws measured on this delivery and sample, and none is "
    "judged twice. Change the policy so that another one is chosen"
)


@dataclass(frozen=True)
class DeliveryTries:
    """The tries of one delivery and sample.

    Parameters
    ----------
    home, secret
        Where releases and their registry are, and the secret of the home.
    subject, sample
        Keyed digest of what was taken in, and the sample.
    partitions
        The generalizations of one policy, by their effect on the values.
    """

    home: Home
    secret: Secret
    subject: str
    sample: SampleOfTry
    partitions: ValueClasses

    def read(self) -> Tries:
        """Read their current state from the registry."""
        # Manifests before the registry, so that a release published in between does not restart the count.
        registry = Registry(self.home.releases / REGISTRY)
        published = {
            (made.policy, made.number): made.tried
            for made in releases_made(self.home.store / "manifests", registry)
            if made.tried
        }
        return tries_of(registry.chain(), published, self.subject, self.sample.alike(self.secret))

    def at(self, levels: Mapping[str, int]) -> Tried:
        """The try in which draws are to judge a generalization.

        Raises
        ------
        RefusedError
            If no try is left: nothing may be measured then.
        """
        node = self.partitions.digest(levels)
        number = self.read().number_of(node)
        if number > TRIES_AT_MOST:
            raise RefusedError(f"refused: {AFTER_THE_LAST}.", AFTER_THE_LAST)
        return Tried(self.subject, self.sample.digest(self.secret), node, number)

    def refusals(self, tried: Tried) -> list[Refusal]:
        """Refuse a generalization that was refused before: its try is over, whatever is measured now."""
        if tried.node not in self.read().refused:
            return []
        return [Refusal("refused_before", "gate", None, None, REFUSED_BEFORE)]

    def choosing(self) -> int:
        """The number of the try in which a generalization is to be chosen.

        Raises
        ------
        RefusedError
            If no try is left.
        """
        tries = self.read()
        if tries.next > TRIES_AT_MOST:
            raise RefusedError(f"refused: {AFTER_THE_LAST}.", AFTER_THE_LAST)
        return tries.choosing

    def not_tried_again(self, nodes: Iterable[Node], levels_at: Callable[[Node], Mapping[str, int]]) -> dict[Node, str]:
        """The lattice nodes that get no further try, with the reason: those refused by chance, and all not above them.

        `levels_at` returns the level of every quasi-identifier at a node; it is asked only if something was refused.
        """
        refused = self.read().refused
        if not any(refused.values()):
            return {}
        nodes = list(nodes)
        before = {node for node in nodes if refused.get(self.partitions.digest(levels_at(node)))}
        return {
            node: REFUSED if node in before else NOT_COARSER
            for node in nodes
            if not all(_is_above(node, refused_node) for refused_node in before)
        }

    def require_not_refused(self, levels: Mapping[str, int]) -> None:
        """Refuse to choose a generalization that was refused before.

        Raises
        ------
        RefusedError
            If it was refused before.
        """
        if self.partitions.digest(levels) in self.read().refused:
            raise RefusedError(f"refused: {REFUSED_BEFORE}.", REFUSED_BEFORE)

    def is_still(self, tried: Tried) -> bool:
        """Whether no refusal or publication in the meantime makes this another try."""
        now = self.read()
        return now.number_of(tried.node) == tried.number and tried.node not in now.refused

    def advice(self, tried: Tried) -> str:
        """What comes next if only chance speaks against a generalization; else empty."""
        now = self.read()
        return what_is_next(now.next) if now.refused.get(tried.node) else ""


def _is_above(node: Node, other: Node) -> bool:
    """Whether a node is strictly coarser than another."""
    return node != other and all(own >= level for own, level in zip(node, other, strict=True))
