"""A base nobody measured gives way to a measured power; leakage follows the temperature power leads to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.anchor import Anchor


def _kernels(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame([{"kernel": f"k{i}", "duration_us": 1000.0, **row} for i, row in enumerate(rows)])


def test_a_measured_power_under_the_base_lowers_it_for_all_rows() -> None:
    heavy = {"clock_mhz": 2000.0, "power_w": 400.0, "act_sm": 0.9, "act_dram": 0.5}
    light = {"clock_mhz": 2000.0, "power_w": 40.0, "act_sm": 0.1, "act_dram": 0.02}
    alone = tt.predict(_kernels(heavy), gpu="rtx-pro-6000-bw-server", clock=1000)
    both = tt.predict(_kernels(heavy, light), gpu="rtx-pro-6000-bw-server", clock=1000)
    assert any("base power of" in note for note in both.notes)
    assert not any("base power of" in note for note in alone.notes)
    # more of the heavy kernel's power is work, which falls with the clock
    assert both.frame["power_w"][0] < alone.frame["power_w"][0]


@pytest.mark.parametrize("gpu", ["rtx-pro-6000-bw-server", "rtx-pro-6000-bw-ws"])
def test_the_base_is_under_what_whole_kernels_draw(gpu: str) -> None:
    from tracetool.hardware.load import load_gpu
    from tracetool.model.idle import idle_power_w
    from tracetool.model.power_files import power_calibration_of

    spec = load_gpu(gpu)
    assert float(idle_power_w(spec, spec.clock_min_mhz, power_calibration_of(spec))) < 67.0


def test_a_cool_measurement_is_predicted_warmer() -> None:
    row = {"clock_mhz": 1500.0, "power_w": 66.0, "family": "gemm"}
    power_w = [
        float(
            tt.predict(_kernels({**row, "temperature_c": t}), gpu="rtx-4000-ada", clock=1500).frame[
                "power_w"
            ][0]
        )
        for t in (40.0, 55.0, 70.0)
    ]
    assert power_w == sorted(power_w, reverse=True)
    assert power_w[0] > 66.0


def test_no_clock_above_the_highest_is_reached() -> None:
    row = {"clock_mhz": 2400.0, "power_w": 40.0, "act_sm": 0.9, "act_dram": 0.1}
    frame = tt.predict(_kernels(row), gpu="rtx-4050-laptop", clock=[2520, 3105]).frame
    assert frame["power_w"][0] == pytest.approx(frame["power_w"][1])
    assert frame["clock_actual_mhz"].max() == 2520.0


def test_counters_outweigh_a_name_and_utilizations_are_counters() -> None:
    shares = {"clock_mhz": 1200.0, "power_w": 200.0, "act_sm": 0.9, "act_dram": 0.2, "act_fp32": 0.5}
    names = ("memcpy", "ampere_sgemm_128x64_tn", "softmax_warp_forward")
    table = pl.DataFrame([{"kernel": name, "duration_us": 1000.0, **shares} for name in names])
    columns = ("duration_us", "power_w", "duration_high_us", "power_high_w")
    frame = tt.predict(table, gpu="a100-sxm", clock=[800, 1410]).frame
    for rows in frame.partition_by("clock_mhz"):
        assert all(rows[c].n_unique() == 1 for c in columns)
    spelled = {"act_sm": "util_sm_active", "act_dram": "util_dram", "act_fp32": "util_fp32"}
    monitored = {"act_sm": "SMACT", "act_dram": "DRAMA", "act_fp32": "FP32A"}
    for names_of in (spelled, monitored):
        other = tt.predict(table.rename(names_of), gpu="a100-sxm", clock=[800, 1410])
        assert other.frame.select(columns).equals(frame.select(columns))
        assert not any("without effect" in note for note in other.notes)


def test_half_precision_costs_less_than_single() -> None:
    row = {"clock_mhz": 1200.0, "act_sm": 0.9, "act_dram": 0.05}
    table = _kernels({**row, "act_fp32": 0.25, "act_fp16": 0.0}, {**row, "act_fp32": 0.0, "act_fp16": 0.25})
    single, half = tt.predict(table, gpu="a100-sxm", clock=1200).frame["power_w"]
    per_flop = 4.0  # an A100 does four times as many FP16 operations per clock
    assert half < per_flop * single


def test_columns_without_effect_are_named() -> None:
    kernels = _kernels({"clock_mhz": 1200.0, "shade": 1, "act_wonder": 0.5})
    assert "columns without effect: shade, act_wonder" in tt.predict(kernels, gpu="a100-sxm", clock=900).notes
    stream = pl.DataFrame([{"op": "elementwise", "dtype": "fp32", "elements": 1000, "toggle": 0.3, "m": 4}])
    assert "columns without effect: toggle, m" in tt.predict(stream, gpu="a100-sxm").notes


def test_breaches_of_physics_are_named() -> None:
    rows = (
        {"clock_mhz": 1200.0, "power_w": 900.0, "act_sm": 0.5, "act_tensor": 0.1, "grid_x": 4000},
        {"clock_mhz": 1200.0, "power_w": 100.0, "act_sm": 0.9, "act_tensor": 0.1, "grid_x": 10},
        {"clock_mhz": 1410.0, "power_w": 20.0, "act_sm": 0.9, "act_tensor": 1.0, "grid_x": 4000},
    )
    notes = " ".join(tt.predict(_kernels(*rows), gpu="a100-sxm", clock=1200).notes)
    for breach in (
        "above the highest limit",
        "more active SMs than the grid",
        "less energy than their operations",
    ):
        assert breach in notes
    assert "below the calibrated base power" in notes or "base power of" in notes


def test_an_unread_voltage_widens_the_power_beside_the_measured_clock() -> None:
    measured = {"duration_us": 100.0, "recorded_clock_mhz": 1500.0, "power_w": 90.0}
    columns = {name: np.array([value]) for name, value in measured.items()}
    anchor = Anchor.of(
        OperatorColumns(np.array(["unknown"], dtype=object), columns), load_gpu("rtx-4000-ada")
    )
    octaves = np.array([[0.0, 0.1, 0.5, 1.0]])
    read, unread = (anchor.power_sd(octaves, voltage_read=v) for v in (True, False))
    assert read[0, 0] == unread[0, 0] == 0.0
    assert (unread[0, 1:] > read[0, 1:]).all()
    # most of what is unknown comes at once: the ratio of both falls with the distance
    assert (np.diff(unread[0, 1:] / read[0, 1:]) < 0).all()


@pytest.mark.data
def test_a_gpu_nothing_is_fitted_on_is_predicted_by_another_of_its_architecture(data: Path) -> None:
    frame = pl.read_parquet(data / "dvfs/rtx4050_laptop_kernels.parquet").filter(pl.col("clock_mhz") <= 2520)
    rows = frame.group_by("kernel", "clock_mhz").agg(pl.col("real_clock", "time_s", "power_w").median())
    rows = rows.filter((pl.col("real_clock") - pl.col("clock_mhz")).abs() < 30)
    clock = pl.col("clock_mhz").cast(pl.Float64)
    rows = rows.select("kernel", clock, "power_w", duration_us=pl.col("time_s") * 1e6)
    start = rows.filter(pl.col("clock_mhz") == 1665)
    predicted = tt.predict(start, gpu="rtx-4050-laptop", clock=rows["clock_mhz"].unique().to_list()).frame
    away = rows.join(predicted, on=["kernel", "clock_mhz"], suffix="_p").filter(pl.col("clock_mhz") != 1665)
    for column in ("duration_us", "power_w"):
        assert (away[f"{column}_p"] / away[column] - 1).abs().mean() < 0.1
    assert (
        (away["power_w"] >= away["power_low_w"]) & (away["power_w"] <= away["power_high_w"])
    ).mean() > 0.75


def test_a_kernel_without_a_power_reading_is_no_other_beside_one_with() -> None:
    """A reading scales its own kernel alone: its neighbor keeps the modeled power."""
    plain = {"clock_mhz": 1410.0, "act_sm": 0.6, "act_dram": 0.3, "act_fp32": 0.4}
    alone = tt.predict(_kernels(plain), gpu="a100-sxm", clock=[900, 1410]).frame
    beside = tt.predict(
        _kernels(plain, {**plain, "power_w": 310.0, "act_sm": 0.9}), gpu="a100-sxm", clock=[900, 1410]
    ).frame.filter(pl.col("kernel") == "k0")
    for column in ("duration_us", "energy_mj", "power_w"):
        assert beside[column].to_numpy() == pytest.approx(alone[column].to_numpy(), rel=1e-9), column
