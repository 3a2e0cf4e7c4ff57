"""Whether the coding system of diagnoses can be known as the policy states it."""

from collections.abc import Iterator

from deid_assets.policy.models import Policy
from deid_assets.policy.problems import Problem
from deid_assets.sources.delivery import DesynpufSource, TablesSource
from deid_assets.sources.diagnosis_systems import FromColumn


def diagnosis_code_problems(policy: Policy) -> Iterator[Problem]:
    """A column must be delivered, dates be known, and the Charlson index have a list for the system."""
    codes, source = policy.diagnosis_codes, policy.source
    here = ("diagnosis_codes",)
    claims = source.claims if isinstance(source, TablesSource) else None
    if isinstance(codes, FromColumn) and claims is None:
        yield Problem(here, f"deliveries of kind {source.kind} have no column {codes.from_}: state the system, or by_date")
    if codes == "by_date" and claims is not None and not {"service_date", "discharge_date"} & set(claims.columns):
        yield Problem(here, "by_date needs the dates of claims: map service_date, or state the system or its column")
    if isinstance(source, DesynpufSource) and codes != "icd9cm":
        yield Problem(here, "DE-SynPUF is of 2008 to 2010, and its diagnoses are of ICD-9-CM: icd9cm")
    if policy.grouping.charlson == "deyo" and codes != "icd9cm":
        yield Problem(("grouping", "charlson"), "Deyo's list is of ICD-9-CM only: quan, whose list is of both systems")
