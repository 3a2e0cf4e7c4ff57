"""Which policies of a home are in use, and what happens to them by itself: watched deliveries, re-releases, retention.

The code location loads the policies in use only, so that its catalog shows what somebody answers for.

Policies are taken into use, and out of it, and restricted stores purged: the home's journal is told.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from deid_assets.dagster_internals import is_valid_cron_string
from deid_assets.errors import PolicyError
from deid_assets.policy.adoption import adopt
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.loading import SHIPPED, Policies, policies_in
from deid_assets.release.home_rules import require_allowed
from deid_assets.release.journal.chain import ADOPTED, PURGED, RETIRED, Remembered
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import secret_of
from deid_assets.release.publication.publish import Releases
from deid_assets.store import durable
from deid_assets.store.home import Home

DEFAULT_POLICY = "heritage_public"
"""The policy of `deid run` without a name; in use until it is retired."""

MARKER = "_SUCCESS"
"""The file that says that a delivery is complete, unless a policy's use names another one."""

FILE = "in_use.json"
_FORMAT = 1


@dataclass(frozen=True)
class Use:
    """How a home uses a policy.

    Attributes
    ----------
    deliveries
        Folder that is watched: every folder in it is a delivery once it contains the marker. None: nothing is watched.
    complete_when
        Name of the marker.
    schedule
        Cron expression (UTC): when the newest delivery is released again if anything changed. None: never by itself.
    fresh_days
        Days after which the newest release counts as overdue; None: never.
    retention_days
        Days after which `deid purge` removes the restricted store of a delivery; None: it is kept.
    retired
        Whether the code location leaves the policy out.
    """

    deliveries: str | None = None
    complete_when: str = MARKER
    schedule: str | None = None
    fresh_days: int | None = None
    retention_days: int | None = None
    retired: bool = False

    def __post_init__(self) -> None:
        if self.schedule is not None and not is_valid_cron_string(self.schedule):
            raise PolicyError("schedule: it must be a cron expression of five fields, such as '0 6 * * 1'")
        if not self.complete_when or Path(self.complete_when).name != self.complete_when:
            raise PolicyError("complete_when: it must be the name of a file in the delivery's folder")
        for name in ("fresh_days", "retention_days"):
            days = getattr(self, name)
            if days is not None and (not isinstance(days, int) or days < 1):
                raise PolicyError(f"{name}: it must be a whole number of days, 1 or more")


def uses_in(home: Home) -> dict[str, Use]:
    """What was stated about the use of each policy, by name.

    Raises
    ------
    PolicyError
        If the file cannot be read.
    """
    file = home.policies / FILE
    if not file.exists():
        return {}
    try:
        whole = json.loads(file.read_bytes())
        if whole["format"] != _FORMAT:
            raise ValueError
        return {name: Use(**stated) for name, stated in whole["policies"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise PolicyError(f"{file} cannot be read; remove it, and adopt the policies again with `deid policy adopt`") from None


def state_use(home: Home, policy: str, **changed: object) -> Use:
    """Change what is stated about the use of a policy; what is not named stays as it is.

    Parameters
    ----------
    changed
        Fields of `Use` with their new values.
    """
    with _locked(home):
        uses = uses_in(home)
        use = replace(uses.get(policy, Use()), **changed)  # type: ignore[arg-type]
        if uses.get(policy) != use:
            _write(home, uses | {policy: use})
    return use


def retired_in(home: Home) -> set[str]:
    """Names of the policies that are retired. What the journal knows as retired stays so, if an older file was put back."""
    stated = {name for name, use in uses_in(home).items() if use.retired}
    return stated | Remembered.of(HomeJournal(home).file.read()).retired


def policies_in_use(home: Home) -> Policies:
    """The policies in use: the default, those of the home, and those that were run or adopted; none retired.

    Raises
    ------
    PolicyError
        If what was stated about the use of policies, or the list of members who opted out, cannot be read.
    """
    uses = uses_in(home)
    known = policies_in(home.policies)
    own = {name for name, policy in known.items() if policy.origin.folder.path != SHIPPED.absolute()}
    run = {folder.name for folder in home.store.iterdir() if folder.is_dir()} if home.store.is_dir() else set()
    retired = retired_in(home)
    wanted = ({DEFAULT_POLICY} | own | run | set(uses)) - retired
    return Policies(
        {name: policy for name, policy in known.items() if name in wanted},
        {name: why for name, why in known.unusable.items() if name not in retired},
    )


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    with durable.locked(durable.owner_only(home.policies) / ".in_use.lock"):
        yield


def _write(home: Home, uses: Mapping[str, Use]) -> None:
    whole = {"format": _FORMAT, "policies": {name: asdict(use) for name, use in sorted(uses.items())}}
    durable.replace(home.policies / FILE, f"{json.dumps(whole, indent=1)}\n".encode(), 0o600)


def adopt_here(releases: Releases, policy: AnyPolicy, file: Path | None, **changed: object) -> AnyPolicy:
    """Take a policy into use, recorded in the journal unless it knows that text as the adopted one.

    Parameters
    ----------
    file
        Where it was read if it is from elsewhere: then `policy.adoption.adopt` keeps it in the home.
    changed
        What is stated about its use (`in_use.state_use`).

    Raises
    ------
    PolicyError
        If the policy may not be used (`home_rules.require_allowed`), or cannot be adopted.
    """
    with releases.deciding() as journal:
        require_allowed(releases.home, policy)
        adopted = policy.without_withdrawn(()) if file is None else adopt(releases.home, policy, file)
        known, is_retired = Remembered.of(journal.file.read()), adopted.name in retired_in(releases.home)
        if known.adopted.get(adopted.name) != adopted.hash or adopted.name in known.retired:
            journal.note(ADOPTED, {"policy": adopted.name, "record": adopted.hash}, releases.key)
        if changed or is_retired:
            state_use(releases.home, adopted.name, **changed | {"retired": False})
    return adopted


def retire_here(releases: Releases, policy: str) -> None:
    """Take a policy out of use, recorded in the journal."""
    with releases.deciding() as journal:
        state_use(releases.home, policy, retired=True)
        journal.note(RETIRED, {"policy": policy}, releases.key)


def note_purge(releases: Releases, policy: str, delivery: str) -> None:
    """Record in the journal that a restricted store is removed; a delivery's key may derive from a person's name."""
    digest = secret_of(releases.home).keyed_digest("purged delivery", policy, delivery)
    with releases.deciding() as journal:
        journal.note(PURGED, {"policy": policy, "delivery": digest}, releases.key)
