"""Rules that a policy must satisfy for its gates to be meaningful.

Each rule is a function that yields problems. Its docstring and its message both state why it exists, so that users who
are refused can judge the reason. Rules cover several sections together; `sections/` defines single fields, and
`hierarchies/` defines what a hierarchy is.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from deid_assets.errors import PolicyError, how_many
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST, clopper_pearson_upper_bound, confidence_of_try
from deid_assets.methods.statistics.population_class_size import minimum_sample_class_size
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.hierarchies.specs import DatesSpec, IntervalsSpec
from deid_assets.policy.models import Policy
from deid_assets.policy.problems import Path, Problem, did_you_mean
from deid_assets.policy.rules.claims import date_problems, diagnosis_code_problems, drug_problems
from deid_assets.policy.rules.limits import limit_problems
from deid_assets.policy.rules.reserved_names import is_reserved
from deid_assets.policy.sections import longitudinal
from deid_assets.policy.sections.columns import DaysSince, MonthsEnrolled, Results
from deid_assets.policy.sections.counts import count_table_problems
from deid_assets.policy.sections.disclosure import INFERRED
from deid_assets.policy.sections.sensitivity import number_of_claims_problems
from deid_assets.reference.known_columns import BESIDE_DAYS, YEARS
from deid_assets.sources.delivery import YEARS_BY_DEFAULT, ClaimsMap, SyntheticSource, TablesSource
from deid_assets.store.tables import ALL_EVENTS, events_file, number_of

if TYPE_CHECKING:
    from deid_assets.policy.kinds import AnyPolicy

LATTICE_COLUMNS = (
    "node", "height", "loss", "flagged", "draws", "share", "lower", "upper", "decision", "reached", "inferred_from",
    "minimal", "chosen", "certificate", "to_suppress", "measured_in_order",
)  # fmt: skip
"""Reserved names: columns of the node table, which also has one column per dimension."""

MOST_CANDIDATES = 5_000
"""Largest number of candidates to find in a lattice that is not listed."""


P = TypeVar("P", bound=ReleasePolicy)
Rule = Callable[[Policy], Iterator[Problem]]


def first_problems(policy: P, *stages: Sequence[Callable[[P], Iterator[Problem]]]) -> tuple[Problem, ...]:
    """Return the problems of the first stage of rules that finds any: later rules apply to what earlier ones let through."""
    found = (tuple(problem for rule in rules for problem in rule(policy)) for rules in stages)
    return next(filter(None, found), ())


def problems(policy: Policy) -> tuple[Problem, ...]:
    """Return every problem of a policy, in the order of the rules; the others apply to columns that are known."""
    return first_problems(policy, (_declared_columns, _known_columns), RULES)


def check_vacuous(policy: Policy, alpha: float) -> None:
    """Refuse a policy whose gates cannot fail, or whose sample reveals who was removed, at a delivery's alpha.

    The loader calls this with the alpha that a policy states. The gate calls it again with the measured alpha, because
    a number of members to release becomes a fraction only once the delivery has been counted.

    Parameters
    ----------
    policy
        The policy.
    alpha
        Released members over population members, in (0, 1]; cumulative over all releases of one population.

    Raises
    ------
    PolicyError
        With every reason.
    """
    found = vacuous(policy, alpha)
    if found:
        raise PolicyError(
            f"policy {policy.name} is refused at alpha = {alpha:.4g}: "
            + "; ".join(f"{problem.field}: {problem.message}" for problem in found)
        )


def vacuous(policy: Policy, alpha: float) -> tuple[Problem, ...]:
    """Return the reasons why the policy's gates are meaningless at this alpha; empty if they are meaningful."""
    rules = (_class_size_one, _estimates_pass_all, _certain_attack_bound, _absence_proves)
    return tuple(problem for rule in rules for problem in rule(policy, alpha))


def _class_size_one(policy: Policy, alpha: float) -> Iterator[Problem]:
    """1/F does not depend on alpha, yet k (ceil(20 alpha) by the large-sample rule) falls to 1: everything passes."""
    rule, threshold = policy.risk.class_size, policy.risk.threshold
    if rule == "counted" or minimum_sample_class_size(alpha, rule, policy.safe_class_size) > 1:
        return
    yield Problem(
        ("risk", "class_size"),
        f"{rule} is vacuous here: at alpha = {alpha:.4g} and threshold {threshold:g} it estimates every class to be large "
        "enough, from k = 1 member on, so every release would pass, even one of unique members; use counted if the delivery "
        "is the population, else truncated_poisson or test",
    )


def _estimates_pass_all(policy: Policy, alpha: float) -> Iterator[Problem]:
    """Same check for the estimator whose share of small classes is a gate, whatever rule the search uses."""
    estimates = policy.population_estimates
    enough = max(policy.demographics.class_size_at_least, policy.safe_class_size)
    if estimates.small_class_share_at_most is None or minimum_sample_class_size(alpha, estimates.estimator, enough) > 1:
        return
    yield Problem(
        ("population_estimates", "small_class_share_at_most"),
        f"{estimates.estimator} is vacuous here: at alpha = {alpha:.4g} it estimates every class at {enough} or more, even "
        "that of a unique member, so it cannot exceed any limit; use truncated_poisson or test",
    )


def _certain_attack_bound(policy: Policy, alpha: float) -> Iterator[Problem]:
    """Unconditional success of attack 1 is at most alpha by construction: such a gate alone cannot fail."""
    for section in ("neighbor_attack", "attack_sensitivity"):
        gates = getattr(policy, section)
        if gates.given_membership is not None or gates.unconditional is None or gates.unconditional.at_most < alpha:
            continue
        yield Problem(
            (section, "unconditional", "at_most"),
            f"{gates.unconditional.at_most:g} is vacuous here: the neighbor can find a target only if the target is "
            f"released, which has probability alpha = {alpha:.4g}, so this gate cannot fail; gate given_membership too, or "
            "set at_most below alpha",
        )


def _absence_proves(policy: Policy, alpha: float) -> Iterator[Problem]:
    """If all others are released, an absent member must have been removed for a sensitive condition (methods#absence).

    Covers only the obvious case. How much absence discloses in each class is gated once its members are counted
    (removal.absence_factor_at_most, removal.absence_posterior_at_most).
    """
    if alpha >= 1 and policy.removal.removes_members:
        yield Problem(
            ("sample",),
            "if all eligible members are released (alpha = 1) while members with sensitive conditions are removed, absence "
            "discloses that a member has such a condition; release a random part, or remove nobody",
        )


def _absence_is_gated(policy: Policy) -> Iterator[Problem]:
    """Where members are removed for what their claims disclose, absence discloses it, and so does disappearance."""
    removal = policy.removal
    if not removal.removes_members:
        return
    if removal.absence_factor_at_most is None and removal.absence_posterior_at_most is None:
        yield Problem(
            ("removal",),
            "members are removed for what their claims disclose, so that absence discloses it, and no limit is set; set "
            "absence_factor_at_most, the factor by which releases may multiply the odds of a sensitive condition (1.25 lets a "
            "fifth of the eligible members be released), or absence_posterior_at_most, the probability of one",
        )
    if removal.change_posterior_at_most is None:
        yield Problem(
            ("removal",),
            "members are removed for what their claims disclose, so that it discloses something to be in one of two releases "
            "and absent from the other, and no limit is set; set disappearance_posterior_at_most, the probability of a new "
            "sensitive condition, such as 0.15",
        )


def _rotation_can_apply(policy: Policy) -> Iterator[Problem]:
    """Rotation hides who was newly removed among those who left; it takes both, and a sample that repeats."""
    if policy.rotation is None:
        return
    if not policy.removal.removes_members:
        yield Problem(
            ("rotation",),
            "no member is removed for what claims disclose, so that disappearing discloses nothing that rotation could hide; "
            "leave rotation out",
        )
    if policy.sample.keyed_by == "delivery":
        yield Problem(
            ("rotation",),
            "every delivery has other members where sample.keyed_by is delivery, so that nearly all of them disappear anyway; "
            "leave rotation out, or draw members by member",
        )


def _not_vacuous(policy: Policy) -> Iterator[Problem]:
    """Gates must be able to fail: checked here if the policy alone determines alpha, and always again by the gate.

    If the delivery is an extract, alpha is below the released fraction of it. A policy that is vacuous at that fraction
    is vacuous below it.
    """
    alpha = policy.declared_alpha if policy.declared_alpha is not None else policy.sample.fraction
    if alpha is not None and alpha <= 1:
        yield from vacuous(policy, alpha)


def _attack_gates(policy: Policy) -> Iterator[Problem]:
    """An attack that is simulated but is not a gate protects nobody from it."""
    gates = policy.neighbor_attack
    if gates.unconditional is None and gates.given_membership is None:
        yield Problem(
            ("neighbor_attack",),
            "neither unconditional nor given_membership has a gate, so the attack could succeed without consequence; set "
            "at_most for one of them",
        )


def _population(policy: Policy) -> Iterator[Problem]:
    """An estimator uses alpha to convert release class sizes to population class sizes, so it needs a population size."""
    risk = policy.risk
    if not policy.counts_population and risk.population_size is None:
        yield Problem(
            ("risk", "population_size"),
            f"is missing: class_size {risk.class_size} estimates the population from the release, and an extract does not "
            "show how large its population is; state it, or use counted",
        )
    if policy.counts_population and risk.population_size is not None:
        yield Problem(
            ("risk", "population_size"),
            "needs an estimator: counted uses the members of the delivery as the population",
        )
    members = policy.sample.members
    if members is not None and risk.population_size is not None and members > risk.population_size:
        yield Problem(
            ("sample", "members"),
            f"{members} members cannot be released from a population of {risk.population_size}",
        )


def bound_of_no_success(trials: int, confidence: float) -> float:
    """Return `empirical_bernstein_upper_bound` for a mean in [0, 1] when all trials are 0.

    Examples
    --------
    >>> round(bound_of_no_success(10_000, 0.99), 6)
    0.001236
    """
    return 7 * math.log(2 / (1 - confidence)) / (3 * (trials - 1)) if trials > 1 else 1.0


def _enough_draws(policy: Policy) -> Iterator[Problem]:
    """A gate needs enough draws to decide.

    If the bound decides and exceeds the threshold before the first flag, every release is refused, however safe. If the
    estimate decides, too few draws pass nearly every release, however risky. The last try is judged most strictly.
    """
    gate, limit = policy.risk.gate, policy.risk.max_high_risk_share
    confidence = confidence_of_try(gate.confidence, TRIES_AT_MOST)
    bound = clopper_pearson_upper_bound(0, gate.draws, confidence)
    if bound > limit:
        needed = math.ceil(math.log1p(-confidence) / math.log1p(-limit))
        yield Problem(
            ("risk", "gate", "draws"),
            f"{how_many(gate.draws, 'draw is', 'draws are')} too few: even if none is flagged, the {confidence:g} upper bound "
            f"of the last try is {bound:.4g}, above max_high_risk_share {limit:g}, so {_too_few(gate.statistic)}; at least "
            f"{needed} are needed",
        )
    attack = policy.neighbor_attack
    for name, found in (("unconditional", attack.unconditional), ("given_membership", attack.given_membership)):
        if found is not None:
            yield from _enough_trials(name, found, attack.trials)


def _enough_trials(name: str, gate: longitudinal.AttackGate, trials: int) -> Iterator[Problem]:
    confidence = confidence_of_try(gate.confidence, TRIES_AT_MOST)
    bound = bound_of_no_success(trials, confidence)
    if bound > gate.at_most:
        needed = math.ceil(7 * math.log(2 / (1 - confidence)) / (3 * gate.at_most)) + 1
        yield Problem(
            ("neighbor_attack", "trials"),
            f"{trials} trials are too few for {name}: even without any success, the {confidence:g} upper bound of the last "
            f"try is {bound:.4g}, above at_most {gate.at_most:g}, so {_too_few(gate.statistic)}; at least {needed} are needed",
        )


def _too_few(statistic: longitudinal.Statistic) -> str:
    """The consequence of too few draws."""
    return "no release could pass" if statistic == "upper_bound" else "an unsafe release could pass by chance"


def _known_columns(policy: Policy) -> Iterator[Problem]:
    """A column that nobody knows cannot be read; one that is declared and not released would be read for nothing."""
    attributes, summed = [one.column for one in policy.attributes], [one.column for one in policy.counts.totals]
    of_claims = (*longitudinal.CLAIM_COLUMNS, *longitudinal.DATE_COLUMNS)
    for table, known in (("members", longitudinal.MEMBER_COLUMNS), ("claims", of_claims)):
        declared = policy.columns.members if table == "members" else policy.columns.of_events
        allowed = (*known, *declared)
        listed = [qi.column for qi in getattr(policy.quasi_identifiers, table)]
        for number, name in enumerate(listed):
            if name not in allowed:
                yield Problem(
                    ("quasi_identifiers", table, number, "column"),
                    f"'{name}' is not a column of {table}{did_you_mean(name, allowed)}; columns: {', '.join(allowed)}; "
                    "`columns` declares others",
                )
        for name in declared:
            if name not in (*listed, *(attributes if table == "claims" else summed)):
                beside = " or in attributes" if table == "claims" else ", sum it (counts.totals)"
                yield Problem(
                    ("columns", table if table == "members" else policy.columns.table_of(name), name),
                    f"is declared and not released: list it in quasi_identifiers.{table}{beside}, or remove it",
                )
    for number, name in enumerate(attributes):
        path: Path = ("attributes", number, "column")
        if name not in policy.columns.of_events:
            allowed = tuple(policy.columns.of_events)
            yield Problem(
                path,
                f"'{name}' is not a declared column of claims{did_you_mean(name, allowed)}; columns.claims declares "
                f"{', '.join(allowed) or 'none'}",
            )
        elif name in attributes[:number] or name in policy.claim_names:
            yield Problem(path, f"column {name} is listed twice: it would be published at two levels")


def _declared_columns(policy: Policy) -> Iterator[Problem]:
    """A declared column must not be mistaken for one of the store, and its source must have cells of its own."""
    numbers = {number_of(table) for table in policy.event_tables}
    seen: set[str] = set()
    for table, columns in policy.columns.tables.items():
        for name in columns:
            if is_reserved(name) or name in seen | numbers:
                yield Problem(("columns", table, name), f"the store already has a column {name}; choose another name")
        seen |= {*columns}
    yield from _event_tables(policy)
    yield from _identifying(policy)
    if policy.columns.claims and policy.source.kind == "desynpuf":
        yield Problem(
            ("columns", "claims"),
            "the three kinds of DE-SynPUF claims have no further column in common; declare columns of members, or read the "
            "files as tables",
        )
    yield from _months_enrolled(policy)
    yield from _anchors(policy)
    without_cells = policy.source.kind == "desynpuf" or (policy.source.kind == "tables" and policy.source.claims is None)
    of_events = {name: made for name, made in policy.columns.declared.members.items() if made.of_events}
    for name, made in of_events.items():
        if made.table not in policy.event_tables:
            told = f"'{made.table}' is no table of events{did_you_mean(made.table, policy.event_tables)}"
            yield Problem(("columns", "members", name, "of"), f"{told}; tables: {', '.join(policy.event_tables)}")
        elif made.table == "claims" and made.cells and without_cells:
            yield Problem(("columns", "members", name), "this source has no table of claims with the column that it reads")


def _months_enrolled(policy: Policy) -> Iterator[Problem]:
    """Months of enrolment need spans, and years that are read."""
    source, years = policy.source, 0
    needs = "source.years, and the columns enrolled_from and enrolled_until"
    if isinstance(source, TablesSource) and source.years is not None and "enrolled_from" in source.members.columns:
        years = source.years.count
    elif isinstance(source, SyntheticSource):
        years, needs = YEARS_BY_DEFAULT if source.members.unit == "span" else 0, "source.members.unit: span"
    for name, column in policy.columns.members.items():
        if isinstance(column, MonthsEnrolled) and not years:
            yield Problem(("columns", "members", name), f"needs {needs}")
        elif isinstance(column, MonthsEnrolled) and column.year > years:
            yield Problem(("columns", "members", name, "year"), f"the policy reads {years} years (source.years)")


def _anchors(policy: Policy) -> Iterator[Problem]:
    """An anchor is sought in tables of events with dates of service, among them that of the column: no day is before it."""
    source = policy.source
    mapped = source.tables if isinstance(source, TablesSource) else {}
    for table, columns in policy.columns.events.items():
        for name, column in columns.items():
            if not isinstance(column, DaysSince):
                continue
            here = ("columns", table, name, "of")
            for other in column.of:
                if other not in policy.event_tables:
                    yield Problem(here, f"{other} is no table of events{did_you_mean(other, policy.event_tables)}")
                elif other in mapped and "service_date" not in mapped[other].columns:
                    yield Problem(here, f"{other} has no service_date, so its first event is not known")
            if table not in column.of:
                yield Problem(here, f"does not name {table}, so days would be negative")
            if len(set(column.of)) < len(column.of):
                yield Problem(here, "names a table twice")


_TAKEN = ("members", "claims", "records", "people", "attrition", "characteristics", "distributions", "totals", "files")


def _results(policy: Policy, table: str) -> list[str]:
    """The declared columns of a table of events that are laboratory results, which no list of codes reads."""
    return [name for name, column in policy.columns.events.get(table, {}).items() if isinstance(column, Results)]


def _event_tables(policy: Policy) -> Iterator[Problem]:
    """A table of events is delivered, has columns by which the adversary knows it, and a file of its own in the release."""
    delivered = policy.source.events
    if delivered and not policy.claim_columns_of("claims"):
        yield Problem(("quasi_identifiers", "claims"), "none is of claims; without any, a release would not be longitudinal")
    listed = [policy.columns.table_of(qi.column) for qi in policy.quasi_identifiers.claims]
    if listed != sorted(listed, key=[*policy.columns.events].index):
        yield Problem(
            ("quasi_identifiers", "claims"), f"list the columns table by table, in this order: {', '.join(policy.event_tables)}"
        )
    declared = [table for table in policy.columns.events if table != "claims"]
    for table in declared:
        if table not in delivered:
            told = f"no table of the source{did_you_mean(table, delivered)}: source.events says where its rows are"
            yield Problem(("columns", table), told)
    names = [events_file(table).lower() for table in delivered]
    for table, one in delivered.items():
        here = ("source", "events", table)
        own = events_file(table).lower()
        if own in _TAKEN or own.startswith("daysinhospital") or names.count(own) > 1:
            yield Problem(
                here, f"the file {events_file(table)} of the release would have the name of another: choose another name"
            )
        if table == ALL_EVENTS:
            yield Problem(here, f"{ALL_EVENTS} are the rows of all tables: choose another name")
        if not set(policy.claim_columns_of(table)) & {*policy.columns.events.get(table, ())}:
            yield Problem(here, "has no quasi-identifier: say in `columns` what an adversary may know of its rows")
        coded = any(name in policy.columns.declared.coded for name in policy.columns.events.get(table, ()))
        if policy.removal.lists_codes and one.without_codes is None and _results(policy, table):
            told = "a laboratory test may tell of a condition as a diagnosis does: say in without_codes why those listed do not"
            yield Problem(here, f"{policy.removal.rule_of_codes} removes members for codes, and {told}")
        elif policy.removal.lists_codes and not coded and one.without_codes is None:
            told = (
                f"{policy.removal.rule_of_codes} removes members for codes, and the policy declares none of {table}: a "
                "drug or a test tells as much as a diagnosis. Declare its codes (kind ndc, diagnosis, concept, "
                "hcpcs_letter, cpt_section, revenue_group or taxonomy_kind), or say in without_codes why it has none"
            )
            yield Problem(here, told)
        if policy.dates is not None and "service_date" not in one.columns:
            yield Problem((*here, "columns"), "service_date is not delivered, so no dates can be released")
        if table in policy.columns.members or table in policy.columns.of_events:
            yield Problem(here, f"a column is called {table}, too: choose another name")
    for name in _results(policy, "claims") if policy.removal.lists_codes else ():
        told = (
            "a test may tell of a listed condition: deliver results as a table of events, and say in its without_codes why not"
        )
        yield Problem(("columns", "claims", name), told)
    if delivered and isinstance(policy.source, TablesSource):
        yield from _no_diagnoses(policy, policy.source.claims)


def _no_diagnoses(policy: Policy, claims: ClaimsMap | None) -> Iterator[Problem]:
    """A delivery whose claims need no diagnoses has them in another table, or the policy says why there are none."""
    removal = policy.removal
    asked = not removal.removes_members or removal.coded_claims_at_least.diagnosis is not None
    if asked or policy.reads_diagnoses or (claims is not None and claims.without_codes is not None):
        return
    if all(one.kind != "diagnosis" for one in policy.columns.declared.coded.values()):
        rule = removal.rule_of_codes if removal.lists_codes else "removal.rare_visible_diseases"
        told = (
            f"{rule} removes members for diagnoses, and the policy reads none: map those of the claims, declare those of "
            "another table (kind diagnosis or concept), or say in without_codes why there are none"
        )
        yield Problem(("source", "claims"), told)


def _identifying(policy: Policy) -> Iterator[Problem]:
    """Pseudonyms replace what identifies members, claims and providers; a declared column would show it as it is."""
    columns = policy.columns.declared
    tables = policy.source if isinstance(policy.source, TablesSource) else None
    for table, declared in columns.tables.items():
        for name, made in declared.items():
            source = tables.tables.get(made.table) if tables else None
            mapped = source.columns if source else {}
            theirs = {mapped.get(one, one): one for one in ("member_id", "claim_id", "provider_id", "vendor_id", "pcp_id")}
            found = next((theirs[cell.column] for cell in made.cells if cell.column in theirs), None)
            if found:
                yield Problem(
                    ("columns", table, name, "from"), f"is {found}, which only a pseudonym may replace; remove the column"
                )


def _known_hierarchies(policy: Policy) -> Iterator[Problem]:
    """A quasi-identifier without a hierarchy would be published without being judged."""
    for path, listed in _listed(policy):
        yield from unknown_hierarchy(policy, (*path, "hierarchy"), listed.hierarchy)


def unknown_hierarchy(policy: ReleasePolicy, path: Path, name: str) -> Iterator[Problem]:
    """Report the name of a hierarchy that the policy does not have."""
    if name not in policy.hierarchies:
        close = did_you_mean(name, policy.hierarchies)
        yield Problem(path, f"there is no hierarchy '{name}'{close}; hierarchies: {', '.join(policy.hierarchies)}")


def _fitting_hierarchies(policy: Policy) -> Iterator[Problem]:
    """A hierarchy must have a class for every value that its column may contain, or the delivery fails half way."""
    for path, listed in _listed(policy):
        spec = policy.hierarchies.get(listed.hierarchy)
        if spec is None:
            continue
        column = policy.column(listed.column)
        message = None
        if isinstance(spec, DatesSpec):
            message = f"column {listed.column} contains no dates"
        elif isinstance(spec, IntervalsSpec):
            message = _interval_misfit(listed.column, spec, column.limits)
        elif column.values is not None:
            message = _value_misfit(listed.column, policy.hierarchy(listed.hierarchy), column.values)
        if message:
            yield Problem((*path, "hierarchy"), message)


def _blanks_of_claims(policy: Policy) -> Iterator[Problem]:
    """A blank on a claim gives no knowledge and is published as a blank; joining it to a class would change nothing."""
    for number, listed in enumerate(policy.quasi_identifiers.claims):
        if listed.hierarchy in policy.hierarchies and any(
            value is not None for value in policy.hierarchy(listed.hierarchy).missing_joins
        ):
            yield Problem(
                ("quasi_identifiers", "claims", number, "hierarchy"),
                f"missing_joins of {listed.hierarchy} is for columns of members: a missing {listed.column} of a claim is "
                "published as a blank, and an adversary does not know it",
            )


def _interval_misfit(column: str, spec: IntervalsSpec, limits: tuple[int, int | None] | None) -> str | None:
    if limits is None:
        return f"column {column} contains text; intervals are for whole numbers"
    smallest, largest = limits
    below = spec.from_ - smallest
    if below > 0:
        return f"hierarchy of {column} begins at {spec.from_} and skips {below} values that the column may contain"
    if spec.to is not None and (largest is None or spec.to < largest):
        limit = "has no largest value" if largest is None else f"may contain values up to {largest}"
        return f"hierarchy ends at {spec.to}, but {column} {limit}: larger values would have no class"
    return None


def _value_misfit(column: str, hierarchy: Hierarchy, values: Sequence[str]) -> str | None:
    covered = hierarchy.rule.all_values()
    skipped = [value for value in values if covered is not None and value not in covered]
    return f"hierarchy has no class for {', '.join(skipped)}, which column {column} may contain" if skipped else None


def _release_columns(policy: Policy) -> Iterator[Problem]:
    """Two columns cannot be published under one name, nor one column twice: it would have two levels."""
    columns: dict[str, str] = {}
    # Databases and spreadsheets do not distinguish Sex from sex.
    names = {name.lower() for name in longitudinal.OTHER_RELEASE_COLUMNS}
    for path, listed in _listed(policy):
        if listed.column in columns:
            yield Problem((*path, "column"), f"column {listed.column} is listed twice")
        if listed.release_as.lower() in names:
            yield Problem((*path, "release_as"), f"the release already has a column {listed.release_as}")
        columns[listed.column] = listed.column
        names.add(listed.release_as.lower())
    for number, attribute in enumerate(policy.attributes):
        if attribute.release_as.lower() in names:
            yield Problem(("attributes", number, "release_as"), f"the release already has a column {attribute.release_as}")
        names.add(attribute.release_as.lower())


def _claims_truncated_has_a_place(policy: Policy) -> Iterator[Problem]:
    """ClaimsTruncated is released with the days in hospital: without both years, only some members would have it."""
    missing = [year for year in YEARS.values() if not policy.publishes(year)]
    for column in BESIDE_DAYS:
        if policy.publishes(column) and missing:
            yield Problem(
                ("quasi_identifiers", "members"),
                f"{column} is released in the files of days in hospital, so it needs both years; not listed: "
                f"{', '.join(missing)}",
            )


def _lattice(policy: Policy) -> Iterator[Problem]:
    """The lattice moves each generalizable column in exactly one dimension."""
    columns = [listed.column for listed in policy.quasi_identifiers.all]
    moved: dict[str, str] = {}
    names: set[str] = set()
    for number, dimension in enumerate(policy.dimensions):
        if dimension.name in LATTICE_COLUMNS:
            yield Problem(
                ("dimensions", number, "name"), f"the lattice has its own column {dimension.name}; choose another name"
            )
        if dimension.name in names:
            yield Problem(("dimensions", number, "name"), f"two dimensions are called {dimension.name}")
        names.add(dimension.name)
        for position, column in enumerate(dimension.columns):
            path = ("dimensions", number, "columns", position)
            if column not in columns:
                yield Problem(
                    path,
                    f"{column} is not a quasi-identifier of this policy: columns that are not published cannot be "
                    f"generalized; quasi-identifiers: {', '.join(columns)}",
                )
            elif column in longitudinal.DATE_COLUMNS:
                yield Problem(path, f"{column} has the precision that section dates gives it, at every node")
            elif column in moved:
                yield Problem(
                    path,
                    f"{column} already belongs to dimension {moved[column]}: a column has one level at a node, not two",
                )
            moved[column] = dimension.name
    yield from _levels_agree(policy)
    yield from _levels_reached(policy, moved)
    levels = [_level_count(policy, dimension.columns[0]) for dimension in policy.dimensions]
    nodes = math.prod(count or 1 for count in levels)
    if nodes > LISTED_AT_MOST and (policy.risk.search.enough or 0) > MOST_CANDIDATES:
        yield Problem(
            ("risk", "search", "enough"),
            f"of {nodes:,} nodes, at most {MOST_CANDIDATES:,} candidates can be found and named in a certificate",
        )
    if nodes > LISTED_AT_MOST and policy.risk.search.exhaustive:
        yield Problem(
            ("risk", "search", "exhaustive"),
            f"of {nodes:,} nodes not all can be measured, at most {LISTED_AT_MOST:,}: say false, to search them best first",
        )


def _levels_agree(policy: Policy) -> Iterator[Problem]:
    """Columns that move together need the same number of levels, or a level of one has no counterpart."""
    for number, dimension in enumerate(policy.dimensions):
        levels = {column: count for column in dimension.columns if (count := _level_count(policy, column)) is not None}
        if len(set(levels.values())) > 1:
            listed = ", ".join(f"{column} {count}" for column, count in levels.items())
            yield Problem(
                ("dimensions", number, "columns"),
                f"columns that move together need hierarchies with the same number of levels; here: {listed}",
            )


def _levels_reached(policy: Policy, moved: Mapping[str, str]) -> Iterator[Problem]:
    """Levels that no dimension reaches would suggest a protection that is never tried."""
    for path, listed in _listed(policy):
        count = _level_count(policy, listed.column)
        if listed.column not in moved and count is not None and count > 1:
            yield Problem(
                (*path, "hierarchy"),
                f"{listed.column} has {count} levels but belongs to no dimension, so it would always be published at the "
                "finest; name it in dimensions, or give it a hierarchy of one level",
            )


def _level_count(policy: Policy, column: str) -> int | None:
    """Number of levels of a column; None if the column or its hierarchy is unknown, which another rule reports."""
    for listed in policy.quasi_identifiers.all:
        if listed.column == column and listed.hierarchy in policy.hierarchies:
            return policy.hierarchy(listed.hierarchy).levels
    return None


def _listed(policy: Policy) -> Iterator[tuple[Path, longitudinal.AnyQuasiIdentifier]]:
    """Yield every quasi-identifier with its path."""
    for table in ("members", "claims"):
        for number, listed in enumerate(getattr(policy.quasi_identifiers, table)):
            yield ("quasi_identifiers", table, number), listed


def _sensitive_columns(policy: Policy) -> Iterator[Problem]:
    """A limit on no column, or on one that is unpublished or listed twice, would have no effect."""
    limits = policy.attribute_disclosure
    listed = limits.sensitive or ()
    for number, column in enumerate(listed):
        if column not in policy.names_of_sensitive:
            yield Problem(
                ("attribute_disclosure", "sensitive", number),
                f"{column} is not published{did_you_mean(column, policy.names_of_sensitive)}; list published columns "
                f"({', '.join(policy.names_of_sensitive)}), or set null for those that are usually sensitive",
            )
        elif column in listed[:number]:
            yield Problem(("attribute_disclosure", "sensitive", number), f"column {column} is listed twice")
    for name in ("homogeneous_share_at_most", "l_at_least", "t_at_most"):
        if not policy.sensitive_columns and not listed and getattr(limits, name) is not None:
            yield Problem(
                ("attribute_disclosure", name),
                "cannot gate, because no column is sensitive; list columns in sensitive, or set it to null",
            )


def _inferred_columns(policy: Policy) -> Iterator[Problem]:
    """What is listed twice would be predicted twice and judged twice, which widens all bounds."""
    section = policy.inference
    allowed = (*INFERRED, *(qi.column for qi in policy.quasi_identifiers.all if qi.column in policy.columns.all))
    for number, name in enumerate(section.columns):
        if name not in allowed:
            yield Problem(
                ("inference", "columns", number),
                f"{name} cannot be predicted{did_you_mean(name, allowed)}; columns: {', '.join(allowed)}",
            )
    listed: tuple[tuple[str, tuple[str, ...]], ...] = (("columns", section.columns), ("models", section.models))
    for field, names in listed:
        for number, name in enumerate(names):
            if name in names[:number]:
                yield Problem(("inference", field, number), f"{name} is listed twice")


def detail_problems(policy: ReleasePolicy) -> Iterator[Problem]:
    """A requirement on a column that is missing or never generalized would falsely suggest that it protects utility."""
    if policy.publish_however_coarse and not policy.detail_at_least:
        yield Problem(
            ("publish_however_coarse",),
            "nothing is too coarse without detail_at_least: remove the key, or say there what columns must keep",
        )
    for name in policy.detail_at_least:
        if name not in policy.generalized:
            yield Problem(
                ("detail_at_least", name),
                f"{name} is not one of the columns that the lattice generalizes: "
                f"{', '.join(policy.generalized)}{did_you_mean(name, policy.generalized)}",
            )


_WORD = re.compile(r"[^\W\d_]+")
LETTERS_OF_A_REASON, WORDS_OF_A_REASON = 12, 3
"""A reason is a sentence: who reads the report has to understand why somebody overruled a measurement."""


def reason_problems(policy: "AnyPolicy") -> Iterator[Problem]:
    """What somebody overrules needs a reason that others can read, and exists: a reason for anything else is a typing error."""
    reviewable = policy.reviewable
    for name, reason in policy.reviewed_attributes.items():
        if not _is_sentence(reason, name):
            yield Problem(
                ("reviewed_attributes", name),
                f"{reason!r} is no reason: say in a sentence why {name} is published whatever it discloses; the report prints "
                "it with the owners of the policy",
            )
    for name in policy.reviewed_attributes:
        if name not in reviewable:
            yield Problem(
                ("reviewed_attributes", name),
                f"{name} is not one of the attributes: "
                f"{', '.join(reviewable) or 'there are none'}{did_you_mean(name, reviewable)}",
            )
    for name, reason in policy.accepted_risks.items():
        if not _is_sentence(reason, name):
            yield Problem(("accepted_risks", name), f"{reason!r} is no reason: say in a sentence why the number is accepted")


def _is_sentence(reason: str, name: str) -> bool:
    """Whether a reason has enough letters and words; what is repeated counts once, and the name of what it excuses does not.

    Examples
    --------
    >>> [_is_sentence(one, "Ssn") for one in ("They are the numbers of a raffle.", "Ssn ssn, SSN ssn ssn", "x x x ..........")]
    [True, False, False]
    """
    own = set(_WORD.findall(name.casefold()))
    words = set(_WORD.findall(reason.casefold())) - own - {name.casefold()}
    told = [word for word in words if len(set(word)) > 1]
    return (
        len(told) >= WORDS_OF_A_REASON
        and sum(len(word) for word in words if word in told or len(word) == 1) >= LETTERS_OF_A_REASON
    )


def _preferred_detail(policy: Policy) -> Iterator[Problem]:
    """A preference between members and detail applies where members may be suppressed, and one generalization is chosen."""
    if not policy.prefers_detail:
        return
    at = ("risk", "suppression", "prefer")
    if policy.risk.suppression.at_most <= 0:
        yield Problem(
            at, "no member may be suppressed (at_most: 0), so there is nothing to prefer; say members, or raise at_most"
        )


def secret_list_problems(policy: ReleasePolicy) -> Iterator[Problem]:
    """The manifest publishes hierarchy rows and table digests; it must not publish who opted out."""
    for section, _, digest in policy.named_files():
        if policy.opt_outs.file is not None and section != "opt_outs" and digest == policy.opt_outs.digest:
            yield Problem(
                ("opt_outs", "file"),
                f"{section} names the same file, or one with the same content, and what it names is published",
            )


def _utility(policy: Policy) -> Iterator[Problem]:
    """A limit on a score needs a model, and days in hospital to predict."""
    if policy.utility.score_loss_at_most is None:
        return
    if policy.utility.model is None:
        yield Problem(
            ("utility", "score_loss_at_most"),
            "nothing is predicted, so there is no score to limit: name a model, or set the limit to null",
        )
    if not any(policy.publishes(days) for days in YEARS.values()):
        yield Problem(
            ("utility", "score_loss_at_most"),
            "the policy publishes no days in hospital, so nobody can learn to predict them from the release; publish "
            f"{' or '.join(YEARS.values())}, or set the limit to null",
        )


def _nodes_by_gain(policy: Policy) -> Iterator[Problem]:
    """The shares that compare nodes also choose, so that what is published about the choice must be measured again."""
    if policy.risk.nodes_by_gain is not None and policy.utility.model is None:
        yield Problem(
            ("risk", "nodes_by_gain"),
            "nothing is predicted from the release (utility.model: null), so nothing would be said about what the chosen "
            "generalization keeps: name a model, or remove the key",
        )


def _knows_less(policy: Policy) -> Iterator[Problem]:
    """An adversary who knows less is one whom the policy can afford: whoever knows everything is limited, too."""
    adversary, most = policy.adversary, policy.risk.max_high_risk_share
    limit = adversary.everything_known_at_most
    if not adversary.knows_less:
        if limit is not None:
            told = "has no effect, because the adversary knows everything: risk.max_high_risk_share is the limit"
            yield Problem(("adversary", "everything_known_at_most"), told)
        return
    if limit is None:
        yield Problem(
            ("adversary", "everything_known_at_most"),
            "the adversary knows less than everything, and nothing limits the share of members at high risk from somebody who "
            "does: say how large it may be",
        )
    elif limit <= most:
        yield Problem(
            ("adversary", "everything_known_at_most"),
            f"{limit:g} is not above risk.max_high_risk_share ({most:g}): an adversary who knows everything would be limited "
            "as strictly, so remove scenarios, total and this key",
        )
    if adversary.scenarios and adversary.total is not None:
        yield Problem(("adversary", "total"), "does not go with scenarios: each says by itself what is known")
    yield from _scenarios(policy)
    columns = len(policy.claim_names)
    if adversary.total is not None and adversary.total >= adversary.power * columns:
        yield Problem(
            ("adversary", "total"),
            f"has no effect: of {columns} columns at most {adversary.power * columns} values are known; remove it, or say less",
        )


def _scenarios(policy: Policy) -> Iterator[Problem]:
    """Every table is known to somebody, and no scenario is part of another, which would find whatever it finds."""
    scenarios = policy.adversary.scenarios
    for number, tables in enumerate(scenarios):
        here, others = ("adversary", "scenarios", number), [*scenarios[:number], *scenarios[number + 1 :]]
        for table in tables:
            if table not in policy.event_tables:
                yield Problem(here, f"{table} is no table of events{did_you_mean(table, policy.event_tables)}")
        if len(set(tables)) < len(tables):
            yield Problem(here, "names a table twice")
        elif any(set(tables) <= set(other) for other in others):
            yield Problem(here, "is part of another scenario, whose adversary finds whatever this one finds: remove it")
        elif not others and set(tables) >= set(policy.event_tables):
            yield Problem(here, "names every table, as if there were no scenarios: remove it")
    unknown = [table for table in policy.event_tables if not any(table in tables for tables in scenarios)]
    if scenarios and unknown:
        yield Problem(
            ("adversary", "scenarios"), f"{' and '.join(unknown)} would be known to nobody: name each table in a scenario"
        )


RULES: tuple[Rule, ...] = (
    diagnosis_code_problems,
    drug_problems,
    secret_list_problems,
    _population,
    limit_problems,
    _not_vacuous,
    _absence_is_gated,
    _rotation_can_apply,
    _attack_gates,
    _knows_less,
    _enough_draws,
    _known_hierarchies,
    _fitting_hierarchies,
    _blanks_of_claims,
    _release_columns,
    _claims_truncated_has_a_place,
    _lattice,
    _sensitive_columns,
    _inferred_columns,
    detail_problems,
    _utility,
    _nodes_by_gain,
    date_problems,
    _preferred_detail,
    number_of_claims_problems,
    count_table_problems,
    reason_problems,
)
