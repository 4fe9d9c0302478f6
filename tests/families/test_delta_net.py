"""Gated delta nets by kernel: counts by hand, one token a sequence, chains of chunks, whole layers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import implementations
from tracetool.families.loops import GRAPH_US, LOOP_START_US, SCAN_LOOP
from tracetool.families.pieces import Pieces, duration_s
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.registry import count_work
from tracetool.families.ssm.conv1d import tokens_of
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.eligible_implementations import members
from tracetool.model.predict import predict_rows
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict import predict_table

GPU = load_gpu("h100-sxm")
LAYER = {
    "op": "gdn", "phase": "context", "batch": 4, "seq_len": 4096, "num_k_heads": 16, "head_k_dim": 128,
    "num_v_heads": 32, "head_v_dim": 128, "d_conv": 4,
}  # fmt: skip
RULE, CONVOLUTION = "chunk_gated_delta_rule", "causal_conv1d_fn"
UPDATE = {"phase": "generation", "seq_len": 1, "implementation": "fused_recurrent_gated_delta_rule"}


def _rows(**changes: object) -> OperatorColumns:
    return read_table(pl.DataFrame([{**LAYER, **changes}]), of_means=True).rows


def _pieces(changes: dict[str, object], **given: float) -> Pieces:
    rows = _rows(**changes)
    ((law, _),) = split_by_law("ssm", rows, GPU)
    return law.pieces(rows, GPU, given)


def _seconds(changes: dict[str, object], **given: float) -> float:
    return float(duration_s(_pieces(changes, **given), np.array([[1.755e9]]))[0, 0])


def test_products_of_chunks_are_those_of_the_papers_algorithm() -> None:
    tokens, c, k, v = 4 * 4096, 64, 128, 128
    scores = 2 * (2 * c * k)  # keys by keys, queries by keys
    inverse = 2 * c * c / 3 + 2 * c * (k + v)
    states = 3 * 2 * k * v
    outputs = 2 * c * v
    work = count_work(_rows(implementation=RULE), GPU)
    assert work.tensor_flops[0] == pytest.approx(32 * tokens * (scores + inverse + states + outputs))


def test_one_token_a_sequence_reads_and_writes_its_states_in_fp32() -> None:
    states = 2 * 4 * 32 * 128 * 128 * 4
    activations = 4 * (2 * 16 * 128 + 2 * 32 * 128) * 2
    work = count_work(_rows(**UPDATE), GPU)
    assert work.tensor_flops[0] == 0
    assert states + activations <= work.dram_bytes[0] <= 1.01 * (states + activations)


@pytest.mark.parametrize("value_heads", [32, 96])
def test_an_update_takes_a_block_for_256_channels_of_each_sequence(value_heads: int) -> None:
    """Queries and keys of 16 heads of 128, values of 32 or 96: 32 or 64 blocks for each of 64 sequences."""
    update = {**UPDATE, "implementation": "causal_conv1d_update", "batch": 64, "num_v_heads": value_heads}
    pieces = _pieces(update, block_clk=300.0, keys_alone=0.0)
    blocks = 64 * (2 * 16 * 128 + value_heads * 128) / 256
    assert pieces.core_cycles[0] == pytest.approx(blocks / GPU.sm_count * 300.0)


def test_the_convolution_passes_queries_keys_and_values_twice() -> None:
    work = count_work(_rows(implementation=CONVOLUTION), GPU)
    assert work.dram_bytes[0] == 2 * 2 * 4 * 4096 * (2 * 16 * 128 + 32 * 128)
    assert work.fp32_flops[0] == 2 * 4 * 4 * 4096 * (2 * 16 * 128 + 32 * 128)


def test_a_layer_without_a_kernel_is_the_sum_of_its_kernels() -> None:
    whole, rule, convolution = (
        count_work(_rows(implementation=name), GPU) for name in (None, RULE, CONVOLUTION)
    )
    assert whole.dram_bytes[0] == rule.dram_bytes[0] + convolution.dram_bytes[0]
    times = [_seconds({"implementation": name}) for name in (None, RULE, CONVOLUTION)]
    assert times[0] >= max(times[1:])
    assert times[0] == pytest.approx(times[1] + times[2], rel=0.25)


@pytest.mark.parametrize(
    ("changes", "law"),
    [
        ({}, "gdn"),
        ({"implementation": RULE}, "gdn_chunk"),
        ({"implementation": CONVOLUTION}, "conv1d"),
        (UPDATE, "gdn_update"),
        ({**UPDATE, "implementation": "causal_conv1d_update"}, "conv1d_update"),
    ],
)
def test_the_kernel_a_row_names_has_a_law_of_its_own(changes: dict[str, object], law: str) -> None:
    ((found, _),) = split_by_law("ssm", _rows(**changes), GPU)
    assert found.name == law


def test_a_convolution_of_either_layer_has_one_law() -> None:
    mamba = {"op": "mamba2", "batch": 4, "seq_len": 4096, "nheads": 64, "head_dim": 64, "d_state": 128}
    rows = read_table(pl.DataFrame([{**mamba, "implementation": CONVOLUTION}])).rows
    ((found, _),) = split_by_law("ssm", rows, GPU)
    assert found.name == "conv1d"
    work = found.pieces(rows, GPU, {}).work
    assert work.l2_bytes[0] == 2 * 2 * 4 * 4096 * (64 * 64 + 2 * 128)
    assert work.dram_bytes[0] == pytest.approx(work.l2_bytes[0], rel=1e-3)


@pytest.mark.parametrize(("share", "missed"), [(0.5, 0.0), (0.7, 0.1), (1.1, 1.0), (4.0, 1.0)])
def test_states_rewritten_in_place_stay_in_l2_or_leave_it_together(share: float, missed: float) -> None:
    """What stays is neither waited for nor paid for as memory: on an L40S its power would halve the clock."""
    l40s = load_gpu("l40s")
    sequences = share * l40s.l2_bytes / (32 * 128 * 128 * 4)
    row = read_table(
        pl.DataFrame([{**LAYER, **UPDATE, "batch": sequences, "num_tokens": sequences}]), of_means=True
    ).rows
    law = laws()["gdn_update"]
    pieces = law.pieces(row, l40s, {})
    assert pieces.work.dram_bytes[0] / pieces.work.l2_bytes[0] == pytest.approx(missed, abs=0.06)
    peak = l40s.dram_bytes_per_s * law.priors["dram_efficiency"].value
    assert pieces.memory_s[0] * peak == pytest.approx(pieces.work.dram_bytes[0])


def test_products_of_a_chunk_keep_the_pace_of_their_program_not_of_the_chip() -> None:
    """A B200 multiplies twice as much a clock as an H100, and a chunk waits as many clocks."""
    law, row = laws()["gdn_chunk"], _rows(implementation=RULE, batch=64, seq_len=16384)
    h100, b200 = load_gpu("h100-sxm"), load_gpu("b200-sxm")

    def clocks(gpu: Gpu, rate: float) -> float:
        short_chains = {"product_rate": rate, "block_clk": 50.0, "chunk_clk": 50.0, "chain_norm": 8.0}
        return float(law.pieces(row, gpu, short_chains).core_cycles[0] * gpu.sm_count)

    assert clocks(h100, 600.0) == pytest.approx(clocks(b200, 600.0))
    assert clocks(h100, 1e9) == pytest.approx(2.0 * clocks(b200, 1e9), rel=0.05)


def test_a_scan_launches_at_the_pace_of_the_gpus_clock() -> None:
    """An L40S boosts to 2520 MHz, an H100 to 1980."""
    row = _rows(implementation=CONVOLUTION)
    fixed = [laws()["conv1d"].pieces(row, load_gpu(name), {}).fixed_s[0] for name in ("h100-sxm", "l40s")]
    assert fixed[0] / fixed[1] == pytest.approx(2520.0 / 1980.0)


@pytest.mark.parametrize("implementation", [RULE, CONVOLUTION, None])
@pytest.mark.parametrize("column", ["batch", "seq_len", "num_v_heads"])
def test_time_never_falls_as_a_layer_grows(implementation: str | None, column: str) -> None:
    times = [_seconds({"implementation": implementation, column: 2**i}) for i in range(1, 13)]
    assert all(b >= a * 0.999 for a, b in pairwise(times))


def test_chunks_of_a_sequence_follow_one_another_and_sequences_do_not() -> None:
    one = {"implementation": RULE, "num_k_heads": 1, "num_v_heads": 2, "batch": 1, "seq_len": 65536}
    long, wide = _seconds(one), _seconds({**one, "batch": 16, "seq_len": 4096})
    assert long > 4 * wide


def test_a_table_of_kernels_is_predicted_above_what_memory_allows() -> None:
    rows = [{**LAYER, "implementation": RULE}, {**LAYER, "implementation": CONVOLUTION}, {**LAYER, **UPDATE}]
    frame = predict_table(pl.DataFrame(rows), "h100-sxm", [1755]).frame
    moved = 4 * 4096 * (2 * 16 * 128 + 32 * 128) * 4
    assert frame["duration_us"][1] > 1e6 * moved / GPU.dram_bytes_per_s
    assert (frame["duration_low_us"] < frame["duration_us"]).all()


def test_no_law_of_a_scan_has_more_than_fourteen_coefficients() -> None:
    for name in ("conv1d", "conv1d_update", "gdn_chunk", "gdn_update", "gdn", "mamba2"):
        assert len(laws()[name].priors) <= 14


def test_tokens_are_those_stated_or_sequences_times_their_length() -> None:
    columns = {"batch": np.array([4.0, np.nan, 3.0]), "seq_len": np.array([np.nan, 7.0, 5.0]),
               "num_tokens": np.array([np.nan, np.nan, 11.0])}  # fmt: skip
    assert tokens_of(OperatorColumns(np.full(3, "ssm", dtype=object), columns)).tolist() == [4.0, 7.0, 11.0]


def test_chunks_pass_over_activations_four_times_and_over_their_states_twice() -> None:
    """64 chunks of 64 tokens for each of 4 sequences, 32 states of 128 by 128, in 16 bits; gates in FP32."""
    activations = 4 * 4096 * (2 * 16 * 128 + 2 * 32 * 128) * 2
    states = 4 * 64 * 32 * 128 * 128 * 2
    gates = 4 * 4096 * 32 * 4
    work = count_work(_rows(implementation=RULE), GPU)
    assert work.dram_bytes[0] == 4 * activations + 2 * states + 2 * gates


@pytest.mark.parametrize(("length", "odd"), [(1024, 1.0), (1025, 2.5), (1031, 2.5), (1032, 1.0)])
def test_a_sequence_no_multiple_of_eight_tokens_takes_slower_blocks(length: int, odd: float) -> None:
    """A block for each 1024 tokens of one of 8192 channels, here 2.5 times as long where loads are single."""
    changes = {"implementation": CONVOLUTION, "seq_len": length}
    pieces = _pieces(changes, block_tokens=1024.0, block_clk=10_000.0, odd_block=2.5)
    blocks = 4 * (2 * 16 * 128 + 32 * 128) * (1 if length == 1024 else 2)
    assert pieces.core_cycles[0] == pytest.approx(odd * blocks / GPU.sm_count * 10_000.0)


def test_a_kernel_one_loop_ran_on_its_gpu_alone_is_not_taken_for_others() -> None:
    """SGLang's loop on the A100 convolves keys in CUDA; elsewhere, on GPUs nearest to it too, in Triton."""
    for name, kernel in (("a100-sxm", (1024.0, 1.0)), ("a10", (8.0, 0.0)), ("l40s", (8.0, 0.0))):
        (ran,) = members(laws()["conv1d"], load_gpu(name), "sglang 0.5.14", CONVOLUTION)
        chosen = {key: prior.value for key, prior in laws()["conv1d"].priors.items()} | dict(ran.coefficients)
        assert (chosen["block_tokens"], chosen["keys_alone"]) == kernel


def test_launches_of_a_loop_over_graphs_stay_with_the_gpu_it_ran_on() -> None:
    """Halfway from the A100's launch, less the graph it alone was launched in, to that of other GPUs."""
    update = laws()["conv1d_update"]
    (graphs,), (there,) = (
        members(update, load_gpu(name), "sglang 0.5.14", "causal_conv1d_update")
        for name in ("a100-sxm", "a10")
    )
    (one,) = (one for one in implementations("conv1d_update") if one.stack == "sglang")
    others = one.laws["conv1d_update"].values["launch_us"]
    alone = graphs.coefficients["launch_us"] - GRAPH_US - LOOP_START_US / SCAN_LOOP
    assert others < there.coefficients["launch_us"] < graphs.coefficients["launch_us"]
    assert there.coefficients["launch_us"] == pytest.approx((alone * others) ** 0.5)


@pytest.mark.parametrize("gpu_name", ["rtx-4090", "l40s", "h100-sxm", "b200-sxm"])
def test_a_layers_bytes_of_memory_are_those_its_time_is_of(gpu_name: str) -> None:
    """States that L2 holds from one loop to the next take no memory's time, and no memory's energy."""
    gpu = load_gpu(gpu_name)
    layer = {"op": "gdn", "num_k_heads": 16, "head_k_dim": 128, "num_v_heads": 32, "head_v_dim": 128}
    decode = [{**layer, "phase": "decode", "batch": batch, "seq_len": 1} for batch in (4, 16, 64, 512)]
    prefill = [{**layer, "phase": "prefill", "batch": 4, "seq_len": length} for length in (64, 2048)]
    rows = read_table(pl.DataFrame(decode + prefill)).rows
    timing = predict_rows(rows, gpu, np.array([gpu.clock_boost_mhz])).timing
    assert (timing.work.dram_bytes <= timing.duration_s[:, 0] * gpu.dram_bytes_per_s).all()
