"""The code location of the UI: the Dagster definitions of the policies that are in use in this home."""

import dagster as dg

from deid_assets.building import build_definitions

# The UI's own "Materialize" also executes steps in the process of their run.
defs = dg.Definitions.merge(build_definitions(), dg.Definitions(executor=dg.in_process_executor))
