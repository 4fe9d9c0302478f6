"""Products on the FP32 pipe as docs/families/vectors.md writes them, one at a time, against the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.gemm.layout import Products
from tracetool.families.gemm.vector_law import GEMM_VECTOR, KINDS
from tracetool.families.gemm.vector_tiling import VectorRates, plan_vectors
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.load import load_gpu

HERTZ = 1.3e9
#: Every coefficient another number, so that no two can stand for each other.
C = {
    "dram_efficiency": 0.87, "strided_efficiency": 0.53, "pipe_efficiency": 0.91, "shared_efficiency": 0.83,
    "port_efficiency": 0.79, "store_efficiency": 0.61, "reduce_efficiency": 0.71, "k_step_cycles": 230.0,
    "latency_clk": 1390.0, "block_clk": 410.0, "split_clk": 2900.0, "transpose_cycles": 0.37,
    "page_clk": 1.9, "page_share": 0.47, "page_odd": 0.59, "fill_norm": 3.3, "vector_efficiency": 0.67,
    "vector_clk": 1510.0, "batch_area": 0.0, "most_area": 16384.0,
}  # fmt: skip


def products(
    gpu_name: str, batch: float, m: float, n: float, k: float, size: float, **tile: float
) -> Products:
    gpu = load_gpu(gpu_name)
    rate = gpu.rate("fp32" if size == 4 else "fp64")
    numbers = (batch, m, n, k, size, size, rate)
    stated = (np.array([tile.get(name, np.nan)]) for name in ("tile_m", "tile_n", "split"))
    read = batch * (m + n) * k * size
    return Products(*(np.array([v]) for v in numbers), np.array([False]), np.array([read]), *stated)


def by_hand(name: str, batch: float, m: float, n: float, k: float, b: float, tile: tuple[float, ...]) -> Any:
    """Return serial and core cycles, memory's time and fills of one product in a tile."""
    gpu, (tm, tn, split) = load_gpu(name), tile
    rate = max(gpu.rate("fp32"), gpu.matrix_fp32) if b == 4 else gpu.rate("fp64")
    # operands stored along K at a rate that falls with K: a page of 1 KiB and more is opened for every row
    along_k = batch * (m + (n if batch <= 1 else 0)) * k * b
    near = 1 / (1 + (k * b / 1024) ** 2)
    strided = C["strided_efficiency"] + near * (C["dram_efficiency"] - C["strided_efficiency"])
    straight = batch * (m + n) * k * b - along_k + batch * m * n * b
    memory = (along_k / strided + straight / C["dram_efficiency"]) / gpu.dram_bytes_per_s
    blocks = batch * math.ceil(m / tm) * math.ceil(n / tn) * split
    resident = min(max(gpu.registers_per_sm // (2 * tm * tn * max(b / 4, 1)), 1), 16)
    busiest = math.ceil(blocks / gpu.sm_count)
    rounds, depth = math.ceil(busiest / resident), math.ceil(k / split / 8) * 8
    clocks = 2 * tm * tn / (C["pipe_efficiency"] * rate)
    fed = (tm + tn) * b / (C["shared_efficiency"] * gpu.shared_bytes_per_clock_sm)
    crowd = busiest
    if min(tm, tn) >= 64 and tm * tn <= 4096 and gpu.schedulers_per_sm == 4:
        crowd = busiest - busiest % 4 + min(2 * (busiest % 4), 4)  # two warps fill half of an SM
    step = ((crowd * (clocks**4 + fed**4) ** 0.25) ** 4 + (rounds * C["k_step_cycles"] / 8) ** 4) ** 0.25
    lines, port = min(tm, m) + min(tn, n), gpu.l2_port_bytes_per_clock_sm
    fill = blocks * depth * lines * b
    entering = busiest * depth * lines * b / (C["port_efficiency"] * port)
    parts = (depth * step, fill / gpu.l2_bytes_per_clock, entering)
    core = sum(p ** C["fill_norm"] for p in parts) ** (1 / C["fill_norm"])
    turned = min(tm, m) + (min(tn, n) if batch <= 1 else 0)
    core += busiest * depth * turned * C["transpose_cycles"]
    # rows in flight, along n first; their translations are kept as far as the bytes between them allow
    around = min(resident, busiest)
    wide = min(around * 4, math.ceil(n / tn))
    high = min(math.ceil(around * 4 / wide), math.ceil(m / tm))
    rows = min(high * tm, m) + min(wide * tn, n)
    lost = 1 / (1 + (C["page_share"] * gpu.translated_bytes / (rows * k * b)) ** 3)
    lost *= 1.0 if (k * b) % 4096 == 0 else C["page_odd"]
    core += busiest * depth * lines * C["page_clk"] * lost
    partial = 8 * batch * m * n * split if split > 1 else 0.0
    serial = (
        C["latency_clk"] + rounds * C["block_clk"] + busiest * tm * tn * b / (C["store_efficiency"] * port)
    )
    serial += C["split_clk"] if split > 1 else 0.0
    serial += partial / (C["reduce_efficiency"] * gpu.l2_bytes_per_clock)
    return {
        "serial_cycles": serial, "core_cycles": core, "memory_s": memory, "fill_bytes": fill,
        "blocks": blocks, "waves": rounds, "partial_bytes": partial, "l2_bytes": fill,
    }  # fmt: skip


SHAPES = [(1, 500, 700, 900, 4.0), (1, 4096, 4096, 1024, 4.0), (3, 100, 260, 333, 4.0),
          (1, 40, 90, 30000, 4.0),
          (1, 900, 700, 500, 8.0), (20, 64, 64, 64, 4.0)]  # fmt: skip
TILES = [(32, 32, 1), (64, 64, 1), (128, 64, 3), (32, 128, 2), (64, 64, 5)]


@pytest.mark.parametrize("name", ["h100-sxm", "v100-sxm2-16gb"])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_stated_tile_costs_what_the_page_says(
    shape: tuple[float, ...], tile: tuple[float, ...], name: str
) -> None:
    p = products(name, *shape, **dict(zip(("tile_m", "tile_n", "split"), tile, strict=True)))
    plan = plan_vectors(p, load_gpu(name), VectorRates.of(C), HERTZ)
    for part, value in by_hand(name, *shape, tile).items():
        assert getattr(plan, part)[0] == pytest.approx(value, rel=1e-9), part
    assert plan.read_bytes[0] == p.input_bytes[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tile_chosen_is_the_fastest_of_those_tried(shape: tuple[float, ...]) -> None:
    """A tile of each size, whole or in parts of 48 of K and more; products of a batch are not split."""
    name, (batch, m, n, k, _) = "h100-sxm", shape
    gpu = load_gpu(name)

    def judged(tile: tuple[float, ...]) -> float:
        cost = by_hand(name, *shape, tile)
        core = cost["core_cycles"] / HERTZ
        return float(cost["serial_cycles"] / HERTZ + (core**4 + cost["memory_s"] ** 4) ** 0.25)

    sides = (32, 64, 128)
    most = min(max(k // 48, 1), 32)
    tried = []
    for tm, tn in ((a, b) for a in sides for b in sides):
        tiles = batch * math.ceil(m / tm) * math.ceil(n / tn)
        resident = min(max(gpu.registers_per_sm // (2 * tm * tn * max(shape[4] / 4, 1)), 1), 16)
        filling = min(max(gpu.sm_count * resident // tiles, 1), most)
        splits = {1, filling, filling // 2, filling // 4, min(most, 2)} if batch <= 1 else {1}
        tried += [(tm, tn, s) for s in splits if s >= 1]
    plan = plan_vectors(products(name, *shape), gpu, VectorRates.of(C), HERTZ)
    chosen = (plan.tile_m[0], plan.tile_n[0], plan.split[0])
    assert judged(chosen) == pytest.approx(min(map(judged, tried)), rel=1e-9)


def test_batches_have_tiles_of_one_size_in_some_libraries() -> None:
    plan = plan_vectors(products("h100-sxm", 9, 500, 500, 500, 4.0), load_gpu("h100-sxm"),
                        VectorRates.of({**C, "batch_area": 2048.0}), HERTZ)  # fmt: skip
    assert plan.tile_m[0] * plan.tile_n[0] == 2048


@pytest.mark.parametrize("sides", [(6000.0, 1.0), (1.0, 6000.0)])
def test_a_product_with_a_vector_is_bytes(sides: tuple[float, float]) -> None:
    """Eight rows a block of eight warps, eight blocks an SM, each byte once."""
    gpu, p = load_gpu("h100-sxm"), products("h100-sxm", 2, *sides, 5000, 4.0)
    plan = plan_vectors(p, gpu, VectorRates.of({**C, "latency_clk": 1e6}), HERTZ)
    moved = float(p.input_bytes[0]) + 2 * 6000 * 4
    assert plan.memory_s[0] == pytest.approx(moved / (C["vector_efficiency"] * gpu.dram_bytes_per_s))
    assert (plan.tile_m[0], plan.tile_n[0]) == ((8, 1) if sides[0] > 1 else (1, 8))
    assert plan.blocks[0] == 2 * 6000 / 8
    assert plan.waves[0] == math.ceil(1500 / (8 * gpu.sm_count))
    assert plan.serial_cycles[0] == C["vector_clk"]
    assert plan.fill_bytes[0] == plan.l2_bytes[0] == moved
    pipes = (
        2 * 2 * 6000 * 5000 / (max(gpu.rate("fp32"), gpu.matrix_fp32) * C["pipe_efficiency"] * gpu.sm_count)
    )
    assert plan.core_cycles[0] == pytest.approx(max(plan.memory_s[0] * HERTZ / 2, pipes))


def test_kinds_tell_batches_and_tiles_that_no_name_states() -> None:
    columns = {"batch": np.array([1.0, 8.0, 1.0, 8.0]), "tile_m": np.array([64.0, 64.0, np.nan, 64.0]),
               "tile_n": np.array([64.0, 64.0, 64.0, np.nan])}  # fmt: skip
    rows = OperatorColumns(np.full(4, "gemm", dtype=object), columns)
    assert [KINDS[kind] for kind in GEMM_VECTOR.kind(rows)] == list(KINDS)
    assert KINDS == ("single", "batch", "single_untold", "batch_untold")


def test_time_is_what_no_clock_changes_and_what_each_clock_does() -> None:
    """At 1 GHz 1, 0.5 and 2 us one after another, then 3 and 4 us at once in squares: 8.5 us."""
    one = {"fixed_s": 1e-6, "serial_cycles": 2e3, "core_cycles": 3e3, "memory_s": 4e-6, "norm": 2.0,
           "active": 1.0, "stream_s": 0.5e-6, "floor_s": 0.0}  # fmt: skip
    pieces = Pieces(**{name: np.array([value]) for name, value in one.items()}, work=Work.of(1))
    took = duration_s(pieces, np.array([[1e9, 2e9]]))
    assert took[0] == pytest.approx([1.5e-6 + 2e-6 + 5e-6, 1.5e-6 + 1e-6 + math.hypot(1.5, 4.0) * 1e-6])
    slow = duration_s(pieces, np.array([[1e9]]), slower=2.0)
    assert slow[0] == pytest.approx([1e-6 + 1e-6 + 2e-6 + math.hypot(3.0, 8.0) * 1e-6])


def test_the_share_of_sms_at_work_is_that_of_the_blocks_slots() -> None:
    """16 by 16 tiles of 64 on the 80 SMs of a V100: 256 blocks in four rounds of 80."""
    columns = {k: np.array([v]) for k, v in {"m": 1000.0, "n": 1000.0, "k": 500.0}.items()}
    columns |= {k: np.array([64.0]) for k in ("tile_m", "tile_n")} | {"split_k": np.array([1.0])}
    columns["dtype"] = np.array(["fp32"], dtype=object)
    rows = OperatorColumns(np.array(["gemm"], dtype=object), columns)
    assert GEMM_VECTOR.pieces(rows, load_gpu("v100-sxm2-16gb"), {}).active[0] == 256 / 320


@pytest.mark.parametrize(("depth", "parts"), [(40.0, 1.0), (95.0, 1.0), (96.0, 2.0), (144.0, 3.0)])
def test_a_part_of_k_has_at_least_48(depth: float, parts: float) -> None:
    """One tile leaves all SMs but one idle; with parts that cost nothing K is split as far as it may be."""
    rates = VectorRates.of({**C, "split_clk": 0.0, "reduce_efficiency": 1e6})
    plan = plan_vectors(products("h100-sxm", 1, 32, 32, depth, 4.0), load_gpu("h100-sxm"), rates, HERTZ)
    assert plan.split[0] == parts
