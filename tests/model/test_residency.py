"""Traffic that stays in the cache: never more than was moved, more of it the smaller a kernel is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.model.gpu_data import monitored
from tests.model.operators import every_family, rows_of
from tracetool.core.work import Work
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.predict import predict_rows
from tracetool.model.residency import missed_bytes
from tracetool.model.timing import time_rows

A100 = load_gpu("a100-pcie-40gb")


@pytest.mark.parametrize("family", sorted(every_family()))
def test_no_more_is_missed_than_is_moved(family: str) -> None:
    rows = every_family()[family]
    work = time_rows(rows, A100, np.array([900.0])).work
    missed = missed_bytes(rows, work, A100)
    assert (missed >= 0).all()
    assert (missed <= work.dram_bytes * (1 + 1e-12)).all()


def test_small_activations_stay_and_large_ones_pass() -> None:
    moved = np.array([1e5, 1e7, 1e8, 1e10])
    rows = rows_of("elementwise", elements=moved / 4.0)
    share = missed_bytes(rows, Work.of(4, dram_bytes=moved), A100) / moved
    assert (np.diff(share) > 0).all()
    assert share[0] < 0.01
    assert share[-1] > 0.99


def test_weights_come_round_once_a_pass_and_are_cold() -> None:
    rows = rows_of("gemm", m=[8.0], n=[4096.0], k=[4096.0])
    work = time_rows(rows, A100, np.array([900.0])).work
    assert missed_bytes(rows, work, A100)[0] >= 0.97 * 4096 * 4096 * 2


def test_measured_traffic_is_kept() -> None:
    rows = monitored(2)
    work = Work.of(2, dram_bytes=np.array([1e4, 1e9]))
    assert missed_bytes(rows, work, A100).tolist() == [1e4, 1e9]


@pytest.mark.parametrize("name", ["a100-pcie-40gb", "h100-sxm", "l4", "mi300x"])
def test_no_interval_of_power_passes_the_board_limit(name: str) -> None:
    gpu = load_gpu(name)
    rows = rows_of("gemm", m=[8192.0], n=[8192.0], k=[8192.0])
    made = predict_rows(rows, gpu, gpu.supported_clocks_mhz()[::7])
    assert (made.power_high_w <= prior_number("power.cap_reading") * gpu.power_limit_w + 1e-9).all()
    assert (made.power_w <= made.power_high_w).all()


def test_a_cache_nobody_knows_keeps_nothing() -> None:
    rows = every_family()["attention decode"]
    work = Work.of(len(rows), dram_bytes=np.full(len(rows), 1e6))
    unknown = replace(A100, l2_bytes=np.nan)
    assert missed_bytes(rows, work, unknown).tolist() == work.dram_bytes.tolist()
    nothing = Work.of(len(rows), dram_bytes=np.zeros(len(rows)))
    assert missed_bytes(rows, nothing, unknown).tolist() == [0.0] * len(rows)


def test_a_decoding_kernel_finds_nothing_of_its_cache_and_a_prefill_some() -> None:
    rows = rows_of("attention", batch=1, q_len=[1.0, 2.0], kv_len=512, heads=8, kv_heads=8, head_dim=128)
    moved = np.full(2, 2e6)
    missed = missed_bytes(rows, Work.of(2, dram_bytes=moved), A100)
    assert missed[0] == moved[0]
    assert missed[1] < 0.5 * moved[1]
