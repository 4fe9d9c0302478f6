"""Decode: heads that are packed or not, and what heads of no power of two take."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.decode import DECODE
from tracetool.families.attention.problem import SMALL_KERNEL_US
from tracetool.families.implementations import implementations
from tracetool.families.loops import LOOP_START_US, SGLANG_LOOP, SHORT_LOOP
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table

GPU = load_gpu("l40s")


def _rows(**columns: float | str) -> OperatorColumns:
    row: dict[str, object] = {"op": "attention", "phase": "decode", "dtype": "bf16", "batch": 64, "q_len": 1}
    row |= {"kv_len": 4096, "heads": 32, "kv_heads": 4, "head_dim": 128, **columns}
    return read_table(pl.DataFrame([row])).rows


def _step(given: dict[str, float], **columns: float | str) -> Pieces:
    return DECODE.pieces(_rows(**columns), GPU, given)


def test_heads_of_a_group_apart_read_the_keys_once_each() -> None:
    packed, apart = (_step({"pack_windowed": habit}, window=4000.0).work.l2_bytes[0] for habit in (1.0, 0.0))
    assert apart == pytest.approx(8.0 * packed, rel=0.05)


def test_without_a_window_heads_are_packed_either_way() -> None:
    packed, apart = (_step({"pack_windowed": habit}).core_cycles[0] for habit in (1.0, 0.0))
    assert packed == apart


def test_heads_of_no_power_of_two_take_more_launches() -> None:
    given = {"odd_dim_us": 8.0}
    pace = 1980.0 / GPU.clock_boost_mhz
    more = _step(given, head_dim=192.0).fixed_s - _step(given, head_dim=256.0).fixed_s
    assert more[0] == pytest.approx(8e-6 * pace)


def test_a_loop_that_does_not_write_the_cache_runs_a_kernel_less() -> None:
    def less(kv_dtype: str) -> float:
        given = {"launch_us": 9.0, "launch_kv8_us": 9.0}
        with_it, without = (_step(given, kv_dtype=kv_dtype, cache_write=flag) for flag in (True, False))
        return float(with_it.fixed_s[0] - without.fixed_s[0]) * 1e6 * GPU.clock_boost_mhz / 1980.0

    assert less("bf16") == pytest.approx(2.0)
    # of 8 bits it waits for their scales too
    assert less("fp8") == pytest.approx(2.0 + 1900.0 / 1980.0)


def test_counters_that_a_kernel_clears_take_a_launch_where_tensor_cores_run() -> None:
    given = {"vector_heads": 33.0}
    for heads, more in ((32, SMALL_KERNEL_US), (256, 0.0)):
        cleared, kept = (_step({**given, "clears": one}, heads=heads).fixed_s[0] for one in (1.0, 0.0))
        assert cleared - kept == pytest.approx(more * 1e-6 * 1980.0 / GPU.clock_boost_mhz)


def test_what_a_loop_adds_is_the_host_s_and_not_the_clock_s() -> None:
    more = _step({"loop_us": 1.5}).fixed_s - _step({}).fixed_s
    assert more[0] == pytest.approx(1.5e-6)


def test_values_in_the_memory_of_keys_are_read_from_memory_once() -> None:
    plain = {"dram_efficiency": 1.0, "repeat_hit": 0.0, "l2_hit": 0.0, "fill_us": 0.0}
    apart, shared = (_step(plain, batch=256.0, values_shared=told) for told in (False, True))
    assert shared.memory_s[0] == pytest.approx(0.5 * apart.memory_s[0])
    # what an SM draws from L2 stays
    assert shared.core_cycles[0] == apart.core_cycles[0]
    # and what is shared fits into L2 as half of it does
    hits = {**plain, "l2_hit": 0.5}
    half, whole = _step(hits, batch=8.0), _step(hits, batch=16.0, values_shared=True)
    assert whole.memory_s[0] == pytest.approx(half.memory_s[0])


def test_the_start_of_a_measuring_loop_is_shared_by_what_it_times() -> None:
    usual, long, twenty = (
        _step({"launch_us": 9.0}, **told).fixed_s[0]
        for told in ({}, {"loop_operators": 1e6}, {"loop_operators": SGLANG_LOOP})
    )
    assert usual - long == pytest.approx(1e-6 * LOOP_START_US / SHORT_LOOP, rel=1e-4)
    assert twenty - long == pytest.approx(1e-6 * LOOP_START_US / SGLANG_LOOP, rel=1e-4)
    # loops over SGLang's attention time more at once anyway, and what does not say so had the usual loop
    sglang = _step({"launch_us": 9.0}, stack="sglang 0.5.14", loop_operators=SGLANG_LOOP)
    assert sglang.fixed_s[0] == pytest.approx(usual)
    assert _step({"launch_us": 9.0}, loop_operators=float("nan")).fixed_s[0] == pytest.approx(usual)


def test_one_l2_keeps_what_fits_and_partitions_a_share() -> None:
    """A loop over 0.67 of an L40S's L2 finds it there, over 1.33 nothing; an H100 hits as habits say."""
    bytes_each = 2.0 * 4 * 4096 * 128 * 2
    plain = {"dram_efficiency": 1.0, "repeat_hit": 0.0, "l2_hit": 0.3}

    def missed(batch: float, gpu: Gpu) -> float:
        rows = _rows(batch=batch)
        read_s = DECODE.pieces(rows, gpu, plain).memory_s[0]
        return float(read_s * gpu.dram_bytes_per_s / (batch * bytes_each))

    assert missed(8, GPU) < 0.15
    assert missed(16, GPU) > 0.9
    assert missed(1, load_gpu("h100-sxm")) == pytest.approx(0.7, abs=0.01)


def test_sequences_of_a_trace_share_no_pages() -> None:
    """A loop whose sequences share pages reads part of any cache from L2; in a trace each has its own."""
    gpu = load_gpu("h100-sxm")
    loop, ran = _rows(batch=64), _rows(batch=64)
    ran = OperatorColumns(ran.family, {**ran.columns, "access_pattern": np.full(len(ran), "other", object)})
    shared, plain = ({"repeat_hit": hit, "l2_hit": 0.0, "fill_us": 0.0} for hit in (0.4, 0.0))
    memory_s = [DECODE.pieces(rows, gpu, c).memory_s[0] for rows in (loop, ran) for c in (shared, plain)]
    assert memory_s[0] == pytest.approx(0.6 * memory_s[1])
    assert memory_s[2] == pytest.approx(memory_s[3])


def test_tiles_are_multiplied_whole_whether_queries_fill_them_or_not() -> None:
    """64 rows by 256 keys of heads of 64 are as many products as 128 of 128, and twice the exponentials."""
    given = {"step_clk": 50.0, "step_dim_clk": 50.0, "block_clk": 50.0, "block_dim_clk": 1.0, "row_clk": 0.1}
    one = {"kv_len": 8, "heads": 4096, "kv_heads": 4096}

    def core(rows: float, gpu: str = "l40s", **columns: float | str) -> float:
        habits = {**given, "tile_rows": rows, "split_single": 0.0, "resident": 1.0}
        return float(DECODE.pieces(_rows(**{**one, **columns}), load_gpu(gpu), habits).core_cycles[0])

    assert core(64.0, head_dim=64) > 5.0 * core(0.0, head_dim=64)
    assert core(64.0, head_dim=64) > core(64.0, head_dim=128) > core(16.0, head_dim=128)
    waves = {name: np.ceil(64 * 4096 / load_gpu(name).sm_count) for name in ("a100-sxm", "l40s")}
    each = {name: core(64.0, name, head_dim=128) / waves[name] for name in waves}
    # 2048 clocks of products an A100 takes, 4096 an L40S, beside what else differs little
    assert each["l40s"] - each["a100-sxm"] == pytest.approx(2048.0, rel=0.25)


def test_casts_that_source_tells_come_on_top_of_the_launches_of_16_bits() -> None:
    told = _step({"launch_us": 5.0, "launch_kv8_us": 50.0, "kv8_casts": 2.0}, kv_dtype="fp8", kv_heads=1)
    wide = _step({"launch_us": 5.0, "launch_kv8_us": 50.0, "kv8_casts": 2.0}, kv_heads=1)
    pace = 1980.0 / GPU.clock_boost_mhz
    assert (told.fixed_s - wide.fixed_s)[0] == pytest.approx(2.2e-6 * pace, rel=1e-3)


def test_tritons_decode_keeps_large_groups_on_tensor_cores() -> None:
    """SGLang's Triton kernels have none for heads that share no keys alone: 33 heads are not 9 times 32."""
    row = {"op": "attention", "phase": "decode", "dtype": "bf16", "batch": 32, "q_len": 1, "kv_len": 8192}
    row |= {"kv_heads": 1, "head_dim": 128}
    rows = read_table(pl.DataFrame([{**row, "heads": heads} for heads in (32, 33, 64)])).rows
    gpu = load_gpu("b200-sxm")
    (triton,) = (one for one in implementations("decode") if one.stack == "sglang" and "triton" in one.names)
    pieces = DECODE.pieces(rows, gpu, triton.laws["decode"].on("blackwell"))
    seconds = duration_s(pieces, np.full((3, 1), 1.9e9))
    assert (seconds[1:, 0] < 2.5 * seconds[0, 0]).all()
