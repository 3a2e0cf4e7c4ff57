"""What the releases of flat tables and of cohorts share: one table of rows, one or a few for each person."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
import numpy as np

from deid_assets.assessments.cross_release_risk import Tags
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.record_cross_release_risk import PeopleTable
from deid_assets.assets.counts import ReleasedCounts
from deid_assets.assets.publishing import Passed, inputs_digest
from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.certificate import OptimalityCertificate
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.kept_file import parquet_of
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import DescribedTable, dictionary
from deid_assets.release.publication.publish import Staging
from deid_assets.release.publication.recovery import REGISTRY
from deid_assets.release.registry.chain import Registry
from deid_assets.release.same_delivery import other_release_refusals
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table, connect


def stage_table(staging: Staging, name: str, candidate: Table, columns: Sequence[str]) -> Table:
    """Write the files of a table, and read them back into the scratch schema.

    Parameters
    ----------
    columns
        Of the release, as the policy says now.

    Raises
    ------
    ReleaseError
        If the table has other columns: the policy was changed since it was made.
    """
    made = set(candidate.columns())
    if made != set(columns):
        differing = ", ".join(sorted(made ^ set(columns)))
        raise ReleaseError(
            f"{candidate.name} was made with other columns than the policy publishes now ({differing}): the policy was changed "
            "since; run the whole job again"
        )
    with connect(candidate.file) as connection:
        staging.write_table(connection, name, candidate)
    staged = Table(candidate.file, SCHEMA, f"staged_{candidate.name}")
    staging.read_into(name, staged)
    return staged


def released_differently(
    context: dg.AssetExecutionContext, policy: FlatPolicy | CohortPolicy, workplace: Workplace
) -> list[Refusal]:
    """Refuse a release of the same delivery with other rows, columns or levels."""
    delivery = workplace.delivery(context.partition_key)
    return other_release_refusals(policy, delivery.digest(), workplace.releases_made())


def made_of_the_same_inputs(
    context: dg.AssetExecutionContext, policy: FlatPolicy | CohortPolicy, workplace: Workplace
) -> str | None:
    """The release, as policy/number, that was made of the same inputs; None if there is none."""
    delivery = workplace.delivery(context.partition_key)
    inputs = inputs_digest(policy, workplace.secret(), delivery, delivery.digest())
    again = Registry(workplace.home.releases / REGISTRY).already_released(policy.name, inputs)
    return None if again is None else f"{again.policy}/{again.number:04d}"


@dataclass(frozen=True)
class KnownPeople:
    """The people of a release, as later releases will know them.

    Attributes
    ----------
    tags
        8 bytes of each person, `cumulative.member_tags`.
    rows
        The kept rows as Parquet.
    """

    tags: bytes
    rows: bytes

    @classmethod
    def of(cls, table: PeopleTable, released: np.ndarray | None, tags: Tags) -> "KnownPeople | None":
        """The people of a table and what it shows of them; None if nothing identifies them."""
        return None if released is None else cls(released.tobytes(), parquet_of(table.write_kept(tags)))


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
        people: KnownPeople | None = None,
        levels: Mapping[str, str] | None = None,
        not_compared: Mapping[str, str] | None = None,
    ) -> Passed:
        """What passed the gate.

        Parameters
        ----------
        evidence, proof, shapes, report, still_so
            As in `Passed`; that earlier releases change what the counts give away is asked besides.
        people
            Who is released; None if nothing identifies them.
        levels
            Name of the level of every quasi-identifier, for later releases; None if the policy states them.
        not_compared
            As in `Manifest`.
        """
        return Passed(
            evidence,
            self.counts.steps,
            proof,
            counts_people=True,
            shapes=shapes,
            report=report,
            still_so=lambda: still_so() and self.counts.measured() == self.measured,
            member_tags=b"" if people is None else people.tags,
            plan=self.counts.plan,
            sums=self.counts.sums,
            counts=self.counts.published if self.counts.are_published else None,
            roll=b"",
            removal_digest="",
            tried=None,
            rows=b"" if people is None else people.rows,
            generalization=levels,
            not_compared=not_compared or {},
        )
