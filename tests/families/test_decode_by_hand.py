"""Decode attention as docs/families/decode.md writes it, one row at a time, against the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.decode import DECODE
from tracetool.families.attention.decode_hosts import XQA, host_of_habits
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
SMS = GPU.sm_count
#: Every coefficient another number, so that no two can stand for each other; choices of a plain library.
C = {
    "key_tile": 64.0, "resident": 2.0, "vector_heads": 0.0, "dispatch": 0.0, "split_fill": 0.0,
    "most_parts": 48.0, "split_single": 1.0, "pack_windowed": 1.0, "split_waves": 2.0, "kv8_least_dim": 0.0,
    "split_seen": 0.0, "launch_us": 6.1, "single_launch": 0.9, "odd_dim_us": 1.7, "pack_us": 0.7,
    "launch_kv8_us": 7.3, "latency_clk": 2310.0, "block_clk": 2570.0, "block_dim_clk": 1430.0,
    "row_clk": 23.0,
    "step_clk": 410.0, "step_dim_clk": 290.0, "sm_bytes_clk": 37.0, "kv8_step": 1.3, "kv8_bytes": 1.2,
    "kv8_block": 0.8, "kv8_row": 0.6, "outside": 0.05, "window_step": 1.15, "least_keys": 128.0,
    "combine_clk": 2900.0, "combine_part_clk": 61.0, "combine_factor": 1.1, "pass_factor": 1.6,
    "block_overlap": 0.55, "block_serial": 0.45, "dram_efficiency": 0.83, "l2_hit": 0.21, "repeat_hit": 0.03,
    "fill_us": 3.7, "scan_sequences": 0.0, "scan_clk": 870.0,
    "overlap_norm": 2.6, "vector_launch_us": 5.3, "vector_block_clk": 3050.0, "vector_row_clk": 11.0,
    "vector_step_clk": 151.0, "vector_step_dim_clk": 310.0, "vector_sm_bytes_clk": 41.0,
    "vector_kv8_step": 0.9, "vector_least_keys": 256.0, "vector_combine_clk": 4100.0, "kv8_convert": 2.3,
    "vector_kv8_convert": 4.7,
}  # fmt: skip
ROW = {"batch": 16.0, "q_len": 1.0, "kv_len": 5000.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0}
ROWS: list[dict[str, Any]] = [
    {}, {"batch": 1.0, "kv_len": 100000.0}, {"batch": 500.0, "kv_len": 300.0}, {"window": 1000.0},
    {"kv_heads": 32.0, "batch": 3.0}, {"head_dim": 192.0, "head_dim_v": 128.0}, {"kv_dtype": "fp8"},
    {"kv_dtype": "fp8", "window": 700.0, "kv_len": 30000.0}, {"q_len": 20.0, "heads": 64.0},
    {"batch": 1.0, "kv_heads": 1.0, "heads": 7.0, "kv_len": 9999.0}, {"head_dim_v": 0.0},
    {"batch": 2.0, "kv_heads": 2.0, "heads": 8.0, "kv_len": 600.0},
]  # fmt: skip


def _rows(**changes: Any) -> OperatorColumns:
    given = {"phase": "decode", "dtype": "bf16", **ROW, **changes}
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in given.items()}
    return OperatorColumns(np.array(["attention"], dtype=object), columns)


def by_hand(c: dict[str, float], **changes: Any) -> dict[str, float]:
    """Return the parts of one row, whose heads run on tensor cores, packed by group, or without them."""
    row = {"kv_dtype": "", "window": math.inf, **ROW, **changes}
    batch, q_len, keys, heads, kv_heads = (
        float(row[k]) for k in ("batch", "q_len", "kv_len", "heads", "kv_heads")
    )
    head_dim, value_dim = float(row["head_dim"]), float(row.get("head_dim_v", 0.0) or row["head_dim"])
    group, dims, dim = heads / kv_heads, head_dim + value_dim, (head_dim + value_dim) / 2 / 128
    kv8, window = row["kv_dtype"] == "fp8", float(row["window"])
    b, windowed, own8 = 1.0 if kv8 else 2.0, window < keys, kv8 and dim * 128 >= c["kv8_least_dim"]
    without = c["vector_heads"] > 0 and (group <= 1 or group >= c["vector_heads"])
    if c["vector_heads"] > 0 and c["dispatch"] > 0 and not kv8:
        few = batch * kv_heads * max(min(keys, window) // 128, 1) < SMS / 4
        without = without or few

    def of(name: str) -> float:
        return c[f"vector_{name}"] if without else c[name]

    seen = min(keys, window)
    seen += 0.0 if without or kv8 else c["outside"] * (keys - seen)
    tile = 32.0 if without else c["key_tile"]
    apart = without or (math.isfinite(window) and c["pack_windowed"] < 1)
    queries = (1.0 if apart else group) * q_len
    lanes = batch * (heads if apart else kv_heads) * math.ceil(queries / 64)
    all_tiles = math.ceil(keys / tile)
    tiles = min(all_tiles, math.ceil(seen / tile) + windowed)
    slots = SMS * (1.0 if without else c["resident"])
    # parts fill the GPU, by keys seen or the whole cache, none with less keys than a library takes
    inside = kv8 if c["split_seen"] > 1 else c["split_seen"] > 0
    most = max(math.ceil((seen if inside else keys) / max(of("least_keys"), tile)), 1)
    parts = min(max(slots * c["split_waves"] // lanes, 1), most, all_tiles, c["most_parts"])
    if c["split_single"] <= 0 and (group <= 1 or (apart and not without)):
        parts = 1.0
    blocks = lanes * parts
    waves = math.ceil(blocks / slots)
    step = (of("step_clk") + of("step_dim_clk") * dim) * (of("kv8_step") if kv8 else 1.0)
    step *= c["window_step"] if windowed else 1.0
    # keys of 8 bits without a kernel of their own are converted one by one
    convert = of("kv8_convert") if kv8 and (without or not own8) else 0.0
    step = (step**3 + (convert * tile * dims / GPU.conversions_per_clock_sm) ** 3) ** (1 / 3)
    # a block starts, and takes its query rows, eight at a time on tensor cores
    rows = 1.0 if without else math.ceil(min(queries, 64) / 8) * 8
    cheap = kv8 and not without
    block = (of("block_clk") + c["block_dim_clk"] * dim) * (c["kv8_block"] if cheap else 1.0)
    block += of("row_clk") * (c["kv8_row"] if cheap else 1.0) * rows * dim
    drawn = lanes * tiles * tile * dims * b
    drawing = drawn * (c["kv8_bytes"] if kv8 else 1.0) / (of("sm_bytes_clk") * SMS)
    loop = ((waves * max(math.ceil(tiles / parts), 1) * step) ** 6 + drawing**6) ** (1 / 6)
    overlap = c["block_overlap"]
    starts = block * (waves * (1 - overlap) + overlap * min(waves, blocks / slots))
    # a look at 31 sequences at a time; beyond 992 it reads half as much
    if c["scan_sequences"]:
        starts += math.ceil(batch / c["scan_sequences"]) * c["scan_clk"] * (0.6 if batch > 992 else 1.0)
    partial = 8 * batch * heads * q_len * parts * value_dim if parts > 1 else 0.0
    serial = (
        c["latency_clk"] + c["block_serial"] * starts + c["combine_factor"] * partial / GPU.l2_bytes_per_clock
    )
    serial += of("combine_clk") + c["combine_part_clk"] * parts if parts > 1 else 0.0
    cache = batch * kv_heads * min(seen + (tile / 2 if windowed else 0.0), keys) * dims * b
    fits = 1 / (1 + (cache / (0.6 * GPU.l2_bytes)) ** 8)
    memory = cache * (1 - c["l2_hit"] * fits) * (1 - c["repeat_hit"])
    filling = (1 - fits) * c["fill_us"] * 1e-6
    passing = 2 * batch * heads * q_len * dims
    launch = of("launch_us") if without else c["launch_kv8_us"] if own8 else c["launch_us"]
    launch *= 1.0 if group > 1 else c["single_launch"]
    launch += c["pack_us"] if group > 1 and batch > 1 and kv_heads > 1 else 0.0
    launch += c["odd_dim_us"] if math.log2(head_dim) % 1 else 0.0
    pairs = min(keys, window)
    if q_len > 1:  # the last queries see all keys, those before one less each
        pairs = sum(min(keys - q_len + 1 + i, window) for i in range(int(q_len)))
    flops = 2 * batch * heads * pairs * dims
    core = max(loop + (1 - c["block_serial"]) * starts, flops / (GPU.rate("tensor_bf16") * SMS))
    return {
        "fixed_s": launch * 1e-6 * 1980 / GPU.clock_boost_mhz, "serial_cycles": serial, "core_cycles": core,
        "stream_s": c["pass_factor"] * passing / GPU.dram_bytes_per_s,
        "memory_s": memory / (c["dram_efficiency"] * GPU.dram_bytes_per_s) + filling,
        "norm": c["overlap_norm"],
        "active": blocks / (math.ceil(blocks / SMS) * SMS), "dram_bytes": memory + passing,
        "l2_bytes": drawn + passing, "shared_bytes": 2 * drawn + passing, "useful_flops": flops,
        # one exponential a score, and five operations of the softmax
        "sfu_ops": batch * heads * pairs, "fp32_flops": flops if without else 5 * batch * heads * pairs,
    }  # fmt: skip


HABITS = [
    {}, {"vector_heads": 33.0, "dispatch": 1.0, "split_waves": 8.0},
    {"vector_heads": 7.0}, {"split_single": 0.0, "pack_windowed": 0.0, "split_seen": 1.0},
    {"split_seen": 2.0, "kv8_least_dim": 160.0, "most_parts": 8.0}, {"scan_sequences": 31.0},
]  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("changes", ROWS)
def test_a_row_takes_what_the_page_says(changes: dict[str, Any], habit: dict[str, float]) -> None:
    c = {**C, **habit}
    pieces, hand = DECODE.pieces(_rows(**changes), GPU, c), by_hand(c, **changes)
    for name, value in hand.items():
        part = getattr(pieces if hasattr(pieces, name) else pieces.work, name)
        assert part[0] == pytest.approx(value, rel=1e-9), name


def _parts(c: dict[str, float], gpu: Gpu = GPU, **changes: Any) -> float:
    """Return the parts the keys are split into: each adds one clock where a part costs one."""
    one, two = (DECODE.pieces(_rows(**changes), gpu, {**C, **c, "combine_part_clk": v}) for v in (0.0, 1.0))
    return float(two.serial_cycles[0] - one.serial_cycles[0]) or 1.0


def test_flash_attention_2_takes_the_fewest_parts_of_a_nearly_full_wave() -> None:
    """16 blocks of 132 slots, 40 tiles: 8 parts make 128 blocks, 97 %; 7 are 85 %, enough; 6 are 73 %."""
    habit = {"split_fill": 1.0, "split_waves": 1.0, "resident": 1.0, "least_keys": 128.0}
    tiles = 40
    fills = {s: 16 * s / (132 * math.ceil(16 * s / 132)) for s in range(1, tiles + 1)
             if s == 1 or math.ceil(tiles / s) != math.ceil(tiles / (s - 1))}  # fmt: skip
    best = max(fills.values())
    least = min(s for s, fill in fills.items() if fill >= 0.85 * best)
    assert _parts(habit, batch=2.0, kv_len=128.0 * tiles - 5) == pytest.approx(least)


def test_flash_attention_3_divides_all_tiles_by_the_slots() -> None:
    """40 query tiles of 60 of keys, a tenth more, over 132 slots: 20 a slot, 3 parts; up to 4 tiles: one."""
    habit = {"split_fill": 2.0, "resident": 1.0, "most_parts": 128.0}
    even = math.ceil(60 / math.ceil(1.1 * 40 * 60 / 132))
    assert _parts(habit, batch=5.0, kv_len=128.0 * 60) == pytest.approx(even) == 3
    assert _parts(habit, batch=5.0, kv_len=128.0 * 4) == 1
    assert _parts(habit, batch=1.0, kv_len=128.0 * 5) > 1
    # tiles hold 96 keys of heads above 128, and 80 of heads above 192
    for dim, tile in ((160.0, 96), (256.0, 80)):
        assert _parts(habit, batch=5.0, kv_len=tile * 60.0, head_dim=dim) == pytest.approx(3)
        assert _parts(habit, batch=1.0, kv_len=tile * 4.0, head_dim=dim) == 1
        assert _parts(habit, batch=1.0, kv_len=tile * 4.0 + 1.0, head_dim=dim) > 1


def test_triton_fills_the_gpu_once_times_the_logarithm_of_the_keys() -> None:
    """8 lanes of 132 slots, 256 keys: log2(256 / 64) = 2, so 33 parts."""
    habit = {"split_fill": 3.0, "most_parts": 128.0, "key_tile": 1.0, "least_keys": 1.0}
    assert _parts(habit, batch=1.0, kv_len=256.0) == pytest.approx(33)
    assert _parts(habit, batch=4.0, kv_len=256.0 * 16) == pytest.approx(math.ceil(132 * 6 / 32))


def test_vllms_triton_launches_16_segments_of_few_lanes_whatever_the_keys() -> None:
    habit = {"split_fill": 5.0, "most_parts": 1024.0}
    lanes = _rows().number("kv_heads")[0]
    for keys in (4.0, 256.0, 65536.0):
        assert _parts(habit, batch=128.0 / lanes, kv_len=keys) == pytest.approx(16)
        assert _parts(habit, batch=128.0 / lanes + 1.0, kv_len=keys) == 1


XQA_HABIT = {"split_fill": 4.0, "most_parts": 1024.0, "vector_heads": 33.0, "split_seen": 2.0}


@pytest.mark.parametrize(
    ("batch", "keys", "parts"),
    [
        (1.0, 128 * 4, 4),  # as many as 128 keys each
        (1.0, 128 * 200, 40),  # the root of 8 times as many
        (64.0, 128 * 200, 2),  # eight waves of 132 blocks over 512 lanes
        (900.0, 128 * 800, 1),
    ],
)
def test_xqa_takes_parts_by_the_root_of_the_keys_up_to_eight_waves(
    batch: float, keys: int, parts: int
) -> None:
    assert _parts(XQA_HABIT, batch=batch, kv_len=keys) == pytest.approx(parts)
    # 6000 parts of all sequences at most: 5 of 1200 sequences of one key head
    assert _parts(XQA_HABIT, batch=1200.0, kv_len=128.0 * 8, kv_heads=1.0, heads=8.0) == pytest.approx(1)


def test_xqa_splits_keys_of_8_bits_on_hopper_alone() -> None:
    long = {"kv_dtype": "fp8", "batch": 1.0, "kv_len": 128.0 * 200}
    assert _parts(XQA_HABIT, **long) == pytest.approx(40)
    ada = load_gpu("l40s")
    assert _parts(XQA_HABIT, ada, **long) == 1
    assert _parts(XQA_HABIT, ada, **{**long, "kv_dtype": "bf16"}) == pytest.approx(40)
    assert _parts(XQA_HABIT, ada, **long, kv_heads=32.0) > 1  # without tensor cores


def test_keys_of_8_bits_are_converted_where_no_kernel_takes_them() -> None:
    """On Ada 16 conversions a clock: a step of 64 keys of 256 values takes 2.3 x 64 x 256 / 16 clocks."""
    habit = {**XQA_HABIT, "block_clk": 1.0, "block_dim_clk": 1.0, "row_clk": 1.0, "sm_bytes_clk": 250.0}
    ada, keys = load_gpu("l40s"), 64.0 * 1000
    row = {"kv_dtype": "fp8", "batch": 1.0, "kv_len": keys}
    core = float(DECODE.pieces(_rows(**row), ada, {**C, **habit}).core_cycles[0])
    converted = 2.3 * keys * 256 / ada.conversions_per_clock_sm
    assert ada.conversions_per_clock_sm == 16
    step = ((C["step_clk"] + C["step_dim_clk"]) ** 3 + (2.3 * 64 * 256 / 16) ** 3) ** (1 / 3)
    assert core == pytest.approx(1000 * step, rel=1e-3)
    assert 1.0 < core / converted < 1.1
    # what Hopper's own kernel does in a step is a factor's: it has no conversion
    hopper = float(DECODE.pieces(_rows(**row), GPU, {**C, **habit, "kv8_convert": 100.0}).core_cycles[0])
    assert hopper < core


def test_source_tells_all_habits_but_the_sizes_of_tiles_and_waves_where_there_are_none() -> None:
    for fill, free in ((XQA, {"key_tile", "split_waves"}), (0.0, {"key_tile"})):
        habits = {"split_fill": fill, "key_tile": 64.0, "split_waves": 1.0, "most_parts": 8.0}
        told = host_of_habits(habits)
        assert set(habits) - set(told) == free
        assert told["most_parts"] == (0.0, 8.0)
