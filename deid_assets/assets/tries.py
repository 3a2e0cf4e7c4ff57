"""The tries of a running asset: of its delivery and sample, and recorded when draws refuse one."""

from collections.abc import Iterable

from deid_assets.assessments.evidence import Measurement
from deid_assets.assets.publishing import releases_of, tell_witnesses
from deid_assets.assets.random_streams import taken_in_digest
from deid_assets.assets.step import Step
from deid_assets.methods.population.encoding import released_members
from deid_assets.policy.models import Policy
from deid_assets.release.registry.delivery_tries import DeliveryTries
from deid_assets.release.registry.tries import Partitions, Sample, Tried, refused_by_draws
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table


def delivery_tries(step: Step[Policy], profiles: Table, domains: Table) -> DeliveryTries:
    """The tries of the delivery and sample of the running asset."""
    policy, secret = step.policy, step.secret
    size = len(released_members(profiles))
    return DeliveryTries(
        step.home,
        secret,
        secret.keyed_digest("delivery of a try", taken_in_digest(step)),
        Sample(policy.sample.keyed_by, size),
        Partitions(domains.frame(), secret, policy.origins),
    )


def note_if_refused(workplace: Workplace, tried: Tried, measured: Iterable[Measurement]) -> None:
    """Record a try that draws refuse in the registry; call it before any measurement is reported."""
    by_chance = refused_by_draws(measured)
    if by_chance is not None:
        releases = releases_of(workplace)
        releases.note_refused(tried, by_chance)
        tell_witnesses(releases)
