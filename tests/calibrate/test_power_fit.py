"""Fits find coefficients that are there, refuse those that are not, and state honest errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracetool.calibrate.power_file import Fitted, calibration_toml
from tracetool.calibrate.power_fit import (
    ORDER,
    coefficient_vector,
    fit_power,
    predicted_w,
    prior_sd,
    with_coefficients,
)
from tracetool.calibrate.power_rows import COEFFICIENTS, PowerRows, rows_of_idle
from tracetool.calibrate.power_sweep import SweepRows, fit_sweep, with_base
from tracetool.calibrate.power_validation import baselines, held_out
from tracetool.core.errors import BadInput
from tracetool.hardware.coefficient_files import parse_calibration
from tracetool.hardware.load import load_gpu
from tracetool.model.power_calibration import BASE, CORE_COUNTS
from tracetool.model.power_files import calibration_from_file
from tracetool.model.power_priors import prior_calibration

GPU = load_gpu("a100-pcie-40gb")
PRIOR = prior_calibration(GPU)
SEEN = ("tensor_fp16", "fp32", "l2")


def made_rows(count: int, seed: int, scale: float = 1.6, noise: float = 0.02) -> tuple[PowerRows, np.ndarray]:  # type: ignore[type-arg]
    """Rows of a GPU whose energies per count are ``scale`` times the prior's."""
    rng = np.random.default_rng(seed)
    rates = np.zeros((count, len(CORE_COUNTS)))
    for name, top in zip(SEEN, (6e13, 4e12, 2e12), strict=True):
        rates[:, CORE_COUNTS.index(name)] = top * rng.uniform(0, 1, count)
    rows = PowerRows(
        power_w=np.ones(count),
        clock_mhz=rng.choice([600.0, 900.0, 1200.0, 1410.0], count),
        rates=rates,
        active_sm=108.0 * rng.uniform(0.2, 1, count),
        dram_bytes_per_s=1e12 * rng.uniform(0, 1, count),
        link_bytes_per_s=np.zeros(count),
        memory_share=np.ones(count),
        group=np.array([f"program {i % 12}" for i in range(count)], dtype=object),
    )
    truth = coefficient_vector(PRIOR).copy()
    for name in (*(f"{s}_pj" for s in SEEN), "active_pj_per_clock_sm", "dram_pj_per_byte"):
        truth[COEFFICIENTS.index(name)] *= scale
    truth[COEFFICIENTS.index("tensor_tf32_pj")] = max(
        truth[COEFFICIENTS.index("tensor_tf32_pj")], truth[COEFFICIENTS.index("tensor_fp16_pj")]
    )
    power = rows.design(GPU.voltage) @ truth
    return replace(rows, power_w=power * np.exp(noise * rng.standard_normal(count))), truth


def test_a_fit_finds_what_the_rows_tell() -> None:
    rows, truth = made_rows(400, 1)
    fit = fit_power(rows, PRIOR, GPU.voltage)
    for name in ("tensor_fp16_pj", "dram_pj_per_byte"):
        place = COEFFICIENTS.index(name)
        assert abs(fit.values[place] / truth[place] - 1) < 0.15
        assert fit.data_share[place] > 0.9
    assert np.mean(np.abs(fit.fitted_w / rows.power_w - 1)) < 0.03


def test_what_the_rows_do_not_tell_stays_the_prior() -> None:
    rows, _ = made_rows(200, 2)
    fit = fit_power(rows, PRIOR, GPU.voltage)
    for name in ("fp64_pj", "sfu_pj", "link_pj_per_byte"):
        place = COEFFICIENTS.index(name)
        assert fit.data_share[place] < 0.05
        # an operation in FP64 costs no less than one in FP32, of which the rows tell
        least = fit.values[COEFFICIENTS.index("fp32_pj")] if name == "fp64_pj" else 0.0
        assert np.isclose(fit.values[place], max(coefficient_vector(PRIOR)[place], least), rtol=0.02)


def test_coefficients_are_never_negative_and_keep_their_order() -> None:
    rows, _ = made_rows(60, 3, scale=0.05, noise=0.3)
    fit = fit_power(rows, PRIOR, GPU.voltage)
    assert (fit.values >= 0).all()
    named = dict(zip(COEFFICIENTS, fit.values, strict=True))
    for less, more in ORDER:
        assert named[less] <= named[more] + 1e-9


def test_an_outlier_moves_little() -> None:
    rows, _ = made_rows(300, 4)
    clean = fit_power(rows, PRIOR, GPU.voltage).values
    power = rows.power_w.copy()
    power[:15] *= 3.0
    spoilt = fit_power(replace(rows, power_w=power), PRIOR, GPU.voltage).values
    place = COEFFICIENTS.index("tensor_fp16_pj")
    assert abs(spoilt[place] / clean[place] - 1) < 0.1


def test_held_out_error_is_that_of_unseen_groups_and_beats_plain_models() -> None:
    rows, _ = made_rows(240, 5, noise=0.03)
    held = held_out(rows, PRIOR, GPU.voltage)
    assert held.groups == 12
    assert 0.01 < held.mape < 0.05
    assert all(b.mape > held.mape for b in baselines(rows))
    inside = np.abs(np.log1p(held.residual)) < 1.645 * held.relative_sd
    assert 0.87 <= inside.mean() <= 0.93


def test_the_idle_curve_alone_sets_the_base() -> None:
    clock = np.arange(210.0, 1411.0, 30.0)
    truth = replace(PRIOR, board_w=12.0, leakage_w_per_v=40.0, clock_w_per_v2_ghz=14.0)
    idle = rows_of_idle(clock, np.ones(len(clock)))
    power = idle.design(GPU.voltage) @ coefficient_vector(truth)
    fit = fit_power(replace(idle, power_w=power), PRIOR, GPU.voltage)
    assert np.abs(fit.fitted_w / power - 1.0).max() < 0.03


@pytest.mark.parametrize("knee", [850.0, 1100.0])
def test_a_sweep_shows_knee_and_base(knee: float) -> None:
    rng = np.random.default_rng(6)
    curve = replace(GPU.voltage, knee_mhz=knee, slope_v_per_ghz=0.4, curve_v_per_ghz2=0.3, max_v=2.0)
    clock = np.tile(np.arange(300.0, 1411.0, 30.0), 3)
    work = np.repeat([60.0, 140.0, 260.0], len(clock) // 3)
    seconds = 1000.0 / clock
    volt = curve.at(clock)
    power = 15.0 + 30.0 * volt + 9.0 * volt**2 * clock / 1e3 + work * volt**2 * clock / 1410.0
    group = np.repeat(["a", "b", "c"], len(clock) // 3).astype(object)
    rows = SweepRows(power * np.exp(0.01 * rng.standard_normal(len(power))), clock, seconds, group)
    fit = fit_sweep(rows, PRIOR, GPU.voltage)
    assert fit.error < 0.02
    assert abs(fit.voltage.knee_mhz - knee) < 90
    assert abs(float(fit.voltage.at(1410.0) / curve.at(1410.0)) - 1) < 0.05


@pytest.mark.parametrize("kernels", [1, 6])
def test_a_voltage_that_few_kernels_tell_is_not_taken_for_read(kernels: int) -> None:
    believed = replace(GPU.voltage, measured=False)
    clock = np.tile(np.linspace(400.0, 1400.0, 6), kernels)
    work = np.repeat(np.linspace(60.0, 200.0, kernels), 6)
    power = 40.0 + work * believed.at(clock) ** 2 * clock / 1410.0
    group = np.repeat([f"k{i}" for i in range(kernels)], 6).astype(object)
    fit = fit_sweep(SweepRows(power, clock, 1000.0 / clock, group), PRIOR, believed)
    assert fit.voltage.measured == (kernels > 5)
    assert any("idle curve" in note for note in fit.notes(idle=False)) == (kernels < 5)
    assert not any("idle curve" in note for note in fit.notes(idle=True))
    text = calibration_toml(about={"title": "a GPU"}, source="calibrate", fits={}, sweep=fit)
    read = calibration_from_file(parse_calibration("mine.toml", text), PRIOR)
    assert read.voltage is not None
    assert read.voltage.measured == fit.voltage.measured


def test_kernels_that_disagree_move_the_voltage_little() -> None:
    believed = replace(GPU.voltage, measured=False)
    clock = np.tile(np.linspace(400.0, 1400.0, 6), 6)
    group = np.repeat([f"k{i}" for i in range(6)], 6).astype(object)
    told = []
    for apart in (0.0, 0.5):
        # each kernel's power rises with the clock in a way of its own
        own = np.repeat(np.linspace(-apart, apart, 6), 6)
        power = 40.0 + 120.0 * believed.at(clock) ** 2 * (clock / 1410.0) ** (1.0 + own)
        fit = fit_sweep(SweepRows(power, clock, 1000.0 / clock, group), PRIOR, believed)
        told.append(fit.data_share)
        assert fit.voltage.measured == (apart == 0.0)
    assert told[1] < 0.6 < told[0]


@pytest.mark.parametrize("clocks", [3, 6])
def test_one_kernel_moves_the_base_part_of_the_way_at_any_number_of_clocks(clocks: int) -> None:
    clock = np.linspace(400.0, 1400.0, clocks)
    voltage = replace(GPU.voltage, measured=False)
    prior = replace(PRIOR, leakage_per_w=2e-3)
    power = 90.0 + 100.0 * voltage.at(clock) ** 2 * clock / 1410.0
    rows = SweepRows(power, clock, 1000.0 / clock, np.full(clocks, "k", dtype=object))
    fit = fit_sweep(rows, prior, voltage, fit_voltage=clocks >= 5)
    believed = np.array([getattr(prior, name) for name in BASE])
    # a warm chip's base replaces a fifth of a cool one's, and of the warming that belongs to that
    assert fit.leakage_per_w == pytest.approx(0.8 * prior.leakage_per_w)
    assert (fit.base >= 0.8 * believed - 1e-9).all()
    assert with_base(prior, fit).leakage_per_w == pytest.approx(fit.leakage_per_w)


def test_a_calibration_file_reads_back_as_it_was_fitted() -> None:
    rows, _ = made_rows(200, 7)
    fit = fit_power(rows, PRIOR, GPU.voltage, fit_voltage=True)
    text = calibration_toml(
        about={"title": "a GPU", "basis": "calibrated"},
        source="calibrate",
        fits={"power": Fitted(fit)},
        voltage=fit.calibration.voltage,
    )
    read = calibration_from_file(parse_calibration("mine.toml", text), PRIOR)
    told = fit.data_share >= 0.15
    assert np.allclose(coefficient_vector(read)[told], fit.values[told], rtol=1e-3)
    assert read.basis == "calibrated"
    assert read.voltage is not None
    assert fit.calibration.voltage is not None
    assert np.isclose(read.voltage.knee_mhz, fit.calibration.voltage.knee_mhz, rtol=1e-3)


def test_coefficients_to_vector_and_back() -> None:
    vector = coefficient_vector(PRIOR) * 1.25
    assert np.allclose(coefficient_vector(with_coefficients(PRIOR, vector)), vector)


def test_leakage_that_grows_with_the_load_is_found_over_a_known_base() -> None:
    rows, truth = made_rows(400, 9, scale=1.2, noise=0.0)
    warm = replace(PRIOR, leakage_per_w=0.004)
    rows = replace(rows, power_w=predicted_w(rows, warm, GPU.voltage, truth))
    fit = fit_power(rows, PRIOR, GPU.voltage, known_base=True, heating_per_w=0.002)
    assert 0.003 < fit.calibration.leakage_per_w < 0.005
    cold = fit_power(rows, PRIOR, GPU.voltage, known_base=True)
    assert cold.calibration.leakage_per_w == 0.0
    assert np.abs(fit.fitted_w / rows.power_w - 1).mean() < np.abs(cold.fitted_w / rows.power_w - 1).mean()


def test_groups_off_the_model_as_a_whole_count_by_their_number_not_their_rows() -> None:
    """One program of many rows that draws 30 % more moves a fit no further than one of few rows."""
    rows, _ = made_rows(300, 8, noise=0.01)
    odd = rows.group == "program 0"
    high = replace(rows, power_w=np.where(odd, 1.3 * rows.power_w, rows.power_w))
    many = PowerRows.concat([high, *[high.take(odd)] * 9])
    few = fit_power(high, PRIOR, GPU.voltage, scattered=True)
    same = fit_power(many, PRIOR, GPU.voltage, scattered=True)
    left = high.take(~odd)
    away = [predicted_w(left, PRIOR, GPU.voltage, f.values) / left.power_w - 1.0 for f in (few, same)]
    assert np.abs(away[0]).mean() < 0.03
    assert np.abs(away[1]).mean() < np.abs(away[0]).mean() + 0.02


def test_an_energy_carried_from_a_fitted_board_is_believed_as_its_fit_left_it() -> None:
    values = coefficient_vector(PRIOR)
    place, other = COEFFICIENTS.index("fp32_pj"), COEFFICIENTS.index("fp64_pj")
    plain = prior_sd(values, 50.0)
    told = prior_sd(values, 50.0, carried={"fp32_pj": 0.1 * values[place], "board_w": 1e-9})
    # Never surer than the carrying lets it be; what the other GPU did not tell stays as it was.
    assert 0.2 * values[place] < told[place] < plain[place]
    assert told[other] == plain[other]
    assert told[COEFFICIENTS.index("board_w")] == plain[COEFFICIENTS.index("board_w")]


@pytest.mark.parametrize(("text", "fault"), [("[power", "is not TOML"), (f"a = {'[' * 5000}", "nested")])
def test_a_file_that_is_not_toml_is_refused(text: str, fault: str) -> None:
    with pytest.raises(BadInput, match=rf"mine\.toml: .*{fault}"):
        parse_calibration("mine.toml", text)
