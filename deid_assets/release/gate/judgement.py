"""The gate: measures everything again on the staged files, and refuses anything missing or different.

It trusts no asset check, because `release` can be materialized alone, and no candidate table, because files are what is
published. Staged files are read back into the store's scratch schema. They are checked against the contract, the
restricted store, the thresholds on a separate random stream, an independent DuckDB count of single draws, and the
evidence of the assessments. A check that cannot be carried out refuses.

Of published tables of counts, the files hold exactly what the restricted store and the secret give.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from pandera.ibis import DataFrameSchema

from deid_assets.assessments.evidence import Context, Evidence, Measurement, Method, Refusal, judge
from deid_assets.assessments.kernel_input import CODED, PopulationTables
from deid_assets.assessments.longitudinal_risk import Judged, judged_shares
from deid_assets.assessments.registry import JUDGED_BY_DRAWS, METHOD_VERSIONS, required_measurements
from deid_assets.methods.adversary.two_readings import literal_power
from deid_assets.methods.attacks.sql_class_sizes import held_values
from deid_assets.methods.candidate.provider_suppression import IDENTIFIERS, pattern_counts, providers_needed
from deid_assets.methods.candidate.released_tables import generalized_claims, generalized_members
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK, draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import EVERYTHING, Histories, LongitudinalData
from deid_assets.methods.preparation.eligibility import opt_out_match
from deid_assets.methods.preparation.pseudonyms import pseudonyms
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import EVENT_TABLE, PROVIDER_PSEUDONYMS
from deid_assets.release.gate import cross_check as by_query
from deid_assets.schemas.contract import violations
from deid_assets.store.tables import Table, either_way, quoted, write_table, write_view

CROSS_CHECKED_DRAWS = 2_000
assert CROSS_CHECKED_DRAWS <= DRAWS_PER_BLOCK  # noqa: S101 - two constants


@dataclass(frozen=True)
class Staged:
    """The staged files, read back into tables of the scratch schema."""

    members: Table
    claims: Table
    days_in_hospital: Table

    def by_name(self) -> dict[str, Table]:
        """Return the tables by the names of the assets that they were staged from."""
        return {
            "release_members": self.members,
            "release_claims": self.claims,
            "release_days_in_hospital": self.days_in_hospital,
        }


@dataclass(frozen=True)
class StagedClaims:
    """A staged release of claims, and what it is judged by.

    Attributes
    ----------
    policy, levels
        The policy, and the level of every quasi-identifier.
    staged, profiles
        The staged tables, and the members' own quasi-identifiers as the staged files show them.
    tables
        The restricted store: its members, claims and value domains.
    crosswalk, suppressed
        The pseudonyms, and the members who are left out.
    """

    policy: Policy
    levels: Mapping[str, int]
    staged: Staged
    profiles: Table
    tables: PopulationTables
    crosswalk: Table
    suppressed: Table

    def levels_of(self, columns: Iterable[str]) -> dict[str, int]:
        """The levels of some columns, in their order."""
        return {column: self.levels[column] for column in columns}


@dataclass(frozen=True)
class Draws:
    """Draws of an adversary's knowledge at a node, on the gate's own stream.

    Attributes
    ----------
    judged
        What is measured, where, and what the adversary knows.
    key, commitment
        Key of the stream, and the commitment to its seed.
    """

    judged: Judged
    key: bytes = field(repr=False)
    commitment: str


def contract_refusals(tables: Mapping[str, Table], contracts: Mapping[str, DataFrameSchema]) -> list[Refusal]:
    """Check the staged rows of tables against their contracts."""
    found = []
    for name, table in tables.items():
        for rule, rows in violations(table, contracts[name]).items():
            text = f"{name}: the staged rows break the contract, {rule}"
            found.append(Refusal("broken_contract", name, float(rows), 0.0, text, "rows"))
    return found


def code_refusals(data: LongitudinalData, by_codes: tuple[Iterable[Histories], Iterable[Histories]]) -> list[Refusal]:
    """Refuse if assessments read other values than the claims have.

    Parameters
    ----------
    data
        Made of the claims.
    by_codes
        `kernel_input.values_by_codes`, known and held.
    """
    pairs = zip((*data.known, *data.held), itertools.chain(*by_codes), strict=True)
    if all(np.array_equal(one.offsets, two.offsets) and np.array_equal(one.codes, two.codes) for one, two in pairs):
        return []
    text = f"{CODED}: its codes are not those of the claims; materialize it again, and what comes after it"
    return [Refusal("wrong_codes", CODED, None, None, text)]


def consistency_refusals(judged: StagedClaims) -> list[Refusal]:
    """Compare the staged rows with the released members' generalized rows in the restricted store; they must be identical.

    Otherwise the risk would be measured on rows other than the published ones.
    """
    tables, crosswalk, staged = judged.tables, judged.crosswalk, judged.staged
    claim_names, member_columns = judged.policy.claim_names, judged.policy.member_columns
    own = f"""
        SELECT x.pseudonym FROM {tables.profiles.sql} JOIN {crosswalk.sql} AS x
          ON x.kind = 'member' AND x.original_id = member_id
        WHERE released AND member_id NOT IN (SELECT member_id FROM {judged.suppressed.sql})"""
    demographics = generalized_members(tables.profiles, tables.domains, judged.levels_of(member_columns))
    names = ", ".join(quoted(column) for column in member_columns)
    expected = generalized_claims(tables.held, tables.domains, judged.levels_of(claim_names), ["year"])
    columns = ", ".join(f"e.{quoted(column)}" for column in claim_names)
    released = ", ".join(quoted(name) for name in claim_names.values())
    differences = {
        # Joined by MemberID, to cover the days in hospital too.
        "release_members": either_way(
            f'SELECT "MemberID", {names} FROM {judged.profiles.sql}',
            f"""SELECT x.pseudonym, {names} FROM ({demographics}) AS m
                JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.original_id = m.member_id
                WHERE x.pseudonym IN ({own})""",
        ),
        "release_claims": either_way(
            f"""SELECT "MemberID", "Year", {released} FROM {staged.claims.sql}""",
            f"""SELECT x.pseudonym, 'Y' || e.year, {columns} FROM ({expected}) AS e
                JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.original_id = e.member_id
                WHERE x.pseudonym IN ({own})""",
        ),
    }
    what = "the staged rows differ from those that the restricted store gives at the chosen generalization"
    rows = {name: int(staged.members.query(sql)["n"].iloc[0]) for name, sql in differences.items()}
    return _differing("inconsistent_rows", rows, what)


def _differing(rule: str, rows: Mapping[str, int], what: str) -> list[Refusal]:
    """Refuse tables in which some rows, of whose numbers those are, are not as they have to be."""
    return [Refusal(rule, name, float(count), 0.0, f"{name}: {what}", "rows") for name, count in rows.items() if count]


def identity_refusals(tables: Mapping[str, Table], expected: Mapping[str, str]) -> list[Refusal]:
    """Compare every column of every staged row with the restricted store; they must be identical.

    Parameters
    ----------
    expected
        A SELECT of the rows for each table of the release.
    """
    rows = {name: rows_either_way(table, expected[name]) for name, table in tables.items()}
    return _differing("inconsistent_rows", rows, "the staged rows differ from those that the restricted store gives")


def row_refusals(name: str, table: Table, contract: DataFrameSchema, expected: str) -> list[Refusal]:
    """Check the staged rows of a release of one table against their contract and the restricted store."""
    return contract_refusals({name: table}, {name: contract}) + identity_refusals({name: table}, {name: expected})


def opt_out_refusals(policy: Policy, members: Table) -> list[Refusal]:
    """Refuse if the current list of members who opted out does not match the delivered members."""
    match = opt_out_match(members, policy.opt_outs.all_members)
    return [
        Refusal("opt_outs_not_matched", "opt_outs", None, None, text)
        for text in (
            *match.problems(policy.opt_outs.matched_at_least),
            *opt_out_match(members, policy.opt_outs.withdrawn).problems_of_home,
        )
    ]


def membership_refusals(policy: Policy, staged: Staged, crosswalk: Table, sample: Table, removed: Table) -> list[Refusal]:
    """Refuse members in any staged file who opted out under the current policy, were removed, or were not drawn."""
    ids = " UNION ".join(f'SELECT "MemberID" FROM {table.sql}' for table in staged.by_name().values())
    published = f"""SELECT p."MemberID", x.original_id AS member_id FROM ({ids}) AS p
        LEFT JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.pseudonym = p."MemberID" """
    rules = {
        "unknown_member": ("are not members of the delivery", "member_id IS NULL", []),
        "opted_out_member": (
            "opted out",
            "member_id IN (SELECT unnest(?::VARCHAR[]))",
            [[*policy.opt_outs.all_members, *policy.opt_outs.withdrawn]],
        ),
        "removed_member": ("were removed", f"member_id IN (SELECT member_id FROM {removed.sql})", []),
        "member_not_drawn": (
            "are not in the random sample",
            f"member_id IS NOT NULL AND member_id NOT IN (SELECT member_id FROM {sample.sql})",
            [],
        ),
        "member_without_demographics": (
            "are not in the members file",
            f'"MemberID" NOT IN (SELECT "MemberID" FROM {staged.members.sql})',
            [],
        ),
    }
    found = []
    for rule, (text, condition, values) in rules.items():
        rows = staged.members.query(f"SELECT count(*) AS n FROM ({published}) WHERE {condition}", values)["n"].iloc[0]
        if rows:
            found.append(Refusal(rule, "release", float(rows), 0.0, f"members who {text} are in the staged files", "members"))
    return found


def pseudonym_refusals(crosswalk: Table, key_of: Callable[[str], bytes]) -> list[Refusal]:
    """Recompute every pseudonym: an identifier that is not one, or belongs to another, must not be published."""
    found = []
    for kind in ("member", "provider", "vendor", "pcp"):
        stored = crosswalk.query(
            f"SELECT original_id, pseudonym FROM {crosswalk.sql} WHERE kind = ? ORDER BY original_id", [kind]
        )
        expected = pseudonyms(kind, stored["original_id"].tolist(), key_of(kind))["pseudonym"]
        wrong = int((stored["pseudonym"].to_numpy() != expected.to_numpy()).sum())
        if wrong:
            text = f"pseudonym_crosswalk: pseudonyms of kind {kind} are not those of the secret key"
            found.append(Refusal("wrong_pseudonym", kind, float(wrong), 0.0, text, "rows"))
    return found


def provider_refusals(
    policy: Policy, staged: Staged, levels: Mapping[str, int], reference: Table, domains: Table
) -> list[Refusal]:
    """Refuse identifiers shown with a pattern of care that too few providers, vendors or PCPs share."""
    columns = policy.released_pattern
    pattern = tuple(columns)
    if not pattern:
        return []
    settings = policy.provider_suppression
    needed = providers_needed(settings.providers_at_least, settings.estimator)
    file = staged.claims.file
    counted = write_view(
        Table(file, by_query.SCHEMA, "reference_claims"),
        generalized_claims(
            reference,
            domains,
            {column: levels[column] for column in pattern if column != EVENT_TABLE},
            (*IDENTIFIERS, *(column for column in pattern if column == EVENT_TABLE)),
        ),
    )
    found = []
    for identifier, released in PROVIDER_PSEUDONYMS.items():
        same = " AND ".join(f"s.{quoted(columns[column])} IS NOT DISTINCT FROM p.{quoted(column)}" for column in pattern)
        rows = staged.claims.query(
            f"""SELECT count(*) AS n FROM {staged.claims.sql} AS s
                LEFT JOIN ({pattern_counts(counted, pattern, [identifier])}) AS p ON {same}
                WHERE s.{quoted(released)} IS NOT NULL AND coalesce(p.{quoted(f"n_{identifier}")}, 0) < {int(needed)}"""
        )["n"].iloc[0]
        if rows:
            text = f"release_claims: {released} is shown next to a pattern of care that fewer than {needed} share"
            found.append(Refusal("unsuppressed_identifier", released, float(rows), 0.0, text, "rows"))
    return found


def rows_either_way(table: Table, expected: str) -> int:
    """Count the rows that only one of a table and a SELECT has."""
    return int(table.query(either_way(f"SELECT * FROM {table.sql}", f"SELECT * FROM ({expected})"))["n"].iloc[0])


def risk_measurements(policy: Policy, draws: Draws, number: int) -> tuple[Measurement, ...]:
    """The share at high risk on the gate's own stream (`judged_shares`); `number` is that of the try."""
    return judged_shares(policy, draws.judged, draws.key, number, draws.commitment)


def cross_check_refusals(judged: StagedClaims, draws: Draws) -> tuple[list[Refusal], Measurement]:
    """Count some draws of the gate's stream with DuckDB on the staged rows, and compare both readings draw by draw."""
    policy, levels, profiles, domains = judged.policy, judged.levels, judged.tables.profiles, judged.tables.domains
    computation, node, stream_key = draws.judged.computation, draws.judged.node, draws.key
    member_columns, claim_names = policy.member_columns, policy.claim_names
    population = _population(judged)
    top = {column: policy.hierarchy_of(column).levels - 1 for column in levels}
    population_at_top = _released_at_top(claim_names, top, profiles, judged.tables.held, domains)
    published = f"WHERE released AND member_id NOT IN (SELECT member_id FROM {judged.suppressed.sql})"
    which = "" if policy.counts_population else published
    ids = profiles.arrays(f"SELECT member_number FROM {profiles.sql} {which} ORDER BY 1")["member_number"]
    labels = labels_at(domains, levels)
    first = np.arange(CROSS_CHECKED_DRAWS)

    def agreed(fixed: NodeComputation) -> tuple[by_query.Agreement, np.ndarray, np.ndarray]:
        """Compare both readings of one adversary; and the flags of each reading, (draws,) bool."""
        literal = fixed.with_power(literal_power(fixed, node, draws.judged.adversary))
        (known,) = fixed.data.knows.each(len(claim_names))
        of_fixed, of_literal = (
            by_query.Drawn(one.data, draw_knowledge(one.data, stream_key, 0).take(first).of(known), ids)
            for one in (fixed, literal)
        )
        counted = by_query.count_by_query(of_fixed, labels, member_columns, list(claim_names), population)
        kept_at_top = by_query.hold_their_own(of_fixed, labels_at(domains, top), list(claim_names), population_at_top)
        flags = fixed.measure(node, stream_key, CROSS_CHECKED_DRAWS, keep_flags=True).kept_flags
        once = by_query.compare_fixed(counted, kept_at_top, flags, fixed.k)

        counted = by_query.count_by_query(of_literal, labels, member_columns, list(claim_names), population)
        kernel = literal.drawn_classes(node, stream_key, CROSS_CHECKED_DRAWS, exemption="literal")
        literally = literal.measure(node, stream_key, CROSS_CHECKED_DRAWS, exemption="literal", keep_flags=True).kept_flags
        compared = by_query.compare_literal(counted, kernel.exempt, kernel.sizes, literally, fixed.k)
        return once + compared, flags, literally

    of_each = [agreed(one) for one in computation.of_each_scenario()]
    found = sum((one for one, _, _ in of_each[1:]), start=of_each[0][0])
    if computation.data.knows != EVERYTHING:
        found += agreed(computation.known_as(EVERYTHING))[0]
    if computation.data.knows.scenarios:  # whom any of them finds is at high risk
        literal = computation.with_power(literal_power(computation, node, draws.judged.adversary))
        once = computation.measure(node, stream_key, CROSS_CHECKED_DRAWS, keep_flags=True).kept_flags
        literally = literal.measure(node, stream_key, CROSS_CHECKED_DRAWS, "literal", keep_flags=True).kept_flags
        wrong = once != np.any([flags for _, flags, _ in of_each], axis=0)
        wrong |= literally != np.any([flags for _, _, flags in of_each], axis=0)
        found += by_query.Agreement(len(wrong), int(np.count_nonzero(wrong)))

    measured = Method("cross_check", "methods#cross-check", draws.commitment).at_most(
        by_query.CROSS_CHECK, "disagreements", found.disagreements, 0, found.draws
    )
    return measurement_refusals("gate", [measured]), measured


def _population(judged: StagedClaims) -> by_query.Counted:
    """The population in which classes are counted: released members as staged, everybody else from the store.

    If classes are estimated from the release there is nobody else. Members are numbered, because joins on long texts
    take most of the time.
    """
    policy, staged_profiles, profiles, domains = judged.policy, judged.profiles, judged.tables.profiles, judged.tables.domains
    member_columns, claim_names = policy.member_columns, policy.claim_names
    pseudonyms = f"""(SELECT x.pseudonym, m.member_number FROM {judged.crosswalk.sql} AS x JOIN {profiles.sql} AS m
        ON m.member_id = x.original_id WHERE x.kind = 'member')"""
    names = ", ".join(quoted(column) for column in member_columns)
    released = ", ".join(f"s.{quoted(name)} AS {quoted(column)}" for column, name in claim_names.items())
    columns = ", ".join(quoted(column) for column in claim_names)
    others = f"""(SELECT member_id, member_number FROM {profiles.sql}
        WHERE {"true" if policy.counts_population else "false"} AND member_number NOT IN (
            SELECT member_number FROM {pseudonyms} WHERE pseudonym IN (SELECT "MemberID" FROM {staged_profiles.sql})))"""
    members_sql = f"""
        SELECT x.member_number AS member_id, x.member_number AS own_id, {names}
        FROM {staged_profiles.sql} AS s JOIN {pseudonyms} AS x ON x.pseudonym = s."MemberID"
        UNION ALL SELECT o.member_number, o.member_number, {names}
        FROM ({generalized_members(profiles, domains, judged.levels_of(member_columns))})
        JOIN {others} AS o USING (member_id)"""
    claims_sql = f"""
        SELECT x.member_number AS member_id, {released}
        FROM {judged.staged.claims.sql} AS s JOIN {pseudonyms} AS x ON x.pseudonym = s."MemberID"
        UNION ALL SELECT o.member_number, {columns}
        FROM ({generalized_claims(judged.tables.held, domains, judged.levels_of(claim_names))})
        JOIN {others} AS o USING (member_id)"""
    return _counted(profiles, "population", members_sql, claims_sql, claim_names)


def _released_at_top(
    claim_names: Mapping[str, str], top: Mapping[str, int], profiles: Table, held: Table, domains: Table
) -> by_query.Counted:
    """Members of the sample at the coarsest node, where exemptions are decided once."""
    sample = f"(SELECT member_id, member_number FROM {profiles.sql} WHERE released)"
    claims = generalized_claims(
        held, domains, {column: top[column] for column in claim_names}, members=f"SELECT member_id FROM {sample}"
    )
    return _counted(
        profiles,
        "sample_at_top",
        f"SELECT member_number AS member_id, member_number AS own_id FROM {sample}",
        f"SELECT o.member_number AS member_id, c.* EXCLUDE (member_id, claim_id) FROM ({claims}) AS c "
        f"JOIN {sample} AS o USING (member_id)",
        claim_names,
    )


def _counted(beside: Table, name: str, members: str, claims: str, columns: Iterable[str]) -> by_query.Counted:
    """The population as tables, with each claim's values counted once for all draws."""
    found = by_query.Counted(Table(beside.file, by_query.SCHEMA, name), Table(beside.file, by_query.SCHEMA, f"{name}_held"))
    write_table(found.members, members)
    generalized = Table(beside.file, by_query.SCHEMA, f"{name}_claims")
    write_table(generalized, claims)  # each column is counted by itself
    write_table(found.held, held_values(generalized, list(columns)))
    return found


def labels_at(domains: Table, levels: Mapping[str, int]) -> dict[str, list[str | None]]:
    """For every quasi-identifier, the released label of each code in the kernel, which is a class of the finest level."""
    frame = domains.frame().sort_values("base_code")
    found = {}
    for column, level in levels.items():
        own = frame[frame["quasi_identifier"] == column]
        _, first = np.unique(own.loc[own["level"] == 0, "level_code"], return_index=True)
        labels = own.loc[own["level"] == level, "label"].to_numpy()[first]
        found[column] = [None if label != label else label for label in labels.tolist()]
    return found


def measurement_refusals(asset: str, measurements: Sequence[Measurement]) -> list[Refusal]:
    """Return a refusal for each gating measurement that did not pass; NaN and missing values do not pass."""
    return [
        Refusal(
            "failed_measurement",
            f"{asset}/{found.name}",
            found.compared,
            found.threshold,
            f"{asset}: {found.name}{', its upper bound,' * (found.statistic == 'upper_bound')} is not "
            f"{found.comparison.replace('_', ' ')} its threshold",
            found.unit,
        )
        for found in measurements
        if found.gating and not found.passed
    ]


def demographic_refusals(risk: DemographicRisk, staged_members: int) -> list[Refusal]:
    """Refuse demographic classes other than those of the staged rows; the measurements judge their share."""
    if risk.released == staged_members != 0:
        return []
    text = "the demographic classes do not add up to the staged members"
    return [Refusal("inconsistent_rows", "demographics", float(risk.released), float(staged_members), text, "members")]


def evidence_refusals(
    policy: AnyPolicy, delivery: str, evidence: Sequence[Evidence], digest: str, number: int | None = None
) -> list[Refusal]:
    """Judge the assessments' evidence: it must be sufficient, and of these rows, this policy, these methods and this try."""
    context = Context(
        delivery,
        policy.hash,
        dict.fromkeys(METHOD_VERSIONS, digest),
        METHOD_VERSIONS,
        {} if number is None else dict.fromkeys(JUDGED_BY_DRAWS, number),
    )
    return list(judge(evidence, required_measurements(policy), context))


def count_refusals(
    staged: Mapping[str, Table], expected: Mapping[str, pd.DataFrame], contracts: Mapping[str, DataFrameSchema]
) -> list[Refusal]:
    """Compare the staged files with their contracts, and with tables that the gate counted and protected again.

    Parameters
    ----------
    expected
        `published.file_tables` of the gate's own counts.
    contracts
        Of the files (`kinds.Counting.files`).
    """
    other = dict.fromkeys(staged.keys() ^ expected.keys(), 1)
    found = _differing("other_counts", other, "the file is staged and not expected, or expected and not staged")
    for name, table in staged.items():
        if name in other:
            continue
        broken = contract_refusals({name: table}, contracts)
        if not broken:
            own = Table(table.file, by_query.SCHEMA, f"expected_{name.lower()}")
            write_table(own, expected[name])
            rows = {name: rows_either_way(table, f"SELECT * FROM {own.sql}")}
            broken = _differing("other_counts", rows, "the staged counts are not the protected counts of this delivery")
        found += broken
    return found
