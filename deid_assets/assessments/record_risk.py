"""Class sizes of a flat release, counted in it or in a population; the gate counts the staged rows again."""

from collections.abc import Mapping
from pathlib import Path

from deid_assets.assessments.assessment import COUNT, K_ANONYMITY, Adversary, Assessed, Assessment, Gate, Work
from deid_assets.assessments.evidence import LEFT_OUT, Measurement, Method
from deid_assets.assessments.flat_table import population_records
from deid_assets.assessments.planting import PLAIN, Attack, as_certain, domain_rows, label, plant, planted_store
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.flat import queries
from deid_assets.policy.flat import FlatPolicy
from deid_assets.sources.flat import POPULATION
from deid_assets.store.tables import Table

NAME = "record_risk"
SMALLEST_CLASS, SUPPRESSED, BEYOND = "smallest_class", "suppressed_share", "records_beyond_population"


def assess(work: Work[FlatPolicy]) -> Assessed:
    """Evidence: the size of the smallest class of the candidate release, and the share of records left out."""
    policy, tables = work.policy, work.tables
    levels = levels_of(policy, tables["record_generalization"])
    read = ("records", "record_domains", "release_records")

    def attack(tables: Mapping[str, Table]) -> tuple[Measurement, ...]:
        return measured_risk(policy, tables["release_records"], tables["records"], tables["record_domains"], levels)

    population = population_records(policy, tables["records"])
    canaries = records_of_canaries(levels, {name: tables[name] for name in read}, population, attack)
    return Assessed(attack(tables), canaries)


def levels_of(policy: FlatPolicy, chosen: Table) -> dict[str, int]:
    """The level of every quasi-identifier in the release."""
    levels = chosen.frame().set_index("column")["level"]
    return {qi.release_as: int(levels[qi.release_as]) for qi in policy.quasi_identifiers}


def measured_risk(
    policy: FlatPolicy, released: Table, records: Table, domains: Table, levels: dict[str, int]
) -> tuple[Measurement, ...]:
    """The smallest class of the given rows, counted in them or in the population, and the share of suppressed records."""
    population = population_records(policy, records)
    hiding = released.sql if population is None else f"({queries.generalized_records(population, domains, levels)})"
    sized = queries.class_sizes(released.sql, hiding, list(levels))
    found = released.query(f"SELECT min(class_size) AS smallest, count(*) AS n FROM ({sized})").iloc[0]
    delivered, n = records.count(), int(found["n"])
    smallest = int(found["smallest"]) if n else None
    beyond = None
    if population is not None:
        # A population that lacks the records hides nobody, however large its classes are.
        classes = queries.classes_beyond(released.sql, hiding, list(levels))
        beyond = int(released.query(f"SELECT coalesce(sum(beyond), 0) AS n FROM ({classes})")["n"].iloc[0])
    return flat_measurements(policy, smallest, (delivered - n) / delivered, delivered, beyond)


def flat_measurements(
    policy: FlatPolicy, smallest: int | None, suppressed: float, records: int, beyond: int | None
) -> tuple[Measurement, ...]:
    """The smallest class of a released record, and the share of suppressed records; both counted.

    Parameters
    ----------
    beyond
        Released records without room in the population; None if classes are counted in the release itself.
    """
    # The release's rows reveal its classes, but not those of a population. The number beyond it is 0, or a refusal.
    method = Method("class_sizes", "methods#flat-tables")
    held = () if beyond is None else (method.at_most(BEYOND, "published records", beyond, 0.0),)
    unit = "published records" if policy.population is None else "members"
    return (
        *held,
        Method("class_sizes", "methods#flat-tables; Samarati 2001").at_least(SMALLEST_CLASS, unit, smallest, policy.risk.k),
        method.at_most(SUPPRESSED, LEFT_OUT, suppressed, policy.risk.max_suppressed, records),
    )


def records_of_canaries(
    levels: Mapping[str, int], like: Mapping[str, Table], population: Table | None, attack: Attack
) -> Findings:
    """Whether the smallest class is found if only one column distinguishes it, for each column in turn.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    like
        The asset's inputs.
    population
        The table in which classes are counted; None if they are counted in the release itself.
    """
    total = Findings(0, 0)
    with planted_store() as file:
        for own in levels:
            total += _of_column(file, own, levels, like, population, attack)
    return total


def _of_column(
    file: Path, own: str, levels: Mapping[str, int], like: Mapping[str, Table], population: Table | None, attack: Attack
) -> Findings:
    """Plain records, some with a distinct value in one column, and some where it is missing."""
    rows: list[object] = [PLAIN] * 5 + [PLAIN + 1] * 2 + [None] * 3
    left_out = 4
    delivered = [_record(levels, own, value) for value in [*rows, *[PLAIN] * left_out]]
    domains = [row for column in levels for row in domain_rows(column, (PLAIN, PLAIN + 1, None), levels[column])]
    certain = {SMALLEST_CLASS: 2, SUPPRESSED: left_out / len(delivered)}
    tables = {
        "records": plant(file, like["records"], _numbered(delivered), "records"),
        "record_domains": plant(file, like["record_domains"], domains, "record_domains"),
    }
    if population is not None:
        # One of two in the population is twice in the release, so the population lacks one of them.
        rows = [*rows, PLAIN + 1]
        certain = {SMALLEST_CLASS: 2, SUPPRESSED: (left_out - 1) / len(delivered), BEYOND: 1}
        people = [_record(levels, own, value) for value in [PLAIN] * 5 + [PLAIN + 1] * 2 + [None] * 3]
        plant(file, population, _numbered(people), POPULATION)
    released = [{column: label(told, levels[column]) for column, told in _record(levels, own, value).items()} for value in rows]
    tables["release_records"] = plant(file, like["release_records"], released, "release_records")
    return as_certain(certain, attack(tables))


def _record(levels: Mapping[str, int], own: str, value: object) -> dict[str, object]:
    return dict.fromkeys(levels, PLAIN) | {own: value}


def _numbered(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {"record": number} | {column: None if value is None else str(value) for column, value in row.items()}
        for number, row in enumerate(rows, start=1)
    ]


RECORD_RISK = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who knows the quasi-identifiers of one person and looks for the record.",
        "The quasi-identifiers that the policy lists are those that its owners hold to be available.",
        f"{K_ANONYMITY}; El Emam K, Dankar FK. Protecting privacy using k-anonymity. J Am Med Inform Assoc 2008;15(5):627-637",
    ),
    version="4",
    policy_sections=("population", "risk"),
    inputs=("records", "record_domains", "record_generalization", "release_records"),
    measure=assess,
    shaped_by={"class_sizes": ()},
    noisy=lambda policy: flat_measurements(policy, 1, 0.5, 2, 0),
    gates=(
        Gate(
            SMALLEST_CLASS,
            "smallest_class_within_threshold",
            "Every released record shares its quasi-identifiers with at least k records, itself included.",
            "Size of the smallest equivalence class: records that share all quasi-identifiers with a released record, itself "
            "included.",
            lambda policy: policy.risk.k,
            disclosed=1.0,  # the worst class decides: a class of one
            range=COUNT,
        ),
        Gate(
            SUPPRESSED,
            "suppressed_share_within_threshold",
            "At most MaxSup of the records are left out.",
            "Records that are left out because their class is too small.",
            lambda policy: policy.risk.max_suppressed,
        ),
        Gate(
            BEYOND,
            "population_holds_the_records",
            "No class of the release has more records than the population has people with the same quasi-identifiers.",
            "Released records in excess of the people of the population with the same quasi-identifiers.",
            lambda policy: 0.0,
            disclosed=1.0,  # one record without room in the population is one too many
            applies=lambda policy: policy.population is not None,
            range=COUNT,
        ),
    ),
)
