"""What the flags of draws at measured nodes tell of other nodes, so that most draws need no matching there.

Coarsening keeps who matches: a draw that finds enough members at a node finds them at every coarser one, and a draw that finds
too few does so at every finer one (methods#node-risk). This holds where one exemption serves the whole lattice. A search asks
for the same draws at every node, so that only those are matched whose flag no related node tells.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

BYTES_KEPT = 1 << 26
"""Memory for flags: one bit for each draw at each node."""
NEAREST = 8
"""So many related nodes are asked on either side, the nearest by height: others tell little more."""


@dataclass(eq=False)
class _Stream:
    """The flags of the draws of one stream: for each block, the nodes at which it was measured, and its flags there."""

    numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    nodes: dict[int, list[int]] = field(default_factory=dict)
    flags: dict[int, list[np.ndarray]] = field(default_factory=dict)
    nbytes: int = 0


class KnownFlags:
    """The flags of draws at nodes that were measured, of the streams used last.

    Every node is given by the level of each quasi-identifier. Flags are those of one exemption for the whole lattice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: OrderedDict[bytes, _Stream] = OrderedDict()

    def __reduce__(self) -> tuple:
        # A lock cannot be sent to another process, where draws are matched but no flag is kept.
        return KnownFlags, ()

    def implied(self, stream_key: bytes, levels: tuple[int, ...], blocks: range, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what is implied of the draws of some blocks at a node.

        Parameters
        ----------
        levels
            The node.
        blocks
            Numbers of the blocks, in the order of the draws.
        size
            Number of draws of a block.

        Returns
        -------
        flagged, cleared
            (B,) bool each, in the order of the stream: whether the draw is flagged at a coarser node, and whether it is not at
            a finer one.
        """
        flagged, cleared = np.zeros((2, len(blocks), size), dtype=bool)
        with self._lock:
            stream = self._streams.get(stream_key)
            if stream is None or not stream.numbers:
                return flagged.ravel(), cleared.ravel()
            self._streams.move_to_end(stream_key)
            measured = np.array(list(stream.numbers)) - np.array(levels)
            apart = measured.sum(axis=1)
            finer, coarser = (measured <= 0).all(axis=1), (measured >= 0).all(axis=1)
            for at, block in enumerate(blocks):
                nodes, flags = np.array(stream.nodes.get(block, []), dtype=np.int64), stream.flags.get(block, [])
                for related, told, joined in ((coarser, flagged, np.bitwise_or), (finer, cleared, np.bitwise_and)):
                    some = np.flatnonzero(related[nodes])
                    some = some[np.argsort(np.abs(apart[nodes[some]]), kind="stable")[:NEAREST]]
                    if len(some):
                        bits = joined.reduce([flags[one] for one in some])
                        told[at] = np.unpackbits(bits, count=size) != (joined is np.bitwise_and)
        return flagged.ravel(), cleared.ravel()

    def learn(self, stream_key: bytes, levels: tuple[int, ...], blocks: range, flags: np.ndarray) -> None:
        """Keep the flags of some blocks at a node, (B,) bool in the order of the stream; flags of older streams go."""
        packed = np.packbits(flags.reshape(len(blocks), -1), axis=1)
        with self._lock:
            stream = self._streams.setdefault(stream_key, _Stream())
            self._streams.move_to_end(stream_key)
            if stream.nbytes + packed.nbytes > BYTES_KEPT:
                return
            while sum(one.nbytes for one in self._streams.values()) + packed.nbytes > BYTES_KEPT:
                self._streams.popitem(last=False)
            stream.nbytes += packed.nbytes
            number = stream.numbers.setdefault(levels, len(stream.numbers))
            for block, of_block in zip(blocks, packed, strict=True):
                stream.nodes.setdefault(block, []).append(number)
                stream.flags.setdefault(block, []).append(of_block)
