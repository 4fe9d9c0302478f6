"""Fits of a few numbers: what a loss is, what the rows told, which start a search takes."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.model.operators import every_family, rows_of
from tracetool.calibrate import few_rows, law_fit
from tracetool.calibrate.calibrate import calibrate
from tracetool.calibrate.law_fit import LawRows, fit_coefficients, fit_law
from tracetool.calibrate.power_file import _rounded
from tracetool.calibrate.power_fit import _solve, with_coefficients
from tracetool.calibrate.power_rows import COEFFICIENTS, PowerRows, rows_of_utilization
from tracetool.calibrate.tables import _idle
from tracetool.calibrate.voltage_fit import fit_voltage_readings
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import CORE_COUNTS
from tracetool.model.power_files import believed_calibration
from tracetool.model.power_priors import prior_calibration
from tracetool.model.thermal import thermal_resistance_c_per_w

GPU = load_gpu("a100-sxm")


def test_a_loss_is_that_of_the_row_and_of_the_prior() -> None:
    """90 W are believed, all of them a link's, and 100 W are read.

    One standard deviation is 6 % of the reading, 6 W, and half of the link's 90 W, 45 W; the base, of which
    nothing was expected, has 0.05 W. Squares of both parts then add up to that of 10 W over all.
    """
    place = COEFFICIENTS.index("link_pj_per_byte")
    believed = np.zeros(len(COEFFICIENTS))
    believed[place] = 90.0
    rows = PowerRows(
        np.array([100.0]), np.array([1000.0]), np.zeros((1, len(CORE_COUNTS))), np.zeros(1), np.zeros(1),
        np.array([1e12]), np.zeros(1), np.array(["k"], dtype=object),
    )  # fmt: skip
    no_voltage = VoltageCurve(0.0, 2000.0, 0.0, 0.0, 0.0, True)
    prior = replace(with_coefficients(prior_calibration(GPU), believed), basis="prior")
    values, loss, sd, told = _solve(rows, prior, no_voltage, True)
    variance = 6.0**2 + 45.0**2 + 0.05**2
    assert values[place] == pytest.approx(90.0 + 10.0 * 45.0**2 / variance)
    assert loss == pytest.approx(10.0**2 / variance)
    assert sd[place] == pytest.approx(45.0 * (1.0 - 45.0**2 / variance) ** 0.5)
    assert told[place] == pytest.approx(45.0**2 / variance)


def test_a_coefficient_is_told_by_rows_that_took_a_share_of_its_variance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left with 0.93 of its deviation it lost 13.5 % of its variance, with 0.9 of it 19; 15 are asked."""
    law = laws()["decode"]
    stays, moved = [name for name, one in law.priors.items() if one.fitted][:2]
    values = {name: one.value for name, one in law.priors.items()}
    shrunk = {stays: (0.93 * few_rows._SD, few_rows._SD), moved: (0.9 * few_rows._SD, few_rows._SD)}
    monkeypatch.setattr(few_rows, "_best", lambda *_: (values, shrunk))
    monkeypatch.setattr(few_rows, "_held_out", lambda *_: np.zeros(5))
    rows = every_family()["attention decode"].take(np.zeros(5, np.int64))
    data = LawRows(rows, np.ones(5), np.full((5, 1), 1e9), np.arange(5))
    fit = few_rows.fit_few(law, data, GPU, {}, (-0.1, 0.1), available=())
    assert fit.from_prior == {stays}


@pytest.mark.parametrize(
    ("value", "written"),
    [(123.456789, 123.46), (0.00123456789, 0.0012346), (-98765.4321, -98765.0), (0.0, 0.0)],
)
def test_a_coefficient_is_written_with_five_digits(value: float, written: float) -> None:
    assert _rounded(value) == written
    assert _rounded(float("inf")) == 0.0


def test_shares_of_pipes_are_counts_at_their_clock() -> None:
    """At 1000 MHz half of all FMA slots and a fourth of L2's bytes; an adder does half of an FMA's FLOPs."""
    columns = {
        "recorded_clock_mhz": 1000.0, "power_w": 200.0, "util_fp32_fma": 0.5, "util_fp32_add": 0.1,
        "util_l2": 0.25, "util_shared": 0.125,
    }  # fmt: skip
    numbers = {name: np.array([value]) for name, value in columns.items()}
    rows = OperatorColumns(
        np.array(["unknown"], dtype=object), {**numbers, "name": np.array(["k"], dtype=object)}
    )
    told = dict(zip(CORE_COUNTS, rows_of_utilization(rows, GPU).rates[0], strict=True))
    assert told["fp32"] == pytest.approx(0.55e9 * GPU.rate("fp32") * GPU.sm_count)
    assert told["l2"] == pytest.approx(0.25e9 * GPU.l2_bytes_per_clock)
    assert told["shared"] == pytest.approx(0.125e9 * GPU.shared_bytes_per_clock_sm * GPU.sm_count)


def test_sizes_are_chosen_once_and_every_fit_starts_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three groups of rows the first held back chooses, from the two others; all fits go on from there."""
    chosen_from: list[set[int]] = []
    started: list[dict[str, float]] = []

    def choose(_law: Any, data: LawRows, *_: Any) -> dict[str, float]:
        chosen_from.append(set(data.group.tolist()))
        return {"size": 64.0, "steps": 0.0}

    def fitted(_law: Any, _data: Any, _gpu: Any, start: dict[str, float], steps: int) -> Any:
        started.append(start)
        return {**start, "steps": start["steps"] + steps}, {}

    for name, replacement in (
        ("choose", choose), ("fit_coefficients", fitted),
        ("residuals", lambda _law, data, *_: np.zeros(len(data.group))),
    ):  # fmt: skip
        monkeypatch.setitem(fit_law.__globals__, name, replacement)
    law: Any = SimpleNamespace(priors={}, kinds=(), kind=lambda rows: np.zeros(len(rows), np.int64))
    rows = LawRows(rows_of("gemm", m=[64.0] * 6), np.ones(6), np.full((6, 1), 1e9), np.repeat([0, 1, 2], 2))
    fit = fit_law(law, rows, GPU, {})
    assert [len(groups) for groups in chosen_from] == [2]
    first = {"size": 64.0, "steps": 16.0}
    assert started == [{"size": 64.0, "steps": 0.0}, first, first, first]
    assert fit.values == {"size": 64.0, "steps": 28.0}


def test_a_straight_rise_is_found_as_one() -> None:
    """0.7 V up to 800 MHz, then 0.5 V a GHz without a bend: 1 V at 1400 MHz."""
    clock = np.arange(500.0, 1401.0, 50.0)
    found, rms = fit_voltage_readings(clock, 0.7 + 0.5 * np.maximum(clock - 800.0, 0.0) / 1e3)
    assert (found.floor_v, found.knee_mhz) == pytest.approx((0.7, 800.0), rel=0.01)
    assert found.slope_v_per_ghz == pytest.approx(0.5, abs=0.01)
    assert found.curve_v_per_ghz2 == pytest.approx(0.0, abs=0.02)
    assert rms < 1e-4


def test_readings_at_one_clock_are_a_flat_curve_through_their_mean() -> None:
    """Five about 0.75 V, two of them 50 mV away: the root mean square is 50 mV times sqrt(2 / 5)."""
    found, rms = fit_voltage_readings(np.full(5, 900.0), np.array([0.7, 0.75, 0.75, 0.75, 0.8]))
    assert found.at(900.0) == pytest.approx(0.75, abs=1e-4)
    assert rms == pytest.approx(0.05 * 0.4**0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("reads", "volts"),
    [
        ([700.0] * 6, [0.7] * 6),
        ([700.0] * 5 + [None], [0.7] * 5 + [np.nan]),
        ([0.0] + [700.0] * 5, [np.nan] + [0.7] * 5),
        ([0.0, 0.0] + [700.0] * 4, None),  # too few for a curve
    ],
)
def test_a_supply_nobody_read_is_left_out(reads: list[float | None], volts: list[float] | None) -> None:
    told = _idle("t", _idle_curve(reads)).supply_v
    assert (told is None) == (volts is None)
    if volts is not None:
        assert told == pytest.approx(np.array(volts), nan_ok=True)


@pytest.mark.parametrize("unit_mv", [1e-3, 1e3])
def test_a_supply_in_volts_or_microvolts_is_refused(unit_mv: float) -> None:
    with pytest.raises(BadInput, match="in supply_mv, which no core"):
        _idle("t", _idle_curve([700.0 * unit_mv] * 6))


def _idle_curve(supply_mv: list[float | None]) -> pl.DataFrame:
    clock = np.linspace(300.0, 1300.0, 6)
    return pl.DataFrame({"clock_mhz": clock, "idle_w": 30.0 + 0.01 * clock, "supply_mv": supply_mv})


def _programs(path: Path) -> Path:
    """Two programs at three clocks, with what a monitor saw."""
    clock = np.tile([600.0, 1000.0, 1400.0], 2)
    dram, fp32 = np.repeat([0.2, 0.6], 3), np.repeat([0.5, 0.3], 3)
    watt = 60.0 + (20.0 + 80.0 * fp32 + 60.0 * dram) * clock / 1400.0
    names = ["kernel", "duration_us", "clock_mhz", "power_w", "act_sm", "act_dram", "act_fp32"]
    columns = [np.repeat(["a", "b"], 3), 3e9 / clock, clock, watt, np.full(6, 0.95), dram, fp32]
    pl.DataFrame(dict(zip(names, columns, strict=True))).write_csv(path)
    return path


def test_heat_of_the_load_is_fitted_over_a_base_read_from_an_idle_gpu_alone(tmp_path: Path) -> None:
    """Without an idle curve leakage grows as before; with one by at most e^1.2 more or less than believed."""
    gpu = load_gpu("mi100")  # nobody fitted its power
    programs, idle = _programs(tmp_path / "programs.csv"), tmp_path / "idle.csv"
    clock = np.linspace(300.0, 1500.0, 13)
    pl.DataFrame({"clock_mhz": clock, "idle_w": 30.0 + 0.01 * clock}).write_csv(idle)

    def growth(*sources: Path) -> float:
        made = tomllib.loads(calibrate(sources, gpu.name).toml)
        return float(made["monitor"]["leakage_per_w"]["value"])

    believed = believed_calibration(gpu)
    believed = believed.monitored or believed
    assert growth(programs) == believed.leakage_per_w
    expected = believed.leakage_per_k * thermal_resistance_c_per_w(gpu)
    assert abs(np.log(growth(programs, idle) / expected)) < 1.2001


def test_a_row_is_told_by_fits_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that is the mean of its rows: 4, 3.5 and 1.5 of the others for rows of 1, 2 and 6 s."""
    law = laws()["decode"]
    monkeypatch.setattr(
        few_rows, "_best", lambda _, part, __: ({"mean": float(part.law_rows.measured_s.mean())}, {})
    )
    monkeypatch.setattr(few_rows, "errors", lambda _, part, values: values["mean"] - part.law_rows.measured_s)
    rows = every_family()["attention decode"].take(np.zeros(3, np.int64))
    data = LawRows(rows, np.array([1.0, 2.0, 6.0]), np.full((3, 1), 1e9), np.arange(3))
    assert few_rows._held_out(law, data, GPU, []).tolist() == pytest.approx([1.0 - 4.0, 2.0 - 3.5, 6.0 - 1.5])


def test_a_coefficient_deviates_as_the_mean_of_its_rows_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logarithm of one number read sixteen times: the deviation of a reading over 4."""
    reading = np.log(2.0) + np.random.default_rng(4).normal(0.0, 0.01, 16)
    law: Any = SimpleNamespace(priors={"a": SimpleNamespace(fitted=True, low=0.1, high=10.0, value=2.0)})
    data: Any = SimpleNamespace(measured_s=np.exp(reading))
    monkeypatch.setattr(law_fit, "misfits", lambda *given: np.log(given[-1]["a"]) - reading)
    values, deviation = fit_coefficients(law, data, GPU, {"a": 1.5}, 50)
    assert np.log(values["a"]) == pytest.approx(reading.mean(), abs=1e-4)
    assert deviation["a"] == pytest.approx(reading.std(ddof=1) / 4.0, rel=0.05)
