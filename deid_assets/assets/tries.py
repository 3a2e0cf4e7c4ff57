"""The tries of the judged delivery and sample: read from the registry, and recorded there when one is refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dagster as dg

from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.assets.publishing import releases_of
from deid_assets.assets.random_streams import taken_in_digest
from deid_assets.methods.lattice.candidate_gates import NOT_COARSER, REFUSED, Node
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.policy.models import Policy
from deid_assets.release.publication.recovery import REGISTRY
from deid_assets.release.registry.chain import Registry
from deid_assets.release.registry.tries import Partitions, Sample, Tried, Tries, refused_by_draws, tries_of, what_is_next
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table

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
    subject, sample
        Keyed digest of what was taken in, and the sample.
    partitions
        The generalizations of one policy, by their effect on the values.
    """

    workplace: Workplace
    subject: str
    sample: Sample
    partitions: Partitions

    def read(self) -> Tries:
        """Read their current state from the registry."""
        # Manifests before the registry, so that a release published in between does not restart the count.
        published = {(made.policy, made.number): made.tried for made in self.workplace.releases_made() if made.tried}
        chain = Registry(self.workplace.home.releases / REGISTRY).chain()
        return tries_of(chain, published, self.subject, self.sample.alike(self.workplace.secret()))

    def at(self, levels: Mapping[str, int]) -> Tried:
        """The try in which draws are to judge a generalization.

        Raises
        ------
        dagster.Failure
            If no try is left: nothing may be measured then.
        """
        node = self.partitions.digest(levels)
        number = self.read().number_of(node)
        if number > TRIES_AT_MOST:
            raise none_left()
        return Tried(self.subject, self.sample.digest(self.workplace.secret()), node, number)

    def refusals(self, tried: Tried) -> list[Refusal]:
        """Refuse a generalization that was refused before: its try is over, whatever is measured now."""
        if tried.node not in self.read().refused:
            return []
        return [Refusal("refused_before", "gate", None, None, REFUSED_BEFORE)]

    def choosing(self) -> int:
        """The number of the try in which a generalization is to be chosen.

        Raises
        ------
        dagster.Failure
            If no try is left.
        """
        tries = self.read()
        if tries.next > TRIES_AT_MOST:
            raise none_left()
        return tries.choosing

    def not_tried_again(self, levels: Mapping[Node, Mapping[str, int]]) -> dict[Node, str]:
        """The lattice nodes that get no further try, with the reason: those refused by chance, and all not above them.

        `levels` is the level of every quasi-identifier at each node.
        """
        refused = self.read().refused
        if not any(refused.values()):
            return {}
        before = [node for node, own in levels.items() if refused.get(self.partitions.digest(own))]
        return {
            node: REFUSED if node in before else NOT_COARSER
            for node in levels
            if not all(_is_above(node, refused_node) for refused_node in before)
        }

    def require_not_refused(self, levels: Mapping[str, int]) -> None:
        """Refuse to choose a generalization that was refused before.

        Raises
        ------
        dagster.Failure
            If it was refused before.
        """
        if self.partitions.digest(levels) in self.read().refused:
            raise dg.Failure(f"refused: {REFUSED_BEFORE}.", metadata={"refused": True}, allow_retries=False)

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


def delivery_tries(
    context: dg.AssetExecutionContext, policy: Policy, workplace: Workplace, profiles: Table, domains: Table
) -> DeliveryTries:
    """The tries of the delivery and sample of the running asset."""
    secret = workplace.secret()
    size = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    return DeliveryTries(
        workplace,
        secret.keyed_digest("delivery of a try", taken_in_digest(context)),
        Sample(policy.sample.keyed_by, size),
        Partitions(domains.frame(), secret),
    )


def note_if_refused(workplace: Workplace, tried: Tried, measured: Iterable[Measurement]) -> None:
    """Record a try that draws refuse in the registry; call it before any measurement is reported."""
    by_chance = refused_by_draws(measured)
    if by_chance is not None:
        releases_of(workplace).note_refused(tried, by_chance)


def none_left() -> dg.Failure:
    """The refusal if every try of a delivery and sample was refused."""
    return dg.Failure(f"refused: {AFTER_THE_LAST}.", metadata={"refused": True}, allow_retries=False)
