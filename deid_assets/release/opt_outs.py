"""Who opted out of every future release of a home: entered and taken back under the lock of its releases, and in its journal.

Whoever is in doubt stays out: a person is put on the list before the journal says so, and the journal says first that a
person is taken off. A process that dies in between leaves them on the list.
"""

from deid_assets.policy.withdrawals import OptOutLine, note, withdrawn_members
from deid_assets.release.journal.chain import OPTED_IN, PEOPLE, Remembered, person_digest
from deid_assets.release.keyring import secret_of
from deid_assets.release.publication.publish import Releases


def enter_opt_out(releases: Releases, line: OptOutLine) -> bool:
    """Put a person on the home's list of opt-outs, or take them off it; return whether that changed anything.

    People whom the list lost may be entered again, one after the other; nobody else, before all of them are there.

    Raises
    ------
    PolicyError
        If identifier or reason is empty, or the list cannot be read or written.
    ReleaseError
        If the home has lost anything else that its journal knows.
    """
    home = releases.home
    line.require_sound()
    with releases.deciding(despite=[PEOPLE] if line.listed and _is_listed(releases, line.member_id) else []) as journal:
        if not line.listed and line.member_id in withdrawn_members([home.policies]):
            secret = secret_of(home)
            about = {"person": person_digest(secret, line.member_id), "secret": secret.commitment()}
            journal.note(OPTED_IN, about, releases.key)
        changed = note(home.policies, line)
        journal.record(releases.key)
        return changed


def _is_listed(releases: Releases, member_id: str) -> bool:
    """Whether the journal says that the person is on the list."""
    listed = Remembered.of(releases.journal.file.read()).listed
    return bool(listed) and person_digest(secret_of(releases.home), member_id) in listed
