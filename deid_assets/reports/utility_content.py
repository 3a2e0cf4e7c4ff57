"""What a release is good for, in tables and figures, from the public edition of its manifest."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deid_assets.assessments import gain_kept, utility
from deid_assets.figures.rendering import Published, ReportTable, percent, plain, shown, words, written
from deid_assets.figures.utility_figures import before_and_after_figure, nodes_figure, waterfall_figure
from deid_assets.methods.lattice.predictive_tagging import Node, parse_node
from deid_assets.methods.utility.gains import LEAK_AT
from deid_assets.methods.utility.ledger import REASONS
from deid_assets.policy.sections.longitudinal import PSEUDONYM_COLUMNS
from deid_assets.reports.report import ReportFigure

_SCORES = {
    "score_as_delivered": "a model that learns from the delivery",
    "score_as_released": "the same model, from the release",
    "score_of_age_and_sex": "age and sex alone, as delivered",
    "score_of_constant": "the best constant",
}
_OTHERS = (
    ("claims_per_member/distance", "distance of the numbers of claims per member (largest difference of cumulative shares)"),
    (utility.ASSOCIATIONS, "largest change of the association of two columns (Cramér's V)"),
    ("mean_association_change", "mean change of the association of two columns"),
    ("questions_compared", "answers compared: rates by age and sex, and by condition group"),
    ("median_answer_error", "error of the median answer, in standard errors of a random sample"),
    ("largest_answer_error", "error of the worst answer, in standard errors of a random sample"),
    (utility.MEMBERS_LOST, "sampled members who are left out"),
)


@dataclass(frozen=True)
class KeptColumn:
    """What a release keeps of a column.

    Attributes
    ----------
    name
        Its name in the release, or in the delivery if it is withheld.
    before, after
        Bits of a value, as delivered and as released; rounded.
    distance, displacement
        As measured; None where it is withheld, or has no order.
    """

    name: str
    before: float
    after: float
    distance: float | None
    displacement: float | None


def measured_use(manifest: Mapping[str, Any]) -> Published:
    """The measurements of the assessment, by name; empty for a policy that has none."""
    return {one["name"]: one for item in manifest["evidence"] if item["asset"] == utility.NAME for one in item["measurements"]}


def kept_columns(found: Published) -> tuple[KeptColumn, ...]:
    """What is kept of each column; those that are released first, and most bits first."""
    columns = []
    for name, one in found.items():
        column, _, what = name.rpartition("/")
        if what == utility.BITS_BEFORE:
            after = found[f"{column}/{utility.BITS_AFTER}"]["value"]
            others = (found.get(f"{column}/{kind}", {}).get("value") for kind in ("distance", utility.DISPLACEMENT))
            columns.append(KeptColumn(column, one["value"], after, *others))
    return tuple(sorted(columns, key=lambda column: (column.after == 0, -column.before, column.name)))


def utility_tables(manifest: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """The tables of the section; none for a policy without the assessment."""
    found = measured_use(manifest)
    tables = (_gains(found), _scores(found), _others(found), _kept(found), _steps(found)) if found else ()
    return tuple(table for table in tables if table.rows)


def utility_figures(manifest: Mapping[str, Any]) -> tuple[ReportFigure, ...]:
    """The figures of the section."""
    found = measured_use(manifest)
    figures = []
    if gain_kept.predicted_targets(found):
        figures.append(
            ReportFigure(
                "What can still be predicted",
                "How much of what the delivery tells about the next year the release tells as well, and how much of what the "
                "labels of claims add to the numbers of claims and to age and sex; with 95 % intervals over members.",
                gain_kept.kept_figure(found),
                alt=gain_kept.kept_in_words(found),
            )
        )
    for kind, title, of in (
        (utility.OF_DELIVERED, "From the delivery to the sample", "the delivered information"),
        (utility.OF_SAMPLED, "From the sample to the release", "the information of the sample"),
    ):
        steps = [(words(step), share) for step, share in _left(found, kind)]
        if steps:
            figures.append(
                ReportFigure(
                    title,
                    f"What is left of {of} after each step, in bits of all columns together, and what the step takes "
                    f"(hatched).",
                    waterfall_figure(steps, f"{of} [%]"),
                    alt="; ".join(f"{step}: {plain(100 * share)} % left" for step, share in steps),
                )
            )
    rows = [(in_words(column.name), column.before, column.after) for column in kept_columns(found) if column.before]
    if rows:
        figures.append(
            ReportFigure(
                "Each column, before and after",
                "Bits of a value: the entropy of the values of a column, as delivered and as released. A column without bits "
                "is withheld, or has the same value everywhere.",
                before_and_after_figure(rows, "entropy [bits of a value]"),
                alt="; ".join(f"{name}: {plain(before)} delivered, {plain(after)} released" for name, before, after in rows),
            )
        )
    return tuple(figures)


@dataclass(frozen=True)
class ReportedNode:
    """A node that passes, and what its release would keep of the gain.

    Attributes
    ----------
    text
        The node as a list of levels.
    published
        Whether it is that of the release.
    loss
        As a part of the largest loss; rounded.
    share
        The share on fresh folds with the ends of its interval; None if nothing is predicted.
    """

    text: str
    published: bool
    loss: float
    share: tuple[float, float, float] | None


def reported_nodes(manifest: Mapping[str, Any]) -> tuple[ReportedNode, ...]:
    """The nodes that are reported, that of least loss first; none if the policy does not compare them."""
    found, nodes = measured_use(manifest), []
    for name, one in found.items():
        kind, _, rest = name.partition("/")
        text, _, what = rest.partition("/")
        if kind in (gain_kept.PUBLISHED_NODE, gain_kept.OTHER_NODE) and what == gain_kept.LOSS:
            value, low, high = (
                found[f"{kind}/{text}/{end}"]["value"] for end in (gain_kept.SHARE, gain_kept.LOWER, gain_kept.NODE_UPPER)
            )
            share = None if value is None else (value, low, high)
            nodes.append(ReportedNode(text, kind == gain_kept.PUBLISHED_NODE, one["value"], share))
    return tuple(nodes)


def nodes_table(manifest: Mapping[str, Any], named: Callable[[Node], str]) -> ReportTable:
    """The reported nodes; without rows if there are none.

    Parameters
    ----------
    named
        A node as the names of its levels.
    """
    nodes = reported_nodes(manifest)
    compared = measured_use(manifest).get(gain_kept.COMPARED, {}).get("value")
    return ReportTable(
        "nodes",
        "What other generalizations would keep",
        f"Generalizations that pass: that of least loss, and those that keep most of the gain; {plain(compared or 0)} were "
        "compared, none coarser than another. The gain is that of the table above, of all predicted targets together. The "
        "shares are from fresh folds, not from those that ranked them, with 95 % intervals over members; all of the same "
        "members. Loss is a part of the largest.",
        (("Generalization", "name"), ("Loss", "number"), ("Kept of the gain", "number"), ("", "name")),
        tuple(
            (named(parse_node(node.text)), plain(node.loss), _share_of(node), "published" if node.published else "")
            for node in nodes
        ),
    )


def _share_of(node: ReportedNode) -> str:
    if node.share is None:
        return "delivery predicts nothing"
    value, low, high = node.share
    return f"{percent(value)} ({plain(100 * low)} to {plain(100 * high)})"


def nodes_figures(manifest: Mapping[str, Any], levels: str) -> tuple[ReportFigure, ...]:
    """The shares of the reported nodes; no figure where there is none.

    Parameters
    ----------
    levels
        What the numbers of levels mean.
    """
    nodes = [(node, node.share) for node in reported_nodes(manifest) if node.share is not None]
    if not nodes:
        return ()
    rows = [(f"{node.text}\nloss {plain(node.loss)}", share, node.published) for node, share in nodes]
    return (
        ReportFigure(
            "What other generalizations would keep",
            "Share of the gain that the release keeps, at the generalization of least loss and at those that keep most; the "
            f"filled one is published. {levels}",
            nodes_figure(rows),
            alt="; ".join(
                f"{node.text}{' (published)' if node.published else ''}: loss {plain(node.loss)}, {_share_of(node)}"
                for node, _ in nodes
            ),
        ),
    )


def leaks(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What a reader must know beside the verdict: targets about which labels tell what the delivered claims do not."""
    found = measured_use(manifest)
    return tuple(
        f"The labels of claims tell more about the next year ({gain_kept.target_in_words(target)}) than the delivered "
        f"claims do, by {_value(found, f'{target}/{gain_kept.LEAK_OF_LABELS}')} standard errors: they were made from what "
        "they predict, and what is learned from them holds nowhere else."
        for target in gain_kept.predicted_targets(found)
        if (found[f"{target}/{gain_kept.LEAK_OF_LABELS}"]["value"] or 0) >= LEAK_AT
    )


def _leak(found: Published, target: str) -> str:
    """The leak; where there is one, also that of the labels."""
    of_labels = found[f"{target}/{gain_kept.LEAK_OF_LABELS}"]["value"]
    return _value(found, f"{target}/{gain_kept.LEAK}") + (f" (labels {plain(of_labels)})" if of_labels is not None else "")


def _gains(found: Published) -> ReportTable:
    return ReportTable(
        "gains",
        "What can still be predicted",
        "Predicted is the next year, by gradient boosting, for members whom the model has not seen: days in hospital, and "
        "whether there is a claim of a common, a middling and a rare condition group. The gain is what the delivery takes off "
        "the loss of the best constant. Kept: the share of it that the release keeps, and the share that its labels keep of "
        "what labels of claims add to their numbers and to age and sex, each with its 95 % interval over members. Where the "
        "delivery itself predicts nothing beyond chance, there is no share. Leak: by how many standard errors delivery and "
        f"release together are better than the delivery. From {LEAK_AT:g} on, the release tells what the delivered claims do "
        "not: which claims were cut or, if that of the labels is as large, labels that were made from what they predict.",
        (("Predicted", "name"), ("Gain", "number"), ("Kept of it", "number"), ("Kept of what labels add", "number"),
         ("Leak", "number")),
        tuple(
            (gain_kept.target_in_words(target), _value(found, f"{target}/{gain_kept.GAIN}"),
             gain_kept.share_in_words(found, target, gain_kept.KEPT),
             gain_kept.share_in_words(found, target, gain_kept.LABEL_KEPT), _leak(found, target))
            for target in gain_kept.predicted_targets(found)
        ),
    )  # fmt: skip


def _scores(found: Published) -> ReportTable:
    rows = [(label, _value(found, name)) for name, label in _SCORES.items() if found.get(name, {}).get("value") is not None]
    if rows:
        rows.append(("loss from the delivery to the release (with its 95 % upper bound)", written(found, utility.SCORE_LOSS)))
    return ReportTable(
        "scores",
        "Days in hospital next year, predicted",
        "The score of the Heritage Health Prize: the root mean squared error of log(1 + days), for members whom the model has "
        "not seen. Smaller is better; a score like that of the best constant means that nothing is predicted.",
        (("Prediction by", "name"), ("Score", "number")),
        tuple(rows),
    )


def _others(found: Published) -> ReportTable:
    return ReportTable(
        "distributions",
        "Distributions, associations and answers",
        "How far the release is from the delivery that it was made from. An error of 1 standard error is what chance alone "
        "does to an answer from a random sample of this size; of 20 such answers, one is off by more than 2.",
        (("Measurement", "name"), ("Measured", "number")),
        tuple((label, _value(found, name)) for name, label in _OTHERS if found.get(name, {}).get("value") is not None),
    )


def _kept(found: Published) -> ReportTable:
    return ReportTable(
        "kept",
        "What is kept of each column",
        "Bits of a value: the entropy of the values, as delivered and as released; 1 bit tells two equally frequent values "
        "apart, and 0 bits tell nothing apart. Distance: how far the distribution is from that of the delivery, with the "
        "labels of the release (total variation; 0 is equal, 1 has nothing in common). Displacement: how far numbers seem to "
        "be moved when each class is taken for all of its values alike, as a part of the largest possible. Withheld columns "
        "have the names of the delivery; columns that hardly vary in it are left out. Numbers are rounded so that none tells "
        "fewer than 25 members apart.",
        (("Column", "name"), ("Bits delivered", "number"), ("Bits released", "number"), ("Distance", "number"),
         ("Displacement", "number")),
        tuple(
            (in_words(column.name), plain(column.before), _released_bits(column), _number(column.distance),
             _number(column.displacement))
            for column in kept_columns(found)
            if column.before
        ),
    )  # fmt: skip


def in_words(name: str) -> str:
    """The name of a column; a pseudonym is called one, and that which two tables have says whose it is.

    Examples
    --------
    >>> in_words("claims_MemberID"), in_words("Vendor"), in_words("Sex")
    ('MemberID of claims (pseudonym)', 'Vendor (pseudonym)', 'Sex')
    """
    table, of_both, _ = name.partition("_MemberID")
    if of_both:
        return f"MemberID of {table} (pseudonym)"
    return f"{name} (pseudonym)" if name in PSEUDONYM_COLUMNS else name


def _released_bits(column: KeptColumn) -> str:
    """Bits of a released value: 0 where all share one class, a word where the column is withheld."""
    return "withheld" if not column.after and column.distance is None else plain(column.after)


def _steps(found: Published) -> ReportTable:
    rows = [
        (words(step), REASONS[step], percent(share) if kind == utility.OF_DELIVERED else "",
         percent(share) if kind == utility.OF_SAMPLED else "")
        for kind in (utility.OF_DELIVERED, utility.OF_SAMPLED)
        for step, share in _left(found, kind)
    ]  # fmt: skip
    return ReportTable(
        "ledger",
        "Why something is missing",
        "Every delivered row and value that is not in the release ended at one of these steps. The shares are of the "
        "information in all columns (bits), up to the random sample of what was delivered, and from there on of what the "
        "sample has; they are rounded down. The exact number of rows and values of each step is in the table why_ledger of the "
        "restricted store.",
        (("Step", "name"), ("What it leaves out or changes", "name"), ("Left of the delivery", "number"),
         ("Left of the sample", "number")),
        tuple(rows),
    )  # fmt: skip


def _left(found: Published, kind: str) -> Iterator[tuple[str, float]]:
    """Each step and what is left after it; steps that take nothing are left out, unless nothing else is there."""
    before = 1.0
    for name, one in found.items():
        if name.startswith(f"{kind}/") and isinstance(one["value"], int | float):
            if one["value"] != before:
                yield name.removeprefix(f"{kind}/"), one["value"]
            before = one["value"]


def _value(found: Published, name: str) -> str:
    return shown(found[name]["value"], found[name]["unit"])


def _number(number: float | None) -> str:
    return "" if number is None else plain(number)
