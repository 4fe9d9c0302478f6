"""What attention reads from memory, and its kernels of whole tiles, worked out one number at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.families.test_memory_efficient import kernel
from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.decode import DECODE
from tracetool.families.attention.memory_efficient import EFFICIENT
from tracetool.families.attention.prefill import ENCODER
from tracetool.families.attention.problem import attention_scores
from tracetool.hardware.load import load_gpu


def _rows(**given: Any) -> OperatorColumns:
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in given.items()}
    return OperatorColumns(np.array(["attention"], dtype=object), columns)


@pytest.mark.parametrize("keys", [500.0, 2048.0, 2784.0, 4096.0])
def test_a_loop_finds_a_cache_in_an_l2_that_all_sms_share(keys: float) -> None:
    """Up to 95 % of an L2 of one part a loop reads its cache there again, all but 5 % of it; beyond, less.

    8 sequences with 8 heads of 128 and 128 numbers of 2 B: 32 KiB a key. Queries and results: 64 rows of 8.
    """
    gpu = load_gpu("l40s")
    row = {"batch": 8.0, "q_len": 1.0, "kv_len": keys, "heads": 8.0, "kv_heads": 8.0, "head_dim": 128.0}
    pieces = DECODE.pieces(_rows(phase="decode", dtype="bf16", **row), gpu, {"repeat_hit": 0.0})
    cache, passing = 8 * 8 * keys * 256 * 2, 8 * 8 * 256 * 2
    fits = 1.0 / (1.0 + (cache / (0.95 * gpu.l2_bytes)) ** 8)
    assert pieces.work.dram_bytes[0] == pytest.approx(cache * (1.0 - 0.95 * fits) + passing, rel=1e-9)


@pytest.mark.parametrize(("dim", "shared"), [(64.0, 2.0), (128.0, 1.0), (256.0, 1.0)])
def test_blocks_of_all_heads_at_once_read_keys_again(dim: float, shared: float) -> None:
    """16 sequences with 16 heads, two to a pair of keys and values, have 256 blocks at once, 4 after another.

    An SM holds two blocks of heads of 64, else one: 264 or 132 at once. Each tile of queries draws all keys;
    blocks that meet them in L2 together draw them once. Keys keep to 70 % of the L2 next to an SM.
    """
    gpu = load_gpu("h100-sxm")
    habit = {"query_tile": 64.0, "by_head": 0.0, "pack_heads": 0.0, "pad_dim": 1.0, "l2_hit": 0.0}
    row = {"batch": 16.0, "q_len": 256.0, "heads": 16.0, "kv_heads": 8.0, "head_dim": dim, "causal": 0.0}
    rows = _rows(phase="prefill", dtype="bf16", **row)
    once, again = (
        ENCODER.pieces(rows, gpu, {**habit, "heads_first": first}).memory_s[0] for first in (0.0, 1.0)
    )
    assert gpu.sm_count == 132
    keys = 16 * 256 * 8 * 2 * dim * 2
    assert once * gpu.dram_bytes_per_s == pytest.approx(keys + 16 * 256 * 16 * 2 * dim * 2)
    together = 132 * shared / 256
    # of each head, four tiles of queries draw all keys
    drawn = 4 * 2 * keys / 2 / max(together, 1.0)
    working = keys * min(together, 1.0)
    lost = 1.0 - 1.0 / (1.0 + (working / (0.7 * gpu.l2_bytes / 2)) ** 4)
    assert (again - once) * gpu.dram_bytes_per_s == pytest.approx((drawn - keys) * lost / 0.72, rel=1e-9)


def test_a_tile_of_scores_takes_1_3_special_functions_each() -> None:
    """8 heads of one sequence, a tile of 64 by 64 scores each: a block on 8 of the SMs.

    With products all but free a block takes 1.3 x 4096 special functions at 16 a clock; its keys and values,
    128 numbers of 4 B, come from L2 meanwhile, in the 6-norm.
    """
    gpu = load_gpu("a100-sxm")
    rows = kernel(64, 64, head_dim=64)
    rows.columns["batch"][:] = 1.0
    pieces = EFFICIENT.pieces(rows, gpu, {"tensor_efficiency": 1e9, "block_clk": 0.0})
    step, filling = 1.3 * 4096 / 16, 8 * 64 * 128 * 4 / gpu.l2_bytes_per_clock
    assert gpu.sfu_per_clock_sm == 16
    assert pieces.core_cycles[0] == pytest.approx((step**6 + filling**6) ** (1 / 6), rel=1e-6)
    assert pieces.active[0] == pytest.approx(8 / 108)
    # three products of TF32 for one of FP32, 128 numbers of heads deep, at the peak
    whole = EFFICIENT.pieces(rows, gpu, {"tensor_efficiency": 1.0, "block_clk": 0.0})
    hertz = gpu.clock_boost_mhz * 1e6
    clocks = 2 * 4096 * 128 / (gpu.peak_flops("tensor_tf32", gpu.clock_boost_mhz) / 3 / hertz / 108)
    assert whole.core_cycles[0] == pytest.approx(((step + clocks) ** 6 + filling**6) ** (1 / 6), rel=1e-6)


@pytest.mark.parametrize(
    ("q_len", "phase", "decodes"),
    [(1.0, "", True), (2.0, "", False), (2.0, "decode", True), (1.0, "prefill", False)],
)
def test_one_query_decodes_where_no_phase_is_stated(q_len: float, phase: str, decodes: bool) -> None:
    row = {"batch": 2.0, "q_len": q_len, "kv_len": 64.0, "heads": 4.0, "kv_heads": 4.0, "head_dim": 64.0}
    scores = attention_scores(_rows(phase=phase, dtype="bf16", **row), load_gpu("l40s"))
    assert scores.decode.tolist() == [decodes]
