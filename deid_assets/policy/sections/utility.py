"""The section on what a release is good for: how that is measured, and how much must be left."""

from typing import Annotated, Literal

from pydantic import Field

from deid_assets.policy.sections.longitudinal import SMALLEST, Probability, Section, Share

Loss = Annotated[float, Field(ge=SMALLEST, le=10)]


class Utility(Section):
    """What the release is good for (methods#utility); a limit refuses a release that is of too little use."""

    model: Literal["ridge", "gradient_boosting"] | None = Field(
        "ridge",
        description="model that predicts days in hospital next year; gradient_boosting takes about half a "
        "minute for 20,000 members; null: nothing is predicted",
    )
    members_at_most: Annotated[int, Field(ge=1_000)] = Field(
        20_000, description="number of released members on whom predictions are measured; of more, a random sample"
    )
    folds: Annotated[int, Field(ge=2, le=20)] = Field(5, description="number of parts; each is predicted from the others")
    resamples: Annotated[int, Field(ge=200, le=10_000)] = Field(
        1_000, description="number of bootstrap samples of members, for the interval of the difference of scores"
    )
    score_loss_at_most: Loss | None = Field(
        None,
        description="highest loss of score (root mean squared error of log(1 + days)) from the delivery to the release, by its "
        "95 % upper bound; refuses if nothing can be predicted from the delivery; null: no gate",
    )
    distance_at_most: Probability | None = Field(
        None,
        description="highest total variation distance of any released column from the same column of the delivery; null: no "
        "gate",
    )
    association_change_at_most: Probability | None = Field(
        None, description="highest change of the association (Cramér's V) of any two released columns; null: no gate"
    )
    members_lost_at_most: Share | None = Field(
        None, description="highest share of sampled members who are left out of the release; null: no gate"
    )
