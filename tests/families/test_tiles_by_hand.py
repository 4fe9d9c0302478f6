"""The cost of a tile as docs/families/gemm.md writes it, one product at a time, against the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.gemm import tiling
from tracetool.families.gemm.law import PRODUCT_LAWS, product_law, product_pieces
from tracetool.families.gemm.layout import Products, TilePlan, TileRates
from tracetool.families.gemm.tiling import TENSOR_TILES, VECTOR_TILES, plan_products
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
HERTZ = 1.5e9
#: Every coefficient another number, so that no two can stand for each other.
RATES = {
    "tensor_efficiency": 0.71, "shared_efficiency": 0.83, "l2_efficiency": 1.37, "port_efficiency": 1.21,
    "dram_efficiency": 0.87, "sm_bytes_clk": 31.0, "latency_clk": 1390.0, "block_clk": 730.0,
    "k_step_cycles": 157.0, "split_clk": 3100.0, "split_power": 0.17, "reduce_efficiency": 0.77,
    "store_efficiency": 0.61, "fill_norm": 4.0, "overlap_norm": 3.3, "l2_hit": 0.23, "weight_sets": 6.0,
    "weights_hit": 0.0, "vector_efficiency": 0.59, "vector_clk": 1510.0, "least_tile": 8.0, "odd_tiles": 1.0,
    "whole_waves": 0.0, "drained": 0.43,
}  # fmt: skip
MORE = {"fill_norm": 8.0, "odd_tiles": 0.0, "drained": 0.0, "whole_waves": 1.0, "l2_hit": 0.9}


def products(batch: float, m: float, n: float, k: float, **given: Any) -> Products:
    """Return one product, whatever else is given of it."""
    tensor, size = given.get("tensor", True), given.get("in_bytes", 2.0)
    weight = given.get("weight_bytes")
    read = batch * k * (m * size + n * (size if weight is None else weight))
    optional = ("loads", "weight_bytes", "weight_sets")
    rest = {o: None if given.get(o) is None else np.array([given[o]]) for o in optional}
    numbers = [
        batch,
        m,
        n,
        k,
        size,
        given.get("out_bytes", 2.0),
        GPU.rate("tensor_bf16" if tensor else "fp32"),
    ]
    stated = (np.array([given.get(o, np.nan)]) for o in ("tile_m", "tile_n", "split"))
    return Products(*(np.array([v]) for v in numbers), np.array([tensor]), np.array([read]), *stated, **rest)


def norm(p: float, *parts: float) -> float:
    return sum(part**p for part in parts) ** (1.0 / p)


def _hit(p: Products, c: dict[str, float]) -> float:
    """Share of the operands still in L2: those of the call before, or weights that a loop comes back to."""
    batch, m, n, k, out = (float(v[0]) for v in (p.batch, p.m, p.n, p.k, p.out_bytes))
    everything = float(p.input_bytes[0]) + batch * m * n * out
    hit = c["l2_hit"] / (1.0 + (everything / (0.8 * GPU.l2_bytes)) ** 4)
    if p.weight_sets is None or c["weights_hit"] <= 0:
        return hit
    size = float((p.in_bytes if p.weight_bytes is None else p.weight_bytes)[0])
    sets = float(p.weight_sets[0])
    if math.isnan(sets):
        sets = c["weight_sets"] or min(max(math.ceil(GPU.l2_bytes / (batch * n * k * size)), 1), 5)
    around = float(p.input_bytes[0]) + (sets - 1) * batch * n * k * size + batch * m * n * out
    return max(hit, c["weights_hit"] / (1.0 + (around / GPU.l2_near_bytes) ** 8))


def by_hand(p: Products, tile_m: float, tile_n: float, split: float, c: dict[str, float]) -> dict[str, float]:
    """Return what one product costs in a tile, by the equations of docs/families/gemm.md."""
    batch, m, n, k, b, out, peak = (
        float(v[0]) for v in (p.batch, p.m, p.n, p.k, p.in_bytes, p.out_bytes, p.rate)
    )
    tensor, sms = bool(p.tensor[0]), GPU.sm_count
    weight = b if p.weight_bytes is None else float(p.weight_bytes[0])
    blocks = batch * math.ceil(m / tile_m) * math.ceil(n / tile_n) * split
    stage = (tile_m + tile_n) * 128  # 128 bytes of K a row, four stages in flight
    resident = min(max(GPU.shared_bytes_per_sm // (4 * stage), 1), 4)
    busiest, waves = math.ceil(blocks / sms), math.ceil(blocks / (sms * resident))
    step = (64 if c["odd_tiles"] else 32) if tensor else 8
    depth = math.ceil(k / split / step) * step
    fed = (tile_m + tile_n) * b / (c["shared_efficiency"] * GPU.shared_bytes_per_clock_sm)
    clocks = norm(4, 2 * tile_m * tile_n / (c["tensor_efficiency"] * peak), fed)
    computing, slabs = busiest * depth * clocks, waves * depth * c["k_step_cycles"] / 64
    together = norm(4, computing, slabs) if tensor else computing + slabs
    width = min(tile_m, m) * b + min(tile_n, n) * weight
    port = GPU.l2_port_bytes_per_clock_sm
    filling = blocks * depth * width / (c["l2_efficiency"] * GPU.l2_bytes_per_clock)
    entering = busiest * depth * width / (c["port_efficiency"] * port)
    if p.loads is not None:  # a load of less than 16 bytes takes 0.4 clk of an SM
        entering = max(entering, busiest * k / split * width / b * float(p.loads[0]) * 0.4)
    written = batch * m * n * out
    memory = float(p.input_bytes[0]) * (1 - _hit(p, c)) + written
    drawn = memory / (min(blocks, sms) * c["sm_bytes_clk"])
    store = tile_m * tile_n * out / (c["store_efficiency"] * port)
    drained = c["drained"] * ((waves - 1) * c["block_clk"] + (busiest - 1) * store)
    partial = 8 * batch * m * n * split if split > 1 else 0.0  # written and read again, in FP32
    held = min(max(65536 // (2 * tile_m * tile_n), 1), 4)  # blocks whose accumulators an SM's registers hold
    whole = math.ceil(blocks / (sms * held))
    last = (whole * held if whole > 1 else busiest) / busiest if c["whole_waves"] else 1.0
    serial = c["latency_clk"] + waves * c["block_clk"] + busiest * store - drained
    serial += c["split_clk"] * split ** c["split_power"] if split > 1 else 0.0
    serial += partial / (c["reduce_efficiency"] * GPU.l2_bytes_per_clock)
    core = [norm(c["fill_norm"], together * late, filling, entering) for late in (1.0, last)]
    memory_s = memory / (c["dram_efficiency"] * GPU.dram_bytes_per_s)
    judged = max(core[1], drawn) + drained
    return {
        "blocks": blocks, "waves": waves, "serial_cycles": serial,
        "core_cycles": max(core[0], drawn) + drained, "fill_bytes": blocks * depth * width,
        "partial_bytes": partial, "memory_s": memory_s, "split": split,
        "tile_m": tile_m, "tile_n": tile_n, "read_bytes": memory - written,
        "l2_bytes": blocks * depth * width / max(1.0, c["l2_efficiency"]),
        "judged_s": serial / HERTZ + norm(4, judged / HERTZ, memory_s),
    }  # fmt: skip


def planned(p: Products, c: dict[str, float]) -> TilePlan:
    return plan_products(p, GPU, TileRates(**c), HERTZ)


#: One wave and several, a part of one, thin, deep and wide; batches; the FP32 pipe; other formats.
SHAPES: list[tuple[tuple[float, float, float, float], dict[str, Any]]] = [
    ((1, 1000, 900, 777), {}),
    ((1, 8192, 4100, 3000), {}),
    ((3, 40, 5000, 16384), {}),
    ((7, 130, 260, 64), {"out_bytes": 4.0}),
    ((1, 20, 900, 65536), {"in_bytes": 1.0, "weight_bytes": 0.5}),
    ((2, 600, 500, 401), {"loads": 1.0}),
    ((1, 700, 900, 1001), {"tensor": False, "in_bytes": 4.0, "out_bytes": 4.0}),
    ((1, 300, 400, 20000), {"tensor": False, "in_bytes": 4.0, "out_bytes": 4.0}),
]


@pytest.mark.parametrize("changes", [{}, MORE], ids=["usual", "older"])
@pytest.mark.parametrize("tile", [(64.0, 32.0, 1.0), (128.0, 128.0, 3.0), (32.0, 64.0, 8.0)])
@pytest.mark.parametrize(("shape", "given"), SHAPES)
def test_a_stated_tile_costs_what_the_page_says(
    shape: tuple[float, ...], given: dict[str, Any], tile: tuple[float, ...], changes: dict[str, float]
) -> None:
    c = {**RATES, **changes}
    p = products(*shape, **given, **dict(zip(("tile_m", "tile_n", "split"), tile, strict=True)))
    plan, page = planned(p, c), by_hand(p, *tile, c)
    for name in ("tile_m", "tile_n", "split", "blocks", "waves", "serial_cycles", "core_cycles", "fill_bytes",
                 "partial_bytes", "memory_s", "l2_bytes", "read_bytes"):  # fmt: skip
        assert getattr(plan, name)[0] == pytest.approx(page[name], rel=1e-9), name


@pytest.mark.parametrize("changes", [{}, MORE, {"least_tile": 64.0}], ids=["usual", "older", "large"])
@pytest.mark.parametrize(("shape", "given"), SHAPES)
def test_the_tile_chosen_is_the_fastest_of_the_list(
    shape: tuple[float, ...], given: dict[str, Any], changes: dict[str, float]
) -> None:
    c = {**RATES, **changes}
    p = products(*shape, **given)
    plan = planned(p, c)
    sizes = TENSOR_TILES if given.get("tensor", True) else VECTOR_TILES
    odd = {96, 192}
    sizes = [s for s in sizes if min(s) >= min(c["least_tile"], 64) and (c["odd_tiles"] or not odd & set(s))]
    most = min(max(p.k[0] // 128, 1), 32)  # a part holds no less than 128 of K
    best: dict[str, float] = {"judged_s": math.inf}
    for tile_m, tile_n in sizes:
        tiles = p.batch[0] * math.ceil(p.m[0] / tile_m) * math.ceil(p.n[0] / tile_n)
        resident = min(max(GPU.shared_bytes_per_sm // (4 * 128 * (tile_m + tile_n)), 1), 4)
        filling = min(max(GPU.sm_count * resident // tiles, 1), most)
        for split in {1.0, filling, filling // 2, filling // 4, min(most, 2.0), min(most, 3.0)}:
            if split >= 1:
                cost = by_hand(p, float(tile_m), float(tile_n), float(split), c)
                best = min(best, cost, key=lambda each: each["judged_s"])
    chosen = by_hand(p, plan.tile_m[0], plan.tile_n[0], plan.split[0], c)
    assert chosen["judged_s"] == pytest.approx(best["judged_s"], rel=1e-9)
    assert plan.core_cycles[0] == pytest.approx(chosen["core_cycles"], rel=1e-9)
    assert plan.serial_cycles[0] == pytest.approx(chosen["serial_cycles"], rel=1e-9)


@pytest.mark.parametrize("side", [(5000.0, 1.0), (1.0, 5000.0), (2.0, 1.0)])
def test_a_product_with_a_vector_is_read_once_by_a_warp_a_row(side: tuple[float, float]) -> None:
    """Eight rows a block of eight warps, eight blocks an SM; nothing is padded, so all is bytes."""
    c = {**RATES, "vector_clk": 1.0, "vector_efficiency": 0.95, "latency_clk": 1e5}
    p = products(3, *side, 4096)
    plan = planned(p, c)
    moved = float(p.input_bytes[0]) * (1 - _hit(p, c)) + 3 * max(side) * 2
    assert (plan.tile_m[0], plan.tile_n[0]) == ((8, 1) if side[0] > 1 else (1, 8))
    assert plan.blocks[0] == math.ceil(3 * max(side) / 8)
    assert plan.waves[0] == math.ceil(math.ceil(3 * max(side) / 8) / (8 * GPU.sm_count))
    assert plan.serial_cycles[0] == 1.0
    assert plan.core_cycles[0] == pytest.approx(moved / (0.95 * GPU.dram_bytes_per_s) * HERTZ)
    assert plan.fill_bytes[0] == pytest.approx(moved)
    assert plan.partial_bytes[0] == 0
    assert plan.split[0] == 1


@pytest.mark.parametrize("sets", [1.0, 3.0, math.nan])
@pytest.mark.parametrize("usual", [0.0, 2.0])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_weights_a_loop_comes_back_to_are_read_as_far_as_they_do_not_fit(
    sets: float, usual: float, weight: float | None
) -> None:
    c = {**RATES, "weights_hit": 0.8, "weight_sets": usual, "l2_hit": 0.05}
    p = products(
        1, 512, 2048, 2048, weight_sets=sets, weight_bytes=weight, tile_m=128.0, tile_n=128.0, split=1.0
    )
    page = by_hand(p, 128.0, 128.0, 1.0, c)
    assert planned(p, c).read_bytes[0] == pytest.approx(page["read_bytes"], rel=1e-9)
    assert page["read_bytes"] < float(p.input_bytes[0])


@pytest.mark.parametrize(("m", "padded"), [(1001, 0.0), (1001, 0.5), (1000, 0.5)])
def test_a_product_passes_over_a_once_more_for_padding_where_a_law_says_so(m: float, padded: float) -> None:
    """So many passes over A's 1001 x 512 elements where M is no multiple of four; without the word none."""
    told = {"odd_factor": padded} if padded else {}
    pieces = product_pieces(products(1, m, 512, 512), GPU, {**RATES, "launch_us": 1.0, **told})
    passed = m * 512 * padded if m % 4 else 0.0
    assert float(pieces.stream_s[0]) == pytest.approx(passed / GPU.dram_bytes_per_s)


@pytest.mark.parametrize(("m", "busy"), [(1024, 64 / GPU.sm_count), (4096, 256 / (2 * GPU.sm_count))])
def test_sms_are_busy_as_far_as_blocks_fill_their_waves(m: float, busy: float) -> None:
    """Tiles of 128 x 128: 64 blocks in one wave of all SMs, or 256 in two."""
    p = products(1, m, 1024, 512, tile_m=128.0, tile_n=128.0, split=1.0)
    assert GPU.sm_count < 256 <= 2 * GPU.sm_count
    pieces = product_pieces(p, GPU, {**RATES, "launch_us": 1.0})
    assert float(pieces.active[0]) == pytest.approx(busy)


def test_products_are_planned_alike_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    one = products(1, 700, 512, 256)
    many = one.take(np.zeros(5, np.int64))
    monkeypatch.setattr(tiling, "_CHUNK", 2)
    plan = planned(many, RATES)
    assert plan.serial_cycles.tolist() == planned(one, RATES).serial_cycles.tolist() * 5
    assert plan.memory_s.tolist() == planned(one, RATES).memory_s.tolist() * 5


@pytest.mark.parametrize(
    ("gpu", "words", "law"),
    [("h100-sxm", "bf16", "gemm"), ("h100-sxm", "fp32", "gemm_vector"), ("h100-sxm", "fp8", "gemm_fp8"),
     ("h100-sxm", "fp8_block", "gemm_fp8_block"), ("a100-sxm", "fp8", "gemm_weight_only"),
     ("b200-sxm", "nvfp4", "gemm_fp4"), ("a100-sxm", "int8", "gemm_fp8")],
)  # fmt: skip
def test_a_format_has_the_law_of_the_tensor_cores_it_meets(gpu: str, words: str, law: str) -> None:
    """Tensor cores without a format multiply 16 bits, to which its weights are widened on the way."""
    rows = OperatorColumns(np.array(["gemm"], dtype=object), {"dtype": np.array([words], dtype=object)})
    assert PRODUCT_LAWS[int(product_law(rows, load_gpu(gpu))[0])] == law
