"""The rows of a cohort's release under its policy, from the restricted store, and whether the staged rows equal them."""

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_attributes import attributes_sql, require_readable
from deid_assets.assessments.cohort_demographics import cells_in, released_labels
from deid_assets.assessments.evidence import Refusal
from deid_assets.methods.preparation.pseudonyms import pseudonyms
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.gate.judgement import row_refusals
from deid_assets.schemas.cohort import release_people_contract
from deid_assets.store.tables import Table, write_table


def released_people(policy: CohortPolicy, people: Table, population: Table, key: bytes) -> pd.DataFrame:
    """Return the rows to be published, ordered by their content.

    Parameters
    ----------
    key
        Secret from which pseudonyms are made, derived for this policy and delivery.

    Raises
    ------
    DeliveryError
        If the population's table lacks a place of the cohort, or the year of an attribute cannot be read.
    RefusedError
        If no old ages are possible.
    """
    require_readable(policy, people)
    shown = released_labels(policy, cells_in(policy, people, population))
    if policy.attributes:
        values = people.query(f"SELECT {attributes_sql(policy)} FROM {people.sql} ORDER BY record")
        shown = pd.concat([shown, values.astype("str").replace({np.nan: None})], axis=1)
    if policy.columns.person.release_as is not None:
        identifiers = people.query(f"SELECT person FROM {people.sql} ORDER BY record")["person"]
        made = pseudonyms("member", identifiers.tolist(), key)["pseudonym"]
        shown.insert(0, policy.columns.person.release_as, made)
    return shown.sort_values(list(shown), ignore_index=True)


def people_refusals(policy: CohortPolicy, staged: Table, expected: pd.DataFrame) -> list[Refusal]:
    """Check the staged rows against their contract and the rows to be published."""
    stored = Table(staged.file, SCHEMA, "expected_release_people")
    write_table(stored, expected)
    return row_refusals("release_people", staged, release_people_contract(policy), f"SELECT * FROM {stored.sql}")
