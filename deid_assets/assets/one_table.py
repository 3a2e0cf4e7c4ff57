"""What the releases of flat tables and of cohorts share: one table of rows that no later release can recognize."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import dagster as dg

from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assets.counts import ReleasedCounts
from deid_assets.assets.publishing import Passed
from deid_assets.methods.lattice.certificate import OptimalityCertificate
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import DescribedTable, dictionary
from deid_assets.release.publication.publish import Staging
from deid_assets.release.same_delivery import other_release_refusals
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table, connect


def stage_table(staging: Staging, name: str, candidate: Table) -> Table:
    """Write the files of a table, and read them back into the scratch schema."""
    with connect(candidate.file) as connection:
        staging.write_table(connection, name, candidate)
    staged = Table(candidate.file, SCHEMA, f"staged_{candidate.name}")
    staging.read_into(name, staged)
    return staged


def released_differently(
    context: dg.AssetExecutionContext, policy: FlatPolicy | CohortPolicy, workplace: Workplace
) -> list[Refusal]:
    """Records of two deliveries cannot be joined, so that only releases of the same delivery are compared."""
    delivery = workplace.delivery(context.partition_key)
    return other_release_refusals(policy, delivery.digest(), workplace.releases_made())


@dataclass(frozen=True)
class StagedCounts:
    """The files of counts beside the table, and what is found in them.

    Attributes
    ----------
    counts
        As the gate counts and protects them.
    tables
        As read back, by file; empty if the policy publishes none.
    refusals
        Why they must not be published.
    measured
        What an adversary learns of them.
    """

    counts: ReleasedCounts
    tables: Mapping[str, Table]
    refusals: list[Refusal]
    measured: tuple[Measurement, ...]

    @classmethod
    def of(cls, counts: ReleasedCounts, staging: Staging, stored: Table) -> "StagedCounts":
        """Write the stored tables as files, and judge what is read back."""
        tables, refusals = counts.staged(staging, stored)
        return cls(counts, tables, refusals, counts.measured())

    def write_dictionary(self, staging: Staging, described: Mapping[str, DescribedTable]) -> None:
        """Write the dictionary of the table and of the counts."""
        staging.write_json(DICTIONARY, dictionary({**described, **self.counts.described(self.tables)}))

    def passed(
        self,
        evidence: tuple[Evidence, ...],
        proof: OptimalityCertificate,
        shapes: Mapping[str, str],
        report: Callable[[bytes], bytes],
        still_so: Callable[[], bool] = lambda: True,
    ) -> Passed:
        """What passed the gate: rows without an identifier by which releases could be compared.

        Parameters
        ----------
        evidence, proof, shapes, report, still_so
            As in `Passed`; that earlier releases change what the counts give away is asked besides.
        """
        return Passed(
            evidence,
            self.counts.steps,
            proof,
            counts_people=True,
            shapes=shapes,
            report=report,
            still_so=lambda: still_so() and self.counts.measured() == self.measured,
            member_tags=b"",
            plan=self.counts.plan,
            sums=self.counts.sums,
            counts=self.counts.published if self.counts.are_published else None,
            roll=b"",
            removal_digest="",
            tried=None,
        )
