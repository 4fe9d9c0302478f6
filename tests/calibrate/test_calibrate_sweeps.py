"""Sweeps: one state of the GPU, two clock domains, an error on clocks unseen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.calibrate.calibrate import calibrate
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.model.idle import idle_power_w
from tracetool.model.power_files import power_calibration_of
from tracetool.replay.assumptions import Assumptions

GPU = load_gpu("v100-sxm2-16gb")
#: The voltage that rows of the GPU are taken to be measured at.
VOLTAGE = power_calibration_of(GPU).voltage or GPU.voltage
CLOCKS = np.arange(300.0, 1500.0, 30.0)


def _table(memories: tuple[float, ...] = (877.0,), asleep_below: float = 0.0) -> pl.DataFrame:
    """Two kernels over clocks: 40 W of base, 20 W of it memory's, work that follows V^2 / t."""
    rows = []
    rng = np.random.default_rng(1)
    for kernel, work in (("heavy", 120.0), ("light", 30.0)):
        for memory in memories:
            volt = VOLTAGE.at(CLOCKS)
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


def test_a_sweep_of_a_gpu_with_a_delivered_calibration_starts_from_it(tmp_path: Path) -> None:
    gpu = load_gpu("gtx-1080-ti")
    delivered = power_calibration_of(gpu)
    assert delivered.voltage is not None
    clock = np.linspace(1000.0, 1900.0, 5)
    work = 80.0 * delivered.voltage.at(clock) ** 2 * clock / clock[-1]
    rows = pl.DataFrame(
        {
            "kernel": ["k"] * 5,
            "clock_mhz": clock,
            "duration_us": 1e7 / clock,
            "power_w": idle_power_w(gpu, clock, delivered) + work,
        }
    )
    rows.write_csv(tmp_path / "five.csv")
    (tmp_path / "five.toml").write_text(calibrate([tmp_path / "five.csv"], gpu.name).toml, "utf-8")
    mine = Assumptions.read([tmp_path / "five.toml"]).options(gpu)["power_calibration"]
    assert mine is not None
    assert mine.core_pj == delivered.core_pj
    assert idle_power_w(gpu, clock, mine) == pytest.approx(idle_power_w(gpu, clock, delivered), rel=0.1)
