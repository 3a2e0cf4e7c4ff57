"""Every node of a searched lattice as a row of a table."""

import pandas as pd

from deid_assets.methods.lattice.longitudinal_search import LatticeSearch
from deid_assets.methods.lattice.predictive_tagging import node_text


def nodes_frame(search: LatticeSearch) -> pd.DataFrame:
    """Every node as a row; `certificate` marks the direct lower neighbors of the optimum.

    Of a lattice that is not listed, the nodes that were looked at, with the place that each had among those measured.
    """
    below = {result.node for result in search.lower_neighbors}
    rows = [
        {
            "node": node_text(result.node),
            **dict(zip(search.dimensions, result.node, strict=True)),
            "height": result.height,
            "loss": result.loss,
            "flagged": result.flagged,
            "draws": result.draws,
            "share": result.share,
            "lower": result.lower,
            "upper": result.upper,
            "decision": result.decision,
            "reached": result.reached,
            "inferred_from": node_text(result.source) if result.source else None,
            "minimal": result.node in search.minimal,
            "chosen": search.chosen is not None and result.node == search.chosen.node,
            "certificate": result.node in below,
            "to_suppress": result.to_suppress,
            **({} if search.listed else {"measured_in_order": result.number}),
        }
        for result in search.nodes
    ]
    texts = dict.fromkeys(("inferred_from", "node", "decision", "reached"), "str")
    numbers = dict.fromkeys(("flagged", "draws", *([] if search.listed else ["measured_in_order"])), "Int64")
    return pd.DataFrame(rows).astype(texts | numbers | {"share": "float64", "to_suppress": "float64"})
