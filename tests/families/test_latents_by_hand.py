"""Latent attention as docs/families/mla.md writes it, one layer at a time, against the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.latent_decode import MLA_DECODE
from tracetool.families.attention.latent_prefill import MLA_PREFILL
from tracetool.families.pieces import Pieces
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
SMS, PEAK = GPU.sm_count, GPU.rate("tensor_bf16")
DECODE = {
    "launch_us": 7.1, "kv8_launch_us": 1.3, "head_tile": 64.0, "least_keys": 256.0, "most_parts": 24.0,
    "tensor_efficiency": 0.61, "kv8_rate": 1.3, "kv8_width": 0.4, "sm_bytes_clk": 29.0, "single_step": 1.4,
    "tail_share": 0.6, "block_clk": 3100.0, "combine_clk": 2300.0, "kv8_convert_ops": 3.7,
    "pass_factor": 1.9, "dram_efficiency": 0.83, "floor_us": 4.3, "projected": 1.0,
    "projection_efficiency": 0.57, "shared_reads": 4.0, "shared_efficiency": 0.44, "paired_step": 1.3,
    "kv8_in_16": 0.0, "cluster_heads": 0.0,
}  # fmt: skip
PREFILL = {
    "launch_us": 9.1, "kv8_launch_us": 1.7, "absorbed_queries": 64.0, "query_tile": 128.0,
    "tensor_efficiency": 0.67, "absorbed_rate": 0.83, "kv8_rate": 1.21, "spare_share": 0.41,
    "tile_clk": 2300.0, "lone_step": 1.31, "tail_norm": 5.3, "pass_factor": 2.3, "kv8_passes": 0.7,
    "kv8_convert_ops": 4.1, "latent_passes": 1.6, "absorbed_tile": 64.0, "pack_heads": 1.0,
    "floor_us": 5.3, "expanded_floor": 1.15, "expanded_in_8": 1.0, "projected": 1.0,
    "projection_efficiency": 0.53,
}  # fmt: skip
LAYER = {"batch": 8.0, "q_len": 1.0, "kv_len": 6000.0, "heads": 128.0, "kv_lora_rank": 512.0}


def _rows(**given: Any) -> OperatorColumns:
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in given.items()}
    return OperatorColumns(np.array(["attention"], dtype=object), columns)


def _projections(tokens: float, row: dict[str, Any], *, absorbed: bool) -> tuple[float, float]:
    """Return FLOP and bytes of the products that expand latents or absorb the expansion, and what joins."""
    heads, lora, nope, value = (row[k] for k in ("heads", "kv_lora_rank", "nope_dim", "v_dim"))
    weights = heads * lora * (nope + value)
    if absorbed:  # a query of nope becomes one of lora, an output of lora one of value
        moved = tokens * heads * ((nope + lora) + (lora + value))
    else:  # keys and values are written, keys read and written with their rotary part, outputs copied
        moved = tokens * heads * ((nope + value) + (nope + nope + row["rope_dim"]) + 2 * value)
    return 2 * tokens * weights, 2 * (moved + weights)


@pytest.mark.parametrize("changes", [
    {}, {"batch": 1.0, "kv_len": 100000.0}, {"batch": 200.0}, {"kv_dtype": "fp8"}, {"heads": 1.0},
    {"heads": 16.0, "rope_dim": 32.0, "kv_lora_rank": 256.0, "kv_len": 777.0, "batch": 300.0},
])  # fmt: skip
def test_decode_meets_the_latents_once_for_all_heads(changes: dict[str, Any]) -> None:
    row: dict[str, Any] = {"rope_dim": 64.0, "nope_dim": 128.0, "v_dim": 128.0, "kv_dtype": "bf16"}
    row |= {**LAYER, **changes}
    c, narrow = DECODE, row["kv_dtype"] == "fp8"
    batch, keys, heads, lora = (row[k] for k in ("batch", "kv_len", "heads", "kv_lora_rank"))
    key_dim, b = lora + row["rope_dim"], 1 if narrow else 2
    lanes = batch * math.ceil(heads / c["head_tile"])
    parts = min(max(SMS // lanes, 1), max(math.ceil(keys / c["least_keys"]), 1), c["most_parts"])
    waves = lanes * parts / SMS
    products = 2 * c["head_tile"] * 64 * (key_dim + lora) / (PEAK * c["tensor_efficiency"])
    products /= c["kv8_rate"] if narrow else 1.0
    drawing = 64 * key_dim * (1 + c["kv8_width"] if narrow else 2.0) / c["sm_bytes_clk"]
    step = (products**6 + drawing**6) ** (1 / 6)
    reading = c["shared_reads"] * 64 * (key_dim + lora) * b / (128 * c["shared_efficiency"])
    step = (step**3 + reading**3) ** (1 / 3) * (c["single_step"] if heads <= 1 else 1.0)
    # whole waves keep both SMs of every pair busy, the last one where it fills more than half of them
    last = waves - math.floor(waves)
    lasting = (last + c["tail_share"] * (1 - last) if last else 0.0) * (c["paired_step"] if last > 0.5 else 1)
    working = math.floor(waves) * c["paired_step"] + lasting
    if waves < 1:
        working = c["paired_step"] if waves > 0.5 else 1.0
    busiest = max(waves + c["tail_share"] * (math.ceil(waves) - waves), 1.0)
    partial = 8 * batch * heads * parts * lora if parts > 1 else 0.0
    serial = 2300 + busiest * c["block_clk"] + (c["combine_clk"] if parts > 1 else 0.0)
    serial += partial / GPU.l2_bytes_per_clock
    if narrow:
        serial += c["kv8_convert_ops"] * batch * keys * key_dim / (GPU.lanes_per_clock_sm * SMS)
    projected, moved = _projections(batch, row, absorbed=True)
    serial += projected / (PEAK * SMS * c["projection_efficiency"])
    cache, passing = batch * keys * key_dim * b, 2 * batch * heads * (key_dim + lora)
    pieces = MLA_DECODE.pieces(_rows(phase="decode", dtype="bf16", **row), GPU, c)
    assert pieces.core_cycles[0] == pytest.approx(working * math.ceil(keys / parts / 64) * step)
    assert pieces.serial_cycles[0] == pytest.approx(serial)
    assert pieces.memory_s[0] == pytest.approx(cache / (c["dram_efficiency"] * GPU.dram_bytes_per_s))
    passed = c["pass_factor"] * passing + moved
    assert pieces.stream_s[0] == pytest.approx(passed / GPU.dram_bytes_per_s)
    assert pieces.fixed_s[0] == pytest.approx((7.1 + (1.3 if narrow else 0.0)) * 1e-6)
    assert pieces.floor_s[0] == pytest.approx(4.3e-6)
    assert pieces.active[0] == pytest.approx(waves / math.ceil(waves))
    # 2 H P (2 d_lora + d_rope) operations; every query tile draws the cache from L2
    work = pieces.work
    assert work.useful_flops[0] == work.tensor_flops[0] == 2 * batch * heads * keys * (key_dim + lora)
    assert work.dram_bytes[0] == cache + passing
    assert work.l2_bytes[0] == max(lanes * keys * key_dim * b, cache) + passing
    assert work.shared_bytes[0] == 2 * (work.l2_bytes[0] - passing) + passing
    assert work.sfu_ops[0] == work.int_ops[0] == work.fp32_flops[0] / 5 == batch * heads * keys


def _decoded(gpu: str = "a100-sxm", **changes: Any) -> Pieces:
    """Return the parts of a layer's decode by kernels that read shared memory before they multiply."""
    row = {"kv_dtype": "bf16", **LAYER, **{k: v for k, v in changes.items() if k not in DECODE}}
    coefficients = {**DECODE, "projected": 0.0, **{k: v for k, v in changes.items() if k in DECODE}}
    return MLA_DECODE.pieces(_rows(phase="decode", dtype="bf16", **row), load_gpu(gpu), coefficients)


@pytest.mark.parametrize("kept", ["bf16", "fp8"])
def test_generated_kernels_draw_values_apart_from_the_keys_that_hold_them(kept: str) -> None:
    gpu, given = load_gpu("b200-sxm"), {"kv_dtype": kept, "batch": 400.0, "heads": 16.0, "head_tile": 0.0}
    c, b, waves = DECODE, 1 if kept == "fp8" else 2, 400 / gpu.sm_count
    products = 2 * 16 * 64 * 1088 / (gpu.rate("tensor_bf16") * c["tensor_efficiency"])
    products /= c["kv8_rate"] if kept == "fp8" else 1.0
    # what L2 brings each of the SMs, all at work
    drawing = 64 * (576 + 512) * b / (gpu.l2_bytes_per_clock / gpu.sm_count)
    read = 64 * 1088 * b / 128
    step = ((products**6 + drawing**6) ** (1 / 2) + read**3) ** (1 / 3)
    last = waves - 2
    working = 2 + last + c["tail_share"] * (1 - last)
    # 24 steps of 256 keys, and the first load of each tile beside the one before
    core = working * 24 * 4 * step + (working - 1) * (c["block_clk"] - 2300)
    pieces = _decoded("b200-sxm", shared_reads=0.0, **given)
    assert pieces.core_cycles[0] == pytest.approx(core)
    assert pieces.work.l2_bytes[0] == pytest.approx(400 * (6000 * 1088 * b + 2 * 16 * 1088))


def test_generated_kernels_take_whole_steps_of_256_keys() -> None:
    few, one, more = (
        _decoded("b200-sxm", head_tile=0.0, shared_reads=0.0, kv_len=keys).core_cycles[0]
        for keys in (2.0, 256.0, 257.0)
    )
    assert few == one
    assert more == pytest.approx(2 * one)


def test_half_of_the_products_a_clock_do_not_double_a_step_that_reads_shared_memory() -> None:
    assert load_gpu("l40s").rate("tensor_bf16") == load_gpu("a100-sxm").rate("tensor_bf16") / 2
    few = {"batch": 1.0, "heads": 16.0, "most_parts": 1.0, "sm_bytes_clk": 1e3}
    slower = [
        _decoded("l40s", shared_reads=reads, **few).core_cycles[0]
        / _decoded("a100-sxm", shared_reads=reads, **few).core_cycles[0]
        for reads in (0.0, 4.0)
    ]
    assert slower[0] == pytest.approx(2.0)
    assert 1.05 < slower[1] < 1.5


def test_a_cache_of_8_bits_kept_in_16_takes_the_time_of_16() -> None:
    narrow, wide = (_decoded(kv_dtype=kept, kv8_in_16=1.0) for kept in ("fp8", "bf16"))
    for part in ("fixed_s", "serial_cycles", "core_cycles", "memory_s", "stream_s"):
        assert getattr(narrow, part)[0] == getattr(wide, part)[0]
    assert _decoded(kv_dtype="fp8").memory_s[0] < wide.memory_s[0]


def test_four_sms_of_a_cluster_share_the_products_of_a_sequence_and_split_no_keys() -> None:
    given = {"kv_dtype": "fp8", "batch": 1.0, "paired_step": 1.0, "sm_bytes_clk": 1e3}
    apart, together = (
        _decoded(**given, head_tile=128.0, most_parts=1.0),
        _decoded(**given, head_tile=64.0, most_parts=1024.0, cluster_heads=128.0),
    )
    # a quarter of the products, and of the reads of shared memory, on each
    assert together.core_cycles[0] < apart.core_cycles[0] / 2
    steps = math.ceil(LAYER["kv_len"] / 64)
    products = 2 * 32 * 64 * 1088 / (load_gpu("a100-sxm").rate("tensor_bf16") * 0.61 * 1.3)
    reading = 4 * 64 * 1088 / 4 / (128 * 0.44)
    drawing = 64 * 576 * 1.4 / 1e3
    step = ((products**6 + drawing**6) ** (1 / 2) + reading**3) ** (1 / 3)
    assert together.core_cycles[0] == pytest.approx(steps * step)
    # no other number of heads, nor 16 bits, has such a kernel
    for others in ({"heads": 64.0}, {"kv_dtype": "bf16"}):
        same = [_decoded(**{**given, **others}, cluster_heads=heads).core_cycles[0] for heads in (0.0, 128.0)]
        assert same[0] == same[1]


def test_blocks_on_both_sms_of_a_pair_slow_each_other() -> None:
    one, half, all_sms, two = (
        _decoded(batch=blocks, heads=16.0, most_parts=1.0, tail_share=1.0).core_cycles[0]
        for blocks in (1.0, 54.0, 108.0, 109.0)
    )
    assert half == one
    assert all_sms == pytest.approx(1.3 * one)
    assert two == pytest.approx(2.3 * one)  # the block that is left has an SM, and its pair, to itself


@pytest.mark.parametrize("absorbed", [0.0, 1e9])
@pytest.mark.parametrize("changes", [
    {}, {"batch": 1.0, "heads": 16.0, "q_len": 128.0, "kv_len": 128.0}, {"kv_dtype": "fp8"},
    {"q_len": 256.0, "kv_len": 4096.0, "batch": 2.0}, {"nope_dim": 96.0, "v_dim": 160.0, "rope_dim": 32.0},
])  # fmt: skip
def test_prefill_is_attention_of_expanded_heads_or_of_latents(
    changes: dict[str, Any], absorbed: float
) -> None:
    row: dict[str, Any] = {**LAYER, "q_len": 2048.0, "kv_len": 2048.0, "kv_dtype": "bf16", **changes}
    row = {"rope_dim": 64.0, "nope_dim": 128.0, "v_dim": 128.0, **row}
    c, narrow, whole = {**PREFILL, "absorbed_queries": absorbed}, row["kv_dtype"] == "fp8", absorbed > 0
    batch, q, keys, heads, lora, rope = (
        row[k] for k in ("batch", "q_len", "kv_len", "heads", "kv_lora_rank", "rope_dim")
    )
    key_dim, out_dim = (lora + rope, lora) if whole else (row["nope_dim"] + rope, row["v_dim"])
    packed = heads if whole else 1.0  # all heads share a latent: a tile holds them side by side
    rows_of_tile = c["absorbed_tile"] if whole else c["query_tile"]
    tile, lanes = rows_of_tile / packed, batch * heads / packed
    tiles = math.ceil(q / tile)
    visits = [math.ceil((keys - q) / 64) + math.ceil(min((i + 1) * tile, q) / 64) for i in range(tiles)]
    rate = PEAK * c["tensor_efficiency"] * (c["absorbed_rate"] if whole else 1.0)
    rate *= c["kv8_rate"] if narrow else 1.0
    area = rows_of_tile * 64
    products, exponentials = 2 * area * (key_dim + out_dim) / rate, 1.3 * area / GPU.sfu_per_clock_sm
    step = (products**2.5 + exponentials**2.5) ** (1 / 2.5)
    blocks = lanes * tiles
    waves = blocks / SMS
    step *= c["lone_step"] if waves <= 1 else 1.0
    last = core = c["tile_clk"] + visits[-1] * step
    if waves > 1:
        total = (blocks * c["tile_clk"] + lanes * sum(visits) * step) / SMS
        total *= 1 + 0.08 * (math.ceil(waves) / waves - 1)
        core = (total ** c["tail_norm"] + last ** c["tail_norm"]) ** (1 / c["tail_norm"])
    flops = 2 * batch * heads * (q * keys - q * (q - 1) / 2) * (key_dim + out_dim)
    core = max(core, flops / (PEAK * SMS * (2 if narrow else 1)))
    each = (
        (lora + rope) * (1 if narrow else 2) if whole else heads * (row["nope_dim"] + rope + row["v_dim"]) * 2
    )
    memory = batch * keys * each + 2 * batch * q * heads * (key_dim + out_dim)
    missed = 1 - 1 / (1 + (memory / (0.7 * GPU.l2_near_bytes)) ** 4)
    passes = c["pass_factor"] + (c["kv8_passes"] if narrow else 0.0)
    converted = c["kv8_convert_ops"] * batch * keys * (lora + rope) if narrow and whole else 0.0
    serial = 1900 + converted / (GPU.lanes_per_clock_sm * SMS)
    # read in 16 bits and written as the cache is, once for all heads
    passed = passes * memory + c["latent_passes"] * batch * q * (lora + rope) * (3 if narrow else 4)
    projected, moved = _projections(batch * (q if whole else keys), row, absorbed=whole)
    passed += moved
    serial += passed * (1 - missed) / GPU.l2_bytes_per_clock
    serial += projected / (PEAK * SMS * c["projection_efficiency"])
    pieces = MLA_PREFILL.pieces(_rows(phase="prefill", dtype="bf16", **row), GPU, c)
    # a packed tile holds a query or a few: its edge falls anywhere in a tile of keys
    assert pieces.core_cycles[0] == pytest.approx(core, rel=0.05 if whole else 1e-9)
    assert pieces.serial_cycles[0] == pytest.approx(serial)
    assert pieces.memory_s[0] == pytest.approx(memory * missed / GPU.dram_bytes_per_s)
    assert pieces.stream_s[0] == pytest.approx(passed * missed / GPU.dram_bytes_per_s)
    launch = (9.1 + (1.7 if narrow else 0.0)) * 1e-6 * 1980 / GPU.clock_boost_mhz
    assert pieces.fixed_s[0] == pytest.approx(launch)
    assert pieces.floor_s[0] == pytest.approx(5.3e-6 * (1.0 if whole else 1.15))
    assert pieces.work.useful_flops[0] == flops
    assert pieces.work.dram_bytes[0] == memory
