"""What the flags of draws at measured nodes tell of other nodes, so that most draws of a search need no matching there.

Coarsening keeps who matches: a draw that finds enough members at a node finds them at every coarser one, and a draw that finds
too few does so at every finer one. This holds where one exemption serves the whole lattice. A search asks for the same draws at
every node, so that only those are matched whose flag no related node tells (methods#what-nodes-tell-each-other).
"""

from dataclasses import dataclass, field

import numpy as np

from deid_assets.methods.kernel.recent import RecentStreams

BYTES_KEPT = 1 << 25
"""Memory for flags: one bit for each draw at each node."""
NEAREST = 8
"""So many related nodes are asked on either side, the nearest by height: others tell little more."""


@dataclass(eq=False)
class _Block:
    """The nodes at which a block of draws was measured, by number, and its flags there, as bits."""

    nodes: list[int] = field(default_factory=list)
    flags: list[np.ndarray] = field(default_factory=list)

    def of(self, related: np.ndarray, apart: np.ndarray) -> list[np.ndarray]:
        """Return the flags at the nearest related nodes; both (M,), by the numbers of nodes."""
        nodes = np.array(self.nodes, dtype=np.int64)
        some = np.flatnonzero(related[nodes])
        return [self.flags[one] for one in some[np.argsort(apart[nodes[some]], kind="stable")[:NEAREST]]]


@dataclass(eq=False)
class _Stream:
    """The flags of the draws of one stream: the levels of each measured node, and its blocks."""

    numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    blocks: dict[int, _Block] = field(default_factory=dict)
    nbytes: int = 0


class KnownFlags:
    """The flags of draws at nodes that were measured, of the streams used last.

    Every node is given by the level of each quasi-identifier. Flags are those of one exemption for the whole lattice.
    """

    def __init__(self) -> None:
        self._streams = RecentStreams(_Stream)

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
        with self._streams.lock:
            stream = self._streams.of(stream_key)
            if stream is not None and stream.numbers:
                distance = np.array(list(stream.numbers)) - np.array(levels)
                finer, coarser = (distance <= 0).all(axis=1), (distance >= 0).all(axis=1)
                apart = np.abs(distance.sum(axis=1))
                for at, number in enumerate(blocks):
                    block = stream.blocks.get(number, _Block())
                    if above := block.of(coarser, apart):
                        flagged[at] = np.unpackbits(np.bitwise_or.reduce(above), count=size)
                    if below := block.of(finer, apart):
                        cleared[at] = ~np.unpackbits(np.bitwise_and.reduce(below), count=size).view(bool)
        return flagged.ravel(), cleared.ravel()

    def learn(self, stream_key: bytes, levels: tuple[int, ...], blocks: range, flags: np.ndarray) -> None:
        """Keep the flags of some blocks at a node, (B,) bool in the order of the stream; flags of older streams go."""
        packed = np.packbits(flags.reshape(len(blocks), -1), axis=1)
        with self._streams.lock:
            stream = self._streams.with_room(stream_key, packed.nbytes, BYTES_KEPT)
            if stream is None:
                return
            node = stream.numbers.setdefault(levels, len(stream.numbers))
            for number, bits in zip(blocks, packed, strict=True):
                block = stream.blocks.setdefault(number, _Block())
                if node not in block.nodes:
                    block.nodes.append(node)
                    block.flags.append(bits)
                    stream.nbytes += bits.nbytes
