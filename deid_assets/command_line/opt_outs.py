"""What `deid member opt-out` says of an identifier before and after it is entered: whom it matches, and whom the list does."""

import click

from deid_assets.automation.in_use import policies_in_use
from deid_assets.errors import ReleaseError, how_many
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.withdrawals import withdrawn_members
from deid_assets.release.keyring import secret_of
from deid_assets.release.known_people import ALIKE, Known, known_people, remember, unmatched_note
from deid_assets.store.home import Home


def require_known(home: Home, member_id: str, unmatched_ok: bool) -> None:
    """Require that a delivery has a person who is about to opt out; where none tells who its people are, only say so.

    Raises
    ------
    ReleaseError
        If none has, and that was not expected.
    """
    if member_id in withdrawn_members([home.policies]):
        return
    known = known_people(home, [member_id], secret_of(home))
    if known.matched:
        return
    if not (known.looked_at or known.unread):
        click.echo("No delivery here tells yet whose its records are: the identifier is compared with the first one that does.")
        return
    said = "no person of any delivery here has this identifier, so that it would leave nobody out"
    if known.unread:
        said = (
            f"{how_many(known.unread, 'store')} could not be looked at, because a run is at work there or because of damage, "
            "and no person of any other delivery here has this identifier"
        )
    if known.alike:
        said += f"; one differs only in {ALIKE}"
    if not unmatched_ok:
        raise ReleaseError(
            f"{said}. Nothing was written. Write it as deliveries do{', or wait for the run' * bool(known.unread)}; or, if the "
            "person is in a delivery that is yet to come, say --unmatched-ok"
        )
    click.echo(f"Note: {said}.")


def say_consequences(home: Home) -> None:
    """Say how many of the home's list match nobody, and which policies take in no delivery any more."""
    listed, secret = withdrawn_members([home.policies]), secret_of(home)
    known = known_people(home, listed, secret)
    remember(home, known.matched, secret)
    policies = policies_in_use(home).values()
    if known.looked_at or known.unread:
        _say_unmatched(listed, known, [one for one in policies if not known.are_enough(listed, one.opt_outs.matched_at_least)])
    for one in policies:
        if listed and not one.has_events and one.person_column is None:
            click.echo(
                f"Policy {one.name} will take in no delivery any more: nothing tells which of its records are theirs. Name the "
                "column that identifies a person (role direct_identifier)."
            )


def _say_unmatched(listed: tuple[str, ...], known: Known, refusing: list[AnyPolicy]) -> None:
    note = unmatched_note("the home's list", listed, known)
    if note is not None:
        click.echo(note)
    for one in refusing:
        click.echo(
            f"Policy {one.name} refuses every delivery until at least the share {one.opt_outs.matched_at_least:g} of the list "
            "(opt_outs.matched_at_least) belongs to people of a delivery."
        )
