"""Attack 3 with a real discharge file: CMS's own inpatient claims against a release of the same beneficiaries.

The discharge table is made from the raw file, with its codes, by nothing of the product; generalized by the policy's
hierarchies it must be the delivery's own inpatient visits. Its ages are those at the first claim of 2008, as the
release's."""

import duckdb
import pandas as pd
import pytest

from deid_assets.assessments.evidence import from_frame
from deid_assets.stages import STAGE_OF
from deid_assets.store.tables import write_table
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

KEY = "synpuf"
COLUMNS = {"length_of_stay": "LengthOfStay", "place": "PlaceSvc", "condition_group": "PrimaryConditionGroup"}
POLICY = changed(
    SMALL,
    source={"kind": "desynpuf", "unknown_codes": "blank"},
    intake={"quarantine_at_most": 0.02},
    sample={"fraction": 0.1},
    removal__newborn_days=None,
    # The inpatient files hold no procedures.
    removal__coded_claims_at_least={"procedure": None},
    quasi_identifiers__claims=[{"column": column, "release_as": name, "hierarchy": column} for column, name in COLUMNS.items()],
    hierarchies__condition_group={"kind": "fixed"},
    hierarchies__length_of_stay={
        "kind": "intervals",
        "levels": [{"name": "stays", "starts": [0, 2, 5, 15], "labels": ["1", "2-4", "5-14", "15+"]}],
    },
)

DISCHARGES = """
    COPY (
        SELECT c.DESYNPUF_ID AS person, c.CLM_FROM_DT[:4] AS year, b.BENE_SEX_IDENT_CD AS sex, c.ICD9_DGNS_CD_1 AS dx,
               date_sub('year', strptime(b.BENE_BIRTH_DT, '%Y%m%d'), strptime(coalesce(
                   min(c.CLM_FROM_DT) FILTER (c.CLM_FROM_DT[:4] = '2008') OVER (PARTITION BY c.DESYNPUF_ID), '20080101'
               ), '%Y%m%d')) AS age,
               CASE WHEN c.CLM_UTLZTN_DAY_CNT::INTEGER > 0 THEN c.CLM_UTLZTN_DAY_CNT::INTEGER
                    ELSE greatest(1, date_diff('day', strptime(c.CLM_ADMSN_DT, '%Y%m%d'),
                                               strptime(c.NCH_BENE_DSCHRG_DT, '%Y%m%d'))) END AS los
        FROM read_csv(?, all_varchar = true) AS c JOIN read_csv(?, all_varchar = true) AS b USING (DESYNPUF_ID)
        WHERE c.SEGMENT = '1' AND c.CLM_FROM_DT >= '2008' ORDER BY c.CLM_FROM_DT, c.CLM_ID
    ) TO '{file}' (HEADER)"""

TABLE = {
    "file": "discharges.csv",
    "person": "person",
    "year": {"name": "year", "values": {"2008": "1", "2009": "2", "2010": "3"}},
    "columns": {
        "age": {"name": "age"},
        "sex": {"name": "sex", "values": {"1": "M", "2": "F"}},
        "length_of_stay": {"name": "los"},
        "condition_group": {"name": "dx", "coded": True},
    },
}


def numbers(pipeline: Pipeline) -> dict[str, float]:
    (item,) = from_frame(pipeline.table(KEY, "inpatient_attack").frame())
    return {measured.name: measured.value for measured in item.measurements}


@pytest.fixture
def candidate(tmp_path):
    """A candidate at a node of our choice; whether the search would take it is no matter here."""
    folder = public_data("desynpuf", "sample-2")
    with pipeline_in(tmp_path / "deid") as pipeline:
        write_policy(pipeline.home.policies, POLICY)
        pipeline.register(KEY, "desynpuf", folder)
        before = [name for name in pipeline.every_asset if STAGE_OF[name] in ("intake", "preparation")]
        made = pipeline.run(KEY, [*before, "value_domains"], checks=False, stages=False)
        assert not made.reasons
        levels = pd.DataFrame({"dimension": ["age", "days_in_hospital"], "level": [1, 1], "level_name": ["", ""]})
        write_table(pipeline.table(KEY, "chosen_generalization"), levels)
        write_table(pipeline.table(KEY, "suppressed_members"), "SELECT NULL::VARCHAR AS member_id WHERE false")
        assets = ["release_members", "release_claims", "release_days_in_hospital", "inpatient_attack"]
        made = pipeline.run(KEY, assets, checks=False, stages=False)
        assert not made.reasons
        yield pipeline, folder


def test_the_raw_discharge_file_gives_the_numbers_of_the_delivery(candidate):
    pipeline, folder = candidate
    of_delivery = numbers(pipeline)
    file = pipeline.home.policies / "discharges.csv"
    with duckdb.connect() as connection:
        names = ("DE1_0_2008_to_2010_Inpatient_Claims_Sample_2.csv", "DE1_0_2008_Beneficiary_Summary_File_Sample_2.csv")
        connection.execute(DISCHARGES.format(file=file), [str(folder / name) for name in names])
    write_policy(pipeline.home.policies, changed(POLICY, inpatient_attack={"table": TABLE}))
    made = pipeline.run(KEY, ["inpatient_attack"], checks=False, stages=False)
    assert not made.reasons
    of_table = numbers(pipeline)
    assert 0 < of_table["inpatient_expected"] < 1
    assert of_table == pytest.approx({name: of_delivery[name] for name in of_table})
    # Whom the file lacks, because visits were cut, counts as found and is not linked.
    lacking = of_delivery["inpatient_not_in_the_file"]
    linked = of_delivery["inpatient_linked_recall"]
    assert linked <= of_delivery["inpatient_match_all_years"] <= linked + lacking + 0.02
