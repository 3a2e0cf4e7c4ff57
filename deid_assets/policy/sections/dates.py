"""The section of a policy that releases dates (El Emam & Arbuckle 2013, ch. 5; methods#dates)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from deid_assets.policy.sections.longitudinal import ClassSize, ColumnName, OneOf, Probability, Section
from deid_assets.reference.known_columns import STAYS

Width = Annotated[int, Field(ge=2, le=366)]


class NarrowerBins(Section):
    """Local recoding: members of large classes get their intervals from narrower bins."""

    width: Width = Field(description="days per bin of intervals, for members of large classes")
    class_size_at_least: ClassSize = Field(
        description="number of members of the delivery with the same sex and the same ten years of age that makes a class large"
    )


class ConnectedDate(Section):
    """A second date of a claim, which keeps its released distance to the date of service."""

    offset: Annotated[str, OneOf((*STAYS, "pay_delay"))] = Field(
        description="its distance to the date of service, as far as the release shows it: the length of stay gives the "
        "discharge, the payment delay the payment"
    )
    release_as: ColumnName = Field(description="name of the column in the release")


class Dates(Section):
    """Dates of service, redrawn within generalized intervals around an anchor."""

    release_as: ColumnName = Field("ServiceDate", description="name of the column in the release")
    format: Literal["dates", "days_since_first_service"] = Field(
        "dates", description="real dates, or days since the member's first service"
    )
    anchor: Literal["month", "quarter", "half_year", "year"] = Field(
        "month", description="period in which the date of birth, or else of the first service, becomes a random day"
    )
    width: Width = Field(7, description="days per bin of intervals; a new interval is drawn from its bin")
    narrower: NarrowerBins | None = Field(None, description="narrower bins for members of large classes; null: none")
    study_end: Literal["redraw", "clip"] = Field(
        "redraw", description="dates that leave the years of the delivery are drawn again, or set to the first or last day"
    )
    derived: Literal["recompute", "drop"] = Field(
        description="whether length of stay, payment delay and days since first claim are computed again from the released "
        "dates, or not released: their true values would undo the drawing"
    )
    connected: tuple[ConnectedDate, ...] = Field(
        (),
        description="dates connected to that of service; each follows from the released distance and tells nothing beyond it",
    )
    intervals_known: Literal["alone", "in_order"] = Field(
        "alone",
        description="what an adversary may know of intervals: each alone, or also which followed which, so that service_order, "
        "the bins of the two intervals before a service, must be listed as a quasi-identifier",
    )
    ordered_services_at_most: Probability | None = Field(
        None,
        description="highest share of released members whose demographics and most dangerous three consecutive services, in "
        "order, are shared by too few members of the population; null: measured and reported",
    )

    @model_validator(mode="after")
    def _narrower_is_narrower(self) -> "Dates":
        if self.narrower is not None and self.narrower.width >= self.width:
            raise ValueError(f"narrower.width is {self.narrower.width}: it must be below width, {self.width}")
        return self

    @property
    def narrowest(self) -> int:
        """Days in the narrowest bin that intervals are drawn from; some members' release is that precise."""
        return self.width if self.narrower is None else self.narrower.width

    @property
    def columns(self) -> tuple[str, ...]:
        """The quasi-identifiers by which the dates are judged; without them the dates would be released unjudged."""
        period = ("service_period",) if self.format == "dates" else ()
        return ("service_interval", *period, *(("service_order",) if self.intervals_known == "in_order" else ()))
