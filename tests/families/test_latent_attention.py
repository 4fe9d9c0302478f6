"""Latent attention: counts of the papers, tiles of heads, and what a library does with few queries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.pieces import Pieces, duration_s
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.registry import count_work
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict import predict_table

GPU = load_gpu("h100-sxm")
#: DeepSeek-V2's sizes, arXiv:2405.04434, section 3.1.2.
ROW = {
    "op": "mla", "dtype": "bf16", "batch": 2, "heads": 128, "kv_lora_rank": 512, "rope_dim": 64,
    "nope_dim": 128, "v_dim": 128,
}  # fmt: skip
PREFILL = {**ROW, "phase": "prefill", "q_len": 1024, "kv_len": 1024}
DECODE = {**ROW, "phase": "decode", "q_len": 1, "kv_len": 4096}


def _rows(row: dict[str, object], **changes: object) -> OperatorColumns:
    return read_table(pl.DataFrame([{**row, **changes}])).rows


def _pieces(row: dict[str, object], changes: dict[str, object], **given: float) -> Pieces:
    rows = _rows(row, **changes)
    ((law, _),) = split_by_law("attention", rows, GPU)
    return law.pieces(rows, GPU, given)


def _seconds(row: dict[str, object], changes: dict[str, object], **given: float) -> float:
    return float(duration_s(_pieces(row, changes, **given), np.array([[1.755e9]]))[0, 0])


def test_prefill_multiplies_expanded_heads() -> None:
    pairs = 1024 * 1025 / 2
    assert count_work(_rows(PREFILL), GPU).useful_flops[0] == 2 * 2 * 128 * pairs * (192 + 128)


def test_decode_multiplies_latents_of_576_and_512_numbers() -> None:
    work = count_work(_rows(DECODE), GPU)
    assert work.useful_flops[0] == 2 * 2 * 128 * 4096 * (576 + 512)


@pytest.mark.parametrize(("kv_dtype", "size"), [("bf16", 2), ("fp8", 1)])
def test_decode_reads_the_cache_once_whatever_the_number_of_heads(kv_dtype: str, size: int) -> None:
    cache = 2 * 4096 * 576 * size
    for heads in (1, 16, 128):
        passing = 2 * heads * (576 + 512) * 2
        work = count_work(_rows(DECODE, heads=heads, kv_dtype=kv_dtype), GPU)
        assert work.dram_bytes[0] == cache + passing


def test_prefill_moves_at_least_its_tensors() -> None:
    tensors = 2 * 1024 * 128 * (192 + 192 + 128 + 128) * 2
    assert count_work(_rows(PREFILL), GPU).dram_bytes[0] >= tensors


def test_sizes_left_out_are_those_of_the_paper() -> None:
    short = {k: v for k, v in PREFILL.items() if k not in ("rope_dim", "nope_dim", "v_dim", "kv_len")}
    assert count_work(_rows(short), GPU).useful_flops == count_work(_rows(PREFILL), GPU).useful_flops


def test_each_phase_has_its_law_and_other_attention_keeps_its_own() -> None:
    plain = {"op": "attention", "dtype": "bf16", "batch": 2, "heads": 8, "head_dim": 128, "q_len": 64}
    rows = read_table(
        pl.DataFrame([PREFILL, DECODE, plain], schema_overrides={"kv_lora_rank": pl.Int64})
    ).rows
    found = {law.name: places.tolist() for law, places in split_by_law("attention", rows, GPU)}
    assert found == {"mla_prefill": [0], "mla_decode": [1], "prefill": [2]}


def test_a_library_that_never_expands_multiplies_more_and_moves_less_for_few_queries() -> None:
    few = {"q_len": 16, "kv_len": 8192}
    expanded, absorbed = (_pieces(PREFILL, few, absorbed_queries=q) for q in (0.0, 1e9))
    assert absorbed.work.useful_flops[0] == pytest.approx(expanded.work.useful_flops[0] * (576 + 512) / 320)
    assert absorbed.work.dram_bytes[0] < expanded.work.dram_bytes[0]


@pytest.mark.parametrize("column", ["batch", "kv_len", "heads"])
def test_decode_takes_no_less_time_for_more(column: str) -> None:
    sizes = [2**i for i in range(17 if column == "kv_len" else 9)]
    times = [_seconds(DECODE, {column: size}, combine_clk=50.0) for size in sizes]
    assert all(b >= a * 0.97 for a, b in pairwise(times))
    assert times[-1] > times[0]


@pytest.mark.parametrize("column", ["batch", "q_len", "heads"])
def test_prefill_takes_no_less_time_for_more(column: str) -> None:
    base = {**PREFILL, "kv_len": None} if column == "q_len" else PREFILL
    times = [_seconds(base, {column: 2**i}) for i in range(4, 13 if column == "q_len" else 9)]
    assert all(b >= a * 0.98 for a, b in pairwise(times))


def test_without_parts_one_long_sequence_keeps_one_block_busy() -> None:
    long = {"batch": 1, "kv_len": 131072}
    whole, split = (_seconds(DECODE, long, most_parts=parts) for parts in (1.0, 1024.0))
    assert whole > 10 * split
    assert _pieces(DECODE, long, most_parts=1.0).active[0] <= 2 / GPU.sm_count


def test_a_table_of_both_phases_lies_above_what_memory_and_tensor_cores_allow() -> None:
    table = pl.DataFrame([PREFILL, DECODE])
    frame = predict_table(table, "h100-sxm", [1755]).frame
    peak = GPU.peak_flops("tensor_bf16", 1755)
    assert (frame["duration_us"].to_numpy() > 1e6 * frame["flops"].to_numpy() / peak).all()
    assert frame["duration_us"][1] > 1e6 * 2 * 4096 * 576 * 2 / GPU.dram_bytes_per_s


def test_decode_must_say_how_many_keys() -> None:
    with pytest.raises(BadInput, match="kv_len"):
        read_table(pl.DataFrame([{k: v for k, v in DECODE.items() if k != "kv_len"}]))


def test_no_law_of_latent_attention_has_more_than_fifteen_fitted_coefficients() -> None:
    for name in ("mla_prefill", "mla_decode"):
        assert sum(c.fitted for c in laws()[name].priors.values()) <= 15


def test_a_block_alone_on_an_sm_steps_slower_and_many_do_not() -> None:
    few = {"batch": 1, "heads": 1, "q_len": 4096, "kv_len": 4096}
    many = {"batch": 8, "q_len": 4096, "kv_len": 4096}
    slow = [_pieces(PREFILL, sizes, lone_step=1.5).core_cycles[0] for sizes in (few, many)]
    even = [_pieces(PREFILL, sizes, lone_step=1.0).core_cycles[0] for sizes in (few, many)]
    assert slow[0] > 1.2 * even[0]
    assert slow[1] == even[1]


def test_queries_that_fill_half_of_a_tile_cost_less_than_the_whole() -> None:
    half, whole = (
        _pieces(PREFILL, {"q_len": q, "kv_len": 1024}, query_tile=128.0, spare_share=0.3).core_cycles[0]
        for q in (64, 128)
    )
    assert half < 0.8 * whole


def test_an_l2_of_two_partitions_keeps_half_for_each() -> None:
    assert GPU.l2_near_bytes == GPU.l2_bytes / 2
    assert load_gpu("l40s").l2_near_bytes == load_gpu("l40s").l2_bytes


def test_an_operator_with_its_projections_takes_longer_by_their_products() -> None:
    """2048 tokens, 128 heads of 128 + 128 numbers from latents of 512, in either form."""
    products = 2 * 2048 * 128 * 512 * 256
    for few in (0.0, 1e9):
        alone, whole = (
            _pieces(PREFILL, {}, absorbed_queries=few, projected=share, projection_efficiency=0.5)
            for share in (0.0, 1.0)
        )
        clocks = products / (GPU.rate("tensor_bf16") * GPU.sm_count * 0.5)
        assert whole.serial_cycles[0] - alone.serial_cycles[0] > clocks
        assert whole.stream_s[0] > alone.stream_s[0]
        assert whole.work.useful_flops[0] == alone.work.useful_flops[0]


def test_products_that_are_rows_of_their_own_are_not_counted_again() -> None:
    for row in (PREFILL, DECODE):
        rows = _rows(row)
        apart = OperatorColumns(rows.family, {**rows.columns, "products_apart": np.ones(1)})
        ((law, _),) = split_by_law("attention", rows, GPU)
        whole, told, alone = (
            float(duration_s(law.pieces(some, GPU, {"projected": share}), np.array([[1.755e9]]))[0, 0])
            for some, share in ((rows, 1.0), (apart, 1.0), (rows, 0.0))
        )
        assert told == alone < whole


def test_keys_just_expanded_are_no_narrower_than_they_were_made() -> None:
    wide, narrow = (_seconds(PREFILL, {"kv_dtype": "fp8"}, expanded_in_8=share) for share in (0.0, 1.0))
    assert wide > narrow
    slower = [_seconds(PREFILL, {"kv_dtype": "fp8"}, expanded_in_8=0.0, kv8_rate=r) for r in (0.5, 2.0)]
    assert slower[0] == slower[1] == wide


def test_heads_that_are_not_packed_leave_most_of_a_tile_empty_for_few_queries() -> None:
    few = {"batch": 64, "q_len": 16, "kv_len": 4096}
    packed, apart = (
        _pieces(PREFILL, few, absorbed_queries=1e9, absorbed_tile=32.0, pack_heads=share).core_cycles[0]
        for share in (1.0, 0.0)
    )
    assert apart == pytest.approx(2.0 * packed, rel=0.1)
