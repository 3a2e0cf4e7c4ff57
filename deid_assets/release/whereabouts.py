"""Which releases of a home hold a person. Restricted: the answer is about somebody, and goes to the terminal only."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from deid_assets.release.cumulative import Made, tags_in_order
from deid_assets.release.keys import Secret


@dataclass(frozen=True)
class Whereabouts:
    """What is known of one member in one release.

    Attributes
    ----------
    release, delivery
        The release as policy and number, and the key of its delivery.
    released
        Whether the member is in it; None if nobody can tell: it was made with another secret, or nothing identifies
        whose its records are.
    """

    release: str
    delivery: str
    released: bool | None


def whereabouts(member_id: str, made: Iterable[Made], secret: Secret) -> tuple[Whereabouts, ...]:
    """Look for a member in every release.

    Parameters
    ----------
    member_id
        Identifier, as deliveries write it.
    made
        Every release, `cumulative.releases_made`.
    secret
        That of the home, under which members are tagged.
    """
    tag, commitment = tags_in_order([member_id], secret)[0], secret.commitment()

    def released(one: Made) -> bool | None:
        if not len(one.tags) or one.commitment != commitment:
            return None
        return bool(np.isin(tag, one.tags))

    return tuple(Whereabouts(one.name, one.delivery, released(one)) for one in made)
