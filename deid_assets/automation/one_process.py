"""An executor for projects with a release: a run that makes tables of a release executes its steps in its own process.

A table takes less time than the start of a process. In Dagster a run has one executor, and what the UI's "Materialize",
automation conditions and `dagster asset materialize` start has that of the code location: assets cannot have one of their own
(github.com/dagster-io/dagster/issues/14539).
"""

from collections.abc import Iterator

import dagster as dg

from deid_assets import dagster_internals as internals
from deid_assets.resources import POLICY_TAG


class _OneProcess(dg.Executor):
    """Dagster's default, but one process for a run with steps of a release."""

    def __init__(self, otherwise: dg.Executor) -> None:
        self._otherwise = otherwise

    @property
    def retries(self) -> internals.RetryMode:
        """What the default does with retries."""
        return self._otherwise.retries

    @property
    def step_dependency_config(self) -> internals.StepDependencyConfig:
        """What the default requires of earlier steps."""
        return self._otherwise.step_dependency_config

    def execute(
        self, plan_context: internals.PlanOrchestrationContext, execution_plan: internals.ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        """Execute the steps of a run."""
        steps = map(execution_plan.get_step_by_key, execution_plan.step_keys_to_execute)
        ours = any(POLICY_TAG in step.tags for step in steps if step.tags)
        chosen = internals.InProcessExecutor(self.retries, self.step_dependency_config) if ours else self._otherwise
        yield from chosen.execute(plan_context, execution_plan)


@dg.executor(
    name="one_process_executor",
    config_schema=internals.multi_or_in_process_executor.config_schema.as_field(),
    requirements=internals.multi_or_in_process_executor.get_requirements,
)
def one_process_executor(context: internals.InitExecutorContext) -> dg.Executor:
    """A run that makes tables of a release executes all its steps in its process; others are executed as by default.

    For `dagster.Definitions(executor=one_process_executor)`. It takes the configuration of Dagster's default executor.
    """
    make = internals.multi_or_in_process_executor.executor_creation_fn
    if make is None:
        raise TypeError("Dagster's default executor cannot be made")
    return _OneProcess(make(context))
