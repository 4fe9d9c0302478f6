"""Kernels measured at several clocks: the split of their time, and what lies between the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.gpu_data import monitored, texts
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_table
from tracetool.model.anchor import Anchor
from tracetool.model.counters import counted_shares
from tracetool.model.memory_efficiency import MemoryEfficiency, memory_efficiency
from tracetool.model.predict import predict_rows

OVERLAP = prior_table("monitor.overlap")["kernel"]
CLOCKS = np.array([600.0, 800.0, 1000.0, 1200.0, 1380.0])


def test_reach_is_flat_where_the_memory_sets_the_rate_and_where_its_path_slows_no_more() -> None:
    efficiency = MemoryEfficiency(900.0, 450.0, 0.3)
    slow = efficiency.at([300.0, 500.0, 700.0, 1400.0])
    assert slow[0] == slow[1]
    assert slow[1] > slow[2] > slow[3] >= 1.0
    assert slow[3] < 1.1


def test_the_same_path_beside_faster_memory_binds_at_a_higher_clock() -> None:
    here, there = MemoryEfficiency(900.0, 450.0, 0.3), MemoryEfficiency(900.0, 450.0, 0.3).beside_memory(1.5)
    # Bytes per second through the path are the same at a low clock.
    assert there.at(500.0) / here.at(500.0) == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_times_at_two_clocks_tell_a_kernel_s_split(share: float) -> None:
    """A mix says nothing of memory; two times do."""
    gpu = load_gpu("v100-pcie")
    slower = memory_efficiency(gpu).at(CLOCKS) / memory_efficiency(gpu).at(1380.0)
    parts = (1.0 - share) * (1380.0 / CLOCKS) ** OVERLAP + share * slower**OVERLAP
    time = parts ** (1.0 / OVERLAP)
    pair = [1, 4]
    rows = OperatorColumns(
        texts("unknown", "unknown"),
        {
            "name": texts("kernel", "kernel"),
            "duration_us": 900.0 * time[pair],
            "recorded_clock_mhz": CLOCKS[pair],
            "mix_flt_add": np.array([0.5, 0.5]),
        },
    )
    made = predict_rows(rows, gpu, CLOCKS, anchor=True).timing.duration_s[0]
    assert np.abs(made / (900e-6 * time) - 1.0).max() < 0.05
    assert made[pair] == pytest.approx(900e-6 * time[pair])


def test_shares_of_a_kernel_measured_at_several_clocks_stay_shares() -> None:
    gpu = load_gpu("v100-pcie")
    rows = monitored(3, recorded_clock_mhz=[600.0, 1000.0, 1380.0], duration_us=[2000.0, 1000.0, 2500.0])
    shares = counted_shares(rows, gpu, Anchor.of(rows, gpu))
    assert (shares.core >= 0).all()
    assert (shares.memory >= 0).all()
    assert ((shares.fixed >= 0) & (shares.fixed < 1)).all()


def test_one_split_serves_all_rows_of_a_kernel_and_no_other() -> None:
    gpu = load_gpu("v100-pcie")
    pair = {"recorded_clock_mhz": [700.0, 1250.0], "duration_us": [1300.0, 900.0], "power_w": [120.0, 160.0]}
    alone = predict_rows(monitored(2, **pair), gpu, CLOCKS, anchor=True)
    assert alone.timing.duration_s[0] == pytest.approx(alone.timing.duration_s[1])
    other = {"recorded_clock_mhz": 1380.0, "duration_us": 800.0, "power_w": 170.0}
    more = {k: [*v, other[k]] for k, v in pair.items()}
    joined = predict_rows(
        monitored(3, name=texts("kernel", "kernel", "other"), **more), gpu, CLOCKS, anchor=True
    )
    assert joined.timing.duration_s[:2] == pytest.approx(alone.timing.duration_s)
    assert (joined.timing.high[:2].max(axis=1) < joined.timing.high[2].max()).all()


@pytest.mark.parametrize("family", ["elementwise", "unknown"])
def test_memory_is_no_faster_than_a_slow_core_draws_on_it(family: str) -> None:
    """Of a kernel of unknown shape only its family's split is known; its bytes still pass the core's path."""
    rows = OperatorColumns(
        texts(family),
        {"name": texts("k"), "duration_us": np.array([900.0]), "recorded_clock_mhz": np.array([1380.0])},
    )
    time = predict_rows(rows, load_gpu("v100-pcie"), CLOCKS, anchor=True).timing.duration_s[0]
    assert time[-1] == pytest.approx(900e-6)
    assert (np.diff(time) < 0).all()
    assert time[0] / time[-1] > 1.8


@pytest.mark.parametrize("family", ["copy", "unknown", "gemm"])
def test_a_kernel_measured_at_a_slow_memory_clock_is_itself_there_and_faster_at_the_usual(
    family: str,
) -> None:
    gpu = load_gpu("gtx-1080-ti")
    columns = {
        "name": texts("k"),
        "duration_us": np.array([900.0]),
        "recorded_clock_mhz": np.array([1600.0]),
        "recorded_mem_clock_mhz": np.array([4000.0]),
    }
    rows, clocks = OperatorColumns(texts(family), columns), np.array([1600.0])
    there = predict_rows(rows, gpu, clocks, anchor=True)
    usual = predict_rows(rows, gpu, clocks, anchor=True, mem_clock_mhz=5500.0)
    assert there.timing.duration_s[0, 0] == pytest.approx(900e-6)
    assert usual.timing.duration_s[0, 0] < 900e-6


@pytest.mark.parametrize("several", [False, True])
def test_an_interval_is_that_of_its_own_clock_whatever_else_is_asked(several: bool) -> None:
    gpu = load_gpu("v100-pcie")
    rows = monitored(
        2,
        recorded_clock_mhz=[1380.0, 700.0 if several else 1380.0],
        duration_us=[900.0, 1300.0],
        power_w=[160.0, 120.0],
        name=texts("kernel", "kernel" if several else "another"),
    )
    among = predict_rows(rows, gpu, CLOCKS, anchor=True)
    for place in range(len(CLOCKS)):
        alone = predict_rows(rows, gpu, CLOCKS[place : place + 1], anchor=True)
        np.testing.assert_allclose(alone.timing.high[:, 0], among.timing.high[:, place])
        np.testing.assert_allclose(alone.timing.low[:, 0], among.timing.low[:, place])
    assert (np.diff(among.timing.high[0, 2:]) < 0).all()  # nearer to the measured clock is narrower


@pytest.mark.parametrize("column", ["duration_us", "power_w"])
def test_readings_that_scatter_widen_what_rests_on_them(column: str) -> None:
    gpu = load_gpu("v100-pcie")
    first = {"name": texts("a"), "duration_us": np.array([900.0]), "recorded_clock_mhz": np.array([1380.0])}
    one = monitored(1, **{**first, "power_w": np.array([160.0])})
    alike = predict_rows(one, gpu, CLOCKS, anchor=True)
    smooth = {
        "duration_us": alike.timing.duration_s[0] * 1e6,
        "power_w": alike.power_w[0],
        "recorded_clock_mhz": CLOCKS,
        "name": texts(*["a"] * len(CLOCKS)),
    }
    rough = {**smooth, column: smooth[column] * np.array([1.0, 1.1, 0.9, 1.1, 1.0])}
    asked = np.array([700.0, 900.0, 1100.0])
    widths = []
    for columns in (smooth, rough):
        made = predict_rows(monitored(len(CLOCKS), **columns), gpu, asked, anchor=True)
        power = made.power_high_w / made.power_low_w
        widths.append(made.timing.high / made.timing.low if column == "duration_us" else power)
    assert (widths[1] > 1.15 * widths[0]).all()
