"""Mixtures of experts as docs/families/moe.md writes them, one layer at a time, against the arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.moe.law import MOE, moe_law
from tracetool.families.moe.problem import moe_work
from tracetool.families.moe.tiles import TILES, Tile
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
C = {
    "launch_us": 21.0, "launch_quantized": 1.3, "latency_clk": 3100.0, "block_clk": 1100.0,
    "k_step_cycles": 190.0, "tensor_efficiency": 0.63, "fp8_rate": 1.4, "block_rate": 0.8,
    "l2_efficiency": 1.45, "dram_efficiency": 0.86, "sm_bytes_clk": 57.0, "fill_norm": 2.2,
    "overlap_norm": 3.1, "pair_ns": 2.7, "expert_ns": 7.3, "inner_factor": 1.2, "outer_factor": 0.4,
    "quantize_factor": 2.6, "l2_hit": 0.31, "tail_share": 0.77, "remote_passes": 0.13,
    "remote_products": 0.05, "tile_table": 0.0, "gate": 2.0, "remote_to_first": 0.0,
}  # fmt: skip
LAYER = {"tokens": 300.0, "hidden": 2048.0, "intermediate": 1408.0, "top_k": 4.0, "experts": 32.0}
LAYERS = [
    {},
    {"tokens": 3.0},
    {"tokens": 5000.0, "experts": 8.0, "top_k": 2.0},
    {"ep": 4.0},
    {"tp": 2.0, "implementation": "triton_nongated"},
    {"dtype": "fp8"},
    {"dtype": "fp8_block", "ep": 2.0, "tokens": 700.0},
    {"ep": 4.0, "remote_to_first": 1.0},
    {"gated": 0.0},
]


def _rows(**changes: object) -> OperatorColumns:
    columns = {
        k: np.array([v], dtype=object if isinstance(v, str) else float)
        for k, v in {**LAYER, **changes}.items()
    }
    return OperatorColumns(np.array(["moe"], dtype=object), columns)


class ByHand:
    """One layer: what the page's symbols are."""

    def __init__(self, c: dict[str, float], **changes: object) -> None:
        row = {"ep": 1.0, "tp": 1.0, "dtype": "bf16", "implementation": "", **LAYER, **changes}
        self.c, self.tokens, self.top_k = c, float(row["tokens"]), float(row["top_k"])
        self.experts, self.hidden = float(row["experts"]), float(row["hidden"])
        self.inner = float(row["intermediate"]) / float(row["tp"])
        self.local = self.experts / float(row["ep"])
        self.gate = 1 if "nongated" in str(row["implementation"]) or row.get("gated") == 0.0 else 2
        self.quantized = str(row["dtype"]) != "bf16"
        self.blocks = str(row["dtype"]) == "fp8_block"
        self.size = 1.0 if self.quantized else 2.0
        peak = GPU.rate("tensor_fp8" if self.quantized else "tensor_bf16")
        own = {"bf16": 1.0, "fp8": c["fp8_rate"], "fp8_block": c["block_rate"]}[str(row["dtype"])]
        self.rate = peak * min(c["tensor_efficiency"] * own, 1.0)
        # a token falls on any k experts alike
        self.pairs = self.tokens * self.top_k / float(row["ep"])
        self.touched = self.local * (1 - (1 - self.top_k / self.experts) ** self.tokens)
        # a token has up to min(k, local) experts here, or none
        most = min(self.top_k, self.local)
        here = self.tokens * (1 - (1 - min(self.pairs / (self.tokens * most), 1.0)) ** most)
        self.remote = max(min(here, self.pairs, self.tokens) * self.top_k - self.pairs, 0.0)
        self.added = self.remote if row.get("remote_to_first") and row["ep"] != 1.0 else 0.0
        if self.added:
            self.pairs, self.tokens, self.remote = self.pairs + self.remote, here, 0.0

    def products(self) -> list[tuple[float, float, float]]:
        """Columns, depth and bytes of both products: weights touched, and what passes in and out."""
        c, pairs = self.c, self.pairs + self.c["remote_products"] * self.remote
        weights = self.touched * (self.gate + 1) * self.inner * self.hidden * self.size
        missed = 1 - c["l2_hit"] / (1 + (weights / (0.7 * GPU.l2_bytes)) ** 4)
        return [
            (n, k, self.touched * n * k * self.size * missed + pairs * (2 * n + self.size * k))
            for n, k in ((self.gate * self.inner, self.hidden), (self.hidden, self.inner))
        ]

    def tiles(self, tile: float) -> float:
        each = (self.pairs - self.added) / self.touched
        more = self.c["remote_products"] * self.remote + self.added
        return self.touched * math.ceil(each / tile) + more / tile

    def held(self, tile: Tile) -> float:
        """Blocks of three steps each that an SM holds."""
        held = GPU.shared_bytes_per_sm / (3 * (tile.tokens + tile.columns) * tile.depth * self.size)
        if tile.warps:
            threads = 32 * tile.warps
            held = min(held, GPU.registers_per_sm / (tile.tokens * tile.columns + 64 * threads))
        return max(held, 1.0)

    def cycles(self, tile: Tile) -> tuple[float, float]:
        """Serial and core cycles of both products in one tile."""
        c, sms, serial, core = self.c, GPU.sm_count, 0.0, 0.0
        for n, k, moved in self.products():
            blocks = self.tiles(tile.tokens) * math.ceil(n / tile.columns)
            waves, whole = math.ceil(blocks / sms), max(blocks / sms, 1.0)
            charged = whole + c["tail_share"] * (waves - whole)
            held = self.held(tile)
            shared = min(max(blocks / sms, 1.0), held) if tile.warps else held
            step = 2 * tile.tokens * tile.columns * tile.depth / self.rate + c["k_step_cycles"] / shared
            # two products by scales and an addition for each sum over a block of 128
            scaling = 3 * tile.tokens * tile.columns * (tile.depth / 128) / GPU.lanes_per_clock_sm
            step += scaling if self.blocks else 0.0
            busy = charged * math.ceil(k / tile.depth) * step
            filling = (
                blocks
                * k
                * (tile.tokens * self.size + tile.columns * self.size)
                / (c["l2_efficiency"] * GPU.l2_bytes_per_clock)
            )
            drawn = moved / (min(blocks, sms) * c["sm_bytes_clk"])
            steady = (busy ** c["fill_norm"] + filling ** c["fill_norm"]) ** (1 / c["fill_norm"])
            core += (steady**4 + drawn**4) ** 0.25
            serial += c["latency_clk"] + waves * c["block_clk"]
        return serial, core

    def chosen(self) -> Tile:
        """The tile of least time, or that of a library's table."""
        if self.c["tile_table"] == 1.0:
            return Tile(16.0, 32.0, 64.0, 4.0) if self.tokens <= self.local else Tile(64.0, 64.0, 32.0, 4.0)
        if self.c["tile_table"] == 3.0:
            [tokens] = [t for t, most in ((16, 32), (64, 512), (128, 1e9)) if self.tokens <= most][:1]
            return Tile(16.0, 64.0, 128.0, 4.0) if tokens == 16 else Tile(float(tokens), 128.0, 64.0, 8.0)
        return min(TILES, key=lambda tile: sum(self.cycles(tile)))


@pytest.mark.parametrize("table", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("changes", LAYERS)
def test_a_layer_takes_what_the_page_says(changes: dict[str, object], table: float) -> None:
    c = {**C, "tile_table": table}
    pieces, hand = MOE.pieces(_rows(**changes), GPU, c), ByHand(c, **changes)
    serial, core = hand.cycles(hand.chosen())
    assert pieces.core_cycles[0] == pytest.approx(core, rel=1e-6)
    moved = sum(bytes_ for *_, bytes_ in hand.products())
    assert pieces.memory_s[0] == pytest.approx(
        moved / (c["dram_efficiency"] * GPU.dram_bytes_per_s), rel=1e-6
    )
    launch = c["launch_us"] * (c["launch_quantized"] if hand.quantized else 1.0) * 1e-6
    sorting = (c["pair_ns"] * hand.tokens * hand.top_k + c["expert_ns"] * hand.experts) * 1e-9
    assert pieces.fixed_s[0] == pytest.approx(launch + sorting)
    pairs = hand.pairs + c["remote_passes"] * (hand.tokens * hand.top_k - hand.pairs)
    scaled = 3 * (hand.tokens * hand.hidden + pairs * hand.inner) if hand.quantized else 0.0
    passes = kept = 0.0  # through memory, and what the near half of L2 keeps
    for factor, size in (
        ("inner_factor", 6 * pairs * hand.inner),
        ("outer_factor", 2 * pairs * hand.hidden),
        ("quantize_factor", scaled),
    ):
        share = 1 / (1 + (size / (0.7 * GPU.l2_near_bytes)) ** 4)
        passes, kept = passes + c[factor] * size * (1 - share), kept + c[factor] * size * share
    assert pieces.stream_s[0] == pytest.approx(passes / GPU.dram_bytes_per_s, rel=1e-6)
    assert pieces.serial_cycles[0] == pytest.approx(serial + 2 * kept / GPU.l2_bytes_per_clock, rel=1e-6)
    assert pieces.norm[0] == c["overlap_norm"]
    assert pieces.floor_s[0] == 0


def test_blocks_without_pairs_start_and_leave() -> None:
    """A sixteenth of 65536 pairs falls here, but blocks are launched as if all did."""
    changes = {"tokens": 8192.0, "experts": 256.0, "top_k": 8.0, "ep": 16.0, "intermediate": 1024.0}
    c = {**C, "tile_table": 8.0, "remote_products": 0.0, "leave_clk": 270.0}
    rows = _rows(**changes)
    left = MOE.pieces(rows, GPU, {**c, "leaves": 1.0}).serial_cycles - MOE.pieces(rows, GPU, c).serial_cycles
    hand = ByHand(c, **changes)
    launched = 16 + (8192 * 8 - 16) // 64
    columns = 2048 / 128 + 2048 / 128
    assert left[0] == pytest.approx((launched - hand.tiles(64.0)) * columns / GPU.sm_count * 270, rel=1e-6)


def test_an_activation_of_its_own_goes_over_all_pairs() -> None:
    """With an expert here or not: 80 operations of the FP32 lanes for each of 300 x 4 x 1408 values."""
    rows = _rows(ep=4.0)
    apart, fused = (MOE.pieces(rows, GPU, {**C, "activated_ops": n}).serial_cycles[0] for n in (80.0, 0.0))
    lanes = GPU.lanes_per_clock_sm * GPU.sm_count
    assert apart - fused == pytest.approx(80 * 300 * 4 * 1408 / lanes, rel=1e-9)


@pytest.mark.parametrize("changes", LAYERS)
def test_work_is_two_operations_a_weight_and_pair(changes: dict[str, object]) -> None:
    """Gate, up and down: 2 h i each. Weights of each touched expert once, activations in 16 bits."""
    hand, work = ByHand(C, **changes), moe_work(_rows(**changes), GPU)
    matrices, area = hand.gate + 1, hand.hidden * hand.inner
    flops = 2 * hand.pairs * matrices * area
    tiles = hand.touched * math.ceil((hand.pairs - hand.added) / hand.touched / 64) + hand.added / 64
    assert work.useful_flops[0] == pytest.approx(flops)
    assert work.tensor_flops[0] == pytest.approx(max(flops, 2 * tiles * 64 * matrices * area), rel=1e-6)
    weights = hand.touched * matrices * area * hand.size
    passing = 2 * (hand.pairs * (2 * hand.hidden + matrices * hand.inner) + hand.tokens * hand.hidden)
    assert work.dram_bytes[0] == pytest.approx(weights + passing, rel=1e-6)
    filled = weights * max(tiles / hand.touched, 1.0) + passing
    assert work.l2_bytes[0] == pytest.approx(filled, rel=1e-6)
    assert work.shared_bytes[0] == pytest.approx(2 * filled, rel=1e-6)  # written to it and read
    assert work.sfu_ops[0] == pytest.approx(hand.pairs * hand.inner)  # the gate's exponential
    assert work.fp32_flops[0] == work.int_ops[0] == pytest.approx(4 * hand.pairs * hand.inner)


def test_weights_converted_as_they_are_loaded_take_two_bytes() -> None:
    """SGLang's Triton experts of MXFP4 are those of 16 bits; others read four bits and a scale."""
    told = {"dtype": "w4a16_mxfp4", "implementation": "sglang_fused_moe_triton"}
    rows, plain = _rows(**told), _rows(dtype="bf16")
    assert moe_law(rows, GPU)[0] == moe_law(plain, GPU)[0] == 0
    assert moe_work(rows, GPU).dram_bytes[0] == moe_work(plain, GPU).dram_bytes[0]
    others = _rows(dtype="w4a16_mxfp4", implementation="vllm_triton")
    assert moe_law(others, GPU)[0] != 0
    assert moe_work(others, GPU).dram_bytes[0] < 0.4 * moe_work(plain, GPU).dram_bytes[0]


def test_each_format_has_the_law_of_its_kernels() -> None:
    names = {
        "bf16": 0,
        "fp8": 1,
        "int8": 1,
        "fp8_block": 2,
        "nvfp4": 3,
        "mxfp4": 3,
        "int4_wo": 4,
        "w4a16_mxfp4": 4,
    }
    for dtype, place in names.items():
        assert moe_law(_rows(dtype=dtype), GPU).tolist() == [place], dtype
