"""Streaming kernels: memory, the FP32 pipe, or the addresses of each element.

Equation and sources: docs/families/streams.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import (
    CAST,
    CAT,
    CHUNKS,
    FLAT,
    INDEX,
    OFFSETS,
    PATTERNS,
    POOL,
    TABLE,
    TREE,
    access_patterns,
    block_rounds,
    chain,
    chunk_steps,
    kept_share,
    shares_results,
    steps_of,
)
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.registry import count_work
from tracetool.families.streamed import stream_pieces
from tracetool.hardware.gpu import Gpu

_DATA = read_coefficients(__package__)


def _stream_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = count_work(rows, gpu)
    stream = stream_pieces(
        work,
        gpu,
        launch_us=c["launch_us"],
        latency_clk=c["latency_clk"],
        efficiency=c["dram_efficiency"],
        norm=c["overlap_norm"],
    )
    pattern = access_patterns(rows)
    if not (pattern != TABLE).any():
        return stream
    elements = rows.number("elements")
    elements = np.where(np.isfinite(elements), elements, rows.number("rows", 0.0) * rows.number("cols", 1.0))
    issued = _operations(rows, pattern, c) * elements
    issue_cycles = issued / (gpu.lanes_per_clock_sm * gpu.sm_count)
    tree = pattern == TREE
    # blocks that follow others add up what their threads hold after them, those that share a result again
    later = c["tree_clk"] * np.maximum(block_rounds(rows, gpu) - 1.0, 0.0)
    # a thread that holds several results loads as many elements at once
    loads = chain(rows, elements) / np.maximum(rows.number("out_vec", 1.0), 1.0)
    waits = np.where(tree, c["chain_clk"] * loads + later, 0.0)
    levels = np.where(shares_results(rows), 2.0, 1.0)
    # a block steps through its chunk alone: each step waits for its loads, lists one behind the other
    lists = rows.number("reads", 1.0) + rows.number("writes", 1.0)
    step_clk = c["chunk_clk"] + c["list_clk"] * lists
    waits = np.where(pattern == CHUNKS, chunk_steps(rows, elements) * step_clk, waits)
    l2_share = np.where(pattern != TABLE, c["kept"] * kept_share(work.dram_bytes, gpu), 0.0)
    # an index is loaded before what it points to, for one element of a thread after the other
    indexed = np.where(pattern == INDEX, c["index_clk"] * rows.number("elements_per_thread", 1.0), 0.0)
    first = np.where(np.isin(pattern, FLAT), 0.0, np.maximum(c["lookup_clk"], indexed))
    return replace(
        stream,
        fixed_s=np.where(pattern == TABLE, stream.fixed_s, c["named_launch_us"] * 1e-6),
        serial_cycles=stream.serial_cycles + np.where(tree, c["tree_clk"] * levels, first),
        core_cycles=stream.core_cycles + issue_cycles + waits,
        memory_s=stream.memory_s * (1.0 - l2_share),
        work=replace(work, int_ops=work.int_ops + _DATA["issue"]["integer_share"].value * issued),
    )


def _operations(rows: OperatorColumns, pattern: Ints, c: Coefficients) -> Floats:
    """Return the instructions an element's addresses and casts take. (n,) [op]"""
    offset_operations = np.where(pattern == OFFSETS, c["offset_ops"] * steps_of(rows), 0.0)
    offset_operations = np.where(pattern == CAST, c["cast_ops"], offset_operations)
    offset_operations = np.where(pattern == INDEX, c["index_ops"], offset_operations)
    offset_operations = np.where(pattern == POOL, c["pool_ops"], offset_operations)
    return np.asarray(np.where(pattern == CAT, c["cat_ops"], offset_operations))


STREAM = Law(
    "stream",
    _stream_pieces,
    _DATA["stream"],
    kinds=PATTERNS,
    kind_of=access_patterns,
    by_vendor={"amd": values_of(_DATA["amd"])},
)
LAWS = (STREAM,)
