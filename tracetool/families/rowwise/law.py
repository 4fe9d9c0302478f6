"""Norms and softmax: rows read once or again, by as many threads as a row is given.

Equation and sources: docs/families/rows.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import TABLE, access_patterns, block_rounds, chain, kept_share
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces, combined
from tracetool.families.registry import count_work
from tracetool.families.rowwise.tiling import WARP_COLUMNS, first_cache_bytes, missed, rows_in_flight
from tracetool.families.streamed import vector_cycles
from tracetool.hardware.gpu import Gpu

#: Threads of a warp. [threads] By definition of NVIDIA's architectures.
WARP = 32.0
#: Elements of a row the 128 threads of a norm's block take at once. [elements] By definition, four a thread;
#: measured times jump where such steps do (docs/families/rows.md).
STEP = 512.0

_DATA = read_coefficients(__package__)


def _row_pieces(
    rows: OperatorColumns, gpu: Gpu, c: Coefficients, *, short: float, threads_of_long: float
) -> Pieces:
    work = count_work(rows, gpu)
    lines, cols = rows.number("rows", 1.0), rows.number("cols", 1.0)
    size = element_bytes(dtype_of(rows))
    short_rows = cols <= short
    threads = np.where(
        short_rows,
        32.0,
        np.clip(np.exp2(np.ceil(np.log2(np.maximum(cols / 4.0, 1.0)))), 32.0, threads_of_long),
    )
    flight = rows_in_flight(cols, threads, gpu)
    # the way back reads the gradient again as well; a kernel of a trace may state how often it reads again
    twice = np.where(rows.text("direction") == "bwd", 2.0, 1.0)
    usual = np.where(short_rows, 0.0, c["again"]) * twice
    stated = rows.number("reads_again") * rows.number("reads", 1.0)
    more = np.where(np.isfinite(stated), stated, usual) * lines * cols * size
    lost = more * missed(np.minimum(flight, lines) * cols * size, c["cache_share"] * first_cache_bytes(gpu))
    passing = combined(
        vector_cycles(work, gpu), (work.l2_bytes + more) / (gpu.l2_bytes_per_clock * c["l2_efficiency"]), 4.0
    )
    # few rows: one warp or block works through each alone; fewer warps than rows do other work
    row_per_warp = rows.number("blocks", 0.0) * rows.number("threads", 0.0) >= lines * WARP
    each, loads = chain(rows, lines * cols), rows.number("row_loads")
    waits = np.where(row_per_warp, c["chain_clk"] * each, 0.0)
    rounds = np.maximum(block_rounds(rows, gpu), 1.0)
    waits = np.where(np.isfinite(loads), c["load_clk"] * loads * each * rounds, waits)
    # in a trace, part of the rows lies in the cache as the kernel before left it
    l2_share = np.where(access_patterns(rows) != TABLE, c["kept"] * kept_share(work.dram_bytes, gpu), 0.0)
    n = len(rows)
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.full(n, c["latency_clk"]),
        stream_s=np.zeros(n),
        core_cycles=combined(combined(passing, lines / flight * c["row_clk"], 4.0), waits, 4.0),
        memory_s=(work.dram_bytes * (1.0 - l2_share) + lost) / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.clip(lines / gpu.sm_count, 0.0, 1.0),
        work=work,
    )


def _norm(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    pieces = _row_pieces(rows, gpu, c, short=0.0, threads_of_long=128.0)
    # a block steps through its row by 512 elements, four steps unrolled: whole fours of steps are slower
    fours = np.mod(np.ceil(rows.number("cols", 1.0) / STEP), 4.0) == 0
    slower = np.where(fours, c["unrolled"], 1.0)
    return replace(pieces, core_cycles=pieces.core_cycles * slower, memory_s=pieces.memory_s * slower)


def _softmax(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return _row_pieces(rows, gpu, c, short=WARP_COLUMNS, threads_of_long=1024.0)


NORM = Law("norm", _norm, {**_DATA["rows"], **_DATA["norm"]})
SOFTMAX = Law("softmax", _softmax, {**_DATA["rows"], **_DATA["softmax"]})
LAWS = (NORM, SOFTMAX)
