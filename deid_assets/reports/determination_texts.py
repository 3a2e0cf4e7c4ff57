"""What a dossier says whatever was measured: the rule, the adversaries of each assessment, and precedents of thresholds.

Numbers stand here only in names of sources. Those of a release are the manifest's.
"""

from collections.abc import Mapping

from deid_assets.assessments.assessment import COLUMNS, OWNERS_DECIDE, Adversary
from deid_assets.assessments.attribute_leaks import MEANINGS as LEAKS
from deid_assets.assessments.registry import ASSESSMENTS
from deid_assets.release.gate.cross_check import CROSS_CHECK

GATE = "gate"

RULE = (
    "A person with appropriate knowledge of and experience with generally accepted statistical and scientific principles and "
    "methods for rendering information not individually identifiable: (i) Applying such principles and methods, determines "
    "that the risk is very small that the information could be used, alone or in combination with other reasonably available "
    "information, by an anticipated recipient to identify an individual who is a subject of the information; and (ii) "
    "Documents the methods and results of the analysis that justify such determination. (45 CFR 164.514(b)(1))"
)

GUIDANCE = (
    "U.S. Department of Health and Human Services, Guidance Regarding Methods for De-identification of Protected Health "
    "Information in Accordance with the HIPAA Privacy Rule, 26 November 2012"
)

NO_NUMBER = (
    f'No number is universally "very small" ({GUIDANCE}). The thresholds are those of the policy. Beside each stands what a '
    "source accepted, if there is one: the policy may ask for more or for less, and the expert judges whether it may."
)

EXPIRY = (
    "The Privacy Rule requires no date of expiry; practitioners set one, because technology, social conditions and available "
    f"information change ({GUIDANCE})."
)


ADVERSARIES: Mapping[str, Adversary] = {name: one.adversary for name, one in ASSESSMENTS.items()} | {
    GATE: Adversary(
        "All of the above, once more: the gate measured the files that are published, on draws that chose nothing, and looked "
        "for identifiers in columns that are published as they are.",
        "What was judged must be what was published.",
        OWNERS_DECIDE,
    )
}
"""By assessment, as the manifest's evidence names it."""

_OF_THE_GATE: Mapping[str, str] = {
    CROSS_CHECK: "None: two programs that share no code have to agree",
    **dict.fromkeys(LEAKS, COLUMNS),
}
"""Precedents of what the gate alone measures; of a column, by what follows its name."""


def precedent_of(asset: str, name: str) -> str:
    """The precedent of a threshold; a measurement that the gate repeats has that of the assessment."""
    last = name.rpartition("/")[2]
    if last in _OF_THE_GATE:
        return _OF_THE_GATE[last]
    measuring = [(one, gate) for one in ASSESSMENTS.values() for gate in one.all_gates if gate.measurement == name]
    by = next(((one, gate) for one, gate in measuring if asset in (GATE, one.name)), None)
    return ADVERSARIES[asset].precedent if by is None else by[1].precedent or by[0].adversary.precedent


LIMITS = (
    "Bounds cover Monte Carlo error only, not the error of estimated class sizes, nor the choice of what an adversary knows.",
    "An adversary who knows other things than the model says, or without a limit on values, is covered only as far as a "
    "measurement says so.",
    "What other columns predict about everybody with such a record, without identifying anybody, is not measured.",
    "What an adversary learns by joining the rows of several releases is measured as far as members are in both; releases made "
    "with another secret cannot be compared.",
    "Counts of people are those of the public manifest, with noise or masked. The exact ones are in the audit, which is "
    "restricted: the expert should see it.",
    "Whether recipients keep the terms of use is not measured.",
)
"""What the expert has to judge beside the numbers."""

CONDITIONS = (
    "another release of the same population, or another delivery",
    "recipients or terms of use other than those named here",
    "data that recipients can reasonably get and that this dossier does not consider",
    "a change of the policy, of the methods or of the law",
)
"""What ends a determination before its date."""
