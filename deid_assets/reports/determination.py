"""The draft of an expert determination under 45 CFR 164.514(b)(1), from the public edition of a release's manifest.

Every number of it is one of the manifest, written as the manifest writes it. A person fills in what is left open, and
signs: the draft determines nothing.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import ReportTable, words
from deid_assets.release.adversaries import worst_numbers
from deid_assets.release.verdict import knows_less, verdict_of
from deid_assets.reports.determination_texts import ADVERSARIES, CONDITIONS, EXPIRY, LIMITS, NO_NUMBER, RULE, precedent_of
from deid_assets.reports.manifest_content import meaning_of
from deid_assets.reports.report import environment

OPEN = "____________________"
"""What a person fills in."""


@dataclass(frozen=True)
class Passage:
    """A paragraph; `source` marks what is quoted or cited, whose numbers are those of sources."""

    text: str
    source: bool = False


@dataclass(frozen=True)
class DossierSection:
    """A section of the dossier: its anchor and title, paragraphs, points, and a table."""

    name: str
    title: str
    passages: tuple[Passage, ...] = ()
    points: tuple[Passage, ...] = ()
    table: ReportTable | None = None
    cited: tuple[int, ...] = ()
    """Columns of the table that hold citations."""


@dataclass(frozen=True)
class Dossier:
    """The draft: its title, what identifies the release, and its sections."""

    title: str
    release: tuple[tuple[str, str], ...]
    sections: tuple[DossierSection, ...]


def dossier_of(manifest: Mapping[str, Any], digest: str, expires: str | None = None) -> Dossier:
    """Draft the dossier of a release.

    Parameters
    ----------
    manifest
        The public edition.
    digest
        SHA-256 of its bytes, by which the dossier is bound to it.
    expires
        Date of expiry; None to leave it open.

    Raises
    ------
    ReleaseError
        If it is not a public edition, or it contains evidence of an assessment that the dossier cannot describe.
    """
    if manifest.get("edition") != "public":
        raise ReleaseError("a determination is drafted from the public edition of a manifest only")
    unknown = sorted({item["asset"] for item in manifest["evidence"]} - set(ADVERSARIES))
    if unknown:
        raise ReleaseError(f"the manifest has evidence of {', '.join(unknown)}, which this version does not know")
    policy = json.loads(manifest["policy"]["text"])
    return Dossier(
        f"Draft of an expert determination: {policy['title']}",
        _identified(manifest, policy, digest),
        (
            DossierSection("rule", "What is to be determined", (Passage(RULE, source=True),)),
            _verdict(manifest),
            _worst(manifest, policy),
            _population(manifest, policy),
            _recipients(manifest, policy),
            _adversaries(manifest, policy),
            _thresholds(manifest, policy),
            _measurements(manifest),
            DossierSection("limits", "Limits", points=tuple(map(Passage, LIMITS))),
            _validity(manifest, expires),
            _signature(manifest, digest),
        ),
    )


def _identified(manifest: Mapping[str, Any], policy: Mapping[str, Any], digest: str) -> tuple[tuple[str, str], ...]:
    told = manifest["delivery"]  # the first versions named its key
    delivery = f"{told['key_digest']} (keyed digest of its key)" if "key_digest" in told else str(told["key"])
    return (
        ("Release", f"{manifest['policy']['name']}, number {_shown(manifest['number'])}"),
        ("Policy", f"{policy['title']} (hash of its public text {manifest['policy']['hash']})"),
        ("Delivery", delivery),
        ("Made", str(manifest["created"])),
        *_approval(manifest),
        ("Code", f"deid_assets {manifest['code_version']}"),
        ("Manifest", digest),
    )


def _approval(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Who approved the release, if its policy requires somebody to."""
    approval = manifest.get("approval")
    if approval is None:
        return ()
    return (("Approved", f"by {approval['by']} at {approval['time']}; it passed the gate at {approval['staged']}"),)


def _verdict(manifest: Mapping[str, Any]) -> DossierSection:
    """What the release passed and what a person overruled, as the report and `deid verify` say it."""
    said = tuple(Passage(sentence, source=True) for sentence in verdict_of(manifest).sentences)
    return DossierSection("verdict", "What it passed, and what a person overruled", points=said)


def _population(manifest: Mapping[str, Any], policy: Mapping[str, Any]) -> DossierSection:
    risk = policy.get("risk", {})
    if policy.get("kind") == "cohort":
        told = "Classes are counted in the table of the population that the policy names, of the cohort's time and place."
    elif policy.get("kind") == "flat":
        told = (
            "Classes are counted among the delivered records."
            if policy.get("population") is None
            else "Classes are counted in the table of the population that the policy names."
        )
    elif risk.get("class_size") == "counted":
        told = (
            "The delivery is taken as the population: classes are counted among all delivered members, removed ones included."
        )
    else:
        told = (
            f"The delivery is an extract of a population of about {_shown(risk.get('population_size'))} members; class sizes "
            f"are estimated from the release ({words(str(risk.get('class_size')))})."
        )
    steps = ReportTable(
        "steps",
        "From delivery to release",
        "",
        (("Step", "name"), ("Unit", "name"), ("In", "number"), ("Out", "number"), ("Left out because", "name")),
        tuple(
            (words(step["stage"]), step["unit"], "" if step["source"] is None else _shown(step["rows_in"]),
             _shown(step["rows_out"]), step["reason"])
            for step in manifest["attrition"]
        ),
    )  # fmt: skip
    says = (
        "Counts of released rows are exact; others have noise or are masked, and claims before the release are not published."
    )
    return DossierSection("population", "Population", (Passage(told), Passage(says)), table=steps)


def _recipients(manifest: Mapping[str, Any], policy: Mapping[str, Any]) -> DossierSection:
    recipients = manifest["recipients"]
    return DossierSection(
        "recipients",
        "Anticipated recipients",
        (
            Passage(f"Recipients: {recipients['recipient_class']}."),
            Passage(f"Terms of use: {' '.join(recipients['terms_of_use'].split())}"),
            Passage(f"Owners, who answer for the release: {', '.join(policy['owners'])}."),
        ),
    )


def _adversaries(manifest: Mapping[str, Any], policy: Mapping[str, Any]) -> DossierSection:
    known = []
    if "adversary" in policy:
        known.append(
            f"Values of each claim-level quasi-identifier that a neighbor knows: at most {_shown(policy['adversary']['power'])}"
        )
        known += [f"{text[:1].upper()}{text[1:]}." for text in knows_less(policy)]
    listed = policy.get("quasi_identifiers", {})
    columns = listed if isinstance(listed, list) else [*listed.get("members", ()), *listed.get("claims", ())]
    if columns:
        known.append(f"Quasi-identifiers: {', '.join(one['release_as'] for one in columns)}.")
    rows = tuple(
        (words(item["asset"]), ADVERSARIES[item["asset"]].who, ADVERSARIES[item["asset"]].why) for item in manifest["evidence"]
    )
    table = ReportTable("who", "Adversaries", "", (("Assessment", "name"), ("Adversary", "name"), ("Why", "name")), rows)
    return DossierSection("adversaries", "Adversaries, and why these", tuple(map(Passage, known)), table=table)


def _worst(manifest: Mapping[str, Any], policy: Mapping[str, Any]) -> DossierSection:
    """Each adversary with the worst number, gated or not, and who accepts it."""
    rows = tuple(
        (words(one.asset), words(one.measurement), one.unit, one.written(one.value, lambda number, _: _shown(number)),
         one.written(one.threshold, lambda number, _: _shown(number)), one.accepted)
        for one in worst_numbers(manifest["evidence"], policy)
    )  # fmt: skip
    columns = (
        ("Assessment", "name"), ("Measurement", "name"), ("Unit", "name"), ("Worst", "number"), ("Limit", "number"),
        ("Accepted by", "name"),
    )  # fmt: skip
    text = (
        "The largest share or probability that was measured for each adversary, the worst first, whether a gate limits it or "
        "not. A number that no gate limits is accepted by whoever says so in the policy, by whoever approves, or by nobody: "
        "then the expert judges it."
    )
    table = ReportTable("worst-numbers", "Worst numbers", "", columns, rows)
    return DossierSection("worst", "What each adversary achieves at worst", (Passage(text),), table=table)


def _thresholds(manifest: Mapping[str, Any], policy: Mapping[str, Any]) -> DossierSection:
    judged: dict[tuple[str, str, str], list[str]] = {}
    for asset, name, one in _gating(manifest):
        threshold = f"{words(one['comparison'])} {_shown(one['threshold'])}"
        of = judged.setdefault((words(name.rpartition("/")[2]), threshold, precedent_of(asset, name)), [])
        of += [words(asset)] if words(asset) not in of else []
    rows = tuple((name, ", ".join(of), threshold, precedent) for (name, threshold, precedent), of in judged.items())
    columns = (("Measurement", "name"), ("Measured by", "name"), ("Threshold", "number"), ("Precedent", "name"))
    table = ReportTable("limits-of-policy", "Thresholds", "", columns, rows)
    return DossierSection(
        "thresholds",
        "Thresholds and their precedents",
        (Passage(NO_NUMBER, source=True), *_high_risk(policy)),
        table=table,
        cited=(3,),
    )


def _high_risk(policy: Mapping[str, Any]) -> tuple[Passage, ...]:
    """What the policy calls a high risk: a limit for each person, which the thresholds of shares rest on."""
    risk = policy.get("risk", {})
    if "k" in risk:
        return (Passage(f"Smallest class that the policy accepts, in records: {_shown(risk['k'])}"),)
    if "threshold" in risk:
        return (Passage(f"A member is at high risk above this probability of re-identification: {_shown(risk['threshold'])}"),)
    return ()


def _measurements(manifest: Mapping[str, Any]) -> DossierSection:
    rows = tuple(
        (
            words(name), words(asset), one["unit"], _measured(one),
            "counted" if one["bound"] is None else _shown(one["bound"]),
            "" if one["confidence"] is None else _shown(one["confidence"]),
            _shown(one["threshold"]), "passed" if one["passed"] else "FAILED", meaning_of(one), one["section"],
        )
        for asset, name, one in _gating(manifest)
    )  # fmt: skip
    columns = (
        ("Measurement", "name"), ("Assessment", "name"), ("Unit", "name"), ("Measured", "number"), ("Bound", "number"),
        ("Confidence", "number"), ("Threshold", "number"), ("Outcome", "name"), ("Meaning", "name"), ("Method", "name"),
    )  # fmt: skip
    text = (
        "Every measurement that could have refused the release, as the signed manifest states it. Shares and probabilities are "
        "fractions. T stands for a share among too few people to be shown. The gate compared exact numbers: one that is shown "
        "with noise may lie beyond its threshold although the exact one does not. The manifest has all other measurements too."
    )
    return DossierSection(
        "measurements", "Measurements", (Passage(text),), table=ReportTable("gates", "Measurements", "", columns, rows)
    )


def _measured(one: Mapping[str, Any]) -> str:
    return _shown(one["value"]) + (" (with noise)" if one.get("protected") and one["value"] is not None else "")


def _gating(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for item in manifest["evidence"]:
        for one in item["measurements"]:
            if one["gating"]:
                yield item["asset"], one["name"], one


def _validity(manifest: Mapping[str, Any], expires: str | None) -> DossierSection:
    return DossierSection(
        "expiry",
        "Date of expiry",
        (
            Passage(EXPIRY, source=True),
            Passage(f"The release was made on {manifest['created']}."),
            Passage(f"This determination expires on: {expires or OPEN}", source=expires is not None),
            Passage("It ends before with:"),
        ),
        tuple(map(Passage, CONDITIONS)),
    )


def _signature(manifest: Mapping[str, Any], digest: str) -> DossierSection:
    return DossierSection(
        "signature",
        "Determination",
        (
            Passage(
                "Draft: nothing is determined until a person with the knowledge and experience that the rule asks for has "
                "judged the above, and signed."
            ),
            Passage(
                f"I determine that the risk is very small that the information of release {manifest['policy']['name']}, number "
                f"{_shown(manifest['number'])}, could be used, alone or in combination with other reasonably available "
                "information, by an anticipated recipient to identify an individual who is a subject of the information."
            ),
            Passage(f"SHA-256 of its manifest: {digest}", source=True),
            Passage(f"Reasons and conditions: {OPEN}"),
            Passage(f"Name: {OPEN}"),
            Passage(f"Knowledge and experience: {OPEN}"),
            Passage(f"Place and date: {OPEN}"),
            Passage(f"Signature: {OPEN}"),
        ),
    )


def _shown(value: Any) -> str:
    """A value exactly as the manifest writes it."""
    return "not published" if value is None else value if isinstance(value, str) else json.dumps(value)


def dossier_html(dossier: Dossier) -> bytes:
    """The draft as one HTML file that needs nothing else, in UTF-8; equal bytes for equal content."""
    return environment().get_template("determination.html.j2").render(dossier=dossier).encode("utf-8", errors="replace")


def dossier_markdown(dossier: Dossier) -> bytes:
    """The draft as Markdown, for those who write on, in UTF-8."""
    markdown = environment().overlay(autoescape=False)
    markdown.filters = {**markdown.filters, "escaped": _escaped}
    return markdown.get_template("determination.md.j2").render(dossier=dossier).encode("utf-8", errors="replace")


def _escaped(text: str) -> str:
    """Text of a policy or manifest in one line, which Markdown takes for text."""
    escaped = " ".join(text.split())
    for sign in ("\\", "`", "*", "<", "[", "#"):
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped
