"""The stages of each kind of policy, and the assets of each."""

from deid_assets.stages import stages_of_kind

STAGES = stages_of_kind("longitudinal")
STAGES_WITH_DATES = stages_of_kind("longitudinal", with_dates=True)
FLAT_STAGES = stages_of_kind("flat")
COHORT_STAGES = stages_of_kind("cohort")
