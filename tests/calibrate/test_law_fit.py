from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.model.operators import rows_of
from tracetool.calibrate import law_fit as fitting
from tracetool.calibrate.fit_time_laws import fit_time
from tracetool.calibrate.law_fit import shape_groups
from tracetool.calibrate.measured_times import time_toml
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import laws
from tracetool.hardware.coefficient_files import calibrated_gpus, own_calibration, parse_calibration
from tracetool.hardware.load import load_gpu
from tracetool.hardware.number import read_number
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.time_files import merged, time_calibration_of
from tracetool.model.timing import time_rows

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ops"
TRUTH = {
    "launch_us": 4.0,
    "latency_clk": 3000.0,
    "dram_efficiency": 0.7,
    "l2_efficiency": 0.9,
    "row_clk": 2500.0,
    "again": 1.5,
}


def _softmaxes(count: int) -> OperatorColumns:
    rng = np.random.default_rng(3)
    return rows_of(
        "softmax",
        rows=np.floor(2 ** rng.uniform(4, 16, count)),
        cols=np.floor(2 ** rng.uniform(5, 13, count)),
    )


def _measured(rows: OperatorColumns, clock: float, noise: float) -> np.ndarray:
    chip = load_gpu("l40s")
    truth = TimeCalibration({"softmax": TRUTH})
    exact = time_rows(rows, chip, np.array([clock]), calibration=truth).duration_s[:, 0]
    return np.asarray(exact * np.exp(np.random.default_rng(4).normal(0.0, noise, len(rows))))


def test_a_fit_finds_times_it_was_not_shown() -> None:
    chip, rows = load_gpu("l40s"), _softmaxes(500)
    fit = fit_time(rows, _measured(rows, chip.clock_boost_mhz, 0.03), chip)
    found = fit.laws["softmax"]
    assert found.rows == 500
    assert found.mape_percent < 5.0
    assert 75 < found.coverage_percent <= 100
    fresh = _softmaxes(700).take(np.arange(500, 700))
    clocks = np.array([900.0, 1800.0])
    truth = time_rows(fresh, chip, clocks, calibration=TimeCalibration({"softmax": TRUTH})).duration_s
    again = time_rows(fresh, chip, clocks, calibration=fit.calibration()).duration_s
    assert np.abs(again / truth - 1).mean() < 0.06
    assert set(time_rows(fresh, chip, clocks, calibration=fit.calibration()).basis) == {"calibrated"}


def test_the_interval_follows_the_noise() -> None:
    chip, rows = load_gpu("l40s"), _softmaxes(400)
    narrow, wide = (
        fit_time(rows, _measured(rows, chip.clock_boost_mhz, noise), chip).laws["softmax"].spread[""]
        for noise in (0.02, 0.2)
    )
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_a_throttled_clock_is_not_taken_for_a_slow_chip() -> None:
    chip, rows = load_gpu("l40s"), _softmaxes(300)
    slow = chip.clock_boost_mhz / 2
    measured = _measured(rows, slow, 0.01)
    told = fit_time(rows, measured, chip, np.full(len(rows), slow)).laws["softmax"]
    assert told.values["latency_clk"] < 1.6 * TRUTH["latency_clk"]


def test_few_rows_and_unknown_shapes_are_left_to_the_prior() -> None:
    chip = load_gpu("l40s")
    assert not fit_time(
        _softmaxes(fitting.FEWEST_ROWS - 1), np.full(fitting.FEWEST_ROWS - 1, 1e-5), chip
    ).laws
    unknown = rows_of("softmax", rows=np.full(100, np.nan), cols=64)
    assert not fit_time(unknown, np.full(100, 1e-5), chip).laws


def test_a_file_gives_back_what_was_fitted() -> None:
    chip, rows = load_gpu("l40s"), _softmaxes(200)
    fit = fit_time(rows, _measured(rows, chip.clock_boost_mhz, 0.02), chip)
    text = time_toml(fit, about={"command": 'a "quoted" \\ name'}, source="neusight-labels")
    file = parse_calibration("test.toml", text)
    read = merged(chip, file, [])
    clocks = np.array([1000.0])
    direct = time_rows(rows, chip, clocks, calibration=fit.calibration())
    again = time_rows(rows, chip, clocks, calibration=read)
    assert again.duration_s == pytest.approx(direct.duration_s, rel=1e-3)
    assert again.high == pytest.approx(direct.high, rel=1e-3)
    assert read.law_basis["softmax"] == "calibrated"


def test_what_source_alone_tells_is_not_called_fitted() -> None:
    chip = load_gpu("h100-sxm")
    lengths = np.arange(1.0, 101.0) * 64.0
    shape = {"batch": 2, "q_len": lengths, "kv_len": lengths, "heads": 8, "kv_heads": 8, "head_dim": 128}
    rows = rows_of("attention", phase="prefill", dtype="bf16", **shape)
    seconds = time_rows(rows, chip, np.array([chip.clock_boost_mhz])).duration_s[:, 0]
    text = time_toml(fit_time(rows, seconds, chip), about={}, source="neusight-labels")
    lines = {line.split(" = ")[0]: line for line in text.splitlines()}
    assert 'kind = "prior", source = "law-prior"' in lines["kv8_products"]
    assert 'kind = "fitted", source = "neusight-labels"' in lines["tile_clk"]


def test_one_shape_in_two_formats_is_one_group() -> None:
    rows = rows_of("gemm", m=np.array([1.0, 2.0, 1.0]), n=8, k=8)
    assert shape_groups(rows)[0] == shape_groups(rows)[2] != shape_groups(rows)[1]


@pytest.mark.parametrize("gpu", calibrated_gpus("time"))
def test_delivered_calibrations_lie_within_the_bounds_of_their_laws(gpu: str) -> None:
    file = own_calibration(gpu, "time")
    assert file is not None
    load_gpu(gpu)
    for section, numbers in file.numbers.items():
        law = laws()[section]
        assert numbers["spread_low"].value < 0 < numbers["spread_high"].value
        for key, number in numbers.items():
            if not key.startswith("spread"):
                bound = law.priors[key]
                assert bound.low * 0.999 <= number.value <= bound.high * 1.001, (section, key)
                read_number(
                    gpu, key, {"value": number.value, "unit": number.unit, "kind": "fitted", "source": "x"}
                )
    assert any(k.startswith("held_out_mape") for k in file.about)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the measured data is not beside this checkout")
@pytest.mark.parametrize(
    ("kind", "most"),
    [("gemm", 12.0), ("context_attention", 12.0), ("generation_attention", 16.0), ("moe", 35.0)],
)
def test_delivered_calibrations_time_measured_operators(kind: str, most: float) -> None:
    from tracetool.replay.operator_tables import read_table

    paths = sorted(DATA.glob(f"*_{kind}.parquet"))
    assert paths
    for path in paths:
        frame = pl.read_parquet(path).sample(600, seed=1)
        table = read_table(frame.drop("measured_us", "gpu", "measured_w", "power_limit_w", strict=False))
        chip = load_gpu(frame["gpu"][0])
        given = replace(time_calibration_of(chip), delivered=frozenset())  # of the library that was measured
        timing = time_rows(table.rows, chip, np.array([chip.clock_boost_mhz]), calibration=given)
        ratio = timing.duration_s[table.index, 0] * 1e6 / frame["measured_us"].to_numpy()
        assert np.abs(ratio - 1).mean() * 100 < most, path.name
        inside = (1 / ratio >= timing.low[table.index, 0]) & (1 / ratio <= timing.high[table.index, 0])
        assert 0.80 < inside.mean() < 0.98, path.name
