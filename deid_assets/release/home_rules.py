"""Rules of a home, which stand above its policies: whether a person approves, for whom and how strictly is released.

They are a YAML file in the restricted store, and the journal has their digest: a file that was changed or removed by hand is
noticed before anything is decided. Whoever could approve a release may change or drop them.
"""

import os
from collections.abc import Iterator
from typing import Self

import yaml
from pydantic import Field, ValidationError, model_validator

from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.sections.approval import PersonName
from deid_assets.policy.sections.longitudinal import Said, Section
from deid_assets.release.journal.chain import RULES, RULES_LOST, Remembered
from deid_assets.release.journal.home_journal import RULES_FILE, RULES_NAME
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.waiting import FOLDER, REGISTRY, waiting_numbers
from deid_assets.release.registry.chain import Registry
from deid_assets.store import durable
from deid_assets.store.digests import SMALL_AT_MOST, bytes_digest, kept_bytes
from deid_assets.store.home import Home

EVERYBODY = "*"
"""In `laxest`: policies for every class of recipients."""


class LaxestNumber(Section):
    """The laxest value of a number in a policy."""

    at_most: float | None = Field(None, description="the policy's number may not be larger")
    at_least: float | None = Field(None, description="the policy's number may not be smaller")

    @model_validator(mode="after")
    def _limits(self) -> Self:
        if self.at_most is None and self.at_least is None:
            raise ValueError("must say at_most or at_least")
        return self


class HomeRules(Section):
    """What every policy of a home has to keep to.

    Parameters
    ----------
    approvers
        Names of whom at least one approves each release; a policy may list only these. Empty: no approval is needed.
    recipient_classes, kinds
        Which a policy may have; None for any.
    laxest
        By class of recipients, or "*": dotted key of a policy -> its laxest value, such as risk.k. A class is a policy's own
        text: where limits are stated by class, a policy of a class that neither has limits nor is listed is refused.
    ungated_at_most
        The worst number of an adversary that no gate limits may not be larger, unless the policy has a sentence under
        `accepted_risks` or a person approves. None for any.
    """

    approvers: tuple[PersonName, ...] = ()
    recipient_classes: tuple[Said, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    laxest: dict[Said, dict[Said, LaxestNumber]] = Field(default_factory=dict)
    ungated_at_most: float | None = Field(None, ge=0, le=1)

    def problems(self, policy: AnyPolicy) -> Iterator[str]:
        """Say where a policy is laxer than the rules."""
        if self.kinds is not None and policy.kind not in self.kinds:
            yield f"policies of the kind {policy.kind} are not allowed (kinds: {', '.join(self.kinds)})"
        recipients = policy.recipients.recipient_class
        if self.recipient_classes is not None and recipients not in self.recipient_classes:
            yield f"recipients.recipient_class: {recipients!r} is not allowed ({', '.join(self.recipient_classes)})"
        by_class = set(self.laxest) - {EVERYBODY}
        if by_class and self.recipient_classes is None and recipients not in by_class:
            yield (
                f"recipients.recipient_class: the rules state limits for {', '.join(sorted(by_class))}, and none for "
                f"{recipients!r}: name it under laxest, or under recipient_classes"
            )
        if self.approvers:
            named = () if policy.approval is None else policy.approval.by
            if not named:
                names = " or ".join(self.approvers)
                yield f"every release needs the approval of a person: add the section approval with {names}"
            elif set(named) - set(self.approvers):
                yield f"approval.by: only {', '.join(self.approvers)} may approve"
        for whom in (EVERYBODY, recipients):
            for key, limit in self.laxest.get(whom, {}).items():
                yield from _laxer(policy, key, limit)


_STRICTEST_IF_NULL = ("adversary.total", "adversary.everything_known_at_most")
"""Numbers that a policy states only where it is laxer than without them."""


def _laxer(policy: AnyPolicy, key: str, limit: LaxestNumber) -> Iterator[str]:
    value: object = policy
    for part in key.split("."):
        value = getattr(value, part, None)
    if value is None and key in _STRICTEST_IF_NULL and policy.has_events:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{key}: the policy states no number, and the rules ask for one"
    elif limit.at_most is not None and value > limit.at_most:
        yield f"{key}: {value:g} is more than {limit.at_most:g}"
    elif limit.at_least is not None and value < limit.at_least:
        yield f"{key}: {value:g} is less than {limit.at_least:g}"


def rules_from(text: bytes, where: str) -> HomeRules:
    """Read rules from YAML.

    Raises
    ------
    PolicyError
        If they are none; with every problem.
    """
    try:
        stated = yaml.safe_load(text)
        if not isinstance(stated, dict):
            raise PolicyError(f"{where} must contain rules, such as approvers: [Anna Muster]")
        return HomeRules.model_validate({key: tuple(one) if isinstance(one, list) else one for key, one in stated.items()})
    except yaml.YAMLError:
        raise PolicyError(f"{where} is no YAML") from None
    except ValidationError as error:
        listed = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise PolicyError(f"{where} cannot be used: {listed}") from None


def rules_of(home: Home) -> HomeRules:
    """The rules of a home; none forbid nothing.

    Raises
    ------
    PolicyError, ReleaseError
        If they cannot be read.
    """
    file = home.store / RULES_FILE
    if not os.path.lexists(file):
        return HomeRules()
    return rules_from(kept_bytes(file, RULES_NAME, SMALL_AT_MOST), f"the rules of the home ({file})")


def require_rules(home: Home, policy: AnyPolicy) -> None:
    """Refuse a policy that is laxer than the rules of the home.

    Raises
    ------
    PolicyError
        With every rule that it breaks.
    """
    found = list(rules_of(home).problems(policy))
    if found:
        raise PolicyError(
            f"policy {policy.name} is laxer than the rules of this home: {'; '.join(found)}. `deid rules show` prints them"
        )


def require_allowed(home: Home, policy: AnyPolicy) -> None:
    """`require_rules`, and refuse a policy without approval while a release of its name waits for one.

    Raises
    ------
    PolicyError
        If the policy may not be used, or not yet.
    """
    require_rules(home, policy)
    chain = Registry(home.releases / REGISTRY).chain()
    waiting = [
        number
        for number in waiting_numbers(home.store / "manifests" / FOLDER, policy.name)
        if chain.find(policy.name, number) is None and (policy.name, number) not in chain.rejected
    ]
    if waiting and policy.approval is None:
        name = f"{policy.name}/{waiting[0]:04d}"
        raise PolicyError(
            f"policy {policy.name} asks for no approval, and release {name} of the policy of that name waits for one: "
            f"`deid approve {name}` or `deid reject {name}` first, or keep the section approval"
        )


def change_rules(releases: Releases, text: bytes | None, by: str, where: str) -> None:
    """Put rules in force, or drop those that are; the journal gets their digest and the name.

    Parameters
    ----------
    text
        As YAML; None drops them.
    by
        Who changes them: somebody whom the rules in force name as approver, if they name anybody.

    Raises
    ------
    PolicyError, ReleaseError
        If the rules cannot be used, or this person may not change those in force.
    """
    if text is not None:
        rules_from(text, where)
    if not by.strip():
        raise ReleaseError("a change of the rules needs the name of who makes it")
    file = durable.owner_only(releases.home.store) / RULES_FILE
    with releases.deciding(despite=[RULES_LOST]) as journal:
        approvers = Remembered.of(journal.file.read()).approvers
        if approvers and by not in approvers:
            raise ReleaseError(f"the rules in force may be changed only by {', '.join(approvers)}")
        named = [] if text is None else list(rules_from(text, where).approvers)
        digest = "" if text is None else bytes_digest(text)
        if text is None:
            file.unlink(missing_ok=True)
        else:
            durable.replace(file, text, 0o600)
        journal.note(RULES, {"rules": digest, "approvers": named, "by": by}, releases.key)
