"""Contracts between stages: which columns a table has, what each one means, and which values it may hold.

One module per stage; `CONTRACTS` finds the contract of an asset by its name. The tables of the release have no entry
here, because their allowed values follow from the policy: `candidate.release_contracts` builds them.
"""

from pandera.ibis import DataFrameSchema

from deid_assets.schemas import adversary, intake, preparation

CONTRACTS: dict[str, DataFrameSchema] = {**intake.CONTRACTS, **preparation.CONTRACTS, **adversary.CONTRACTS}
