"""What the function of an asset may use besides its tables: the policy, the delivery, the home, and the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import dagster as dg

from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.keys import Secret
from deid_assets.resources import RestrictedStore, Workplace, asset_key_of, policy_name, sibling
from deid_assets.sources.delivery import Delivery
from deid_assets.store.home import Home
from deid_assets.store.tables import Table

P = TypeVar("P", bound=AnyPolicy, covariant=True)


@dataclass(frozen=True)
class Step(Generic[P]):
    """An asset of a policy that is being made from a delivery.

    Attributes
    ----------
    context
        Of the run.
    workplace
        The home, and what assets may use in it.
    model
        Of the policies that have the asset.
    """

    context: dg.AssetExecutionContext
    workplace: Workplace
    model: type[P]

    @cached_property
    def policy(self) -> P:
        """The policy, as it is when it is first asked for."""
        return self.workplace.policies.of(self.context, self.model)

    @property
    def instance(self) -> dg.DagsterInstance:
        """The instance with the event log."""
        return self.context.instance

    @property
    def key(self) -> str:
        """The key of the delivery."""
        return self.context.partition_key

    @property
    def delivery(self) -> Delivery:
        """The delivery."""
        return self.workplace.delivery(self.key)

    @property
    def home(self) -> Home:
        """The home."""
        return self.workplace.home

    @property
    def secret(self) -> Secret:
        """The secret of the home."""
        return self.workplace.secret()

    @property
    def names(self) -> tuple[str, str]:
        """Names of the policy and of the delivery: derived keys differ by both."""
        return policy_name(self.own), self.key

    @property
    def own(self) -> dg.AssetKey:
        """The key of the asset that is being made, or of one of them."""
        return asset_key_of(self.context)

    @property
    def store(self) -> RestrictedStore:
        """The store of the asset that is being made."""
        key = self.context.assets_def.get_io_manager_key_for_asset_key(self.own)
        store: RestrictedStore = getattr(self.context.resources, key)
        return store

    @property
    def name(self) -> str:
        """The name of the step in the run."""
        return self.context.op_execution_context.get_step_execution_context().step.key

    def sibling(self, name: str) -> dg.AssetKey:
        """The key of another asset of the policy."""
        return sibling(self.own, name)

    def table(self, name: str) -> Table:
        """The handle on the table of an asset of the policy, whether or not it exists."""
        return self.workplace.table(self.sibling(name), self.key)

    def tell(self, metadata: Mapping[str, Any]) -> None:
        """Add metadata to the materialization."""
        self.context.add_output_metadata(metadata)
