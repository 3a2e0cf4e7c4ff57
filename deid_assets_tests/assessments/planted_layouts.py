"""Empty tables with the columns of a policy's assets, as canaries are planted in; and the attacks on them."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from deid_assets.assessments.attribute_disclosure import (
    attributes_of_canaries,
    disclosed,
    record_attributes_of_canaries,
    records_disclosure,
)
from deid_assets.assessments.demographic_risk import demographics_of_canaries, measured_demographics
from deid_assets.assessments.identified_files import (
    inpatient_measurements,
    inpatients_of_canaries,
    matched_inpatients,
    matched_people,
    voter_list_measurements,
    voters_of_canaries,
)
from deid_assets.assessments.inference_channels import channels_of_canaries
from deid_assets.assessments.inference_rows import LINKED, SAMPLE, channel_rows, inferred
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.membership_disclosure import presence_of_canaries
from deid_assets.assessments.population_estimates import estimates, small_classes_of_canaries
from deid_assets.assessments.provider_graph_attack import (
    provider_measurements,
    providers_of_canaries,
    recognized_providers,
)
from deid_assets.assessments.record_risk import measured_risk, records_of_canaries
from deid_assets.methods.attacks.identified_file import COLUMNS, MEMBER_LEVEL, VISITS
from deid_assets.methods.canaries.planting import Findings
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import tags_in_order
from deid_assets.release.keys import Secret
from deid_assets.schemas import contracts_of
from deid_assets.sources.flat import POPULATION
from deid_assets.stages import asset_of
from deid_assets.store.tables import Table
from deid_assets_tests.methods.small_tables import SmallStore

TYPES = {"string": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "int8": "TINYINT", "boolean": "BOOLEAN",
         "float64": "DOUBLE", "date": "DATE"}  # fmt: skip
PLANTED = (
    "eligible_members", "removed_members", "member_profiles", "value_domains", "suppressed_members", "pseudonym_crosswalk",
    "grouped_claims", "truncated_claims", "known_claims", "dated_claims", "release_members", "release_claims",
    "release_days_in_hospital", "eligible_claims", "records", "record_domains", "release_records",
)  # fmt: skip
NAMES = (
    "eligible_members", "removed_members", "member_profiles", "value_domains", "suppressed_members", "pseudonym_crosswalk",
    "known", "held", "release_members", "release_claims", "release_days_in_hospital", "eligible_claims", LINKED, SAMPLE,
)  # fmt: skip
COMMITMENT = "c" * 64
KEY = b"0123456789abcdef"


class Canaries:
    """The canaries of each assessment of a longitudinal policy, attacked by the asset's own functions.

    `listed` has the columns of a table that the adversary holds; None: it is the delivery.
    """

    def __init__(self, store: SmallStore, policy: Policy, level: int = 0, listed: str | None = None):
        self.policy = policy
        self.columns = policy.member_columns
        self.levels = {qi.column: min(level, policy.hierarchy_of(qi.column).levels - 1) for qi in policy.quasi_identifiers.all}
        self.tables = layouts(store, contracts_of(policy))
        # What inference channels make of them: the members sampled, and their released claims with claim_id.
        linked = {"claim_id": "VARCHAR"} | self.tables["release_claims"].columns()
        self.tables[LINKED] = store.table(LINKED, ", ".join(f'"{name}" {kind}' for name, kind in linked.items()), [])
        self.tables[SAMPLE] = store.table(SAMPLE, '"MemberID" BIGINT, position BIGINT', [])
        self.listed = None if listed is None else store.table("listed_layout", listed, [])

    @property
    def candidate(self) -> Candidate:
        """A release without a row; beside a table that the adversary holds, if there is one."""
        tables = {name: self.tables[asset_of(self.policy, name)] for name in NAMES}
        return Candidate(self.policy, self.levels, tables | ({} if self.listed is None else {"listed": self.listed}))

    def demographic_risk(self) -> Findings:
        tags = partial(tags_in_order, secret=Secret(bytes(range(32)), "environment"))
        return demographics_of_canaries(
            self.candidate, tags, lambda planted, earlier: measured_demographics(planted, tags, earlier).measured
        )

    def voter_list_attack(self) -> Findings:
        columns = [column for column in MEMBER_LEVEL if self.policy.publishes(column)]
        return voters_of_canaries(
            self.candidate, columns,
            lambda planted: voter_list_measurements(None, *matched_people(planted, columns, KEY), COMMITMENT),
        )  # fmt: skip

    def inpatient_attack(self) -> Findings:
        columns = tuple(column for column in COLUMNS if column == VISITS or self.policy.publishes(column))

        def attack(planted: Candidate):
            found = matched_inpatients(planted, columns, KEY)
            return found.shares, inpatient_measurements(None, found, COMMITMENT)

        return inpatients_of_canaries(self.candidate, columns, attack)

    def membership_disclosure(self) -> Findings:
        return presence_of_canaries(self.candidate, COMMITMENT)

    def population_estimates(self) -> Findings:
        return small_classes_of_canaries(
            self.candidate, lambda sizes, people, alpha: estimates(self.policy, sizes, people, alpha).measurements(self.policy)
        )

    def attribute_disclosure(self) -> Findings:
        return attributes_of_canaries(
            self.policy, self.candidate.tables, lambda planted, column: disclosed(self.policy, column, planted)
        )

    def provider_graph_attack(self) -> Findings:
        def attack(planted: Candidate):
            found = recognized_providers(planted, 50, lambda _: KEY)
            return found, provider_measurements(self.policy, found, COMMITMENT)

        return providers_of_canaries(self.candidate, attack)

    def inference_channels(self) -> Findings:
        return channels_of_canaries(
            self.policy, self.candidate.tables,
            lambda planted, people: inferred(
                self.policy, channel_rows(self.policy, planted), people, lambda purpose: np.random.default_rng(len(purpose))
            ),
        )  # fmt: skip


class FlatCanaries:
    """The same of a flat policy."""

    def __init__(self, store: SmallStore, policy: FlatPolicy, level: int = 0):
        self.policy = policy
        self.levels = {qi.release_as: min(level, policy.hierarchy(qi.hierarchy).levels - 1) for qi in policy.quasi_identifiers}
        self.tables = layouts(store, contracts_of(policy))
        self.population = None
        if policy.population is not None:
            names = "".join(f", {qi.release_as} VARCHAR" for qi in policy.quasi_identifiers)
            self.population = store.table(POPULATION, f"record BIGINT{names}", [])

    def record_risk(self) -> Findings:
        return records_of_canaries(
            self.levels, {name: self.tables[name] for name in ("records", "record_domains", "release_records")},
            self.population,
            lambda planted: measured_risk(
                self.policy, planted["release_records"], planted["records"], planted["record_domains"], self.levels
            ),
        )  # fmt: skip

    def record_attribute_disclosure(self) -> Findings:
        return record_attributes_of_canaries(
            self.policy, self.tables["release_records"],
            lambda planted, column: records_disclosure(self.policy, column, planted),
        )  # fmt: skip


def layouts(store: SmallStore, contracts: Mapping) -> dict[str, Table]:
    """An empty table for every contract of a table that canaries are planted in."""
    return {
        name: store.table(
            name, ", ".join(f'"{column}" {TYPES[str(one.dtype)]}' for column, one in contracts[name].columns.items()), []
        )
        for name in PLANTED
        if name in contracts
    }
