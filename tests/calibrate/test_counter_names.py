"""Tables under the names of monitors and profilers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.calibrate.tables import read_measured
from tracetool.hardware.load import load_gpu
from tracetool.tables.counter_names import with_counter_names

GPU = load_gpu("a100-sxm")


def test_a_monitors_log_needs_no_durations(tmp_path: Path) -> None:
    ours = pl.DataFrame(
        {
            "kernel": ["a", "a", "b", "b"],
            "clock_mhz": [900, 1200, 900, 1200],
            "power_w": [150.0, 190.0, 120.0, 140.0],
            "act_sm": [0.9, 0.9, 0.4, 0.4],
            "act_dram": [0.2, 0.2, 0.5, 0.5],
            "act_fp32": [0.3, 0.3, 0.1, 0.1],
        }
    )
    field = {
        "clock_mhz": "SMCLK",
        "power_w": "POWER",
        "act_sm": "SMACT",
        "act_dram": "DRAMA",
        "act_fp32": "FP32A",
    }
    long = {"act_dram": "DCGM_FI_PROF_DRAM_ACTIVE", "power_w": "DCGM_FI_DEV_POWER_USAGE"}
    for names in (field, {**field, **long}):
        ours.rename(names).write_csv(tmp_path / "theirs.csv")
        read = read_measured(tmp_path / "theirs.csv", GPU)
        assert read.power is not None
        assert read.kind == "activity"
        assert read.power.power_w.tolist() == ours["power_w"].to_list()
        assert read.power.dram_bytes_per_s == pytest.approx(
            np.array([0.2, 0.2, 0.5, 0.5]) * GPU.dram_bytes_per_s
        )
        assert read.power.rates.max() > 0


def test_a_profilers_percentages_are_shares_and_its_row_of_units_is_left_out(tmp_path: Path) -> None:
    memory = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    pd = pl.DataFrame(
        {
            "Kernel Name": ["", "gemm", "copy"],
            memory: ["%", "25.0", "80.0"],
            "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": ["%", "60.0", "1.0"],
            "sm__cycles_elapsed.avg.per_second": ["hz", "1.2e9", "1.2e9"],
            "gpu__time_duration.sum": ["ns", "50000", "70000"],
            "power_w": ["", "300", "200"],
        }
    )
    pd.write_csv(tmp_path / "ncu.csv")
    read = read_measured(tmp_path / "ncu.csv", GPU)
    assert read.power is not None
    assert read.power.clock_mhz.tolist() == [1200.0, 1200.0]
    assert read.power.dram_bytes_per_s == pytest.approx(np.array([0.25, 0.8]) * GPU.dram_bytes_per_s)
    assert read.power.group.tolist() == ["gemm", "copy"]
    assert read.rejected.height == 1


def test_units_above_the_base_are_converted() -> None:
    time, clock = "gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second"
    read = with_counter_names(pl.DataFrame({time: ["us", "50"], clock: ["cycle/nsecond", "1.2"]}))
    assert read.row(1) == pytest.approx((50.0, 1200.0))
    assert with_counter_names(pl.DataFrame({time: [50000]}))["duration_us"].to_list() == [50.0]


def test_a_monitors_log_without_kernels_is_one_group(tmp_path: Path) -> None:
    pl.DataFrame({"SMACT": [0.9, 0.5], "POWER": [250.0, 200.0]}).write_csv(tmp_path / "log.csv")
    read = read_measured(tmp_path / "log.csv", GPU)
    assert read.power is not None
    assert set(read.power.group) == {"(all samples)"}


def test_our_own_column_wins_and_other_tables_stay() -> None:
    both = pl.DataFrame({"act_dram": [0.5], "DRAMA": [0.1], "power_w": [1.0]})
    assert with_counter_names(both).to_dicts() == [{"act_dram": 0.5, "power_w": 1.0}]
    assert with_counter_names(both[["act_dram"]]).columns == ["act_dram"]
