"""One job from the warehouse to the reader of the release."""

import dagster as dg

everything = dg.define_asset_job(
    "everything",
    selection=dg.AssetSelection.key_prefixes("warehouse", "our_claims", "analytics"),
    # A process for each of the small steps would take longer than the step.
    executor_def=dg.in_process_executor,
)
