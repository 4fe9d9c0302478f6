"""Sweeps: one state of the GPU, two clock domains, an error on clocks unseen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.calibrate.calibrate import calibrate
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu

GPU = load_gpu("v100-sxm2-16gb")
CLOCKS = np.arange(300.0, 1500.0, 30.0)


def _table(memories: tuple[float, ...] = (877.0,), asleep_below: float = 0.0) -> pl.DataFrame:
    """Two kernels over clocks: 40 W of base, 20 W of it memory's, work that follows V^2 / t."""
    rows = []
    rng = np.random.default_rng(1)
    for kernel, work in (("heavy", 120.0), ("light", 30.0)):
        for memory in memories:
            volt = GPU.voltage.at(CLOCKS)
            power = 20.0 + 20.0 * memory / 877.0 + work * (volt / volt[-1]) ** 2 * CLOCKS / CLOCKS[-1]
            power = power * (1.0 + 0.005 * rng.standard_normal(len(CLOCKS)))
            power = np.where(asleep_below > CLOCKS, 0.6 * power, power)
            rows.append(
                pl.DataFrame(
                    {
                        "kernel": [kernel] * len(CLOCKS),
                        "clock_mhz": CLOCKS,
                        "mem_clock_mhz": [memory] * len(CLOCKS),
                        "time_s": 0.01 * CLOCKS[-1] / CLOCKS,
                        "power_w": power,
                    }
                )
            )
    return pl.concat(rows)


def test_clocks_of_another_state_are_listed_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    _table(asleep_below=480.0).write_parquet(path)
    made = calibrate([path], GPU.name)
    assert made.rejected["clock_mhz"].max() == 450.0
    assert made.rejected.height == 2 * int((CLOCKS < 480.0).sum())
    assert made.rejected["reason"].str.contains("another state").all()
    assert made.errors["fit_percent"][0] < 1.0


def test_a_sweep_of_one_state_is_kept_whole_and_judged_on_clocks_unseen(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    _table().write_parquet(path)
    made = calibrate([path], GPU.name)
    assert made.rejected.height == 0
    error = made.errors.row(0, named=True)
    assert error["held_out_percent"] < 1.0 < error["constant power"]


def test_two_memory_clocks_tell_the_memory_from_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    _table(memories=(400.0, 877.0)).write_parquet(path)
    made = calibrate([path], GPU.name)
    base = dict(zip(made.coefficients["coefficient"], made.coefficients["value"], strict=True))
    assert base["memory_w"] == pytest.approx(20.0, rel=0.15)
    assert made.errors["fit_percent"][0] < 1.0


def test_many_rows_are_fitted_at_some_clocks_and_judged_at_all(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    few = _table()
    many = [few.with_columns(kernel=pl.col("kernel") + f" {i}") for i in range(40)]
    pl.concat(many).write_parquet(path)
    made = calibrate([path], GPU.name)
    assert made.errors["count"][0] == few.height * 40
    assert made.errors["fit_percent"][0] < 1.0


def test_scattered_readings_are_kept_and_called_no_other_state(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    rng = np.random.default_rng(2)
    wild = _table()
    wild.with_columns(power_w=pl.Series(100.0 * rng.lognormal(0.0, 1.0, wild.height))).write_parquet(path)
    assert calibrate([path], GPU.name).rejected.height == 0


def test_one_clock_alone_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sweep.parquet"
    _table().filter(pl.col("clock_mhz") == 900.0).write_parquet(path)
    for gpu in (GPU.name, "a100-sxm"):  # the voltage of the second was read
        with pytest.raises(BadInput, match="no coefficient"):
            calibrate([path], gpu)
