"""Kernels among others: what a run adds, by kind of kernel."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.arrays import Floats
from tracetool.hardware.load import load_gpu
from tracetool.model.residency import WEIGHT_WAY, streamed_bytes
from tracetool.model.sequence import SequenceFactors, in_sequence
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import read_table

A100 = load_gpu("a100-pcie-40gb")
CLOCKS = np.array([510.0, 900.0, 1410.0])
ROWS = pl.DataFrame(
    {
        "op": ["gemm", "gemm", "gemm", "elementwise", "softmax"],
        "dtype": ["bf16"] * 5,
        "batch": [1, 1, 96, None, None],
        "m": [8192, 8, 512, None, None],
        "n": [8192, 8192, 512, None, None],
        "k": [8192, 8192, 64, None, None],
        "elements": [None, None, None, 1 << 26, None],
        "reads": [None, None, None, 2, None],
        "writes": [None, None, None, 1, None],
        "rows": [None, None, None, None, 1 << 17],
        "cols": [None, None, None, None, 512],
    }
)


def _ratio(factors: SequenceFactors) -> Floats:
    rows = read_table(ROWS).rows
    alone = time_rows(rows, A100, CLOCKS)
    grid = np.broadcast_to(CLOCKS, alone.duration_s.shape)
    return np.asarray(in_sequence(alone, rows, A100, grid, factors).duration_s / alone.duration_s)


def test_a_full_product_takes_its_share_longer_and_a_thin_one_hardly() -> None:
    ratio = _ratio(SequenceFactors(0.3, 1.0, 1.0, 0.0, log_sd=0.0))
    assert 1.15 < ratio[0, 2] < 1.31
    assert 1.0 < ratio[1, 2] < 1.1
    assert ratio[2:] == pytest.approx(1.0)


def test_batched_products_go_as_streams_do() -> None:
    ratio = _ratio(SequenceFactors(0.0, 1.4, 0.5, 0.0, log_sd=0.0))
    assert ratio[:2] == pytest.approx(1.0)
    assert ratio[2:4, 2] == pytest.approx(1.4, rel=0.05)
    assert ratio[4, 2] == pytest.approx(0.5, rel=0.05)


def test_a_slow_core_cannot_keep_memory_busy() -> None:
    ratio = _ratio(SequenceFactors(0.3, 1.0, 1.0, 1.0, log_sd=0.0))
    assert (np.diff(ratio[2:], axis=1) < 0).all()
    assert ratio[2:, 2] == pytest.approx(1.0)


def test_a_softmax_that_finds_its_tensors_on_the_chip_moves_less() -> None:
    rows = read_table(ROWS).rows
    alone = time_rows(rows, A100, CLOCKS)
    grid = np.broadcast_to(CLOCKS, alone.duration_s.shape)
    among = in_sequence(alone, rows, A100, grid, SequenceFactors(0.3, 1.4, 0.4, 1.0, log_sd=0.0))
    assert among.work.dram_bytes / alone.work.dram_bytes == pytest.approx([1.0, 1.0, 1.0, 1.0, 0.4])
    assert among.work.fp32_flops.tolist() == alone.work.fp32_flops.tolist()
    assert all((busy <= among.duration_s).all() for busy in among.busy_s.values())


def test_weights_take_a_shorter_way_than_activations() -> None:
    rows = read_table(ROWS).rows
    work = time_rows(rows, A100, CLOCKS).work
    share = streamed_bytes(rows, work) / work.dram_bytes
    # The thinner a product, the more of its bytes are weights; batched products and streams have none.
    assert WEIGHT_WAY <= share[1] < WEIGHT_WAY + 0.02
    assert WEIGHT_WAY < share[0] < 1.0
    assert share[2:] == pytest.approx(1.0)


def test_both_parts_of_a_time_grow_alike_among_others() -> None:
    rows = read_table(ROWS).rows
    alone = time_rows(rows, A100, CLOCKS)
    grid = np.broadcast_to(CLOCKS, alone.duration_s.shape)
    among = in_sequence(alone, rows, A100, grid, SequenceFactors(0.3, 1.0, 1.0, 0.0, log_sd=0.0))
    moving = alone.duration_s - alone.fixed_s[:, None]
    more = (among.duration_s - alone.fixed_s[:, None]) / moving
    assert more.max() > 1.1
    assert among.core_s == pytest.approx(alone.core_s * more)
    assert among.memory_s == pytest.approx(alone.memory_s * more)
