"""Bytes that collectives, memory copies and memory sets move: on the wire and through memory."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.hardware.gpu import Gpu

#: Bytes each rank sends per byte of the message, at many ranks; all but send and broadcast lose 1/n. [1] By
#: definition of ring algorithms (Thakur et al., 2005; docs/families/links.md).
FACTOR = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}


#: Bytes of device memory touched per byte on the wire: one read and one write. [1] A prior: what a reduction
#: reads beside them is not counted.
MEMORY_PER_WIRE = 2.0


def wire_bytes(rows: OperatorColumns) -> Floats:
    """Return bytes each rank sends. Shape (n,). [B]

    Ring algorithms: all-reduce 2 (n-1)/n of the message, all-gather, reduce-scatter and all-to-all
    (n-1)/n, broadcast and point-to-point all of it.
    """
    size, ranks = rows.number("bytes", 0.0), np.maximum(rows.number("ranks", 2.0), 1.0)
    words = np.char.lower(rows.text("kind").astype(str))
    words = np.char.replace(np.char.replace(words, "_", ""), "-", "")
    factor = np.ones(len(rows))
    for kind, many in FACTOR.items():
        here = np.char.find(words, kind.replace("_", "")) >= 0
        factor = np.where(here, many * (ranks - 1.0) / ranks, factor)
    return np.asarray(size * factor)


def collective_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes on the wire and in memory."""
    del gpu
    wire = wire_bytes(rows)
    memory = MEMORY_PER_WIRE * wire
    return Work.of(len(rows), link_bytes=wire, dram_bytes=memory, l2_bytes=memory)


#: In the kind of a copy that crosses a link.
CROSSING = ("htod", "dtoh", "h2d", "d2h", "ptop", "p2p", "host", "pcie", "peer")


def over_link(rows: OperatorColumns) -> Bools:
    """Return which copies cross the host or peer link: those whose kind names two sides. Shape (n,)."""
    words = np.char.lower(rows.text("kind").astype(str))
    found = np.zeros(len(rows), dtype=np.bool_)
    for word in CROSSING:
        found |= np.char.find(words, word) >= 0
    return found


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
