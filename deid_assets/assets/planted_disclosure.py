"""Canaries of attribute disclosure and provider recognition: classes that disclose all, patterns nobody shares."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from deid_assets.assessments import disclosure as measures
from deid_assets.assessments.evidence import Measurement
from deid_assets.assets.planted import PLAIN, as_certain, own_values, planted_store
from deid_assets.assets.planted_members import PlantedClaim, PlantedMember, plant_members
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.disclosure.attribute_disclosure import AttributeDisclosure
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.disclosure import DisclosureLimits
from deid_assets.store.tables import Table

ONE, OTHER = PLAIN, PLAIN + 1
"""The values of a sensitive attribute; of numbers, the second is the larger."""


def attribute_classes(columns: Sequence[str]) -> list[tuple[Mapping[str, object], tuple[int, ...]]]:
    """Distinct values and the sensitive values of the members of each class.

    The plain class has two of each value. For each column there are two classes that differ in it alone: one with the
    same value twice, and one with one of each.
    """
    values = (value + 1 for value in own_values())
    made: list[tuple[Mapping[str, object], tuple[int, ...]]] = [({}, (ONE, ONE, OTHER, OTHER))]
    for column in columns:
        made += [({column: next(values)}, (OTHER, OTHER)), ({column: next(values)}, (ONE, OTHER))]
    return made


def certain_disclosure(columns: int) -> dict[str, float]:
    """The known disclosure of `attribute_classes` of that many columns, from the shares of OTHER per class and overall."""
    members = 4 + 4 * columns
    whole = (2 + 3 * columns) / members
    distances = [whole - 0.5] * (4 + 2 * columns) + [1 - whole] * (2 * columns)
    homogeneous = 2 * columns / members
    return {
        "classes": 1 + 2 * columns,
        "members": members,
        "homogeneous_share": homogeneous,
        "least_distinct": 1 if columns else 2,
        "least_entropy": 1.0 if columns else 2.0,
        "greatest_distance": max(distances),
        "mean_distance": float(np.mean(distances)),
    }


def told_of_canaries(
    limits: DisclosureLimits, found: Mapping[str, AttributeDisclosure], columns: Mapping[str, int]
) -> Findings:
    """Compare the findings per attribute, and the worst one reported to the gate, with the known results.

    Parameters
    ----------
    columns
        Per attribute, the columns that form classes. If no attribute is sensitive, none may be measured.
    """
    certain = {name: certain_disclosure(number) for name, number in columns.items()}
    total = Findings(0, 0)
    for name, numbers in certain.items():
        told = [getattr(found[name], one) for one in numbers]
        total += compare(list(numbers.values()), [-1.0 if number is None else number for number in told])
    diversity = "least_distinct" if limits.l_kind == "distinct" else "least_entropy"
    worst = {
        "sensitive_attributes": len(columns),
        measures.HOMOGENEOUS: max((one["homogeneous_share"] for one in certain.values()), default=None),
        measures.DIVERSITY: min((one[diversity] for one in certain.values()), default=None),
        measures.CLOSENESS: max((one["greatest_distance"] for one in certain.values()), default=None),
    }
    return total + as_certain(worst, measures.attribute_measurements(limits, found, 1))


def attributes_of_canaries(
    policy: Policy, like: Mapping[str, Table], columns: Sequence[str],
    attack: Callable[[Mapping[str, Table], str], AttributeDisclosure],
) -> Findings:  # fmt: skip
    """Whether every sensitive attribute is found to be disclosed by exactly the classes that disclose it.

    Parameters
    ----------
    columns
        The member-level columns; members of a class share all of them but the attribute.
    attack
        Judges one column on the tables given.
    """
    # At which level the release tells something is nothing to its classes.
    levels: dict[str, int] = {qi.column: 0 for qi in policy.quasi_identifiers.all}
    found, classes = {}, {}
    for sensitive in policy.sensitive_columns:
        others = [column for column in columns if column != sensitive]
        members: list[PlantedMember] = []
        claims: list[PlantedClaim] = []
        for own, values in attribute_classes(others):
            for value in values:
                number = len(members)
                values_of_member = dict(own) | ({sensitive: value} if sensitive in columns else {})
                members.append(PlantedMember(values_of_member, values_of_member, True))
                # Twice the value that counts once; for the Charlson index, the lower value, which does not count.
                claims += [PlantedClaim(number, {sensitive: value}, charlson=str(value))] * 2
                claims.append(PlantedClaim(number, {sensitive: value}, charlson=str(ONE)))
        with planted_store() as file:
            tables = plant_members(file, policy, levels, like, members, claims)
            found[sensitive], classes[sensitive] = attack(tables, sensitive), len(others)
    return told_of_canaries(policy.attribute_disclosure, found, classes)


def providers_of_canaries(
    policy: Policy, levels: Mapping[str, int], like: Mapping[str, Table], pattern: Sequence[str],
    attack: Callable[[Mapping[str, Table]], tuple[measures.Recognitions, Iterable[Measurement]]],
) -> Findings:  # fmt: skip
    """Whether providers are recognized by distinct patterns, by combined patterns, and by shared patients.

    Parameters
    ----------
    pattern
        Published columns of a pattern of care.
    """
    values = own_values()
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
    claims = [PlantedClaim(member, told, provider=name) for name, member, told in shown]
    claims.append(PlantedClaim(unreleased, {}, provider="not released", released=False))
    members = [PlantedMember({}, {}, number != unreleased) for number in range(unreleased + 1)]
    with planted_store() as file:
        found, measured = attack(plant_members(file, policy, levels, like, members, claims))
    some = all_ if policy.provider_graph.patterns_known > 1 else one
    enough = policy.provider_suppression.providers_at_least
    certain = dict(zip(measures.KNOWLEDGE, (one, some, all_, graph), strict=True))
    success = {knowledge: (1 / np.array(classes)).mean() for knowledge, classes in certain.items()}
    worst = {
        measures.PATTERN_SUCCESS: "some_patterns",
        measures.ALL_PATTERNS_SUCCESS: "all_patterns",
        measures.GRAPH_SUCCESS: "shared_patients",
    }
    total = as_certain({name: success[knowledge] for name, knowledge in worst.items()}, measured)
    for kind in measures.KINDS:
        for when in (measures.BEFORE, measures.AFTER):
            for knowledge, classes in certain.items():
                recognized = found[kind, knowledge, when]
                sizes = np.array(classes)
                told = [recognized.providers, recognized.small_share, recognized.success]
                total += compare(
                    [len(sizes), (sizes < enough).mean(), success[knowledge]],
                    [-1.0 if number is None else number for number in told],
                )
    return total
