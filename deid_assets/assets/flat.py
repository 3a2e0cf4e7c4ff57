"""A flat table from its delivery to the gated release: k-anonymity or k-map at the least loss (methods#flat-tables)."""

from collections.abc import Mapping

import pandas as pd

from deid_assets import resources
from deid_assets.assessments import flat_table as of_records
from deid_assets.assessments.attribute_leaks import record_leaks
from deid_assets.assessments.detail import detail_measurements, detail_refusals
from deid_assets.assessments.direct_identifiers import judge_quasi_identifiers, quasi_identifiers_of_records
from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.no_choice import why_no_node_passes, why_pinned_fails
from deid_assets.assessments.record_cross_release_risk import linked_to_leave_out, people_of_records
from deid_assets.assessments.record_risk import levels_of, measured_risk
from deid_assets.assessments.registry import FLAT
from deid_assets.assets import publishing
from deid_assets.assets.assessment import assessment_asset
from deid_assets.assets.counts import count_assets, delivery_noise
from deid_assets.assets.one_table import GateFindings, OneTable, Tables, release_asset
from deid_assets.assets.step import Step, guarded, image, stage_asset
from deid_assets.assets.taking_in import Read, intake_assets, require_known_opt_outs
from deid_assets.errors import PolicyError, RefusedError
from deid_assets.figures.lattice_figures import frontier_figure, heights_figure
from deid_assets.methods.counts.tables import CellName
from deid_assets.methods.flat import queries
from deid_assets.methods.flat.search import evaluated_nodes_frame
from deid_assets.methods.lattice.predictive_tagging import parse_node
from deid_assets.policy.domains import record_domains_of
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.counts.kinds import FLAT as COUNTING
from deid_assets.release.counts.noise import Plan
from deid_assets.release.event_log import Current, Stated, not_as_stated
from deid_assets.release.gate.judgement import row_refusals
from deid_assets.release.manifest.dictionary import described_records
from deid_assets.release.manifest.optimality import flat_certificate
from deid_assets.release.public_cells import shape
from deid_assets.release.published_tables import RECORDS as RECORDS_FILE
from deid_assets.release.registry.noise_charges import NoisyPublication
from deid_assets.reports.flat_report import flat_report
from deid_assets.schemas.flat import release_records_contract
from deid_assets.sources.flat import POPULATION, QUARANTINED, RECORDS, FlatLayout, Persons, read_flat_delivery
from deid_assets.store.tables import Table

POPULATION_CONTENT = "population_content"
"""Metadata key of the records: the keyed fingerprint of the population that was taken in with them."""

_POPULATION_TAKEN_IN = Stated(
    POPULATION_CONTENT, "edited_table",
    "its table is not the one that was taken in: it was changed, or written by another version of DuckDB; materialize "
    f"{RECORDS} again",
    POPULATION,
)  # fmt: skip

_DESCRIPTIONS = {
    RECORDS: "The records of the delivery, as text, numbered in the order of the file.",
    QUARANTINED: "Rows that could not be used, with the rule that they break; restricted.",
}


@intake_assets(
    _DESCRIPTIONS, ["source", "intake", "population", "quasi_identifiers", "attributes", "hierarchies", "opt_outs"], "1"
)
def flat_intake(step: Step[FlatPolicy], tables: Mapping[str, Table]) -> Read:
    """Read the delivered table, and the population's table if the policy names one."""
    policy, records = step.policy, tables[RECORDS]
    layout = FlatLayout(
        {column.release_as: column.column for column in policy.columns},
        {
            qi.release_as: [str(value) for value in values]
            for qi in policy.quasi_identifiers
            if (values := policy.hierarchy(qi.hierarchy).rule.all_values()) is not None
        },
        policy.source.file,
        policy.population.file if policy.population else None,
        policy.source.table,
        policy.source.delimiter,
        policy.intake.quarantine_at_most,
        [
            qi.release_as
            for qi in policy.quasi_identifiers
            if policy.hierarchies[qi.hierarchy].kind == "csv" and policy.hierarchy(qi.hierarchy).levels == 1
        ],
        persons_of(policy),
    )
    report = read_flat_delivery(records, step.delivery, layout, progress=lambda text: step.context.log.info(text))
    require_known_opt_outs(step, report.left_out)
    population = of_records.population_records(policy, records)
    # The population is not an asset of its own: its fingerprint is stored with the records, and the gate compares it.
    content = {} if population is None else {POPULATION_CONTENT: resources.content_of(population, step.secret)}
    return report.digest, {RECORDS: report.metadata() | content, QUARANTINED: report.metadata()}


def persons_of(policy: FlatPolicy) -> Persons | None:
    """Whose a record is; an error if somebody opted out and nothing tells which records are theirs."""
    person, opted_out = policy.source.person, policy.opt_outs.people
    if person is not None:
        return Persons(person, policy.records_per_person, opted_out)
    if opted_out.everybody:
        raise PolicyError(
            f"policy {policy.name}: people opted out of all releases of this home, and nothing tells which records are theirs: "
            "name the column that identifies a person (role direct_identifier), or release this table from a home of its own, "
            "without those who opted out"
        )
    return None


def population_refusals(step: Step[AnyPolicy], population: Table | None) -> list[Refusal]:
    """Refuse if classes were counted in a population other than the one that was taken in."""
    if population is None:
        return []
    now = [(step.sibling(RECORDS), resources.content_of(population, step.secret))]
    return not_as_stated(Current(step.instance, step.key), _POPULATION_TAKEN_IN, now)


@stage_asset(policy_sections=["quasi_identifiers", "hierarchies", "population"])
def record_domains(step: Step[FlatPolicy], records: Table) -> pd.DataFrame:
    """Every value of every quasi-identifier, numbered, with its label and class at every level."""
    policy = step.policy
    return record_domains_of(policy, records, of_records.population_records(policy, records))


@stage_asset(
    policy_sections=[
        "quasi_identifiers",
        "hierarchies",
        "population",
        "risk",
        "releases",
        "detail_at_least",
        "publish_however_coarse",
    ],
    version="2",
    kinds=("duckdb", "numpy"),
)
def record_lattice(step: Step[FlatPolicy], records: Table, record_domains: Table) -> pd.DataFrame:
    """Every node that the search evaluated: loss, share of records in small classes, and whether it is chosen."""
    policy = step.policy
    table = of_records.flat_table(policy, records, record_domains)
    pinned = None
    if policy.releases.generalization == "pinned":
        with guarded(step):
            pinned = of_records.pinned_node(policy, publishing.last_levels(step.workplace, policy))
    tops = of_records.highest_levels(policy, table, of_records.kept_by_level(policy, table, records))
    found = of_records.search(policy, table, tops, pinned)
    names = [qi.release_as for qi in policy.quasi_identifiers]
    nodes = evaluated_nodes_frame(found, names, table.records)
    label = of_records.LOSS_LABELS[policy.risk.loss]
    figures = nodes.assign(lower=nodes["share"], upper=nodes["share"], reached="measured")
    step.tell(
        {
            "nodes": policy.node_count,
            "nodes_evaluated": len(nodes),
            "threshold": policy.risk.max_suppressed,
            "k": policy.risk.k,
            "lattice": image(heights_figure(nodes, policy.node_count, label), "nodes by height and loss, by decision"),
            "frontier": image(
                frontier_figure(figures, policy.risk.max_suppressed, "records in small classes", label),
                "loss against share of records in small classes",
            ),
        }
    )
    return nodes


@stage_asset(
    policy_sections=["quasi_identifiers", "hierarchies", "risk", "counts", "detail_at_least", "publish_however_coarse"],
    version="2",
)
def record_generalization(step: Step[FlatPolicy], records: Table, record_domains: Table, record_lattice: Table) -> pd.DataFrame:
    """The node of least loss with enough detail and few enough records in small classes: one row per quasi-identifier."""
    policy = step.policy
    nodes = record_lattice.frame()
    chosen = nodes[nodes["chosen"]]
    if not len(chosen) and (nodes["decision"] == "candidate").any():
        # Only a pinned generalization passes over a node that passes.
        levels = ", ".join(f"{name}: {level}" for name, level in (publishing.last_levels(step.workplace, policy) or {}).items())
        raise RefusedError(f"refused: {why_pinned_fails(policy, levels)}")
    if not len(chosen):
        blanks = of_records.blanks_in_small_classes(policy, records, record_domains)
        plan = Plan(delivery_noise(step))
        cells = {
            qi.release_as: (CellName("blanks", qi.column, "records"), shape(policy, "source"), blanks[qi.release_as])
            for qi in policy.quasi_identifiers
            if qi.release_as in blanks
        }
        for cell in cells.values():
            plan.note(*cell)
        releases = publishing.releases_of(step.workplace)
        releases.charge(NoisyPublication(policy.counts, plan.cells, ()))
        publishing.tell_witnesses(releases)
        noisy = {name: plan.protect(*cell) for name, cell in cells.items()}
        why = why_no_node_passes(policy, float(nodes["share"].min()), records.count(), noisy)
        raise RefusedError(f"refused: {why}")
    node = chosen["node"].iloc[0]
    step.tell({"node": node, "loss": float(chosen["loss"].iloc[0])})
    return of_records.chosen_frame(policy, parse_node(node))


@stage_asset(policy_sections=["population", "risk", "source"])
def suppressed_records(
    step: Step[FlatPolicy], records: Table, record_domains: Table, record_generalization: Table
) -> pd.DataFrame:
    """Numbers of the records that are not released (local suppression).

    Those in classes below k at the chosen node and, beside earlier releases of the same people, those of people who would stand
    out.
    """
    policy = step.policy
    levels = levels_of(policy, record_generalization)
    small = records.query(
        queries.small_records(records, of_records.population_records(policy, records), record_domains, levels, policy.risk.k)
    )
    earlier = step.workplace.earlier_of(step.key)
    nobody = Table(records.file, "scratch", "small_records")
    table = people_of_records(policy, records, nobody, record_domains, levels)
    return linked_to_leave_out(policy, table, small, earlier, step.workplace.tags_in_order)


@stage_asset(policy_sections=["quasi_identifiers", "attributes", "formulas"])
def release_records(
    step: Step[FlatPolicy], records: Table, record_domains: Table, record_generalization: Table, suppressed_records: Table
) -> str:
    """Records as they would be published."""
    policy = step.policy
    return _release_query(policy, records, suppressed_records, record_domains, levels_of(policy, record_generalization))


def _release_query(policy: FlatPolicy, records: Table, suppressed: Table, domains: Table, levels: Mapping[str, int]) -> str:
    """SELECT the rows to be published from the restricted store."""
    others = [column.release_as for column in policy.attributes]
    return queries.released_rows(records, suppressed, domains, levels, others, policy.formulas == "neutralize")


COUNTS = count_assets(COUNTING)

ASSESSMENTS = [assessment_asset(one, "flat") for one in FLAT]


def _judged(step: Step[FlatPolicy], tables: Tables, staged: Table) -> GateFindings:
    records, domains, left_out = (tables[name] for name in (RECORDS, "record_domains", "suppressed_records"))
    policy = step.policy
    levels = levels_of(policy, tables["record_generalization"])
    rows = population_refusals(step, of_records.population_records(policy, records))
    expected = _release_query(policy, records, left_out, domains, levels)
    rows += row_refusals("release_records", staged, release_records_contract(policy), expected)
    leaks, leaking = record_leaks(policy, staged, tables)
    overruled, identifying = judge_quasi_identifiers(
        quasi_identifiers_of_records(policy, staged, records), policy.risk.k, policy.reviewed_attributes
    )
    chosen = tuple(levels[qi.release_as] for qi in policy.quasi_identifiers)
    table = of_records.flat_table(policy, records, domains)
    by_level = of_records.kept_by_level(policy, table, records)
    kept = {name: float(shares[levels[name]]) for name, shares in by_level.items()}
    detail = detail_measurements(kept, policy.detail_at_least, staged.count(), policy.publish_however_coarse)
    losses, tops = of_records.level_losses(policy, table), of_records.highest_levels(policy, table, by_level)
    return GateFindings(
        rows=rows,
        further=[*identifying, *leaking, *detail_refusals(detail)],
        risk=measured_risk(policy, staged, records, domains, levels),
        beside=(*detail, *leaks, *overruled),
        proof=flat_certificate(policy, tables["record_lattice"], chosen, records.count(), losses, tops),
        people=people_of_records(policy, records, left_out, domains, levels),
        levels=levels,
        level_names=of_records.level_names_of(policy, levels),
        others=lambda delivery_digest, released: [],
        described=lambda: described_records(policy, levels, staged),
        report=lambda public: flat_report(policy, public, levels, tables["record_lattice"].frame()),
    )


release = release_asset(
    "flat",
    [
        "recipients", "risk", "attributes", "counts", "reviewed_attributes", "detail_at_least", "publish_however_coarse",
        "releases",
    ],
    (RECORDS, QUARANTINED, "record_domains", "record_lattice", "record_generalization", "suppressed_records"),
    OneTable(
        taken_in=RECORDS,
        candidate="release_records",
        file=RECORDS_FILE,
        columns=lambda policy: [column.release_as for column in policy.columns],
        pseudonym=lambda policy: None,
        version="3",
        judge=_judged,
    ),
    "The published table: staged, measured again, judged, and renamed into place. Or a refusal with its reasons.",
)  # fmt: skip
