"""Whether providers can be recognized by patterns of care or by shared patients (methods#provider-graph).

Numbers about providers are protected in public, because providers are persons too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from deid_assets.assessments import planting
from deid_assets.assessments.assessment import OWNERS_DECIDE, Adversary, Assessed, Assessment, Gate, Image, Work
from deid_assets.assessments.evidence import Measurement, Method, made_up
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.methods.attacks import provider_graph
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.candidate.released_tables import generalized_claims, kept_members
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import EVENT_TABLE, PROVIDERS
from deid_assets.store.tables import Table, quoted, write_table, write_view

NAME = "provider_graph_attack"
PATTERN_SUCCESS, GRAPH_SUCCESS = "provider_pattern_success", "provider_graph_success"
ALL_PATTERNS_SUCCESS = "provider_all_patterns_success"
KNOWLEDGE = ("one_pattern", "some_patterns", "all_patterns", "shared_patients")
"""What an adversary knows about a provider."""
SHOWN = ("all_patterns", "shared_patients")
"""Knowledge whose shares the public edition shows."""
BEFORE, AFTER = "before", "after"
"""Before and after suppression of identifiers."""

Recognitions = Mapping[tuple[str, str, str], provider_graph.Recognition]
"""By kind of identifier, knowledge, and before or after suppression."""

KINDS = tuple(PROVIDERS)

DRAWS_OF_CANARIES = 200
"""A canary's class is the same whichever of its patterns are known."""

_KNOWN = {
    "one_pattern": "one pattern of care",
    "some_patterns": "several patterns",
    "all_patterns": "all patterns shown",
    "shared_patients": "shared patients",
}


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: re-identification of providers by patterns of care and by shared patients, before and after suppression."""
    policy, candidate = work.policy, Candidate.of(work.policy, work.tables)

    def attack(candidate: Candidate, draws: int, of: str) -> tuple[Recognitions, tuple[Measurement, ...]]:
        found = recognized_providers(candidate, draws, lambda stream: work.stream_key(f"{of} {stream}"))
        return found, provider_measurements(policy, found, work.commitment)

    found, measured = attack(candidate, policy.provider_graph.draws, "providers")
    canaries = providers_of_canaries(candidate, lambda planted: attack(planted, DRAWS_OF_CANARIES, "canaries of providers"))
    rows = [
        (
            f"{kind.upper() if kind == 'pcp' else kind}, {knowledge.replace('_', ' ')}",
            [found[kind, knowledge, when].success for when in (BEFORE, AFTER)],
        )
        for kind in KINDS
        for knowledge in KNOWLEDGE
    ]
    figure = dots_figure(rows, ["before suppression", "after"], "expected to be re-identified [%]")
    shown = {"recognized": Image(figure, "expected share of providers re-identified, before and after suppression")}
    return Assessed(measured, canaries, shown=shown)


def recognized_providers(candidate: Candidate, draws: int, key: Callable[[str], bytes]) -> Recognitions:
    """Recognize providers of each kind, with each kind of knowledge, before and after suppression of identifiers.

    Parameters
    ----------
    draws
        Simulated adversaries for each kind of identifier.
    key
        Maps a purpose to the key of its random stream.
    """
    policy, tables = candidate.policy, candidate.tables
    names = policy.released_pattern
    domains, release_claims = tables["value_domains"], tables["release_claims"]
    stored = [column for column, _ in PROVIDERS.values()]
    own = {column: candidate.levels[column] for column in names if column != EVENT_TABLE}
    as_it_is = [column for column in names if column == EVENT_TABLE]
    kept = kept_members(tables["member_profiles"], tables["suppressed_members"])

    # A release without any column of the pattern shows a single pattern: that there was a claim.
    def with_any(sql: str) -> str:
        return f"SELECT *, 1 AS any_claim FROM ({sql})"

    # Millions of claims have thousands of patterns, so labels are joined to distinct values.
    def register(*identifiers: str) -> str:
        distinct = distinct_values_of(tables["known"], "delivered_patterns", [*names, *identifiers])
        return f"({with_any(generalized_claims(distinct, domains, own, [*as_it_is, *identifiers]))})"

    before, patterns = candidate.scratch("unsuppressed_claims"), candidate.scratch("patterns_of_care")
    write_table(before, with_any(generalized_claims(tables["held"], domains, own, [*as_it_is, *stored], kept)))
    after = write_view(candidate.scratch("suppressed_claims"), with_any(f"SELECT * FROM {release_claims.sql}"))
    pattern, released_pattern = (list(names), list(names.values())) if names else (["any_claim"], ["any_claim"])
    count = write_table(patterns, provider_graph.numbered_patterns(register(), pattern))

    settings, enough = policy.provider_graph, policy.provider_suppression.providers_at_least
    found: dict[tuple[str, str, str], provider_graph.Recognition] = {}
    for kind, (column, released) in PROVIDERS.items():
        pairs = patterns.arrays(provider_graph.shown_patterns(register(column), column, patterns, pattern))
        everybody = provider_graph.PatternRegister(pairs["provider"], pairs["number"], count)
        for when, claims, identifier, member, columns in (
            (BEFORE, before, column, "member_id", pattern),
            (AFTER, after, released, "MemberID", released_pattern),
        ):
            shown = claims.arrays(provider_graph.shown_patterns(claims.sql, identifier, patterns, pattern, columns))
            generator = generator_of(key(f"{kind} {when}"))
            for knowledge, known in zip(KNOWLEDGE, (1, settings.patterns_known, None), strict=False):
                found[kind, knowledge, when] = provider_graph.recognized_by_patterns(
                    everybody, shown["provider"], shown["number"], known, draws, generator, enough
                )
            alike = claims.arrays(provider_graph.graph_classes(claims.sql, member, identifier))
            by_graph = provider_graph.recognized_by_graph(alike["class_size"], alike["providers"], enough)
            found[kind, "shared_patients", when] = by_graph
    return found


def distinct_values_of(claims: Table, name: str, columns: list[str]) -> Table:
    """A view of the distinct values of some claim columns, shaped like claims that belong to nobody."""
    shown = "".join(f", {quoted(column)}" for column in columns)
    return write_view(
        Table(claims.file, "scratch", name),
        f"SELECT DISTINCT NULL::VARCHAR AS claim_id, NULL::VARCHAR AS member_id{shown} FROM {claims.sql}",
    )


def provider_measurements(policy: Policy, found: Recognitions, commitment: str) -> tuple[Measurement, ...]:
    """How well providers are recognized, by kind of identifier and knowledge, before and after suppression."""
    graph, method = policy.provider_graph, Method("provider_graph", "methods#provider-graph; Hay et al. 2008", commitment)

    def worst(knowledge: str) -> float:
        """The worst over kinds of identifiers as published; an identifier that is never shown identifies nobody."""
        shown = (found[kind, knowledge, AFTER].success for kind in KINDS)
        return max((success for success in shown if success is not None), default=0.0)

    def measurements() -> Iterator[Measurement]:
        for name, knowledge, limit in (
            (PATTERN_SUCCESS, "some_patterns", graph.pattern_success_at_most),
            (ALL_PATTERNS_SUCCESS, "all_patterns", graph.all_patterns_success_at_most),
            (GRAPH_SUCCESS, "shared_patients", graph.graph_success_at_most),
        ):
            yield method.at_most(name, "probability", worst(knowledge), limit)
        for (kind, knowledge, when), one in found.items():
            # The released claims reveal which identifiers are left, and who shares patients with whom.
            told = "published" if knowledge == "shared_patients" else "released"
            of = f"share of {told} providers" if when == AFTER else "share of providers"
            for measure, unit, value in (
                ("small_share", of, one.small_share),
                ("success", "probability", one.success),
            ):
                # Those who know all patterns recognize most. Who knows some often recognizes the same providers, and two noisy
                # versions of one number could be averaged: without a size, the public edition leaves a share out.
                is_shown = unit.startswith("share") and knowledge in SHOWN
                size = one.providers if is_shown else None
                yield method.at_most(f"{kind}_{when}/{measure}_{knowledge}", unit, value, size=size)

    return tuple(measurements())


def report_table(found: Published) -> ReportTable:
    """The report's table: how well providers are recognized."""
    rows = []
    for kind, (_, label) in PROVIDERS.items():
        for knowledge, known in _KNOWN.items():
            cells = [
                written(found, f"{kind}_{when}/{measure}_{knowledge}")
                for measure in ("small_share", "success")
                for when in (BEFORE, AFTER)
            ]
            if any(cells):
                rows.append((f"{label}: {known}", *cells))
    return ReportTable(
        "providers",
        "Re-identification of providers",
        "Share of providers that too few others resemble, and expected share of providers that are re-identified, before and "
        "after identifiers are suppressed. Patterns of care are compared within the whole delivery, shared patients within "
        "the release.",
        (("Identifier and knowledge", "name"), ("Too few alike, before", "number"), ("after", "number"),
         ("Re-identified, before", "number"), ("after", "number")),
        tuple(rows),
    )  # fmt: skip


def providers_of_canaries(
    like: Candidate, attack: Callable[[Candidate], tuple[Recognitions, Iterable[Measurement]]]
) -> Findings:
    """Whether providers are recognized by distinct patterns, by combined patterns, and by shared patients."""
    policy, pattern = like.policy, list(like.policy.released_pattern)
    values = planting.own_values()
    # Each entry is a claim: provider, member, values. In the graph, "many" has four patients, "first" and "second"
    # share their only one, and "few" shares its only one with "several", who has two.
    shown: list[tuple[str, int, Mapping[str, object]]] = [("many", patient, {}) for patient in (0, 1, 2, 3)]
    shown += [("first", 4, {}), ("second", 4, {}), ("few", 5, {}), ("several", 5, {}), ("several", 6, {})]
    # Those five and one whom the release does not show; if no pattern is published, all nine.
    plain = 6 if pattern else 9
    one, all_ = [plain] * 5, [plain] * 5
    patient = 7
    for column in pattern:
        shown.append((f"own {column}", patient, {column: next(values)}))
        patient += 1
        one, all_ = [*one, 1], [*all_, 1]
    first, second = ({pattern[0]: next(values)}, {pattern[0]: next(values)}) if pattern else ({}, {})
    # One provider shows both patterns, others show one each: only the combination identifies the first.
    shown += [("both", patient, first), ("both", patient, second), ("one", patient + 1, first), ("other", patient + 2, second)]
    one += [2, 2, 2] if pattern else [plain] * 3
    all_ += [1, 2, 2] if pattern else [plain] * 3
    quiet = len(pattern) + 3
    graph = [1, 2, 2, 1, 1, *[quiet] * quiet]
    # Providers whom the release does not show still hide others.
    unreleased = patient + 3
    claims = [planting.PlantedClaim(member, told, provider=name) for name, member, told in shown]
    claims.append(planting.PlantedClaim(unreleased, {}, provider="not released", released=False))
    members = [planting.PlantedMember({}, {}, number != unreleased) for number in range(unreleased + 1)]
    with planting.planted_store() as file:
        found, measured = attack(planting.plant_members(file, like, members, claims))
    some = all_ if policy.provider_graph.patterns_known > 1 else one
    enough = policy.provider_suppression.providers_at_least
    certain = dict(zip(KNOWLEDGE, (one, some, all_, graph), strict=True))
    success = {knowledge: (1 / np.array(classes)).mean() for knowledge, classes in certain.items()}
    worst = {
        PATTERN_SUCCESS: "some_patterns",
        ALL_PATTERNS_SUCCESS: "all_patterns",
        GRAPH_SUCCESS: "shared_patients",
    }
    total = planting.as_certain({name: success[knowledge] for name, knowledge in worst.items()}, measured)
    for kind in KINDS:
        for when in (BEFORE, AFTER):
            for knowledge, classes in certain.items():
                recognized = found[kind, knowledge, when]
                sizes = np.array(classes)
                told = [recognized.providers, recognized.small_share, recognized.success]
                total += compare(
                    [len(sizes), (sizes < enough).mean(), success[knowledge]],
                    [-1.0 if number is None else number for number in told],
                )
    return total


def _noisy(policy: Policy) -> Iterator[Measurement]:
    for kind in KINDS:
        for knowledge in SHOWN:
            yield made_up(f"{kind}_{BEFORE}/small_share_{knowledge}", "share of providers", "provider_graph")
        yield made_up(f"{kind}_{AFTER}/small_share_all_patterns", "share of released providers", "provider_graph")


PROVIDER_GRAPH_ATTACK = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who knows patterns of care of a provider, or how providers share patients.",
        "A provider who is recognized narrows who the patients are.",
        "Hay M et al. Resisting structural re-identification in anonymized social networks. PVLDB 2008;1(1). " + OWNERS_DECIDE,
    ),
    version="6",
    policy_sections=("provider_graph", "provider_suppression"),
    inputs=(
        "member_profiles", "known", "held", "value_domains", "chosen_generalization",
        "suppressed_members", *CANDIDATE,
    ),
    measure=assess,
    draws="reported",
    shaped_by={"provider_graph": ("provider_graph",)},
    report_table=report_table,
    noisy=_noisy,
    gates=(
        Gate(
            PATTERN_SUCCESS,
            "provider_patterns_within_threshold",
            "An adversary who knows patterns of care of a provider re-identifies them with at most the allowed probability.",
            "Probability that an adversary who knows patterns of care of a provider re-identifies them.",
            lambda policy: policy.provider_graph.pattern_success_at_most,
        ),
        Gate(
            ALL_PATTERNS_SUCCESS,
            "provider_all_patterns_within_threshold",
            "An adversary who knows all patterns of care of an identifier re-identifies the provider with at most the allowed "
            "probability.",
            "Probability that an adversary who knows all patterns of care that an identifier joins re-identifies the provider.",
            lambda policy: policy.provider_graph.all_patterns_success_at_most,
        ),
        Gate(
            GRAPH_SUCCESS,
            "provider_graph_within_threshold",
            "An adversary who knows how providers share patients re-identifies one with at most the allowed probability.",
            "Probability that an adversary who knows how providers share patients re-identifies one.",
            lambda policy: policy.provider_graph.graph_success_at_most,
        ),
    ),
)  # fmt: skip
