"""Bytes that collectives, memory copies and memory sets move: on the wire and through memory."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families import names
from tracetool.hardware.gpu import Gpu

#: Bytes each rank sends per byte of the message, at many ranks; all but send and broadcast lose 1/n. [1] By
#: definition of ring algorithms (Thakur et al., 2005; docs/families/collectives.md).
FACTOR = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}


#: Bytes of device memory touched per byte on the wire: one read and one write. [1] A prior: what a reduction
#: reads beside them is not counted.
MEMORY_PER_WIRE = 2.0

#: In the kind of a collective whose ranks send to each peer by itself: to all of them, to one.
_TO_ALL, _TO_ONE = "alltoall", ("send", "recv", "p2p")


@dataclass(frozen=True)
class Message:
    """Messages of n collectives; arrays of shape (n,)."""

    bytes: Floats  # the whole message, as the kind counts it [B]
    ranks: Floats  # [1]
    stride: Floats  # from one rank to the next in the numbers of all of them: 1 where they are neighbors [1]
    ring_bytes: Floats  # what each rank sends in a ring [B]
    steps: Floats  # of a ring, one message to the next rank each [1]
    sends: Bools  # to each peer by itself: all-to-all, send
    to_one: Bools  # of these, all of it to one peer
    reduces_all: Bools  # an all-reduce

    @property
    def per_peer(self) -> Floats:
        """Bytes to each peer where each gets its own. [B]"""
        return self.bytes / np.where(self.to_one, 1.0, self.ranks)

    @property
    def own_bytes(self) -> Floats:
        """Bytes that a rank copies from its own buffer to its own buffer. [B]"""
        return np.where(self.to_one, 0.0, self.per_peer)

    @property
    def peers(self) -> Floats:
        """Ranks that each rank sends to by itself. [1]"""
        return np.where(self.to_one, 1.0, self.ranks - 1.0)

    def take(self, rows: Bools | Ints) -> Message:
        """Return the chosen rows."""
        return Message(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def message_of(rows: OperatorColumns) -> Message:
    """Return the messages of rows: ``bytes`` among ``ranks``, of a ``kind``, ``rank_stride`` apart."""
    size, ranks = rows.number("bytes", 0.0), np.maximum(rows.number("ranks", 2.0), 1.0)
    kinds, place = rows.distinct("kind")
    plain = [kind.lower().replace("_", "").replace("-", "") for kind in kinds]
    factors = [
        next((f for name, f in FACTOR.items() if name.replace("_", "") in kind), 0.0) for kind in plain
    ]
    factor = np.array(factors)[place]
    reduces_all = np.array(["allreduce" in kind for kind in plain])[place]
    to_all = np.array([_TO_ALL in kind for kind in plain])[place]
    to_one = np.array([any(word in kind for word in _TO_ONE) for kind in plain])[place] & ~to_all
    peers = ranks - 1.0
    return Message(
        bytes=size,
        ranks=ranks,
        stride=np.maximum(rows.number("rank_stride", 1.0), 1.0),
        ring_bytes=size * np.where(factor > 0.0, factor * peers / ranks, 1.0),
        steps=np.where(reduces_all, 2.0 * peers, peers),
        sends=to_all | to_one,
        to_one=to_one,
        reduces_all=reduces_all,
    )


def wire_bytes(rows: OperatorColumns) -> Floats:
    """Return bytes each rank sends. Shape (n,). [B]

    Ring algorithms: all-reduce 2 (n-1)/n of the message, all-gather, reduce-scatter and all-to-all
    (n-1)/n, broadcast and point-to-point all of it.
    """
    return message_of(rows).ring_bytes


def collective_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes on the wire and in memory, of a ring."""
    del gpu
    wire = wire_bytes(rows)
    memory = MEMORY_PER_WIRE * wire
    return Work.of(len(rows), link_bytes=wire, dram_bytes=memory, l2_bytes=memory)


#: In the kind of a copy between the host's memory and a GPU's (arrays included), and between GPUs.
_HOST = ("htod", "dtoh", "h2d", "d2h", "htoa", "atoh", "host", "pcie")
_PEER = ("ptop", "p2p", "peer")
CROSSING = (*_HOST, *_PEER)
#: In the kind of a copy whose both ends are in one GPU's memory.
WITHIN = ("dtod", "d2d")


def over_link(rows: OperatorColumns) -> Bools:
    """Return which copies cross the host or peer link: those whose kind names two sides. Shape (n,)."""
    return _kind_contains(rows, CROSSING)


def over_host_link(rows: OperatorColumns) -> Bools:
    """Return which rows are copies between the host's memory and a GPU's. Shape (n,)."""
    return np.asarray((rows.family == names.MEMCPY) & _kind_contains(rows, _HOST))


def within_gpu(rows: OperatorColumns) -> Bools:
    """Return which rows are copies that state that both ends are in one GPU's memory. Shape (n,)."""
    return np.asarray((rows.family == names.MEMCPY) & _kind_contains(rows, WITHIN) & ~over_link(rows))


def _kind_contains(rows: OperatorColumns, words: tuple[str, ...]) -> Bools:
    """Return which rows' kinds contain any of the words. Shape (n,)."""
    kinds, place = rows.distinct("kind")
    holds = [any(word in kind.lower() for word in words) for kind in kinds]
    return np.array(holds, dtype=np.bool_)[place]


def copy_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes: a copy on the device reads and writes memory, one over a link does either."""
    del gpu
    size = rows.number("bytes", 0.0)
    link = over_link(rows)
    moved = np.where(link, size, 2.0 * size)
    return Work.of(len(rows), l2_bytes=moved, dram_bytes=moved, link_bytes=np.where(link, size, 0.0))


def set_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes written."""
    del gpu
    size = rows.number("bytes", 0.0)
    return Work.of(len(rows), l2_bytes=size, dram_bytes=size)
