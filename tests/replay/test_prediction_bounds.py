"""Each bound of physics, broken by a planted figure, is named; what keeps them all names none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.load import load_gpu
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.thermal import Surroundings
from tracetool.replay.operator_tables import read_table
from tracetool.replay.power import PowerCurve
from tracetool.replay.predict import predict_table
from tracetool.replay.prediction_bounds import mean_over_cap, predicted_breaches

GPU = load_gpu("a100-sxm")
POWER = power_calibration_of(GPU)
GEMM = {"op": "gemm", "dtype": "bf16", "batch": 1, "m": 4096, "n": 4096, "k": 4096}


@pytest.fixture(scope="module")
def sound() -> tuple[OperatorColumns, Prediction]:
    """Return rows and a prediction that break nothing."""
    rows = read_table(pl.DataFrame([GEMM, {**GEMM, "m": 64}])).rows
    return rows, predict_rows(rows, GPU, np.array([900.0, 1410.0]))


def _breaches(rows: OperatorColumns, predicted: Prediction) -> list[str]:
    return predicted_breaches(rows, GPU, predicted, POWER)


def test_a_sound_prediction_breaks_nothing(sound: tuple[OperatorColumns, Prediction]) -> None:
    assert _breaches(*sound) == []


@pytest.mark.parametrize("unit", ["tensor", "dram", "sm_active"])
def test_a_utilization_above_one(sound: tuple[OperatorColumns, Prediction], unit: str) -> None:
    rows, predicted = sound
    timing = predicted.timing
    if unit == "sm_active":
        broken = replace(timing, sm_active=timing.sm_active + 1.0)
    else:
        broken = replace(timing, busy_s={**timing.busy_s, unit: 1.5 * timing.duration_s})
    (note,) = _breaches(rows, replace(predicted, timing=broken))
    assert note.startswith(f"breach: utilization of {unit} is ")
    assert "2 rows" in note


def test_more_busy_sms_than_blocks(sound: tuple[OperatorColumns, Prediction]) -> None:
    rows, predicted = sound
    few = replace(rows, columns={**rows.columns, "blocks": np.array([4.0, 4e6])})
    busy = {**predicted.timing.busy_s, "tensor": 0.9 * predicted.timing.duration_s}
    (note,) = _breaches(few, replace(predicted, timing=replace(predicted.timing, busy_s=busy)))
    assert note == "breach: 1 row keeps more of the SMs busy than the grid has blocks for"


def test_power_below_the_base(sound: tuple[OperatorColumns, Prediction]) -> None:
    rows, predicted = sound
    notes = _breaches(rows, replace(predicted, power_w=np.full_like(predicted.power_w, 12.0)))
    assert notes == ["breach: power of 2 rows is below the base, down to 12 W"]


def test_a_cold_chip_draws_less_than_the_usual_base() -> None:
    gpu, cold = load_gpu("h100-sxm"), Surroundings(temperature_c=20.0)
    power = power_calibration_of(gpu)
    rows = read_table(pl.DataFrame([{"op": "memcpy", "kind": "HtoD", "bytes": 1e9}])).rows
    predicted = predict_rows(rows, gpu, np.array([gpu.clock_boost_mhz]), surroundings=cold)
    assert predicted_breaches(rows, gpu, predicted, power, cold) == []
    below = replace(predicted, power_w=0.5 * predicted.power_w)
    (note,) = predicted_breaches(rows, gpu, below, power, cold)
    assert "is below the base" in note


def test_energy_of_an_operation_outside_its_process(sound: tuple[OperatorColumns, Prediction]) -> None:
    rows, predicted = sound
    (less,) = _breaches(rows, replace(predicted, energy_j=1e-3 * predicted.energy_j))
    assert "2 rows take less energy than their operations do in any 7 nm process" in less
    parts = {**predicted.parts_j, "compute": 50.0 * predicted.parts_j["compute"]}
    (more,) = _breaches(rows, replace(predicted, parts_j=parts))
    assert "pJ per operation, more than any 7 nm process" in more


def test_joules_per_operation_are_over_operations_of_every_unit(
    sound: tuple[OperatorColumns, Prediction],
) -> None:
    """400 J for 2 T of the tensor cores, 1 T of FP32 and 1 T of FP64: 100 pJ each."""
    rows, predicted = sound
    nothing = np.zeros(2)
    work = replace(predicted.timing.work, tensor_flops=nothing + 2e12, fp32_flops=nothing + 1e12,
                   fp64_flops=nothing + 1e12, int_ops=nothing, sfu_ops=nothing)  # fmt: skip
    broken = replace(
        predicted,
        timing=replace(predicted.timing, work=work),
        energy_j=np.full_like(predicted.energy_j, 500.0),
        parts_j={**predicted.parts_j, "compute": np.full_like(predicted.energy_j, 400.0)},
    )
    (note,) = [one for one in _breaches(rows, broken) if "per operation" in one]
    assert "2 rows take up to 100 pJ per operation" in note


def test_a_mean_power_over_the_cap() -> None:
    edge = np.arange(5) * 1e9
    steady = PowerCurve(edge, np.array([300.0, 300.0, 300.0, 300.0]))
    assert mean_over_cap(steady, 300.0, 0.02) == []
    (note,) = mean_over_cap(replace(steady, power_w=np.array([300.0, 420.0, 300.0, 300.0])), 300.0, 0.02)
    assert note.startswith("breach: mean power of 420 W over 200 ms is above the cap of 300 W")
    # A burst shorter than the time constant may pass, and what is too short tells nothing.
    edges = np.array([0.0, 1e9, 1.01e9, 2e9])
    assert mean_over_cap(PowerCurve(edges, np.array([100.0, 500.0, 100.0])), 300.0, 0.02) == []
    assert mean_over_cap(PowerCurve(np.array([0.0, 1e6]), np.array([900.0])), 300.0, 0.02) == []


def test_measured_shares_of_more_than_one_are_refused() -> None:
    rows = {"kernel": "k", "duration_us": 5e3, "clock_mhz": 1410.0, "power_w": 300.0, "act_sm": 80.0}
    with pytest.raises(BadInput, match="80 is not a share"):
        predict_table(pl.DataFrame([rows]), "a100-sxm")


def test_measured_breaches_are_named() -> None:
    measured = {"kernel": "k", "duration_us": 5e3, "clock_mhz": 1410.0, "act_sm": 0.9}
    over = predict_table(pl.DataFrame([{**measured, "power_w": 900.0}]), "a100-sxm").notes
    assert any("above the highest limit" in note for note in over)
    within = predict_table(pl.DataFrame([{**measured, "power_w": 300.0}]), "a100-sxm").notes
    breached = ("limit", "above the cap", "less energy than")
    assert not any(words in note for note in within for words in breached)
    under = predict_table(pl.DataFrame([{**measured, "power_w": 20.0}]), "rtx-4090").notes
    assert any("base power of" in note for note in under)
    wide = {**measured, "power_w": 300.0, "grid_x": 4, "block_x": 128}
    blocks = predict_table(pl.DataFrame([wide]), "a100-sxm").notes
    assert any("more active SMs than the grid has blocks for" in note for note in blocks)
