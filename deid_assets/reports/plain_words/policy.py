"""A policy in plain words: what `deid policy check FILE` prints.

What is published, at which levels, how counts are protected, what is measured, and each gate with its limit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.registry import gates_of
from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier
from deid_assets.methods.disclosure.leak_limits import LIMITS, MADE_OF, REFINEMENT, SINGLED_OUT, SURE, TOGETHER_AT_MOST
from deid_assets.methods.lattice.candidate_gates import COMPARED_AT_MOST
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy, smallest_at_least
from deid_assets.policy.rules.needs import needs_of
from deid_assets.policy.sections.counts import ProtectedTables, characteristics_of, level_or_values, levels_of_records
from deid_assets.policy.sections.dates import Dates
from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS, MEMBER_COLUMNS, AttackGate, Statistic
from deid_assets.sources.diagnosis_systems import NAMES, DiagnosisCodes, FromColumn


def published_counts(policy: AnyPolicy) -> Iterator[str]:
    """Yield what is counted in a release of this policy, and how the counts are protected (methods#counts)."""
    section = policy.counts
    noise = f"{section.mechanism} normal noise of standard deviation {section.sd:g}"
    if section.protection == "none":
        yield "no tables of counts are published"
    else:
        yield f"tables of counts: what each step left, and who they are{_by(policy)}"
        yield _protection(section, noise)
    yield f"numbers about people in manifest and report: {noise}"
    yield (
        f"all noisy counts of this home together cost at most {section.budget.total:g} zCDP, and one cell is published with "
        f"noise of its own at most {section.lockout} times; a release beyond is refused"
    )


def _protection(section: ProtectedTables, noise: str) -> str:
    if section.protection == "noise":
        zeros = "zeros too" if section.zeros == "noisy" else "but zeros are shown"
        return f"every count has {noise}, {zeros}"
    small, values = section.masking.threshold, section.masking.values
    return (
        f"counts below {small} are hidden, and others by which fewer than {values} values would remain possible for one of "
        "them; all other counts are exact"
    )


def _by(policy: AnyPolicy) -> str:
    """The columns by which people are counted, with their levels."""
    if policy.has_events:
        columns = {
            policy.quasi_identifier(column).release_as: policy.hierarchy_of(column).level_names[level]
            for column, level in characteristics_of(policy).items()
        }
    elif policy.counts.characteristics is not None:
        levels, values = level_or_values(dict(policy.counts.characteristics))
        columns = levels | dict.fromkeys(values, "listed values")
    elif policy.kind == "flat":
        columns = {
            column: policy.hierarchy_of(column).level_names[level] for column, level in levels_of_records(policy).items()
        }
    else:
        return ", by all demographics, each at its level with the fewest classes, but several"
    return f", by {', '.join(f'{column} ({level})' for column, level in columns.items())}" if columns else ""


def columns_of_cohort(policy: CohortPolicy) -> Iterator[str]:
    """Yield what is published of a person."""
    person = policy.columns.person.release_as
    yield "demographics with one record per person; columns that are not listed are not published"
    yield "nothing identifies a person" if person is None else f"{person}: a pseudonym that differs in every delivery"
    roles = {"free": "as it is", "year": "as it is", "date": "its year"}
    for one in policy.attributes:
        reason = policy.reviewed_attributes.get(one.release_as)
        yield f"{one.release_as} ({one.column}): {roles[one.role]}" + (f"; reviewed: {reason}" if reason else "")
    yield (
        "rows with a value that cannot be read go to quarantine; the delivery is refused if they are more than "
        f"{policy.intake.quarantine_at_most * 100:.4g} % of the rows"
    )


def levels_of_cohort(policy: CohortPolicy) -> Iterator[str]:
    """Yield the level of every attribute of the demographics."""
    levels = policy.demographic_policy.levels
    for name, column in policy.demographic_columns.items():
        yield f"{column}: {name} at the level {levels[name]}"
    old = policy.demographics.old_ages
    if old is not None:
        yield f"ages from 90 on: for each {old.by} the finest of {', '.join(old.levels)} that is no riskier than Safe Harbor"
    date = policy.columns.date
    if date is not None:
        yield f"{date.dated * 100:.4g} % of the population are taken to have such a date from {date.first} to {date.last}"
    own = policy.population
    count = f" (its column {own.count})" if own.kind == "estimates" else ""
    yield f"the population is a table of kind {own.kind}{count}, delivered beside the cohort"


def gates_of_cohort(policy: CohortPolicy) -> Iterator[str]:
    """Yield what could refuse a release."""
    risk = policy.risk
    if risk.no_riskier_than is not None:
        at = f", T = {', '.join(map(str, risk.thresholds))}" if set(risk.measures) & {"graduated", "non-graduated"} else ""
        what = "an upper bound of the risk" if risk.compared == "upper_bound" else "the expected risk"
        yield (
            f"by {' and '.join(risk.measures)} risk{at}, {what} does not exceed the expected risk of Safe Harbor, in the whole "
            "cohort and in every state"
        )
        yield "Safe Harbor itself would leave at most one person in three re-identified"
    if risk.largest_at_most is not None:
        yield f"nobody is re-identified with a probability above {risk.largest_at_most:g}"
    yield (
        f"at most {risk.crowded_at_most * 100:.4g} % of the cohort are in rows of the population's table that are smaller than "
        "the cohort there"
    )
    yield "no published column holds values that look like one of Safe Harbor's eighteen identifiers"


def what_is_measured(policy: Policy | FlatPolicy) -> Iterator[str]:
    """Yield how the numbers are measured that the policy leaves a choice of; what limits them, the gates say."""
    yield (
        f"sensitive attributes of which classes may disclose values: {', '.join(policy.sensitive_columns) or 'none'}; "
        f"diversity is {policy.attribute_disclosure.l_kind}"
    )
    if not policy.has_events:
        return
    counted = "; limits apply to the larger of the estimate and the count in the delivery" if policy.counts_population else ""
    yield f"small classes and uniques of the population are estimated by {policy.population_estimates.estimator}{counted}"
    yield f"a provider is looked for by {policy.provider_graph.patterns_known} patterns of care, by all, and by shared patients"
    inference, model = policy.inference, policy.utility.model
    yield (
        f"{_words(inference.models, ' and ')} guess what is withheld ({_words(inference.columns, ', ')}) from what is released"
    )
    yield (
        f"days in hospital next year predicted by {model.replace('_', ' ')}, from the release instead of the delivery"
        if model
        else "days in hospital next year are not predicted"
    )
    if policy.risk.nodes_by_gain is not None:
        published = "that which keeps most" if policy.risk.nodes_by_gain == "choose" else "that of least loss"
        yield (
            f"up to {COMPARED_AT_MOST} generalizations that pass, compared by what they keep of the gain; {published} is "
            "published"
        )


def every_gate(policy: AnyPolicy) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Two blocks: what can refuse a release, with the limits of the policy, and what is only measured."""
    told = [
        (gate.limit(policy) is not None, f"{asset.replace('_', ' ')}: {gate.in_words(policy)}")
        for asset, gate in gates_of(policy)
        if gate.measurement != CANARIES
    ]
    return (
        ("Every number that can refuse a release", tuple(text for gated, text in told if gated)),
        ("Measured and reported, without a limit", tuple(text for gated, text in told if not gated)),
    )


def attribute_gates(policy: Policy | FlatPolicy, columns: Mapping[str, str], few: str) -> Iterator[str]:
    """Yield what columns published unchanged may disclose, and which of them were reviewed, with the reason.

    Parameters
    ----------
    columns
        Name in the release -> name in the delivery.
    few
        Number of holders from which a value singles nobody out.
    """
    judged = [column for column in columns if column not in policy.reviewed_attributes]
    if judged:
        yield (
            f"published as they are, after measuring what they disclose: {', '.join(judged)}. A column refuses the release "
            f"if more than {LIMITS[SINGLED_OUT] * 100:g} % of its values are held by fewer than {few}; if it discloses a "
            f"quasi-identifier at a finer level than it is released at (lambda above {LIMITS[REFINEMENT]:g}, or "
            f"{TOGETHER_AT_MOST:g} for several columns together, or more than {LIMITS[SURE] * 100:g} % disclosed with "
            f"certainty); if a finer quasi-identifier predicts it (lambda above {LIMITS[MADE_OF]:g}); or if its values or "
            "name look like direct identifiers. To publish it nevertheless, list it under reviewed_attributes with a reason"
        )
    for column in judged:
        if named_as_identifier(column) or named_as_identifier(columns[column]):
            yield f"{column} will be refused: its name says that it identifies people"
    for column, reason in policy.reviewed_attributes.items():
        yield (
            f"{column} is measured in the same way, and published whatever it discloses, because: {' '.join(reason.split())}"
        )


def _words(names: tuple[str, ...], between: str) -> str:
    return between.join(name.replace("_", " ") for name in names)


_Block = tuple[str, Iterable[str]]


def explain(policy: AnyPolicy) -> str:
    """Return what a policy does, in plain words.

    Covers what is removed, sampled, cut and generalized, against which adversary, and which gates decide.

    Examples
    --------
    >>> from deid_assets.policy import policy_by_name
    >>> print(explain(policy_by_name("heritage")).splitlines()[0])
    heritage: Heritage Health Prize, as published in 2012
    """
    blocks = (
        ("", (f"{policy.name}: {policy.title}", policy.description.strip())),
        ("Recipients", _recipients(policy)),
        *_OF_KIND[policy.kind](policy),
        *every_gate(policy),
    )
    return "\n\n".join(_block(title, lines) for title, lines in blocks)


def _longitudinal(policy: Policy) -> tuple[_Block, ...]:
    return (
        ("Intake", _intake(policy)),
        ("Removed", _removed(policy)),
        ("What these rules need from a delivery (it is refused otherwise)", _needs(policy)),
        ("Released", _released(policy)),
        ("Grouped, cut and top-coded", _cut(policy)),
        *((("Dates", _dates(policy.dates)),) if policy.dates else ()),
        ("Quasi-identifiers: what an adversary may know, and their levels", _quasi_identifiers(policy)),
        ("Lattice", _lattice(policy)),
        ("Adversary", _adversary(policy)),
        ("Gates: all must pass, or nothing is published", _gates(policy)),
        ("Counts", published_counts(policy)),
        ("Usefulness", _detail(policy)),
        ("How it is measured", what_is_measured(policy)),
    )


def _flat(policy: FlatPolicy) -> tuple[_Block, ...]:
    return (
        ("Released", _flat_columns(policy)),
        ("Quasi-identifiers: what an adversary may know, and their levels", _flat_levels(policy)),
        ("Gates: all must pass, or nothing is published", _flat_gates(policy)),
        ("Counts", published_counts(policy)),
        ("Usefulness", _detail(policy)),
        ("How it is measured", what_is_measured(policy)),
    )


def _cohort(policy: CohortPolicy) -> tuple[_Block, ...]:
    return (
        ("Released", columns_of_cohort(policy)),
        ("Demographics: what an adversary may know, and their levels", levels_of_cohort(policy)),
        ("Gates: all must pass, or nothing is published", gates_of_cohort(policy)),
        ("Counts", published_counts(policy)),
    )


_OF_KIND: Mapping[Kind, Callable[[Any], tuple[_Block, ...]]] = {"longitudinal": _longitudinal, "flat": _flat, "cohort": _cohort}
"""What is said of each kind of policy."""


def _flat_columns(policy: FlatPolicy) -> Iterator[str]:
    yield "a flat table with one record per person; columns that are not listed are not published"
    yield (
        "rows with a value that no hierarchy covers go to quarantine; the delivery is refused if they are more than "
        f"{_share(policy.intake.quarantine_at_most)} of the rows"
    )
    if policy.attributes:
        yield f"published as they are: {', '.join(column.release_as for column in policy.attributes)}"
    if policy.formulas == "neutralize":
        yield "attributes that a spreadsheet would interpret as formulas are prefixed with an apostrophe"


def _flat_levels(policy: FlatPolicy) -> Iterator[str]:
    for qi in policy.quasi_identifiers:
        hierarchy = policy.hierarchy(qi.hierarchy)
        joined = next((level for level in range(hierarchy.levels) if hierarchy.missing_label(level) is not None), None)
        blanks = "" if joined is None else f"; from '{hierarchy.level_names[joined]}' on, a missing value joins a class"
        yield f"{qi.release_as} ({qi.column}): {' > '.join(hierarchy.level_names)}{blanks}"
    yield "missing values are published as blanks, and are a class of their own unless stated otherwise"
    yield (
        f"the lattice has {policy.node_count:,} nodes; of those that pass, the one of least loss ({policy.risk.loss}) is chosen"
    )
    yield from _best_first(policy)


def _best_first(policy: Policy | FlatPolicy) -> Iterator[str]:
    if policy.node_count > LISTED_AT_MOST:
        yield (
            f"more than {LISTED_AT_MOST:,} nodes are searched best first: the certificate proves that no node loses less where "
            "the search gets so far, and else bounds how much less one could lose that was never measured"
        )


def _flat_gates(policy: FlatPolicy) -> Iterator[str]:
    where = "in the population's table" if policy.population else "in the release"
    yield f"every released record is in a class of at least {policy.risk.k} records {where}"
    yield f"at most {_share(policy.risk.max_suppressed)} of the records are left out because their class is smaller"
    yield from attribute_gates(
        policy, {column.release_as: column.column for column in policy.attributes}, f"{policy.risk.k} records"
    )


def _block(title: str, lines: Iterable[str]) -> str:
    if not title:
        return "\n".join(lines)
    return "\n".join([title, *(f"  - {line}" for line in lines)])


def _share(number: float) -> str:
    return f"{number * 100:.4g} %"


def _recipients(policy: ReleasePolicy) -> Iterator[str]:
    yield f"recipients: {policy.recipients.recipient_class}"
    yield f"terms of use: {' '.join(policy.recipients.terms_of_use.split())}"
    if policy.approval is not None:
        yield (
            f"what passes the gate is published once {' or '.join(policy.approval.by)} approves it, within "
            f"{policy.approval.within_days} days"
        )
    yield f"owners, who answer for releases: {', '.join(policy.owners)}"


def _intake(policy: Policy) -> Iterator[str]:
    yield f"deliveries of kind {policy.source.kind}"
    if (years := getattr(policy.source, "years", None)) is not None:
        outside = "left out, and counted" if years.outside == "leave_out" else "quarantined"
        yield f"claims of {years.first} to {years.first + years.count - 1} are read; those of other years are {outside}"
    yield f"diagnoses are codes of {_coding_system(policy.diagnosis_codes)}"
    yield (
        "rows that break a rule go to quarantine; the delivery is refused if they are more than "
        f"{_share(policy.intake.quarantine_at_most)} of the members or of the claims"
    )


def _coding_system(codes: DiagnosisCodes) -> str:
    if isinstance(codes, FromColumn):
        return f"the system that column {codes.from_} of the claims names"
    return "ICD-10-CM from October 2015 on, and of ICD-9-CM before" if codes == "by_date" else NAMES[codes]


def _removed(policy: Policy) -> Iterator[str]:
    removal = policy.removal
    if removal.code_list is not None:
        yield f"members with a code of the {removal.code_list} list of sensitive codes, with all of their claims"
    if removal.sets:
        sets = " and ".join(one.replace("_", " ") for one in removal.sets)
        yield f"members with a code of the named sets {sets}, with all of their claims"
    if removal.rare_visible_diseases:
        yield "members with a rare and visible disease, with all of their claims"
    if removal.removes_members:
        yield (
            "searched columns: the procedure, the place and all diagnoses of each claim that the source section maps, "
            "diagnosis_1 to diagnosis_25 and admitting_diagnosis"
        )
        yield f"members with a code that cannot be read ({', '.join(removal.listed_kinds)}): it may be a sensitive one"
    if policy.opt_outs.all_members:
        yield (
            f"members who opted out: {len(policy.opt_outs.all_members)}; the delivery is refused if it contains fewer than "
            f"{policy.opt_outs.matched_at_least:.0%} of them"
        )
    if policy.opt_outs.withdrawn:
        yield (
            f"members who opted out of all releases of this home: {len(policy.opt_outs.withdrawn)}; the delivery is refused if "
            f"fewer than {policy.opt_outs.matched_at_least:.0%} of them are in any delivery of the home"
        )
    if removal.newborn_days is not None:
        yield f"claims up to {removal.newborn_days} days after birth"
    if removal.non_procedure_claims:
        yield "claims whose procedure code is not from CPT (letter codes, three-digit codes)"
    if not removal.removes_members:
        yield "no member is removed for what their claims disclose"


def _needs(policy: Policy) -> Iterator[str]:
    yield from (need.stated for need in needs_of(policy))
    coded = policy.removal.coded_claims_at_least
    lacking = [kind for kind in policy.removal.listed_kinds if getattr(coded, kind) is None]
    if lacking:
        yield f"stated by the policy: a delivery may lack codes of {' and '.join(lacking)}, and no list searches them"


def _released(policy: Policy) -> Iterator[str]:
    sample = policy.sample
    # The number that is drawn is random around the policy's (`sample_size`).
    size = f"{sample.members} members" if sample.fraction is None else f"{_share(sample.fraction)} of the members"
    yield f"a random sample of the eligible members: about {size}"
    if sample.keyed_by == "member":
        yield "members are drawn in a secret order that is the same for every delivery, as far as they are eligible"
    else:
        yield "each delivery and policy draws different members, so releases together contain more of the population"
    if policy.releases.pseudonyms == "stable":
        yield "pseudonyms of members are the same in all releases of this policy, so that its releases can be joined"
    if policy.releases.generalization == "pinned":
        yield "the levels of the last release of this policy are used again; they are measured again, and refused if they fail"
    if policy.counts_population:
        yield "the population is the delivery: classes are counted among all its members, including removed ones"
    else:
        yield (
            f"the delivery is an extract of a population of {policy.risk.population_size} members; class sizes in the "
            f"population are estimated from the release ({policy.risk.class_size})"
        )
    if policy.declared_alpha is not None:
        yield f"alpha, released members over members of the population: {policy.declared_alpha:.4g}"
    for of, columns in (("members", MEMBER_COLUMNS), ("claims", CLAIM_COLUMNS)):
        unpublished = [column for column in columns if not policy.publishes(column)]
        if unpublished:
            yield f"columns of {of} that are not published, so nobody can match them: {', '.join(unpublished)}"


def _cut(policy: Policy) -> Iterator[str]:
    grouping = policy.grouping
    yield f"Charlson index after {grouping.charlson.capitalize()}, {grouping.charlson_diagnoses} diagnoses"
    yield _long_tail(policy)
    yield (
        f"payment delay and days in hospital are top-coded: one class from the {policy.top_coding.percentile:g}th percentile on"
    )


def _long_tail(policy: Policy) -> str:
    tail = policy.long_tail
    unit = tail.unit.replace("_", " and ")
    first = "the least supported first" if tail.score == "support" else "the lowest balanced score first"
    if tail.method == "percentile":
        return f"claims beyond the {tail.percentile:g}th percentile of claims per {unit} are cut, {first}"
    cap = f", with one bin from {tail.cap} on" if tail.cap is not None else ""
    how = "as few claims as possible are cut" if tail.method == "optimal_bins" else "claims are cut"
    return (
        f"{how} so that each bin of {tail.width} numbers of claims per {unit}{cap} is empty or contains at least "
        f"{smallest_at_least(1 / tail.risk)}, {first}"
    )


def _dates(dates: Dates) -> Iterator[str]:
    period = dates.anchor.replace("_", " ")
    yield (
        f"released as {dates.release_as}, "
        + ("as dates" if dates.format == "dates" else "as days since the member's first service")
        + f": birth, or else the first service, becomes a random day of its {period}; intervals are redrawn from bins of "
        f"{dates.width} days, except those of 0 and 1 day; the order is kept"
    )
    if dates.narrower:
        yield (
            f"bins of {dates.narrower.width} days for members whose sex and ten years of age are shared by at least "
            f"{dates.narrower.class_size_at_least} members"
        )
    ends = {"redraw": "drawn again, and in the end squeezed within their bins", "clip": "set to the first or last day"}
    yield f"dates that leave the years of the delivery are {ends[dates.study_end]}"
    for one in dates.connected:
        yield f"{one.release_as} follows the date of service by a random number of days within the released {one.offset}"
    if dates.intervals_known == "in_order":
        yield "an adversary may know which interval followed which"
    if dates.ordered_services_at_most is not None:
        yield (
            f"at most {_share(dates.ordered_services_at_most)} of the members may share demographics and any three consecutive "
            "services, in order, with too few others"
        )
    made = {"recompute": "computed again from released dates", "drop": "not released"}
    yield f"length of stay, payment delay and days since first claim are {made[dates.derived]}"


def _quasi_identifiers(policy: Policy) -> Iterator[str]:
    for of, listed in (("member", policy.quasi_identifiers.members), ("claim", policy.quasi_identifiers.claims)):
        for found in listed:
            levels = " > ".join(policy.hierarchy(found.hierarchy).level_names)
            yield f"{found.column} of a {of}, published as {found.release_as}: {levels}"
    yield from _missing_values(policy)


def _missing_values(policy: Policy) -> Iterator[str]:
    """How missing values are published: as part of a class if the policy says so, else as blanks."""
    columns_of: dict[tuple[str, str], list[str]] = {}
    for found in policy.quasi_identifiers.members:
        hierarchy = policy.hierarchy(found.hierarchy)
        for level, name in enumerate(hierarchy.level_names):
            label = hierarchy.missing_label(level)
            if label is not None:
                columns_of.setdefault((name, label), []).append(found.column)
    for (name, label), columns in columns_of.items():
        yield (
            f"at level '{name}', a missing {' or '.join(columns)} joins the class '{label}', so the release does not "
            "disclose whether it is missing"
        )
    others = "other missing values are" if columns_of else "missing values are"
    yield (
        f"{others} published as blanks: for a member they are a class of their own, for a claim an adversary does not know them"
    )


def _lattice(policy: Policy) -> Iterator[str]:
    for dimension, levels in zip(policy.dimensions, policy.dimension_levels, strict=True):
        yield f"{dimension.name}: {levels} levels of {', '.join(dimension.columns)}"
    product = " x ".join(str(levels) for levels in policy.dimension_levels)
    yield f"nodes: {product} = {policy.node_count:,}" if product else "nodes: 1, nothing is generalized"
    yield from _best_first(policy)
    search = policy.risk.search
    aim = search.aim * policy.risk.max_high_risk_share
    yield f"candidates have a share at high risk below {_share(aim)}, decided with error probability {search.error:g}"
    yield (
        f"the candidate of least loss is chosen ({policy.risk.loss}); a node that is undecided after {search.draws_at_most} "
        "draws is not a candidate"
    )


def _adversary(policy: Policy) -> Iterator[str]:
    yield "knows every member-level quasi-identifier of the target"
    if policy.quasi_identifiers.claims:
        yield (
            f"knows up to {policy.adversary.power} values of each claim-level quasi-identifier, and fewer if the target's "
            f"values vary and claims are few (rounded: {policy.adversary.rounding})"
        )


def _gates(policy: Policy) -> Iterator[str]:
    risk, k = policy.risk, policy.safe_class_size
    estimated = "" if policy.counts_population else ", as estimated from the release"
    yield (
        f"high risk: a member whose probability of re-identification is above {risk.threshold:g}, because they share what "
        f"the adversary knows with fewer than {k} members of the population{estimated}, themselves included"
    )
    yield (
        f"at most {_share(risk.max_high_risk_share)} of released members are at high risk: "
        f"{_decides(risk.gate.statistic, risk.gate.confidence)} over {risk.gate.draws} fresh draws"
    )
    if risk.worst_class_share_at_most is None:
        yield "the worst class of members with the same released person-level values is measured and reported, but not gated"
    else:
        yield (
            f"in each class of members with the same released person-level values, at most "
            f"{_share(risk.worst_class_share_at_most)} of the draws are at high risk: one bound for all classes together, on "
            "fresh draws whose number a pilot fixed"
        )
    if risk.suppression.at_most > 0:
        purpose = "so that the others keep more detail" if policy.prefers_detail else "to reach this"
        yield (
            f"{purpose}, up to {_share(risk.suppression.at_most)} of the sampled members may be suppressed, those whom "
            "simulated adversaries find most often; the remaining members are measured again on fresh draws that did not "
            "select them"
        )
    else:
        yield "no member is suppressed to reach this"
    yield (
        f"by member-level values alone, at most {_share(risk.max_high_risk_share)} of released members are in a class of "
        f"fewer than {policy.demographics.class_size_at_least} members of the delivery"
    )
    yield from _number_of_claims(policy)
    attack = policy.neighbor_attack
    if attack.unconditional is not None:
        yield f"a nosey neighbor finds a given member {_attack(attack.unconditional, attack.trials)}"
    if attack.given_membership is not None:
        yield (
            "a nosey neighbor who knows that the target is in the release finds them "
            f"{_attack(attack.given_membership, attack.trials)}"
        )
    yield from _sensitivity(policy)
    yield from _absence(policy)
    yield (
        f"members who are not in an earlier release share their demographics with at least {k} others who are not in it, and "
        f"newcomers with {k} newcomers; otherwise they are left out"
    )
    voters, discharges = policy.voter_list_attack, policy.inpatient_attack
    who = "a list of the members of the delivery" if voters.table is None else f"a voter list ({voters.table.file})"
    yield f"an adversary who compares age and sex with {who} {_matched(voters.at_most, 'members')}"
    visits = (
        "the inpatient claims of the delivery"
        if discharges.table is None
        else f"all visits of a discharge database ({discharges.table.file})"
    )
    yield (
        f"an adversary who compares all visits with {visits} {_matched(discharges.at_most, 'members with inpatient visits')}"
    )
    yield (
        "identifiers of providers, vendors and PCPs are blanked where fewer than "
        f"{policy.provider_suppression.providers_at_least} share a pattern of care"
    )
    yield from attribute_gates(
        policy,
        {name: policy.attribute_names.get(name, name) for name in policy.passed_on_columns},
        f"{k} members of the delivery",
    )


def _absence(policy: Policy) -> Iterator[str]:
    """What absence may disclose, where members are removed for what their claims disclose."""
    removal = policy.removal
    if not removal.removes_members:
        return
    factor, posterior = removal.factor_at_most, removal.absence_posterior_at_most
    if factor is not None:
        yield (
            f"absence from all releases multiplies the odds of a sensitive condition of a known member by at most {factor:g} "
            f"in every demographic class: at most {_share(1 - 1 / factor)} of its eligible members may ever be released"
        )
    else:
        yield "the factor by which absence multiplies the odds of a sensitive condition is measured and reported, but not gated"
    if posterior is not None:
        yield (
            f"absence from the release discloses a sensitive condition of a known member with probability at most {posterior:g}"
        )
    else:
        yield "the probability that absence discloses a sensitive condition is measured and reported, but not gated"
    if policy.rotation is None:
        yield (
            "being in one of two releases and absent from the other discloses a sensitive condition with probability at most "
            f"{removal.change_posterior_at_most:g}, for every demographic class and every earlier release; releases of one "
            "delivery must have the same members removed"
        )
    else:
        yield (
            f"each member of earlier releases leaves for good with probability {policy.rotation:g} at every later delivery, "
            "and nobody who disappeared returns: disappearing multiplies the odds of a new sensitive condition by at most "
            f"{1 / policy.rotation:.1f}, and discloses one with probability at most {removal.change_posterior_at_most:g}, even "
            "of somebody known not to have left the population; members who were removed once stay removed; releases of one "
            "delivery must have the same members removed"
        )


def _number_of_claims(policy: Policy) -> Iterator[str]:
    """How the number of claims is treated, and what is required of it."""
    section, size = policy.number_of_claims, max(policy.demographics.class_size_at_least, policy.safe_class_size)
    known = policy.measured_number_of_claims
    number = f"the number of claims {'in each year' if known.per == 'member_year' else 'in all'}, to within {known.width},"
    if section is None:
        yield f"an adversary who also knows {number} is measured and reported, but not gated"
        return
    levels = ", ".join(f"{name}: {level}" for name, level in section.reference.items())
    yield (
        f"if the adversary also knows {number} the same limit applies; claims are cut until every bin of {known.width} is "
        f"empty or contains {size} members of every class of the delivery" + (f" ({levels})" if levels else "")
    )
    if section.with_values is None:
        yield "an adversary who knows that number and values of claims is measured and reported, but not gated"
    else:
        yield (
            "a neighbor who knows that number and values of claims finds a target known to be in the release "
            f"{_attack(section.with_values, policy.attack_sensitivity.trials)}, at the plausible powers of attack_sensitivity"
        )


def _detail(policy: ReleasePolicy) -> Iterator[str]:
    otherwise = "the headline says that it does not" if policy.publish_however_coarse else "nothing is published"
    for name, share in policy.detail_at_least.items():
        yield f"{name} keeps at least {_share(share)} of its delivered information, or {otherwise}"
    if not policy.detail_at_least:
        yield (
            "no minimum is set: a release passes even if its columns carry no information, and the report shows how much "
            "each column keeps (detail_at_least)"
        )


def _sensitivity(policy: Policy) -> Iterator[str]:
    """The gates on attack 1 under other assumptions, including what is measured without a gate."""
    section = policy.attack_sensitivity
    if not section.gates:
        yield "attack 1 under other assumptions is measured and reported, but not gated"
    plausible = section.plausible
    cells = f"{', '.join(plausible.variants).replace('_', ' ')}; power {', '.join(map(str, plausible.powers))}"
    for figure, gate in section.gates.items():
        whom = "a given member" if figure == "unconditional" else "a target known to be in the release"
        yield f"in the worst plausible case ({cells}), a neighbor finds {whom} {_attack(gate, section.trials)}"


def _attack(gate: AttackGate, trials: int) -> str:
    decides = _decides(gate.statistic, gate.confidence)
    return f"with probability at most {gate.at_most:g}: {decides} over {trials} simulated neighbors"


def _matched(at_most: float | None, whom: str) -> str:
    if at_most is None:
        return f"is expected to match a share of released {whom} that is only reported"
    return f"is expected to match at most {_share(at_most)} of released {whom}"


def _decides(statistic: Statistic, confidence: float) -> str:
    if statistic == "estimate":
        return "judged by the estimate"
    return f"judged by the {_share(confidence)} upper confidence bound (its error split over at most {TRIES_AT_MOST} tries)"
