"""Streaming kernels: memory, the vector pipes, or the addresses of each element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import (
    CAST,
    CAT,
    FLAT,
    INDEX,
    OFFSETS,
    POOL,
    TABLE,
    TREE,
    WALKS,
    chain,
    kept_share,
    lanes,
    steps_of,
    walks,
)
from tracetool.families.law import Coefficient, Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.registry import count_work
from tracetool.families.streamed import stream_pieces
from tracetool.hardware.gpu import Gpu

#: Of the instructions of addresses and casts: integer arithmetic, beside loads, moves and branches.
INTEGER_SHARE = 0.5

_PRIORS = {
    "launch_us": Coefficient(2.0, 0.3, 60.0, "us"),  # start and end of a kernel
    "latency_clk": Coefficient(1500.0, 200.0, 8000.0, "clk"),  # first load to last store of one block
    "dram_reach": Coefficient(0.85, 0.4, 1.0, "1"),  # share of the memory's peak a stream reaches
    "overlap_norm": Coefficient(3.0, 1.0, 8.0, "1"),  # overlap of memory and pipes
    # of kernels that a trace names: instructions of an element, and what lies in the cache when they start
    "named_launch_us": Coefficient(1.2, 0.3, 10.0, "us", fitted=False),
    "offset_ops": Coefficient(7.0, 3.0, 40.0, "op", fitted=False),  # per dimension, for every tensor and once
    "cast_ops": Coefficient(65.0, 10.0, 300.0, "op", fitted=False),
    "cat_ops": Coefficient(120.0, 20.0, 500.0, "op", fitted=False),
    "index_ops": Coefficient(110.0, 20.0, 500.0, "op", fitted=False),
    "pool_ops": Coefficient(340.0, 50.0, 1500.0, "op", fitted=False),
    "lookup_clk": Coefficient(2200.0, 200.0, 1e4, "clk", fitted=False),  # what the first load waits for
    "tree_clk": Coefficient(2600.0, 300.0, 2e4, "clk", fitted=False),  # levels of a reduction's tree
    "chain_clk": Coefficient(95.0, 10.0, 1000.0, "clk", fitted=False),  # each element of a thread of it
    "kept": Coefficient(0.4, 0.0, 1.0, "1", fitted=False),  # of a working set far below the cache
}


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = count_work(rows, gpu)
    made = stream_pieces(
        work,
        gpu,
        launch_us=c["launch_us"],
        latency_clk=c["latency_clk"],
        reach=c["dram_reach"],
        norm=c["overlap_norm"],
    )
    walk = walks(rows)
    if not (walk != TABLE).any():
        return made
    elements = rows.number("elements")
    elements = np.where(np.isfinite(elements), elements, rows.number("rows", 0.0) * rows.number("cols", 1.0))
    issued = _operations(rows, walk, c) * elements
    asked = issued / (lanes(gpu) * gpu.sm_count)
    tree = walk == TREE
    waits = np.where(tree, c["chain_clk"] * chain(rows, elements), 0.0)
    found = np.where(walk != TABLE, c["kept"] * kept_share(work.dram_bytes, gpu), 0.0)
    return replace(
        made,
        fixed_s=np.where(walk == TABLE, made.fixed_s, c["named_launch_us"] * 1e-6),
        serial_cycles=made.serial_cycles
        + np.where(tree, c["tree_clk"], np.where(np.isin(walk, FLAT), 0.0, c["lookup_clk"])),
        core_cycles=made.core_cycles + asked + waits,
        memory_s=made.memory_s * (1.0 - found),
        work=replace(work, int_ops=work.int_ops + INTEGER_SHARE * issued),
    )


def _operations(rows: OperatorColumns, walk: Ints, c: Coefficients) -> Floats:
    """Return the instructions an element's addresses and casts take. (n,) [op]"""
    asked = np.where(walk == OFFSETS, c["offset_ops"] * steps_of(rows), 0.0)
    asked = np.where(walk == CAST, c["cast_ops"], asked)
    asked = np.where(walk == INDEX, c["index_ops"], asked)
    asked = np.where(walk == POOL, c["pool_ops"], asked)
    return np.asarray(np.where(walk == CAT, c["cat_ops"], asked))


STREAM = Law("stream", _parts, _PRIORS, kinds=WALKS, kind_of=walks)
LAWS = (STREAM,)
