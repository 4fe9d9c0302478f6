"""Streams and state-space layers as docs/families/streams.md, mamba2.md and gdn.md write them, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import PATTERNS
from tracetool.families.registry import count_work
from tracetool.families.ssm.law import CONV1D, CONV1D_UPDATE, GDN_CHUNK, GDN_UPDATE, MAMBA2, ssm_law
from tracetool.families.streaming.law import STREAM
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
SMS, L2 = GPU.sm_count, GPU.l2_bytes_per_clock
C = {
    "launch_us": 2.3, "named_launch_us": 1.7, "latency_clk": 1130.0, "dram_efficiency": 0.87,
    "overlap_norm": 2.7, "offset_ops": 3.1, "cast_ops": 17.0, "index_ops": 23.0, "pool_ops": 29.0,
    "cat_ops": 31.0, "chain_clk": 37.0, "tree_clk": 410.0, "lookup_clk": 530.0, "index_clk": 590.0,
    "chunk_clk": 610.0, "list_clk": 71.0, "kept": 0.45,
}  # fmt: skip
SIZE = {"elements": 3e6, "dtype": "fp32", "operands": 3.0, "blocks": 700.0, "threads": 256.0}


def rows_of(family: str, **given: Any) -> OperatorColumns:
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in given.items()}
    return OperatorColumns(np.array([family], dtype=object), columns)


def norm(p: float, *parts: float) -> float:
    return sum(part**p for part in parts) ** (1 / p)


def _instructions(pattern: str, dims: float) -> float:
    """An element's: steps of every dimension for each tensor and once, or its own count."""
    each = {"cast": C["cast_ops"], "index": C["index_ops"], "pool": C["pool_ops"], "cat": C["cat_ops"]}
    return C["offset_ops"] * dims * (3 + 1) if pattern == "offsets" else each.get(pattern, 0.0)


@pytest.mark.parametrize("more", [{}, {"elements": 2e8, "walked_dims": 4.0, "elements_per_thread": 6.0}])
@pytest.mark.parametrize("pattern", ["", *PATTERNS[1:]])
def test_a_stream_takes_what_the_page_says(pattern: str, more: dict[str, Any]) -> None:
    rows = rows_of("elementwise", access_pattern=pattern, **{**SIZE, **more})
    size = {**SIZE, **more}
    pieces, work = STREAM.pieces(rows, GPU, C), count_work(rows, GPU)
    units = (work.fp32_flops[0] / GPU.rate("fp32") + work.fp64_flops[0] / GPU.rate("fp64")
             + work.int_ops[0] / GPU.rate("int") + work.sfu_ops[0] / GPU.sfu_per_clock_sm)  # fmt: skip
    core = norm(4, units / SMS, work.l2_bytes[0] / L2)
    elements, blocks, threads = size["elements"], size["blocks"], size["threads"]
    core += _instructions(pattern, size.get("walked_dims", 2.5)) * elements / (GPU.lanes_per_clock_sm * SMS)
    serial = C["latency_clk"]
    if pattern == "tree":  # rounds of blocks after the first climb the tree again
        resident = SMS * min(max(GPU.max_threads_per_sm / threads, 1), GPU.max_blocks_per_sm)
        core += C["chain_clk"] * elements / (blocks * threads) + C["tree_clk"] * max(blocks / resident - 1, 0)
        serial += C["tree_clk"]
    elif pattern == "chunks":  # the fullest chunk holds twice the mean, at most 65,536, four elements a step
        steps = math.ceil(min(65536, 2 * elements / blocks) / (4 * threads))
        core += steps * (C["chunk_clk"] + 2 * C["list_clk"])
    elif pattern == "index":
        serial += max(C["lookup_clk"], C["index_clk"] * size.get("elements_per_thread", 1.0))
    elif pattern not in ("", "wide"):
        serial += C["lookup_clk"]
    moved = float(work.dram_bytes[0])
    left = C["kept"] / (1 + (moved / (0.7 * GPU.l2_bytes)) ** 3) if pattern else 0.0
    assert pieces.core_cycles[0] == pytest.approx(core, rel=1e-9)
    assert pieces.serial_cycles[0] == pytest.approx(serial)
    assert pieces.memory_s[0] == pytest.approx(moved * (1 - left) / (0.87 * GPU.dram_bytes_per_s))
    assert pieces.fixed_s[0] == pytest.approx((C["named_launch_us"] if pattern else C["launch_us"]) * 1e-6)
    assert pieces.norm[0] == C["overlap_norm"]
    assert pieces.active[0] == 0.95


@pytest.mark.parametrize("vector", [1.0, 4.0])
@pytest.mark.parametrize("across", [1.0, 3.0])
def test_blocks_that_share_a_result_climb_the_tree_twice(across: float, vector: float) -> None:
    rows = rows_of("reduction", access_pattern="tree", grid_y=across, out_vec=vector, **SIZE)
    alone = rows_of("reduction", access_pattern="tree", **SIZE)
    there, here = STREAM.pieces(rows, GPU, C), STREAM.pieces(alone, GPU, C)
    levels = 2 if across > 1 else 1
    assert there.serial_cycles[0] == C["latency_clk"] + levels * C["tree_clk"]
    loads = SIZE["elements"] / (SIZE["blocks"] * SIZE["threads"])  # type: ignore[operator]
    saved = C["chain_clk"] * loads * (1 - 1 / vector)
    assert here.core_cycles[0] - there.core_cycles[0] == pytest.approx(saved, abs=1e-6)


def test_each_element_is_read_and_written_in_its_format() -> None:
    for dtype, size in (("fp32", 4), ("bf16", 2)):
        work = count_work(
            rows_of("elementwise", **{**SIZE, "dtype": dtype, "reads": 2.0, "writes": 1.0}), GPU
        )
        assert work.dram_bytes[0] == (2 + 1) * 3e6 * size


LAYER = {"batch": 4.0, "seq_len": 4000.0, "d_state": 64.0, "nheads": 48.0, "head_dim": 32.0, "n_groups": 8.0,
         "chunk_size": 256.0, "d_conv": 4.0, "dtype": "bf16"}  # fmt: skip


def _missed(bytes_: float) -> float:
    return 1 - 1 / (1 + (bytes_ / (0.8 * GPU.l2_bytes)) ** 6)


@pytest.mark.parametrize("changes", [{}, {"seq_len": 100.0}, {"seq_len": 1.0, "phase": "decode"}])
@pytest.mark.parametrize("kernel", ["", "causal_conv1d_fn"])
def test_a_mamba_layer_counts_what_its_parts_do(kernel: str, changes: dict[str, Any]) -> None:
    layer = {**LAYER, **changes}
    rows = rows_of("ssm", implementation=kernel, **layer)
    work, one = count_work(rows, GPU), changes.get("phase") == "decode"
    tokens = layer["batch"] * layer["seq_len"]
    channels, heads, groups, state = 48 * 32, 48, 8, 64
    mixed, q = channels + 2 * groups * state, min(256.0, layer["seq_len"])
    states = channels * state
    product = tokens * (2 * q * state * groups + q * channels + 4 * states)
    convolved = count_work(rows_of("ssm", implementation="causal_conv1d_fn", **layer), GPU)
    if kernel:
        assert work.tensor_flops[0] == 0
        assert work.dram_bytes[0] >= 2 * 2 * tokens * mixed
        return
    assert work.tensor_flops[0] == (0 if one else product)
    scanned = work.fp32_flops[0] - convolved.fp32_flops[0]
    assert scanned == pytest.approx(6 * tokens * states if one else 2 * tokens / q * states)
    moved = work.dram_bytes[0] - convolved.dram_bytes[0]
    # inputs twice, the output, scores written and read, states four times, decays six: the latter in FP32
    chunked = 2 * (2 * tokens * mixed + tokens * channels) + 4 * (
        2 * tokens * q * groups + 4 * tokens / q * states + 6 * tokens * heads)  # fmt: skip
    assert moved == pytest.approx(2 * tokens * mixed + 2 * 2 * tokens * states if one else chunked)
    exponentials = work.sfu_ops[0] - convolved.sfu_ops[0]
    assert exponentials == pytest.approx(tokens * states if one else tokens * heads * (q / 2 + 3))
    assert work.l2_bytes[0] - convolved.l2_bytes[0] == pytest.approx(moved)
    assert work.shared_bytes[0] - convolved.shared_bytes[0] == pytest.approx(2 * moved)


@pytest.mark.parametrize("changes", [{}, {"seq_len": 1.0, "phase": "decode"}])
def test_a_mamba_layer_waits_for_each_of_its_kernels(changes: dict[str, Any]) -> None:
    """Six on many tokens, two on one; convolutions take 1024 tokens a step, 16 blocks an SM."""
    given = {"launch_us": 3.7, "latency_clk": 1700.0, "dram_efficiency": 0.8, "tensor_efficiency": 0.6}
    rows = rows_of("ssm", **{**LAYER, **changes})
    pieces, work, one = MAMBA2.pieces(rows, GPU, given), count_work(rows, GPU), bool(changes)
    kernels = 2 if one else 6
    assert pieces.fixed_s[0] == pytest.approx(kernels * 3.7e-6)
    assert pieces.serial_cycles[0] == pytest.approx(kernels * 1700)
    mixed = 48 * 32 + 2 * 8 * 64
    waits = 0.0 if one else 4 * mixed * math.ceil(4000 / 1024) * 1700 / (16 * SMS)
    pipes = (work.fp32_flops[0] / GPU.rate("fp32") + work.int_ops[0] / GPU.rate("int")
             + work.sfu_ops[0] / GPU.sfu_per_clock_sm) / SMS  # fmt: skip
    products = work.tensor_flops[0] / (GPU.rate("tensor_bf16") * SMS * 0.6)
    moved = float(work.dram_bytes[0])
    from_l2 = moved * (1 - _missed(moved)) / L2
    assert pieces.core_cycles[0] == pytest.approx(max(products + pipes + waits, from_l2))
    assert pieces.memory_s[0] == pytest.approx(moved * _missed(moved) / (0.8 * GPU.dram_bytes_per_s))


def test_each_kernel_of_a_layer_has_its_law() -> None:
    mamba = {"": "mamba2", "causal_conv1d_fn": "conv1d"}
    for kernel, law in mamba.items():
        place = ssm_law(rows_of("ssm", implementation=kernel, **LAYER), GPU)[0]
        assert ("stream", "mamba2", "conv1d", "conv1d_update", "gdn_chunk", "gdn_update", "gdn")[place] == law
    one = {**LAYER, "seq_len": 1.0, "phase": "decode", "implementation": "causal_conv1d_update"}
    assert ssm_law(rows_of("ssm", **one), GPU)[0] == 3
    assert [law.name for law in (CONV1D, CONV1D_UPDATE, GDN_CHUNK, GDN_UPDATE)] == [
        "conv1d", "conv1d_update", "gdn_chunk", "gdn_update"]  # fmt: skip


#: TB/s that AMD's benchmark of its GPUs expects (mi308x-bandwidth of references.toml).
AMD_STREAMS = {"mi300x": 3.91, "mi325x": 4.29, "mi308x": 2.00}


@pytest.mark.parametrize(("gpu", "above"), [("mi300x", 0.12), ("mi325x", 0.16), ("mi308x", 0.06)])
def test_a_stream_is_near_what_was_measured_where_other_vendors_lend(gpu: str, above: float) -> None:
    """NVIDIA's share of the peak was taken: 4.8 TB/s on an MI300X, 4.4 on the few units of an MI308X."""
    rows = pl.DataFrame([{"op": "elementwise", "dtype": "fp32", "elements": 2**28, "reads": 1, "writes": 1}])
    frame = tt.predict(rows, gpu=gpu).frame
    reached = 2.0**31 / frame["duration_us"][0] * 1e-6
    assert 0.97 * AMD_STREAMS[gpu] < reached < (1.0 + above) * AMD_STREAMS[gpu]


#: Operators whose time is that of the bytes they read, with those. [B]
_READ = {
    "decode": (
        {"op": "attention", "phase": "decode", "dtype": "bf16", "batch": 64, "q_len": 1, "kv_len": 8192,
         "heads": 32, "kv_heads": 8, "head_dim": 128},
        4.0 * 64 * 8192 * 8 * 128,
    ),
    "experts": (
        {"op": "moe", "dtype": "bf16", "tokens": 256, "hidden": 7168, "intermediate": 2048, "top_k": 8,
         "experts": 256, "distribution": "balanced"},
        6.0 * 256 * 7168 * 2048,
    ),
    "softmax": ({"op": "softmax", "dtype": "bf16", "rows": 2**18, "cols": 1024}, 4.0 * 2**28),
}  # fmt: skip


@pytest.mark.parametrize("gpu", AMD_STREAMS)
@pytest.mark.parametrize("operator", _READ)
def test_nothing_is_read_faster_than_a_stream_where_other_vendors_lend(gpu: str, operator: str) -> None:
    """Decode read 4.9 TB/s on an MI300X, and 4.6 on the few units of an MI308X, which draw 2.0."""
    row, read = _READ[operator]
    reached = read / tt.predict(pl.DataFrame([row]), gpu=gpu).frame["duration_us"][0] * 1e-6
    assert 0.7 * AMD_STREAMS[gpu] < reached < 1.2 * AMD_STREAMS[gpu]
