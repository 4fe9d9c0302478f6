"""Prefill attention as docs/families/prefill.md writes it, one layer at a time, against the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.prefill import ENCODER, PREFILL
from tracetool.families.attention.prefill_hosts import written
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
SMS = GPU.sm_count
#: Every coefficient another number, so that no two can stand for each other.
C = {
    "query_tile": 128.0, "by_head": 0.0, "pack_heads": 0.0, "launch_us": 7.3, "tile_clk": 2900.0,
    "tensor_efficiency": 0.71, "mix_norm": 2.3, "dim64": 1.11, "dim192": 1.19, "dim256": 1.37, "dim512": 1.53,
    "fp8_dim64": 1.07, "fp8_dim256": 1.29, "uneven_dim": 1.41, "odd_dim_us": 3.1, "skip_clk": 100.0,
    "window_tile": 1.17, "fp8_tile": 1.13, "fp8_pass": 0.83, "kv8_tile": 1.23, "kv8_step": 1.31,
    "fp8_launch_us": 4.3, "kv8_pass": 1.7,
    "kv8_dim": 1.21, "group_step": 0.93, "spare_share": 0.37, "one_launch": 0.61, "single_tile": 0.89,
    "pass_factor": 1.9, "pass_clk": 130.0, "cache_passes": 2.1, "cache_clk": 210.0, "token_clk": 610.0,
    "l2_hit": 0.43, "l2_efficiency": 0.77,
    "tail_share": 0.67, "tail_norm": 5.1,
}  # fmt: skip
LAYER = {"batch": 2.0, "q_len": 2048.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0, "causal": 1.0}
LAYERS: list[dict[str, Any]] = [
    {}, {"batch": 1.0, "heads": 4.0, "kv_heads": 4.0}, {"kv_len": 8192.0}, {"causal": 0.0, "q_len": 577.0},
    {"head_dim": 64.0, "dtype": "fp8"}, {"head_dim": 256.0, "dtype": "fp8"},
    {"dtype": "fp8"}, {"kv_dtype": "fp8"}, {"head_dim": 192.0, "dtype": "fp8"},
    {"head_dim": 192.0, "head_dim_v": 128.0}, {"head_dim": 72.0, "causal": 0.0}, {"head_dim": 512.0},
    {"causal": 0.0, "q_len": 50.0, "batch": 64.0, "heads": 12.0, "kv_heads": 12.0},
    {"phase": "backward"}, {"q_len": 50.0}, {"q_len": 1.0, "kv_len": 640.0, "batch": 1.0},
]  # fmt: skip


def _rows(**changes: Any) -> OperatorColumns:
    given = {"phase": "prefill", "dtype": "bf16", **LAYER, **changes}
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in given.items()}
    return OperatorColumns(np.array(["attention"], dtype=object), columns)


def norm(p: float, *parts: float) -> float:
    return sum(part**p for part in parts) ** (1 / p)


def _visits(queries: float, keys: float, tile: float, key_tile: float, *, causal: bool) -> list[float]:
    """Key tiles that each tile of queries visits: up to the diagonal, or all. Tiles divide each other."""
    tiles = math.ceil(queries / tile)
    if not causal:
        return [math.ceil(keys / key_tile)] * tiles
    before = math.ceil((keys - queries) / key_tile)
    return [before + math.ceil(min((i + 1) * tile, queries) / key_tile) for i in range(tiles)]


def by_hand(c: dict[str, float], **changes: Any) -> dict[str, float]:
    """Return the parts of one layer, its tiles of one size."""
    row = {"dtype": "bf16", "kv_dtype": "", "phase": "prefill", **LAYER, **changes}
    batch, q, heads, kv_heads = (float(row[name]) for name in ("batch", "q_len", "heads", "kv_heads"))
    keys, head_dim = float(row.get("kv_len", q)), float(row["head_dim"])
    value_dim = float(row.get("head_dim_v", head_dim))
    causal, fp8 = row["causal"] > 0 and q > 1, row["dtype"] == "fp8"
    kv8 = row["kv_dtype"] == "fp8" and not fp8
    backward, group, uneven = row["phase"] == "backward", heads / kv_heads, head_dim % 16 > 0
    packed = group if c["pack_heads"] >= 2 or (c["pack_heads"] >= 1 and q <= 1) else 1.0
    tile, key_tile = c["query_tile"], 64.0
    lanes = batch * heads / packed
    visits = _visits(q, keys, tile / packed, key_tile, causal=causal)
    # matrix instructions are 16 deep
    dim = (math.ceil(head_dim / 16) * 16 + math.ceil(value_dim / 16) * 16) / 2
    peak = GPU.rate("tensor_fp8" if fp8 else "tensor_bf16")
    area = tile * key_tile
    step = norm(
        c["mix_norm"], 4 * area * dim / (c["tensor_efficiency"] * peak), 1.3 * area / GPU.sfu_per_clock_sm
    )
    step *= c["dim512"] if dim > 256 else c["dim256"] if dim > 192 else c["dim192"] if dim > 128 else 1.0
    step *= c["dim64"] if dim <= 64 else 1.0
    step *= c["kv8_step"] * (dim / 128) ** math.log(c["kv8_dim"]) if kv8 else 1.0
    step *= (c["group_step"] if group > 1 else 1.0) * (c["uneven_dim"] if uneven else 1.0)
    if fp8:
        step *= c["fp8_dim64"] if head_dim <= 64 else c["fp8_dim256"] if head_dim > 192 else 1.0
    start = c["tile_clk"] * (c["fp8_tile"] if fp8 else c["kv8_tile"] if kv8 else 1.0)
    start *= 1.0 if group > 1 else c["single_tile"]
    filled = min(
        math.ceil(q * packed / 64) * 64 / tile, 1.0
    )  # warps of 64 queries that have none leave early
    start *= c["spare_share"] + (1 - c["spare_share"]) * filled
    blocks = lanes * len(visits)
    w = blocks / SMS
    core = longest = start + visits[-1] * step
    if w > 1:
        work = lanes * (len(visits) * start + sum(visits) * step) / SMS
        core = norm(c["tail_norm"], work * (1 + c["tail_share"] * (math.ceil(w) / w - 1)), longest)
    width = 2 * (head_dim + value_dim)
    fills = lanes * sum(visits) * key_tile * width
    filled_bytes = fills / 2 if fp8 or kv8 else fills
    core = norm(6, core, filled_bytes / (c["l2_efficiency"] * GPU.l2_bytes_per_clock))
    factor = 2.5 if backward else 1.0  # five products for two
    narrow = 0.5 if kv8 else 1.0
    touched = (batch * q * heads + batch * keys * kv_heads * narrow) * width
    tokens = batch * q
    # read in 16 bits, written as the cache is
    kept = (c["kv8_pass"] if kv8 else 1.0) * kv_heads * (1 + narrow) / 2
    moved = {
        part: n * tokens * width * (c["fp8_pass"] if fp8 else 1.0) for part, n in (("q", heads), ("kv", kept))
    }
    hit = c["l2_hit"] / (1 + (touched / (0.7 * GPU.l2_bytes)) ** 2)
    launch = c["launch_us"] * (c["one_launch"] if q <= 1 else 1.0)
    launch += (c["odd_dim_us"] if math.log2(head_dim) % 1 else 0.0) + (c["fp8_launch_us"] if fp8 else 0.0)
    pairs = q * keys - (q * (q - 1) / 2 if causal else 0.0)
    flops = factor * 2 * batch * heads * pairs * (head_dim + value_dim)
    stream, serial, hertz = 0.0, 1900 + c["token_clk"] * tokens / SMS, GPU.clock_boost_mhz * 1e6
    for part, passes, clocks in (("q", "pass_factor", "pass_clk"), ("kv", "cache_passes", "cache_clk")):
        by_memory = factor * c[passes] * moved[part] * (1 - hit) / GPU.dram_bytes_per_s
        by_l2 = factor * c[passes] * moved[part] * hit / GPU.l2_bytes_per_clock / hertz
        by_sms = factor * c[clocks] * moved[part] / 1024 / SMS / hertz
        # the slower of both, nearly alone; its sixth power tells which
        slower = norm(6, by_memory + by_l2, by_sms)
        share = ((by_memory + by_l2) / slower) ** 6
        stream += share * slower * by_memory / (by_memory + by_l2)
        serial += (share * slower * by_l2 / (by_memory + by_l2) + (1 - share) * slower) * hertz
    return {
        "fixed_s": launch * 1e-6 * 1980 / GPU.clock_boost_mhz,
        "serial_cycles": serial,
        "stream_s": stream,
        "core_cycles": max(factor * core, flops / (peak * SMS)),
        "memory_s": factor * touched * (1 - hit) / GPU.dram_bytes_per_s,
        "active": w / math.ceil(w), "norm": 6.0, "useful_flops": flops,
        "sfu_ops": factor * batch * heads * pairs, "fp32_flops": factor * 5 * batch * heads * pairs,
        "shared_bytes": 2 * factor * fills + batch * heads * q * (head_dim + value_dim) * (1 if fp8 else 2),
    }  # fmt: skip


@pytest.mark.parametrize("habit", [{}, {"query_tile": 64.0}, {"pack_heads": 1.0}, {"pack_heads": 2.0}])
@pytest.mark.parametrize("changes", LAYERS)
def test_a_layer_takes_what_the_page_says(changes: dict[str, Any], habit: dict[str, float]) -> None:
    c = {**C, **habit}
    pieces, hand = PREFILL.pieces(_rows(**changes), GPU, c), by_hand(c, **changes)
    # packed tiles hold 32 queries: their edges fall anywhere in a key tile
    inexact = habit.get("pack_heads", 0.0) > 0
    for name, value in hand.items():
        part = getattr(pieces if hasattr(pieces, name) else pieces.work, name)
        assert part[0] == pytest.approx(value, rel=0.05 if inexact else 1e-9), name


def test_a_window_spares_the_keys_outside() -> None:
    """A tile of 128 queries with a window of 1000 touches 1128 keys: at most 19 tiles of 64."""
    given = {**C, "kv8_step": 1.0, "window_tile": 1.0, "tail_share": 0.0}
    row = {"batch": 1.0, "heads": 1.0, "kv_heads": 1.0, "q_len": 8192.0}
    seen, masked = (
        PREFILL.pieces(_rows(**row, window=1000.0), GPU, {**given, "skip_clk": clocks}).work.shared_bytes[0]
        for clocks in (0.0, 1e4)
    )
    assert masked == seen, "what is masked is not read"
    tiles, most = 8192 / 128, (1000 + 128) / 64 + 1
    passing = 8192 * 256 * 2
    assert seen < 2 * tiles * most * 64 * 512 + passing
    assert seen > 2 * (tiles - 8) * (1000 + 128) / 64 * 64 * 512


@pytest.mark.parametrize(
    ("pad", "dim", "padded"), [(0, 72, 80), (1, 72, 128), (2, 72, 96), (2, 300, 304), (1, 64, 64)]
)
def test_encoders_pad_heads_as_their_kernels_do(pad: int, dim: int, padded: int) -> None:
    """A step of few special functions is products alone: those of the padded head."""
    row = {"causal": 0.0, "q_len": 64.0, "batch": 1.0, "heads": 1.0, "kv_heads": 1.0}
    given = {
        **{k: c.value for k, c in ENCODER.priors.items()},
        **C,
        "tile_clk": 0.0,
        "tensor_efficiency": 1e-3,
    }
    given |= {
        "uneven_dim": 1.0,
        "dim64": 1.0,
        "dim192": 1.0,
        "dim256": 1.0,
        "dim512": 1.0,
        "query_tile": 64.0,
    }
    given |= {"uneven_queries": 64.0, "uneven_tile": 1.0}
    core = ENCODER.pieces(
        _rows(**row, head_dim=float(dim)), GPU, {**given, "pad_dim": float(pad)}
    ).core_cycles[0]
    assert core == pytest.approx(4 * 64 * 64 * padded / (1e-3 * GPU.rate("tensor_bf16")), rel=1e-3)


def test_tokens_that_an_sm_writes_at_once_cost_their_share() -> None:
    one, four = (written(at_once)["token_clk"] for at_once in (1.0, 4.0))
    assert four == (0.0, one[1] / 4.0)
