"""Everything that this product uses of Dagster beyond its public interface.

A new version of Dagster may move or change these names; this is the one place to look at then. Others take the names from here.
"""

# ruff: noqa: F401

import functools

from alembic.script import ScriptDirectory
from dagster._core.definitions.data_version import DATA_VERSION_TAG, compute_logical_data_version
from dagster._core.definitions.executor_definition import multi_or_in_process_executor
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.errors import DagsterUnknownPartitionError
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import StepMaterializationData
from dagster._core.execution.api import execute_run_iterator
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.execution.context.data_version_cache import InputAssetVersionInfo
from dagster._core.execution.context.system import PlanOrchestrationContext, StepExecutionContext
from dagster._core.execution.plan.execute_step import _build_data_version_tags, _get_input_provenance_data
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.execution.stats import StepEventStatus
from dagster._core.execution.step_dependency_config import StepDependencyConfig
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.executor.init import InitExecutorContext
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.runs.schema import KeyValueStoreTable
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)
from dagster._core.storage.tags import (
    AUTOMATION_CONDITION_TAG,
    BACKFILL_ID_TAG,
    PARTITION_NAME_TAG,
    RETRY_ON_ASSET_OR_OP_FAILURE_TAG,
    RUN_KEY_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import make_new_run_id
from dagster._serdes import serialize_value
from dagster._utils.interrupts import capture_interrupts
from dagster._utils.schedules import is_valid_cron_string
from dagster_shared.error import SerializableErrorInfo

# Whenever Dagster opens a file, it asks which of its ninety migrations is the newest, and would read all of them each time.
ScriptDirectory.from_config = functools.cache(ScriptDirectory.from_config)  # type: ignore[method-assign]
