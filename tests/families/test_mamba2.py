"""Mamba-2 layers: counts of the chunked scan, one token a sequence, and the convolution alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import split_by_law
from tracetool.families.registry import count_work
from tracetool.hardware.load import load_gpu
from tracetool.kernels.classify import classify_names
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict import predict_table

LAYER = {
    "op": "mamba2", "phase": "prefill", "batch": 4, "seq_len": 4096, "d_state": 128, "nheads": 64,
    "head_dim": 64, "n_groups": 8, "chunk_size": 256, "d_conv": 4,
}  # fmt: skip
GPU = load_gpu("h100-sxm")


def _rows(**changes: object) -> OperatorColumns:
    return read_table(pl.DataFrame([{**LAYER, **changes}])).rows


def test_tensor_operations_are_those_of_the_block_decomposition() -> None:
    tokens, q, n, p, h, g = 4 * 4096, 256, 128, 64, 64, 8
    scores = tokens // q * g * 2 * q * q * n
    within = tokens // q * h * 2 * q * q * p / 2  # keys behind a query are masked
    states, outputs = (tokens // q * h * 2 * q * n * p for _ in range(2))
    assert count_work(_rows(), GPU).tensor_flops[0] == scores + within + states + outputs


def test_work_grows_linearly_in_the_sequence_and_not_at_all_in_its_parts() -> None:
    one = count_work(_rows(), GPU)
    assert count_work(_rows(seq_len=8192), GPU).tensor_flops[0] == 2 * one.tensor_flops[0]
    assert count_work(_rows(batch=8, seq_len=2048), GPU).dram_bytes[0] == one.dram_bytes[0]


def test_smaller_chunks_multiply_less_and_move_more_states() -> None:
    small, large = (count_work(_rows(chunk_size=q), GPU) for q in (64, 256))
    assert small.tensor_flops[0] < large.tensor_flops[0]
    assert small.dram_bytes[0] > large.dram_bytes[0]


def test_a_token_alone_reads_and_writes_its_state() -> None:
    work = count_work(_rows(phase="decode", seq_len=1, batch=32), GPU)
    assert work.tensor_flops[0] == 0
    assert work.dram_bytes[0] > 2 * 2 * 32 * 64 * 64 * 128
    assert work.dram_bytes[0] < 1.2 * 2 * 2 * 32 * 64 * 64 * 128


def test_states_pass_in_the_format_they_are_kept_in() -> None:
    """Twice the bytes in fp32, of decoded tokens; scans in chunks pass them in fp32 whatever is kept."""
    token = {"phase": "decode", "seq_len": 1, "batch": 32}
    states = 32 * 64 * 64 * 128
    wide, narrow = (count_work(_rows(**token, state_dtype=d), GPU).dram_bytes[0] for d in ("fp32", "bf16"))
    assert wide - narrow == 2 * 2 * states
    assert narrow == count_work(_rows(**token), GPU).dram_bytes[0]
    assert count_work(_rows(state_dtype="fp32"), GPU).dram_bytes[0] == count_work(_rows(), GPU).dram_bytes[0]


def test_the_convolution_alone_passes_its_channels_twice() -> None:
    work = count_work(_rows(implementation="causal_conv1d_fn"), GPU)
    assert work.dram_bytes[0] == 2 * 2 * 4 * 4096 * (64 * 64 + 2 * 8 * 128)
    assert work.tensor_flops[0] == 0


def test_a_layer_has_a_law_of_its_own_and_other_scans_stream() -> None:
    ((law, _),) = split_by_law("ssm", _rows(), GPU)
    assert law.name == "mamba2"
    scan = {"elements": np.array([1e6]), "state": np.array([16.0])}
    ((law, _),) = split_by_law("ssm", replace(_rows(), columns=scan), GPU)
    assert law.name == "stream"


def test_a_table_of_layers_is_predicted_within_what_memory_and_launches_allow() -> None:
    rows = [
        LAYER,
        {**LAYER, "implementation": "causal_conv1d_fn"},
        {**LAYER, "phase": "decode", "seq_len": 1},
    ]
    frame = predict_table(pl.DataFrame(rows), "h100-sxm", [1755]).frame
    layer, convolution, update = frame["duration_us"].to_list()
    assert update < convolution < layer
    moved = frame["dram_bytes"][0]
    assert 1e6 * moved / GPU.dram_bytes_per_s < layer
    assert (frame["duration_low_us"] < frame["duration_us"]).all()


def test_a_phase_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="phase"):
        _rows(phase="training")


@pytest.mark.parametrize(
    "name",
    [
        "_chunk_scan_fwd_kernel", "_chunk_state_fwd_kernel", "_bmm_chunk_fwd_kernel",
        "_state_passing_fwd_kernel", "_chunk_cumsum_fwd_kernel", "_selective_scan_update_kernel",
        "_causal_conv1d_update_kernel",
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, true> >(SSMParamsBase)",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, c10::BFloat16> >(P)",
    ],
)  # fmt: skip
def test_its_kernels_are_recognized(name: str) -> None:
    assert classify_names([name])["family"].to_list() == ["ssm"]
