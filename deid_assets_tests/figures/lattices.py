"""Lattices made up for the figures' tests."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

HERITAGE = ("age", "days_in_hospital", "length_of_stay", "days_since_first_claim")
THRESHOLD = 0.008


def lattice(sizes: Sequence[int], names: Sequence[str] = HERITAGE, highest: float = 0.15) -> pd.DataFrame:
    """Every node of a lattice of these sizes, with shares that fall on the way up and reach zero at the top."""
    rows = []
    for number, node in enumerate(itertools.product(*map(range, sizes))):
        progress = sum(level / max(size - 1, 1) for level, size in zip(node, sizes, strict=True)) / len(sizes)
        share = 0.0 if progress > 0.9 else highest * float(np.exp(-6 * progress))
        close = abs(share - THRESHOLD) < 0.001
        decision = "undecided" if close else "candidate" if share < THRESHOLD else "not_candidate"
        rows.append(
            {
                **dict(zip(names, node, strict=True)),
                "node": ",".join(map(str, node)),
                "height": sum(node),
                "loss": 0.9 * progress,
                "share": share,
                "lower": 0.9 * share,
                "upper": 1.1 * share + 1e-6,
                "decision": decision,
                "reached": "measured" if number % 9 == 0 else "inferred",
                "chosen": False,
            }
        )
    nodes = pd.DataFrame(rows)
    candidates = nodes[nodes["decision"] == "candidate"]
    if len(candidates):
        nodes.loc[candidates["loss"].idxmin(), "chosen"] = True
    return nodes
