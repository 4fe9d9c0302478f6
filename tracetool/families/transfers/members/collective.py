"""Collectives: bytes on the wire by algorithm and rank count."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.law_keys import LawKey
from tracetool.families.spec import Family, TableOperator, UserWords
from tracetool.hardware.gpu import Gpu

#: Bytes each rank sends per byte of the message, at many ranks; all but send and broadcast lose 1/n.
FACTOR = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
#: Bytes of device memory touched per byte on the wire: read, write, and the reduction's operand.
MEMORY_PER_WIRE = 2.0


def wire_bytes(rows: OperatorColumns) -> Floats:
    """Return bytes each rank sends. Shape (n,). [B]

    Ring algorithms: all-reduce 2 (n-1)/n of the message, all-gather, reduce-scatter and all-to-all
    (n-1)/n, broadcast and point-to-point all of it.
    """
    size, ranks = rows.number("bytes", 0.0), np.maximum(rows.number("ranks", 2.0), 1.0)
    words = np.char.lower((rows.text("kind") + " " + rows.text("name")).astype(str))
    words = np.char.replace(np.char.replace(words, "_", ""), "-", "")
    factor = np.ones(len(rows))
    for kind, many in FACTOR.items():
        here = np.char.find(words, kind.replace("_", "")) >= 0
        factor = np.where(here, many * (ranks - 1.0) / ranks, factor)
    return np.asarray(size * factor)


def count(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes on the wire and in memory."""
    del gpu
    wire = wire_bytes(rows)
    memory = MEMORY_PER_WIRE * wire
    return Work.of(len(rows), link_bytes=wire, dram_bytes=memory, l2_bytes=memory)


FAMILY = Family(
    meaning="communication between GPUs",
    example="ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    place=200,
    shares=(0.10, 0.10, 0.80),
    pipe="latency",
    needs=(("bytes",),),
    count=count,
    laws=(LawKey.COLLECTIVE,),
    table=(TableOperator("collective", ("bytes", "ranks"), ("kind",), dtype=False),),
    words=(UserWords(0, "collective", "allreduce allgather alltoall reducescatter"),),
)
