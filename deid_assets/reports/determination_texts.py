"""What a dossier says whatever was measured: the rule, the adversaries of each assessment, and precedents of thresholds.

Numbers stand here only in names of sources. Those of a release are the manifest's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deid_assets.assessments.attribute_leaks import MEANINGS as LEAKS
from deid_assets.assessments.canaries import CANARIES
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

HERITAGE = (
    "El Emam K, Arbuckle L, Koru G, et al. De-identification methods for open health data: the case of the Heritage Health "
    "Prize claims dataset. J Med Internet Res 2012;14(1):e33"
)
OWNERS_DECIDE = "No source gives a threshold; the owners of the policy set it, and the expert judges it."


@dataclass(frozen=True)
class AdversaryText:
    """An adversary: who they are, why they were chosen, and the precedent of the thresholds."""

    who: str
    why: str
    precedent: str


_MARKETER = "Dankar FK, El Emam K. A method for evaluating marketer re-identification risk. EDBT/ICDT Workshops 2010"
_SAFE_HARBOR = (
    "Malin B, Benitez K, Masys D. Never too old for anonymity. J Am Med Inform Assoc 2011;18(1):3-10: no more risk than Safe "
    "Harbor leaves"
)
_K_ANONYMITY = "Sweeney L. k-Anonymity: a model for protecting privacy. Int J Uncertain Fuzziness Knowl-Based Syst 2002;10(5)"
_COLUMNS = (
    "Article 29 Working Party, Opinion 05/2014: singling out, linking, inference; 45 CFR 164.514(b)(2): identifiers. The "
    "numbers are the product's"
)

ADVERSARIES: Mapping[str, AdversaryText] = {
    "longitudinal_risk": AdversaryText(
        "A nosey neighbor who knows all demographics of one person and some values of each claim-level quasi-identifier, and "
        "looks for them in the release.",
        "Acquaintances know age, sex and some visits of a person; nobody needs access to another database for that.",
        f"{HERITAGE}: accepts a probability of re-identification of .05, and a share of members above it (MaxSup) of .008, "
        "which exposes as much as Safe Harbor does",
    ),
    "worst_classes": AdversaryText(
        "The same neighbor, who happens to know somebody of the class, or the member, found most often.",
        "An average over all members hides the few who carry most of its risk.",
        "No source gives a threshold by class; MaxSup (El Emam et al. 2012) bounds the average. " + OWNERS_DECIDE,
    ),
    "neighbor_attack": AdversaryText(
        "The same neighbor, who picks a record that fits: without knowing that the person is in the release, and knowing it.",
        "The attack that the article simulates; knowing that a person is in the release is the worst case for that person.",
        f"{HERITAGE}, attack 1: accepts .05",
    ),
    "attack_sensitivity": AdversaryText(
        "Stronger and weaker neighbors: they know more values, which values belong to one claim, their order, the year, the "
        "number of claims; or they are mistaken.",
        "Assumptions about knowledge are uncertain; the dossier must say what happens when they do not hold.",
        f"{HERITAGE}, Table 7, reports such attacks without a threshold",
    ),
    "demographic_risk": AdversaryText(
        "Anybody who knows demographics alone; and anybody who notices that a person is absent from a release, or new in it.",
        "Demographics are the most available knowledge; absence may disclose a condition for which members are removed.",
        f"{HERITAGE}: accepts a MaxSup of .008 for all that a neighbor may know",
    ),
    "voter_list_attack": AdversaryText(
        "Somebody with a list of everybody's age and sex, who links all records.",
        "Voter lists can be had in many states.",
        f"{_MARKETER}; {HERITAGE}, attack 2: accepts .05",
    ),
    "inpatient_attack": AdversaryText(
        "Somebody with a hospital discharge database, who links inpatients by all of their visits.",
        "Many states give such databases to researchers and companies.",
        f"{_MARKETER}; {HERITAGE}, attack 3: accepts .05",
    ),
    "population_estimates": AdversaryText(
        "Somebody who sees the release only, and judges from it who is rare in the population.",
        "Uniqueness in the population is what every identification by matching needs.",
        "Dankar FK et al. Estimating the re-identification risk of clinical data sets. BMC Med Inform Decis Mak 2012;12:66",
    ),
    "attribute_disclosure": AdversaryText(
        "Somebody who knows in which class a person is, and reads what all of the class have in common.",
        "A class may disclose a condition without identifying a record.",
        "Machanavajjhala A et al. l-Diversity. ACM TKDD 2007;1(1):3; Li N et al. t-Closeness. ICDE 2007. " + OWNERS_DECIDE,
    ),
    "membership_disclosure": AdversaryText(
        "Somebody who wants to know whether a person is in the release.",
        "Presence may itself be sensitive.",
        "Nergiz ME, Atzori M, Clifton C. Hiding the presence of individuals from shared databases. SIGMOD 2007. "
        + OWNERS_DECIDE,
    ),
    "provider_graph_attack": AdversaryText(
        "Somebody who knows patterns of care of a provider, or how providers share patients.",
        "A provider who is recognized narrows who the patients are.",
        "Hay M et al. Resisting structural re-identification in anonymized social networks. PVLDB 2008;1(1). " + OWNERS_DECIDE,
    ),
    "inference_channels": AdversaryText(
        "Somebody who has claims of other people in full detail, and predicts from them what the release withholds.",
        "Competitors and researchers have such data; correlated columns may undo what generalization and suppression hide.",
        "El Emam K, Arbuckle L. Anonymizing Health Data. O'Reilly 2013, chapter 5, predicts diagnosis codes. " + OWNERS_DECIDE,
    ),
    "count_disclosure_audit": AdversaryText(
        "Somebody who computes small counts from published tables and their sums, over all releases.",
        "Tables are published with the release.",
        "Klann JG et al. The ad-hoc uncertainty principle of patient privacy. AMIA Summits 2018",
    ),
    "cross_release_risk": AdversaryText(
        "The same neighbor, who has earlier releases of the same people too, and knows which of their records belong together.",
        "Long histories are nearly unique in their released form, so records of one person can be linked from one release to "
        "the next.",
        f"{HERITAGE}: accepts a MaxSup of .008 for one release; the product holds several releases together to the same",
    ),
    "utility": AdversaryText(
        "Nobody: it measures what the release is good for, and that the why ledger accounts for every row and value.",
        "A release without use discloses nothing, and passes every other gate.",
        "Brickell J, Shmatikov V. The cost of privacy: destruction of data-mining utility in anonymized data publishing. KDD "
        "2008. " + OWNERS_DECIDE,
    ),
    "record_risk": AdversaryText(
        "Somebody who knows the quasi-identifiers of one person and looks for the record.",
        "The quasi-identifiers that the policy lists are those that its owners hold to be available.",
        f"{_K_ANONYMITY}; El Emam K, Dankar FK. Protecting privacy using k-anonymity. J Am Med Inform Assoc 2008;15(5):627-637",
    ),
    "record_attribute_disclosure": AdversaryText(
        "Somebody who knows in which class a person is, and reads what all of the class have in common.",
        "A class may disclose an attribute without identifying a record.",
        "Machanavajjhala A et al. l-Diversity. ACM TKDD 2007;1(1):3; Li N et al. t-Closeness. ICDE 2007. " + OWNERS_DECIDE,
    ),
    "record_cross_release_risk": AdversaryText(
        "Somebody who holds earlier releases of the same people, and links the records of a person in all of them.",
        "Earlier releases cannot be taken back, and the values of a person seldom change between two of them.",
        "Xiao X, Tao Y. m-Invariance: towards privacy preserving re-publication of dynamic datasets. SIGMOD 2007:689-700. "
        + OWNERS_DECIDE,
    ),
    "cohort_risk": AdversaryText(
        "Somebody with a list of the whole population and its demographics.",
        "The comparison is with what Safe Harbor would let such a person do.",
        _SAFE_HARBOR,
    ),
    GATE: AdversaryText(
        "All of the above, once more: the gate measured the files that are published, on draws that chose nothing, and looked "
        "for identifiers in columns that are published as they are.",
        "What was judged must be what was published.",
        OWNERS_DECIDE,
    ),
}
"""By assessment, as the manifest's evidence names it."""

PRECEDENTS: Mapping[str, str] = {
    CANARIES: "None: an attack that misses what was planted proves nothing, so that all has to be found",
    CROSS_CHECK: "None: two programs that share no code have to agree",
    **dict.fromkeys(
        (
            "absence_factor",
            "absence_posterior",
            "disappearance_posterior",
            "appearance_posterior",
            "rotation_posterior",
            "newly_released_in_small_classes",
        ),
        OWNERS_DECIDE,
    ),
    **dict.fromkeys(LEAKS, _COLUMNS),
}
"""By measurement, where it has not the precedent of its assessment; those of a column by what follows its name."""


def precedent_of(asset: str, name: str) -> str:
    """The precedent of a threshold; a measurement that the gate repeats has that of the assessment."""
    last = name.rpartition("/")[2]
    if last in PRECEDENTS:
        return PRECEDENTS[last]
    owners = [one.name for one in ASSESSMENTS.values() if any(gate.measurement == name for gate in one.gates)]
    return ADVERSARIES[owners[0] if asset == GATE and owners else asset].precedent


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
