"""Decode attention: the KV cache passes through once, in as many parts as fill the GPU."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import named
from tracetool.families.attention.prefill import ALONE_US
from tracetool.families.attention.problem import attention_scores, least_cycles, scores_work
from tracetool.families.attention.tiling import efficient_split, split_keys
from tracetool.families.law import Coefficient, Coefficients, Law, choice
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: Query rows a tile of matrix units holds, and takes at once.
ROWS, UNIT_ROWS = 64.0, 8.0
#: Keys a step of the kernel without matrix units takes, and keys its host code splits by.
VECTOR_KEYS, DISPATCH_KEYS = 32.0, 128.0

_PRIORS = {
    "key_tile": choice(128.0, 64.0, 128.0, 256.0),
    "resident": choice(1.0, 1.0, 2.0),  # blocks an SM holds
    "vector_heads": choice(
        0.0, 0.0, 33.0
    ),  # heads per key head from which no matrix units are used; 0: never
    "dispatch": choice(0.0, 0.0, 1.0),  # little work goes to the kernel without matrix units
    "split_fill": choice(0.0, 0.0, 1.0),  # parts are the fewest whose waves are nearly full
    "most_parts": choice(1024.0, 16.0, 32.0, 64.0, 1024.0),
    "split_single": choice(1.0, 0.0, 1.0),  # keys are split where heads share none
    "split_waves": choice(1.0, 1.0, 2.0, 4.0, 8.0),  # waves of blocks a split of the keys aims at
    "kv8_least_dim": choice(0.0, 0.0, 128.0),  # heads from which keys in fp8 have a kernel of their own
    # the split counts the keys in the window only: 0 never, 1 always, 2 for keys in fp8
    "split_seen": choice(0.0, 0.0, 1.0, 2.0),
    "launch_us": Coefficient(6.0, 1.0, 60.0, "us"),
    "single_launch": Coefficient(1.0, 0.5, 2.0, "1"),  # where heads share no keys
    "pack_us": Coefficient(0.1, 0.001, 20.0, "us"),  # packing heads that share keys, of several sequences
    "launch_kv8_us": Coefficient(6.0, 1.0, 60.0, "us"),
    "latency_clk": Coefficient(2300.0, 200.0, 3e4, "clk", fitted=False),
    "block_clk": Coefficient(2600.0, 50.0, 3e4, "clk"),
    "block_dim_clk": Coefficient(1500.0, 10.0, 2e4, "clk"),  # per 128 of the head
    "row_clk": Coefficient(20.0, 1.0, 1000.0, "clk"),  # per query row and 128 of the head
    "step_clk": Coefficient(400.0, 10.0, 6000.0, "clk"),
    "step_dim_clk": Coefficient(300.0, 1.0, 6000.0, "clk"),
    "sm_bytes_clk": Coefficient(50.0, 3.0, 250.0, "B/clk/SM"),
    "kv8_step": Coefficient(1.0, 0.3, 4.0, "1"),
    "kv8_bytes": Coefficient(1.0, 0.3, 3.0, "1"),
    "kv8_block": Coefficient(1.0, 0.1, 4.0, "1"),
    "kv8_row": Coefficient(1.0, 0.2, 8.0, "1"),
    "outside": Coefficient(
        0.02, 0.001, 1.0, "1"
    ),  # keys before the window that are read all the same, in 16 bits
    "window_step": Coefficient(1.0, 0.3, 4.0, "1"),
    "least_keys": Coefficient(128.0, 32.0, 4096.0, "1"),
    "combine_clk": Coefficient(3000.0, 50.0, 4e4, "clk"),
    "combine_part_clk": Coefficient(60.0, 0.1, 5000.0, "clk"),
    "combine_factor": Coefficient(1.0, 0.05, 20.0, "1", fitted=False),
    "pass_factor": Coefficient(1.5, 0.1, 20.0, "1"),
    "block_overlap": Coefficient(0.6, 0.01, 1.0, "1"),  # of a partly filled wave that is not waited for
    "block_serial": Coefficient(0.5, 0.01, 1.0, "1"),  # of a block's start that memory waits for
    "dram_reach": Coefficient(0.85, 0.3, 1.0, "1"),
    "l2_hit": Coefficient(0.1, 0.001, 0.95, "1"),  # of a cache that fits in L2
    "repeat_hit": Coefficient(0.01, 0.001, 0.7, "1"),  # of any cache: pages several sequences share
    "overlap_norm": Coefficient(2.5, 1.0, 8.0, "1"),
    "vector_launch_us": Coefficient(6.0, 1.0, 30.0, "us"),
    "vector_block_clk": Coefficient(3000.0, 50.0, 3e4, "clk"),
    "vector_row_clk": Coefficient(10.0, 0.1, 500.0, "clk", fitted=False),
    "vector_step_clk": Coefficient(150.0, 10.0, 6000.0, "clk"),
    "vector_step_dim_clk": Coefficient(300.0, 1.0, 6000.0, "clk"),
    "vector_sm_bytes_clk": Coefficient(40.0, 1.0, 250.0, "B/clk/SM", fitted=False),
    "vector_kv8_step": Coefficient(1.0, 0.3, 4.0, "1", fitted=False),
    "vector_least_keys": Coefficient(256.0, 64.0, 4096.0, "1"),
    "vector_combine_clk": Coefficient(4000.0, 50.0, 3e4, "clk"),
}


def _without_units(
    group: Floats, kv8: Bools, lanes: Floats, keys: Floats, gpu: Gpu, c: Coefficients
) -> Bools:
    """Return the rows that run without matrix units.

    A library that has such a kernel uses it for heads that share no keys, for groups too large for
    its tiles, and, in 16 bits, while parts of 128 keys would fill less than a quarter of the SMs.
    """
    if c["vector_heads"] <= 0:
        return np.zeros(len(group), dtype=np.bool_)
    few = lanes * np.maximum(1.0, np.floor(keys / DISPATCH_KEYS)) * 4.0 < gpu.sm_count
    return np.asarray((group <= 1.0) | (group >= c["vector_heads"]) | (~kv8 & few & (c["dispatch"] > 0)))


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = attention_scores(rows, gpu)
    sms = float(gpu.sm_count)
    group = s.heads / s.kv_heads
    dim = (s.head_dim + s.value_dim) / 256.0
    kv8 = s.kv_size <= 1.0
    own8 = kv8 & (dim * 128.0 >= c["kv8_least_dim"])
    seen = np.minimum(s.kv_len, s.window)
    windowed = seen < s.kv_len
    vector = _without_units(group, kv8, s.batch * s.kv_heads, seen, gpu, c)
    seen = seen + np.where(vector | kv8, 0.0, c["outside"]) * (s.kv_len - seen)

    def pick(units: str, without: str) -> Floats:
        return np.where(vector, c[without], c[units])

    key_tile = np.where(vector, VECTOR_KEYS, c["key_tile"])
    query_rows = np.where(vector, 1.0, group) * s.q_len
    lanes = s.batch * np.where(vector, s.heads, s.kv_heads) * np.ceil(query_rows / ROWS)
    all_tiles = np.ceil(s.kv_len / key_tile)
    tiles = np.minimum(all_tiles, np.ceil(seen / key_tile) + windowed)
    least = np.maximum(pick("least_keys", "vector_least_keys"), key_tile)
    slots = sms * np.where(vector, 1.0, c["resident"])
    inside = kv8 if c["split_seen"] > 1 else np.full(len(rows), c["split_seen"] > 0)
    split_over = np.where(inside, seen, s.kv_len)
    if c["split_fill"] > 0:
        parts = efficient_split(lanes, slots * c["split_waves"], np.ceil(split_over / least))
    else:
        parts = split_keys(lanes, slots * c["split_waves"], split_over, least)
    parts = np.minimum(np.minimum(parts, all_tiles), c["most_parts"])
    if c["split_single"] <= 0:
        parts = np.where(group <= 1.0, 1.0, parts)
    steps = np.maximum(1.0, np.ceil(tiles / parts))
    blocks = lanes * parts
    waves = np.ceil(blocks / slots)

    step = pick("step_clk", "vector_step_clk") + pick("step_dim_clk", "vector_step_dim_clk") * dim
    step = (
        step
        * np.where(kv8, pick("kv8_step", "vector_kv8_step"), 1.0)
        * np.where(windowed, c["window_step"], 1.0)
    )
    block = pick("block_clk", "vector_block_clk") + c["block_dim_clk"] * dim
    row = pick("row_clk", "vector_row_clk") * np.where(kv8 & ~vector, c["kv8_row"], 1.0)
    block = block * np.where(kv8 & ~vector, c["kv8_block"], 1.0)
    # matrix units take query rows eight at a time
    held = np.where(vector, 1.0, np.ceil(np.minimum(query_rows, ROWS) / UNIT_ROWS) * UNIT_ROWS)
    block = block + row * held * dim
    drawn = lanes * tiles * key_tile * (s.head_dim + s.value_dim) * s.kv_size
    drawing = drawn * np.where(kv8, c["kv8_bytes"], 1.0) / (pick("sm_bytes_clk", "vector_sm_bytes_clk") * sms)
    loop = combined(waves * steps * step, drawing, 6.0)
    starts = (
        waves * (1.0 - c["block_overlap"]) + c["block_overlap"] * np.minimum(waves, blocks / slots)
    ) * block

    alone = named(rows)
    split = (parts > 1.0) & ~alone
    partial = np.where(split, s.batch * s.heads * s.q_len * parts * s.value_dim * 8.0, 0.0)
    serial = c["latency_clk"] + c["block_serial"] * starts
    serial = serial + np.where(
        split, pick("combine_clk", "vector_combine_clk") + c["combine_part_clk"] * parts, 0.0
    )
    serial = serial + c["combine_factor"] * partial / gpu.l2_bytes_per_clock

    read = np.minimum(seen + np.where(windowed, key_tile / 2.0, 0.0), s.kv_len)
    cache = s.batch * s.kv_heads * read * (s.head_dim + s.value_dim) * s.kv_size
    fits = 1.0 / (1.0 + (cache / (0.7 * gpu.l2_bytes)) ** 4)
    from_memory = cache * (1.0 - c["l2_hit"] * fits) * (1.0 - c["repeat_hit"])
    passing = s.batch * s.heads * s.q_len * (s.head_dim + s.value_dim) * 2.0
    launch = np.where(vector, c["vector_launch_us"], np.where(own8, c["launch_kv8_us"], c["launch_us"]))
    launch = launch * np.where(group <= 1.0, c["single_launch"], 1.0)
    launch = launch + np.where((group > 1.0) & (s.batch > 1.0) & (s.kv_heads > 1.0), c["pack_us"], 0.0)
    # in a trace what packs, plans and combines are kernels of their own
    launch = np.where(alone, np.minimum(launch, ALONE_US), launch)
    n = len(rows)
    return Pieces(
        fixed_s=launch * 1e-6,
        serial_cycles=serial,
        stream_s=c["pass_factor"] * passing / gpu.dram_bytes_per_s,
        # many query rows, or formats without matrix units: the products themselves
        core_cycles=np.maximum(loop + (1.0 - c["block_serial"]) * starts, least_cycles(s, s.rate, gpu)),
        memory_s=from_memory / (gpu.dram_bytes_per_s * c["dram_reach"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.clip(blocks / (np.ceil(blocks / sms) * sms), 0.0, 1.0),
        work=scores_work(s, drawn, read=from_memory + passing),
    )


#: What libraries do, as their host code says: FlashAttention 2 fills waves of two blocks an SM with key tiles
#: of 128; TensorRT-LLM's XQA takes parts of 128 keys up to eight waves, blocks of fp8 keys starting cheaply;
#: vLLM under CUDA graphs takes 32 parts at most.
_HABITS = (
    {"split_fill": 1.0, "split_waves": 2.0, "split_single": 0.0, "split_seen": 1.0},
    {
        "split_waves": 8.0, "key_tile": 64.0, "vector_heads": 33.0, "dispatch": 1.0, "split_seen": 2.0,
        "kv8_least_dim": 128.0, "block_clk": 6000.0, "kv8_block": 0.15,
    },
    {"split_fill": 1.0, "most_parts": 32.0},
)  # fmt: skip

DECODE = Law("decode", _parts, _PRIORS, habits=_HABITS)
LAWS = (DECODE,)
