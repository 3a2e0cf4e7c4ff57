"""The section `approval`: a person decides about every release that passed the gate."""

from typing import Annotated

from pydantic import AfterValidator, Field

from deid_assets.policy.sections.longitudinal import Said, Section


def _plain_name(name: str) -> str:
    if name != name.strip() or not name.isprintable():
        raise ValueError("a name has no blanks around it and no control characters")
    return name


PersonName = Annotated[Said, AfterValidator(_plain_name)]


class Approval(Section):
    """Who must approve a release before it is published, and within what time.

    A release that passed the gate waits in the restricted store. `deid approve` publishes it, and the signed manifest states
    who approved it; `deid reject` records why it is not published.
    """

    by: tuple[PersonName, ...] = Field(
        min_length=1, description="names of those who may approve; published with the policy and in the manifest"
    )
    within_days: int = Field(
        14, ge=1, le=365, description="days for which a release may be approved after it passed the gate; later it is refused"
    )
