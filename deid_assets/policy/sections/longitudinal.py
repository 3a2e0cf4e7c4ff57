"""The sections of a policy as frozen, strict models, one per section.

Each field has a description, which messages quote if the field is missing or invalid. Values outside these models'
limits are refused while a file is read; `validation.py` checks what involves several sections.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import core_schema

from deid_assets.methods.preparation.eligibility import OptedOut
from deid_assets.policy.files import read_member_ids
from deid_assets.policy.reference_thresholds import ReferenceClass
from deid_assets.reference import known_columns
from deid_assets.reference.known_columns import UNREADABLE
from deid_assets.reference.sensitive import SENSITIVE_SETS, SensitiveSet, drug_sets

MEMBER_COLUMNS, CLAIM_COLUMNS = tuple(known_columns.MEMBERS), tuple(known_columns.CLAIMS)
"""Columns that an adversary may know: of a member, and of each claim (methods#hierarchies)."""

DATE_COLUMNS = tuple(known_columns.DATES)
"""What an adversary may know about the dates of claims if a policy releases dates."""

PSEUDONYM_COLUMNS = ("MemberID", *known_columns.PROVIDER_PSEUDONYMS.values())
PASSED_ON_COLUMNS = ("Year", "PayDelay", "CharlsonIndex", "SupLOS")
"""Claim columns that are published without a hierarchy, and judged by what they disclose beside the others."""

OTHER_RELEASE_COLUMNS = (*PSEUDONYM_COLUMNS, *PASSED_ON_COLUMNS, known_columns.EVENT_TABLE)
"""Reserved names: columns of the release that are not quasi-identifiers."""

_OWNER = re.compile(r"team:[A-Za-z0-9_-]+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")
"""What Dagster accepts as an owner."""


class Section(BaseModel):
    """Frozen and strict: an unknown key is an error, a number is not text, and text is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False)


@dataclass(frozen=True)
class OneOf:
    """Allows these texts only, like `Literal`, where what they are follows from the columns that the product knows."""

    texts: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: type[str], handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.literal_schema(list(self.texts))


_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tabs and line breaks, characters that change text direction, and lone surrogates."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    if _INVISIBLE.search(text):
        raise ValueError(
            "must not contain control characters, characters that change the direction of text, or halves of characters"
        )
    return text


def _owner(text: str) -> str:
    if not _OWNER.fullmatch(text):
        raise ValueError("an owner is an e-mail address, or 'team:' and the team's name")
    return text


def _name(text: str) -> str:
    if not (text.isascii() and text.isidentifier() and text[0].isalpha() and text == text.lower()):
        raise ValueError("a name consists of lower-case letters, digits and underscores, and begins with a letter")
    return text


def _column_name(text: str) -> str:
    if not (text.isascii() and text.isidentifier() and text[0].isalpha()):
        raise ValueError("a column name consists of letters, digits and underscores, and begins with a letter")
    return text


def _not_negligible(number: float) -> float:
    if 0 < number < SMALLEST:
        raise ValueError(f"must be at least {SMALLEST:g}: no measurement can distinguish a smaller number from 0")
    return number


SMALLEST = 1e-9
"""Smallest positive probability or share that a policy may state; no feasible number of draws could resolve less."""

MOST_DRAWS = 1_000_000_000
MOST_TRIALS = 100_000_000
"""Limit on draws and trials: draws are counted in blocks and trials are kept in memory; more would not finish or fit."""

MOST_PEOPLE = 100_000_000_000

Said = Annotated[str, AfterValidator(_said)]
Name = Annotated[str, Field(max_length=64), AfterValidator(_name)]
ColumnName = Annotated[str, Field(max_length=128), AfterValidator(_column_name)]
Owner = Annotated[str, AfterValidator(_owner)]
Probability = Annotated[float, Field(gt=0, lt=1), AfterValidator(_not_negligible)]
Share = Annotated[float, Field(ge=0, lt=1), AfterValidator(_not_negligible)]
Confidence = Annotated[float, Field(ge=0.5, lt=1)]
Percentile = Annotated[float, Field(gt=50, lt=100)]
Draws = Annotated[int, Field(ge=1, le=MOST_DRAWS)]
Trials = Annotated[int, Field(ge=1, le=MOST_TRIALS)]
People = Annotated[int, Field(ge=1, le=MOST_PEOPLE)]
ClassSize = Annotated[int, Field(ge=2, le=1_000_000)]
Statistic = Literal["upper_bound", "estimate"]
Delimiter = Annotated[str, Field(min_length=1, max_length=1, description="separator between the fields of a CSV file")]


class Recipients(Section):
    """Who may have the release, and on which terms; both go into the manifest."""

    recipient_class: Said = Field(description="who may receive the release, such as 'public' or 'contest participants'")
    terms_of_use: Said = Field(description="the terms that recipients accept; without terms, a release binds nobody")
    reference_class: ReferenceClass | None = Field(
        None,
        description="whose reference thresholds this policy is compared with: those for anybody, for people who are registered "
        "and accepted terms, or for people who work under control; null: the strictest. Where the policy is laxer, the report, "
        "the manifest and `deid releases` say so; it refuses nothing",
    )


class Intake(Section):
    """The share of a delivery that may be unusable before all of it is refused."""

    quarantine_at_most: Share = Field(0.01, description="share of the rows of either table that may be quarantined")


class OptOuts(Section):
    """Members who opted out. Their identifiers are restricted: no message, log or repr shows one."""

    file: Said | None = Field(None, description="file with one member identifier per line, below the policy's folder")
    members: tuple[Said, ...] = Field((), repr=False, description="member identifiers")
    matched_at_least: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5,
        description="share of the listed identifiers that must belong to delivered members: a list that matches nobody is "
        "spelled differently, or belongs to another delivery; of the home's own list, the same share must belong to people of "
        "any delivery of the home; 0: no identifier needs to match, as where a delivery is a small extract",
    )
    _listed: tuple[str, ...] | None = PrivateAttr(None)
    _digest: str = PrivateAttr("")
    _withdrawn: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _read_file(self, info: ValidationInfo) -> "OptOuts":
        if self._listed is None:  # a section that was already read may become part of another policy
            self._listed, self._digest = read_member_ids(info.context, self.file) if self.file is not None else ((), "")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the file; empty if there is none."""
        return self._digest

    @property
    def withdrawn(self) -> tuple[str, ...]:
        """Identifiers on the home's own list, in order; `matched_at_least` of them are in some delivery of the home."""
        return self._withdrawn

    def with_withdrawn(self, members: tuple[str, ...]) -> "OptOuts":
        """Return the section with the home's own list."""
        made = self.model_copy()
        made._withdrawn = members
        return made

    @property
    def people(self) -> OptedOut:
        """Both lists, as an intake applies them."""
        return OptedOut(self.all_members, self.matched_at_least, self.withdrawn)

    @property
    def all_members(self) -> tuple[str, ...]:
        """Identifiers from the policy and from its file, each once, in order."""
        return tuple(sorted({*(member.strip() for member in self.members), *(self._listed or ())}))


CodedShare = Annotated[float, Field(gt=0, le=1)]


class CodedClaims(Section):
    """Minimum share of claims with a readable code of each kind, for lists to match; less refuses the delivery."""

    diagnosis: CodedShare | None = Field(0.5, description="share of claims with a diagnosis; null: claims may have none")
    procedure: CodedShare | None = Field(
        0.5, description="share of claims with a CPT, HCPCS or DRG code; null: claims may have none"
    )
    place: CodedShare | None = Field(0.5, description="share of claims with a place of service; null: claims may have none")


class Removal(Section):
    """Members and claims that are never released, and what a delivery must contain for that (methods#removal)."""

    code_list: Literal["literal", "extended"] | None = Field(
        description="sensitive codes whose members are removed: as printed (literal), with the codes that the printed list "
        "omits (extended), or null for no removal"
    )
    sets: tuple[SensitiveSet, ...] = Field(
        (),
        description="named sets of sensitive codes whose members are removed beside those of the list: "
        + ", ".join(SENSITIVE_SETS),
    )
    rare_visible_diseases: bool = Field(description="whether members with a rare and visible disease are removed")
    newborn_days: Annotated[int, Field(ge=0, le=3_660)] | None = Field(
        description="claims up to this many days after birth are removed; null: they are kept"
    )
    non_procedure_claims: bool = Field(description="whether claims whose procedure code is not from CPT are removed")
    absence_factor_at_most: Annotated[float, Field(gt=1)] | None = Field(
        None,
        description="highest factor by which absence from all releases may multiply the odds of a sensitive condition, in any "
        "demographic class: 1.25 lets a fifth of the eligible members of a class ever be released; null: no limit",
    )
    absence_posterior_at_most: Probability | None = Field(
        None,
        description="highest probability with which absence from the release may disclose a sensitive condition, over all "
        "classes: it also refuses populations in which the condition is frequent; null: no limit, only measured. Where members "
        "are removed, this limit or absence_factor_at_most is required",
    )
    disappearance_posterior_at_most: Probability | None = Field(
        None,
        description="highest probability with which being in one of two releases and absent from the other may disclose a "
        "sensitive condition; null: absence_posterior_at_most",
    )
    readable_codes_at_least: Annotated[float, Field(gt=0, le=1)] = Field(
        0.99,
        description="minimum share of known codes in each column that lists read; a delivery with fewer is refused. No list "
        "finds unknown codes: codes that lost their leading zeros may be the sensitive ones",
    )
    coded_claims_at_least: CodedClaims = CodedClaims()
    sensitive_members_at_least: Probability | None = Field(
        0.005,
        description="minimum share of the members with claims that the list of sensitive codes finds, where drugs in other "
        "tables of events do not count; a delivery with fewer than chance gives once in a hundred times is refused; null: the "
        "list may match nothing",
    )
    rare_visible_members_at_least: Probability | None = Field(
        0.0002,
        description="the same for the list of rare and visible diseases; null: the list may match nothing",
    )
    known_newborn_claims_at_least: Annotated[float, Field(gt=0, le=1)] = Field(
        0.9,
        description="minimum share of the claims of members under 3 years (or those of a longer history), or of unknown age, "
        "with dates of birth and service; the others are taken for newborns' claims and removed; a delivery with fewer is "
        "refused",
    )

    @property
    def removes_members(self) -> bool:
        """Whether members are removed because of what their claims reveal."""
        return self.lists_codes or self.rare_visible_diseases

    @property
    def lists_codes(self) -> bool:
        """Whether members with sensitive codes are removed."""
        return self.code_list is not None or bool(self.sets)

    @property
    def lists_drugs(self) -> bool:
        """Whether members with sensitive drugs are removed: `extended` has what `literal` has."""
        return self.code_list is not None or not drug_sets().isdisjoint(self.sets)

    @property
    def rule_of_codes(self) -> str:
        """The key that says which sensitive codes remove members."""
        return "removal.sets" if self.code_list is None else "removal.code_list"

    @property
    def listed_kinds(self) -> tuple[str, ...]:
        """Kinds of codes in the lists by which members are removed."""
        if self.lists_codes:
            return tuple(UNREADABLE)
        return ("diagnosis",) if self.rare_visible_diseases else ()

    @property
    def factor_at_most(self) -> float | None:
        """The limit on the factor of absence; None where nobody is removed, so that absence has nothing to disclose."""
        return self.absence_factor_at_most if self.removes_members else None

    @property
    def change_posterior_at_most(self) -> float | None:
        """The limit on what it discloses to be in one of two releases only."""
        own = self.disappearance_posterior_at_most
        return self.absence_posterior_at_most if own is None else own


class Sample(Section):
    """The random part of the eligible members that is released: a number of members, or a fraction."""

    members: People | None = Field(None, description="members to release")
    fraction: Annotated[float, Field(gt=0, le=1), AfterValidator(_not_negligible)] | None = Field(
        None, description="released members over members of the delivery"
    )
    keyed_by: Literal["member", "delivery"] = Field(
        "member",
        description="how members are drawn: by member, the same from every delivery and for every policy as far as they are "
        "eligible, so that releases together contain hardly more members than each alone; or by delivery, different "
        "ones for each delivery and policy",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> "Sample":
        if (self.members is None) == (self.fraction is None):
            raise ValueError("give either members or fraction")
        return self


class TopCoding(Section):
    """Largest values, released as one open class (methods#top-codes): payment delay and days in hospital."""

    percentile: Percentile = Field(description="values from this percentile on are one class")


class Grouping(Section):
    """How codes are grouped (methods#codes)."""

    charlson: Literal["quan", "deyo"] = Field("quan", description="whose list of comorbidities")
    charlson_diagnoses: Literal["all", "additional"] = Field(
        "all", description="diagnoses of a claim that count: all that are delivered, or those after the first"
    )


_WITHOUT_EFFECT = {"percentile": ("width", "risk", "cap", "lowest_bin"), "bins": (), "optimal_bins": ("lowest_bin",)}
"""Long-tail fields that a method ignores; a value other than the default would falsely seem to apply."""


class LongTail(Section):
    """Truncation of the claims of members with very many (methods#long-tail, methods#bins-of-claims).

    The percentile method is that of El Emam et al. 2012. Bins of claim counts, each empty or large enough, are that of
    El Emam & Arbuckle 2013.
    """

    method: Literal["percentile", "bins", "optimal_bins"] = Field(
        "percentile",
        description="how many claims stay: up to a percentile, or as many as leave every bin of the number of claims empty or "
        "large enough, by the backward algorithm of El Emam & Arbuckle 2013 (bins) or with the fewest claims removed "
        "(optimal_bins)",
    )
    percentile: Percentile | None = Field(None, description="claims beyond this percentile of claims per unit are cut")
    width: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="numbers of claims per bin")
    risk: Probability = Field(0.1, description="a bin contains at least 1 / risk members, or none")
    cap: Annotated[int, Field(ge=2, le=1_000_000)] | None = Field(
        None, description="number of claims from which on there is one open bin, such as 500 or more; null: none"
    )
    lowest_bin: Literal["widen", "drop"] = Field(
        "widen", description="what to do if the lowest bin is too small: use wider bins, or drop its claims"
    )
    unit: Literal["member", "member_year"] = Field(description="whose claims are counted")
    score: Literal["support", "balanced"] = Field("support", description="which claims are cut first")

    @model_validator(mode="after")
    def _complete(self) -> "LongTail":
        if self.method == "percentile" and self.percentile is None:
            raise ValueError("method percentile needs percentile: claims beyond it are cut")
        if self.method != "percentile" and self.percentile is not None:
            raise ValueError(f"percentile goes with method percentile; {self.method} has width, risk and cap")
        for name in _WITHOUT_EFFECT[self.method]:
            # A policy that is written out in full has every field, each with its default, and auditors read it again.
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} has no effect with method {self.method}; remove it, or choose another method")
        if self.cap is not None and self.cap <= self.width:
            raise ValueError(f"cap is {self.cap}: the open bin begins above the first bin, which has {self.width} numbers")
        return self


class QuasiIdentifier(Section):
    """A column that an adversary may know, its name in the release and its hierarchy."""

    release_as: ColumnName = Field(description="name of the column in the release")
    hierarchy: Name = Field(
        description="name of its hierarchy; a column that is published as it is needs one of kind fixed, because a "
        "quasi-identifier without a hierarchy would be published unjudged"
    )


class MemberQuasiIdentifier(QuasiIdentifier):
    """A quasi-identifier of members (level 1)."""

    column: Name = Field(description=f"column of the members: {', '.join(MEMBER_COLUMNS)}, or one that `columns` declares")


class ClaimQuasiIdentifier(QuasiIdentifier):
    """A quasi-identifier of claims (level 2)."""

    column: Name = Field(
        description=f"column of the claims: {', '.join((*CLAIM_COLUMNS, *DATE_COLUMNS))}, or one that `columns` declares"
    )


AnyQuasiIdentifier = MemberQuasiIdentifier | ClaimQuasiIdentifier


class QuasiIdentifiers(Section):
    """What an adversary may know. Columns that are not listed are not published."""

    members: tuple[MemberQuasiIdentifier, ...] = Field(min_length=1, description="columns of the members table")
    claims: tuple[ClaimQuasiIdentifier, ...] = Field(
        min_length=1, description="columns of the claims table; without any, a release would not be longitudinal"
    )

    @property
    def all(self) -> tuple[AnyQuasiIdentifier, ...]:
        """Quasi-identifiers of members, then those of claims."""
        return (*self.members, *self.claims)


class ClaimAttribute(Section):
    """A declared column of claims that only the person and the publisher know: it is published as it was made."""

    column: Name = Field(description="column of the claims that `columns` declares")
    release_as: ColumnName = Field(description="name of the column in the release")


class Dimension(Section):
    """A dimension of the lattice: columns that change level together."""

    name: Name = Field(description="name of the dimension")
    columns: tuple[Name, ...] = Field(min_length=1, description="its columns")


class Adversary(Section):
    """What the adversary knows about a target's claims (methods#adversary-power)."""

    power: Annotated[int, Field(ge=1, le=127)] = Field(description="highest number of known values of each quasi-identifier")
    rounding: Literal["nearest", "floor", "ceiling"] = Field("nearest", description="how a fractional power is rounded")
    scenarios: tuple[Annotated[tuple[Name, ...], Field(min_length=1)], ...] = Field(
        (),
        description="sets of tables of events, such as [[claims], [fills]]: each is an adversary who knows these tables only, "
        "instead of one who knows all, and each table is in one at least. A member is at high risk if any of them finds too "
        "few; empty: one adversary knows all tables",
    )
    total: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="highest number of known values of all quasi-identifiers of events together, chosen at random among those "
        "that `power` allows; null: all of these are known. It does not go with scenarios",
    )
    everything_known_at_most: Probability | None = Field(
        None,
        description="share of released members that may be at high risk from an adversary who knows everything that `power` "
        "allows. It is required where scenarios or a total assume less, and always measured beside the share that those limit; "
        "null: no less is assumed, and risk.max_high_risk_share is the limit",
    )

    @property
    def knows_less(self) -> bool:
        """Whether less is known than `power` allows."""
        return bool(self.scenarios) or self.total is not None


class Search(Section):
    """How the lattice is searched (methods#sequential-decision)."""

    aim: Annotated[float, Field(gt=0, le=1)] = Field(
        0.95,
        description="the search accepts nodes whose share at high risk is below this part of max_high_risk_share; above 1 it "
        "would choose nodes that the gate must refuse",
    )
    error: Annotated[float, Field(gt=0, lt=0.5), AfterValidator(_not_negligible)] = Field(
        0.001, description="total probability of a wrong decision"
    )
    draws_at_most: Draws = Field(2_000_000, description="draws after which an undecided node is not a candidate")
    enough: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="number of candidates of least loss to find; the search leaves nodes open that lose more than these, and "
        "they are not tried. null: every node is decided, which takes long for large lattices; of more than 2,000,000 nodes, "
        "the 500 best candidates are found",
    )
    exhaustive: bool = Field(
        False, description="whether every node is measured with all draws, instead of being decided early or from other nodes"
    )


class RiskGate(Section):
    """How the chosen node is judged, on separate draws."""

    draws: Draws = Field(1_000_000, description="simulated adversaries")
    statistic: Statistic = Field("upper_bound", description="the number that is compared with the threshold")
    confidence: Confidence = Field(0.99, description="confidence of the upper bound, over all tries together")


class Suppression(Section):
    """Whether members at high risk may be suppressed."""

    at_most: Share = Field(0.0, description="highest share of sampled members that may be suppressed; 0: none")
    values_at_most: SkipJsonSchema[Share] = 0.0  # only for reading policies of earlier versions: policy/kinds.py
    prefer: Literal["members", "detail"] = Field(
        "members",
        description="what the release keeps if it can keep one of them. members: members are suppressed only if no "
        "generalization passes with all of them. detail: up to at_most of the members are suppressed, so that the others keep "
        "more detail",
    )


class Risk(Section):
    """When a release is safe enough (El Emam et al. 2012, Figure 1; methods#risk-equations, methods#population)."""

    threshold: Probability = Field(description="a member is at high risk above this probability of re-identification")
    max_high_risk_share: Probability = Field(description="share of released members that may be at high risk (MaxSup)")
    worst_class_share_at_most: Probability | None = Field(
        None,
        description="the same in each class of released members with the same person-level values, judged by a bound that "
        "holds for all classes together; null: the worst class is measured and reported",
    )
    class_size: Literal["counted", "large_sample", "truncated_poisson", "truncated_binomial", "posterior", "test"] = Field(
        "counted",
        description="how the size of a class in the population is determined: counted in the delivery, or estimated from the "
        "release by the named estimator",
    )
    population_size: People | None = Field(
        None, description="size of the population that the delivery is an extract of; needed by estimators"
    )
    search: Search = Search()
    gate: RiskGate = RiskGate()
    suppression: Suppression = Suppression()
    loss: Literal["entropy_normalised", "entropy_raw"] = Field(
        "entropy_normalised", description="information loss for choosing among candidate nodes"
    )
    nodes_by_gain: Literal["report", "choose"] | None = Field(
        None,
        description="whether generalizations that pass, at most twelve, are compared by what their releases keep of the gain. "
        "report: the three that keep most are reported beside the one of least loss, which is published. choose: the one that "
        "keeps most is published. null: they are not compared, which takes less time",
    )


class AttackGate(Section):
    """A threshold on a success probability of an attack."""

    at_most: Probability = Field(description="highest acceptable success probability")
    statistic: Statistic = Field("upper_bound", description="the number that is compared with the threshold")
    confidence: Confidence = Field(0.99, description="confidence of the upper bound, over all tries together")


class NeighborAttack(Section):
    """Attack 1, the nosey neighbor (methods#attack-1): over all members, and given that the target is in the release."""

    trials: Trials = Field(10_000, description="number of simulated neighbors")
    unconditional: AttackGate | None = Field(
        description="gate on the success probability for any member; at most alpha by construction; null: no gate"
    )
    given_membership: AttackGate | None = Field(
        description="gate on the success probability for a member who is in the release; null: no gate"
    )


class Demographics(Section):
    """Classes on member-level columns alone; the share of members in small ones is limited by max_high_risk_share."""

    class_size_at_least: ClassSize = Field(20, description="smallest safe class in the population")


class ProviderSuppression(Section):
    """Identifiers of providers, vendors and PCPs are suppressed if few share a pattern of care (methods#provider-patterns)."""

    providers_at_least: ClassSize = Field(20, description="number of distinct identifiers that hide each other")
    estimator: Literal["counted"] = Field("counted", description="how class sizes are determined: counted in the delivery")
