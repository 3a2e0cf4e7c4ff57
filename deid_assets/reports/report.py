"""The release report: one HTML file that is published with the release, for its recipients and for auditors.

It is public and contains public numbers only. What anybody can count in the released files is exact; all
other counts of people are protected. `manifest_content` fills the report from the public edition of the manifest.

The file needs nothing else: style and figures are inside, there is no script, and a content security policy forbids
every request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined

from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import ComparisonRow, ReportTable, data_uri, shown, shown_bound, words
from deid_assets.methods.counts.tables import HIDDEN, SMALL

Number = float | int | str | None

LIMITS = (
    "Bounds cover only Monte Carlo error: how far a simulation with this many draws may be off. They do not cover the error "
    "of class sizes estimated for the population, or the choice of what an adversary is assumed to know.",
    "The modeled adversary knows demographics and some values of each quasi-identifier, without error. An adversary who "
    "knows other things, or which values belong to the same claim, is not covered unless a measurement says so.",
    "Counts of people are protected unless the released files disclose them: noise with a standard deviation of 2.5 is "
    "added. Protected counts need not add up, and small ones may be negative. Shares computed from them may lie below 0 or "
    "above 100 %. T stands for a share among fewer than 11 people, by the noisy count.",
    "Attribute disclosure is measured within classes of members with the same demographics. What can be inferred from other "
    "columns is measured with the models named; a better model may find more.",
    "People who opted out are left out by the identifiers that they were listed with. How many of these match nobody is in no "
    "published document, because that would tell who was delivered; the publisher sees it.",
)
"""What the numbers do not say (methods#confidence, methods#attribute-disclosure)."""

FLAT_LIMITS = (
    "The modeled adversary knows the quasi-identifiers of one person, without error, and nothing else about the record.",
    *LIMITS[2:3],
    "Attribute disclosure is measured within classes. What other columns predict about everyone with such a record, without "
    "identifying anybody, is not measured.",
    *LIMITS[4:],
)
"""The same for a flat table, in which classes are counted and nothing is simulated."""


@dataclass(frozen=True)
class ReportedGate:
    """One gate: what was measured, and what it had to satisfy.

    Attributes
    ----------
    name, meaning
        Name of the measurement, and what it says in plain words.
    measured, bound, threshold
        Shares and probabilities as fractions; 'T' or None where the public may not see the number.
    passed
        Whether the gate let the release pass.
    unit
        As in the evidence: 'share of draws', 'probability', 'members' ... . Shares and probabilities show in per cent.
    comparison
        'at_most' or 'at_least'.
    group
        Of many alike, such as "canaries": those that passed are one row of the report.
    noisy
        Whether the number shown has noise that hides single people; the exact one was compared with the threshold.
    """

    name: str
    meaning: str
    measured: Number
    bound: Number
    threshold: Number
    passed: bool
    unit: str = "probability"
    comparison: Literal["at_most", "at_least"] = "at_most"
    group: str = ""
    noisy: bool = False

    @property
    def said(self) -> str:
        """What it says, and why a number is not shown where it is not."""
        if self.measured is None:
            return f"{self.meaning} The number is not shown, because it would disclose exactly how many people there are."
        return f"{self.meaning} T: a share among fewer than 11 people." if self.measured == "T" else self.meaning


@dataclass(frozen=True)
class GeneralizationRow:
    """A quasi-identifier and the name of its level, such as AgeAtFirstClaim and '10 years'; and what is left of it.

    Attributes
    ----------
    classes
        How many classes of how many, in words.
    kept
        Share of its information that is left, as text.
    heritage
        The level that the Heritage Health Prize published; empty where no such column is shown.
    """

    quasi_identifier: str
    level: str
    classes: str = ""
    kept: str = ""
    heritage: str = ""


@dataclass(frozen=True)
class AdversaryRow:
    """An adversary with the worst number.

    Attributes
    ----------
    name, who
        Of the assessment, and who the adversary is.
    measurement, worst, limit, accepted
        The number, its limit and who accepts it, as text.
    share, limit_share
        The same numbers, 0 to 1; `limit_share` is None where no gate limits the number.
    """

    name: str
    who: str
    measurement: str
    worst: str
    limit: str
    accepted: str
    share: float
    limit_share: float | None


@dataclass(frozen=True)
class AttritionRow:
    """Rows in and out of a stage, as the public edition of the manifest shows them; None where it does not.

    Raises
    ------
    ReleaseError
        If a count is neither a whole number nor the mark of a masked one.
    """

    stage: str
    unit: str
    rows_in: int | str | None
    rows_out: int | str | None
    reason: str = ""

    def __post_init__(self) -> None:
        for count in (self.rows_in, self.rows_out):
            if count not in (None, SMALL, HIDDEN) and (isinstance(count, bool) or not isinstance(count, int)):
                raise ReleaseError(
                    f"report, attrition, stage {self.stage!r}: a count is not protected; give a whole number, {SMALL}, "
                    f"{HIDDEN} or None"
                )


@dataclass(frozen=True)
class ReportFigure:
    """An SVG or PNG drawn from public numbers; `alt` says what it shows to those who do not see it.

    A `wide` one keeps its size on a narrow screen, where it scrolls sideways: its text would be too small else.
    """

    title: str
    caption: str
    image: bytes
    alt: str = ""
    wide: bool = False

    @property
    def source(self) -> str:
        """The image as a data URI."""
        return data_uri(self.image)


@dataclass(frozen=True)
class CertificateRow:
    """A node of the certificate: the chosen one, or one directly below it; shares as fractions.

    `lower` is None where the share has an upper bound only, as that of the gate.
    """

    node: str
    share: float
    lower: float | None
    upper: float | None
    decision: str
    chosen: bool = False


@dataclass(frozen=True)
class ReportContent:
    """All that the report says. Texts may come from a policy: they are escaped, whatever they hold.

    Attributes
    ----------
    title
        Heading of the report.
    release_number, policy_name, policy_title, delivery, created
        Which release: its number (None where nothing was released), the policy, the keyed digest of the delivery's key, the
        time in ISO 8601.
    recipient_class, terms_of_use
        Who may receive it, under which terms.
    verdict
        'published' or 'refused'.
    summary
        One sentence that says why.
    remarks
        What is said before the summary: what a person overruled, and where the policy is lax.
    notes
        What a reader must know beside the verdict: what the release still discloses, and what no gate limits.
    further
        What else there is to know: approval, tries, the cost of noise.
    adversaries
        Each adversary with the worst number, the worst first; none where nothing was released.
    gates, generalization, attrition, figures, certificate, comparison, disclosure
        The rows of the sections; a section without rows is left out.
    files
        The released files, as the manifest lists them: path, bytes, SHA-256 in hexadecimal, and rows where it is a table.
    limits
        What the numbers do not say.
    dates
        Notes about released dates.
    levels
        Every level that the columns could have had, beside the published ones.
    rare, joined
        Labels that few released members have, and the YAML of levels without them.
    counts
        Who the eligible members are, by published counts, and sums of what they have.
    utility
        What the release is good for.
    reasons, diagnosis
        Why nothing was released, and what carries the risk; of a refused run.
    """

    title: str
    release_number: int | None
    policy_name: str
    policy_title: str
    delivery: str
    created: str
    recipient_class: str
    terms_of_use: str
    verdict: Literal["published", "refused"]
    summary: str
    gates: tuple[ReportedGate, ...]
    adversaries: tuple[AdversaryRow, ...] = ()
    generalization: tuple[GeneralizationRow, ...] = ()
    attrition: tuple[AttritionRow, ...] = ()
    figures: tuple[ReportFigure, ...] = ()
    certificate: tuple[CertificateRow, ...] = ()
    comparison: tuple[ComparisonRow, ...] = ()
    disclosure: tuple[ReportTable, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    limits: tuple[str, ...] = LIMITS
    dates: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    levels: ReportTable | None = None
    rare: ReportTable | None = None
    counts: tuple[ReportTable, ...] = ()
    utility: tuple[ReportTable, ...] = ()
    joined: str = ""
    reasons: tuple[str, ...] = ()
    diagnosis: ReportTable | None = None

    def __post_init__(self) -> None:
        if self.verdict == "published" and not (self.gates and all(gate.passed for gate in self.gates)):
            raise ReleaseError("the report says published, but a gate did not pass or there are no gates")
        if (self.verdict == "published") != (self.release_number is not None):
            raise ReleaseError("a published release has a number, and a refused one has none")


_FOLDED = {
    "canaries": ("canaries found", "Every assessment found the canaries planted in a copy of its data as often as it must."),
    "columns": (
        "columns published as they are",
        'What these columns disclose about quasi-identifiers, and whether they look like identifiers. The table "Columns '
        'published as they are" shows each number.',
    ),
}
"""Groups of gates that are one row each where they passed: name, and what it says."""


def folded_gates(gates: Sequence[ReportedGate]) -> tuple[tuple[ReportedGate, ...], tuple[tuple[str, str, int], ...]]:
    """The gates that have a row of their own, and (name, what it says, how many) of each group of which all passed."""
    folded = {
        group: len(own)
        for group in _FOLDED
        if len(own := [gate for gate in gates if gate.group == group]) > 1 and all(gate.passed for gate in own)
    }
    return (
        tuple(gate for gate in gates if gate.group not in folded),
        tuple((*_FOLDED[group], count) for group, count in folded.items()),
    )


NEAREST = 12
"""Gates that the figure shows."""


def nearest_gates(gates: Sequence[ReportedGate]) -> tuple[tuple[ReportedGate, float], ...]:
    """The gates nearest to their limits, each with the part of the limit that is used, the nearest first.

    The bound counts where there is one, because the gate compares it. Those that use nothing are left out.
    """
    used = []
    for gate in gates:
        measured = gate.measured if gate.bound is None else gate.bound
        numbers = [one for one in (measured, gate.threshold) if isinstance(one, int | float)]
        if gate.group == "canaries" or len(numbers) < 2 or min(numbers) <= 0:
            continue
        share = numbers[0] / numbers[1] if gate.comparison == "at_most" else numbers[1] / numbers[0]
        used.append((gate, min(share, 1.0)))
    return tuple(sorted(used, key=lambda one: (-one[1], one[0].name))[:NEAREST])


def render_report(content: ReportContent) -> bytes:
    """Render the report: one HTML file in UTF-8, equal bytes for equal content.

    Returns
    -------
    bytes
    """
    html = environment().get_template("report.html.j2").render(report=content)
    # A policy's text may hold half of a surrogate pair, which YAML can write and UTF-8 cannot.
    return html.encode("utf-8", errors="replace")


@cache
def environment() -> Environment:
    """Return the environment of the templates: every value is text, and a missing one is an error."""
    made = Environment(
        loader=FunctionLoader(lambda name: (resources.files(__package__) / name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": shown,
        "shown_bound": shown_bound,
        "words": words,
        "folded": folded_gates,
        "nearest": nearest_gates,
    }
    return made
