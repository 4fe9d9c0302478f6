"""Figures of replays from a few numbers that are added up here, without a run."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.model.operators import rows_of
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.replay.clocks import checked_clocks, checked_memory
from tracetool.replay.diagnosis.effects import Effect, effect_of, sentence
from tracetool.replay.gpu_work import _compare
from tracetool.replay.operand_content import CONTENT_COLUMN, SWITCHING, Content, _sampled, with_operands
from tracetool.replay.power import PowerCurve
from tracetool.replay.power_swing import means_over, spectrum
from tracetool.replay.predict_windows import _not_hidden
from tracetool.replay.prediction_frame import _in_the_run, with_inputs
from tracetool.replay.recording_conditions import _settled
from tracetool.replay.roofline import _with_rates
from tracetool.replay.table_checks import _check_shares, check_kernels
from tracetool.replay.table_totals import run_spread
from tracetool.tables.recorded_clock import recorded_clock

GPU = load_gpu("a100-sxm")


@pytest.mark.parametrize(
    ("saving", "word", "ends"),
    [
        ((5.0, 2.0, 9.0), "saves", [2.0, 9.0]),
        ((5.0, -2.0, 12.0), "saves", [-2.0, 12.0]),
        ((-5.0, -12.0, 2.0), "costs", [-2.0, 12.0]),
        ((-5.0, -9.0, -2.0), "costs", [2.0, 9.0]),
    ],
)
def test_an_effect_is_told_with_its_ends_the_right_way_round(
    saving: tuple[float, float, float], word: str, ends: list[float]
) -> None:
    energy = 100.0 - saving[0]
    effect = Effect(*saving, "x", 8.0, energy, energy - 7.0, energy + 7.0, saving[0] / 100.0)
    told = sentence(effect, 10.0)
    assert word in told
    figures = [float(text) for text in re.findall(r"-?[\d.]+\d", told.replace("90 %", ""))]
    assert figures == pytest.approx([8.0, 10.0, energy, 5.0, *ends, 5.0])


def test_an_altered_run_errs_as_the_recorded_one_and_by_the_models_change() -> None:
    """60 of 100 J, known to a tenth, the change to 3 J: 5 J of the 40 saved, 6.7 of the 60 left."""
    totals = pl.DataFrame({"energy_low_j": [90.0], "energy_high_j": [110.0]})
    booked: Any = SimpleNamespace(totals=totals, energy_j=100.0)
    effect = effect_of(booked, "x", 8.0, 60.0, half_j=3.0, work=1.0)
    saved = [effect.saving_j, effect.saving_low_j, effect.saving_high_j, effect.share]
    assert saved == pytest.approx([40.0, 35.0, 45.0, 0.4])
    left = 45.0**0.5
    assert [effect.energy_low_j, effect.energy_high_j] == pytest.approx([60.0 - left, 60.0 + left])


def test_a_clock_above_the_highest_is_noted_whatever_the_others() -> None:
    clocks, notes = checked_clocks([900.0, 1.01 * GPU.clock_max_mhz], GPU)
    assert clocks.tolist() == [900.0, 1.01 * GPU.clock_max_mhz]
    (note,) = notes
    assert "is above the highest clock" in note
    assert checked_clocks([900.0, 1200.0], GPU)[1] == []


def test_memory_clocks_far_from_the_usual_are_noted_or_refused() -> None:
    usual = GPU.memory_clock_mhz
    assert checked_memory(usual, GPU) == checked_memory(0.06 * usual, GPU) == checked_memory(None, GPU) == []
    (note,) = checked_memory(1.3 * usual, GPU)
    assert "extrapolation" in note
    with pytest.raises(BadInput, match="far from"):
        checked_memory(100.0 * usual, GPU)


def test_gpus_are_set_against_the_median_of_the_others() -> None:
    """100, 110 and 150 J: the last takes 150 / 105, its error 0.03 and the median's 0.02 / sqrt 2."""
    rows: list[dict[str, Any]] = [
        {"work_energy_j": joules, "work_ms": ms}
        for joules, ms in ((100.0, 10.0), (110.0, 12.0), (150.0, 22.0))
    ]
    _compare(rows, np.array([0.02, 0.02, 0.03]))
    last = rows[2]
    assert last["work_time_more_pct"] == pytest.approx(100.0)
    ratio = 150.0 / 105.0
    edge = 100.0 * Z90 * ratio * (0.03**2 + 0.02**2 / 2.0) ** 0.5
    assert last["work_energy_more_pct"] == pytest.approx(100.0 * (ratio - 1.0))
    assert last["work_energy_more_low_pct"] == pytest.approx(100.0 * (ratio - 1.0) - edge)
    assert last["work_energy_more_high_pct"] == pytest.approx(100.0 * (ratio - 1.0) + edge)
    assert last["outlier"] is True
    assert rows[0]["work_time_more_pct"] == pytest.approx(100.0 * (10.0 / 17.0 - 1.0))
    alone: list[dict[str, Any]] = [{"work_energy_j": 100.0, "work_ms": 10.0}]
    _compare(alone, np.array([0.02]))
    assert alone == [{"work_energy_j": 100.0, "work_ms": 10.0, "work_time_more_pct": None}]


def test_operands_are_those_each_row_states() -> None:
    rows = rows_of("gemm", m=[64, 64], n=64, k=64)
    rows.columns[CONTENT_COLUMN] = np.array(["", "zeros"], dtype=object)
    told = with_operands(rows, "").number(SWITCHING)
    assert np.isnan(told[0])
    assert told[1] < 0.5
    assert with_operands(rows_of("gemm", m=[64], n=64, k=64), "").columns.get(SWITCHING) is None


def test_a_sorted_operand_runs_through_the_normal_distribution() -> None:
    block = _sampled(Content("sorted"), "fp16", 0, [])
    assert (np.diff(block, axis=1) > 0).all()
    assert (np.diff(block, axis=0) > 0).all()
    assert abs(float(np.median(block))) < 0.2
    assert 0.6 < float(block.std()) < 1.1
    assert -4.0 < float(block.min()) < -1.0 < 1.0 < float(block.max()) < 4.0


def test_the_second_operand_of_one_file_is_random() -> None:
    ones = np.ones((4096, 4096), np.float32)
    first, second = (_sampled(Content("file"), "fp16", side, [ones]) for side in (0, 1))
    assert (first == 1.0).all()
    assert float(second.std()) == pytest.approx(1.0, abs=0.1)


def _run(clock_times: list[int], utilization: list[float | None]) -> Any:
    """Kernels from 100 to 400 ns, the last 200 ns long; clocks of 1000 MHz and 100 more each."""
    telemetry = pl.DataFrame(
        {"time_ns": clock_times, "utilization": utilization,
         "clock_mhz": [1000.0 + 100.0 * i for i in range(len(clock_times))]},
        schema_overrides={"utilization": pl.Float64},
    )  # fmt: skip
    kernels = pl.DataFrame({"start_ns": [100, 200], "duration_ns": [50, 200]})
    return SimpleNamespace(telemetry=telemetry, table=lambda *_: kernels)


def test_the_recorded_clock_is_the_median_of_readings_under_load() -> None:
    times, load = [50, 120, 310, 390, 400, 401], [1.0, 1.0, 0.1, 0.9, None, 1.0]
    clock = recorded_clock(_run(times, load))
    assert clock == (1300.0, "recorded clock: 1300 MHz, median of 3 readings")  # 1100, 1300 and 1400
    idle = recorded_clock(_run([120, 300], [0.1, 0.2]))
    assert idle == (1050.0, "recorded clock: 1050 MHz, median of 2 readings")
    assert recorded_clock(_run([50, 500], [1.0, 1.0])) is None


def test_a_limit_between_the_last_two_steps_settles_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 W a MHz: 139 W are 1,390 MHz, and the next lower clock there is is 1,380."""
    monkeypatch.setattr("tracetool.replay.recording_conditions._powers_at", lambda _, __, mhz: 0.1 * mhz)
    settled, never = _settled(rows_of("gemm", m=[64, 64]), GPU, 139.0)
    assert settled.tolist() == [1380.0, 1380.0]
    assert never.tolist() == [False, False]


def test_a_power_over_the_limit_within_its_interval_rules_no_work_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """100 W up to 1,200 MHz, 0.1 W a MHz more above: under 98 W it ran at 1,200, under 50 W at no clock."""

    def power_w(rows: OperatorColumns, _: object, mhz: np.ndarray) -> np.ndarray:
        assert mhz.shape[0] == len(rows)
        return 100.0 + 0.1 * np.maximum(mhz - 1200.0, 0.0)

    monkeypatch.setattr("tracetool.replay.recording_conditions._powers_at", power_w)
    rows = rows_of("gemm", m=[64, 64])
    settled, never = _settled(rows, GPU, 98.0)
    assert never.tolist() == [False, False]
    assert np.allclose(settled, 1200.0, atol=GPU.clock_step_mhz)
    assert _settled(rows, GPU, 50.0)[1].tolist() == [True, True]


def test_rates_of_a_group_are_set_under_its_roof() -> None:
    """100 TFLOP/s of FP32 in 10 and in half a ms: 10 FLOP/B lie under the roof of memory, 1,000 above it."""
    flops, moved = np.array([1e12, 5e10, 1e12]), np.array([1e11, 5e7, 1e9])
    grouped = pl.DataFrame(
        {"dtype": ["fp32"] * 3, "predicted_from": ["shapes", "shapes", "trace"], "time_ms": [10.0, 0.5, 10.0],
         "flops": flops, "dram_bytes": moved, "energy_j": [5.0, 3.0, 2.0], "launches": [4, 4, 4],
         "measured_flops": [None] * 3, "measured_dram_bytes": [None] * 3},
        schema_overrides=dict.fromkeys(("measured_flops", "measured_dram_bytes"), pl.Float64),
    )  # fmt: skip
    rows = _with_rates(grouped, GPU, GPU.clock_boost_mhz, 10.0)
    assert rows["tflops"].to_list() == pytest.approx([100.0, 100.0, None])
    assert rows["tbps"].to_list() == pytest.approx([10.0, 0.1, None])
    assert rows["duration_us"].to_list() == pytest.approx([2500.0, 125.0, 2500.0])
    assert rows["gflop_per_joule"].to_list()[:2] == pytest.approx([200.0, 50.0 / 3.0])
    assert rows["share"].to_list() == pytest.approx([0.25, 0.15, 0.1])
    memory, peak = 10.0 * GPU.dram_bytes_per_s, GPU.peak_flops("fp32", GPU.clock_boost_mhz)
    assert memory < peak * 1.1
    assert rows["roofline_share"].to_list() == pytest.approx([1e14 / min(memory, peak), 1e14 / peak, None])


def test_means_over_windows_add_the_gpus_up() -> None:
    """100 W for 1 s, 300 W for 3 s; beside 50 W: windows of 2 s hold 200 and 300 W, and 50 W more."""
    one = PowerCurve(np.array([0.0, 1e9, 4e9]), np.array([100.0, 300.0]))
    two = PowerCurve(np.array([0.0, 2e9, 3e9, 4e9]), np.array([50.0, 50.0, 50.0]))
    assert means_over({0: one, 1: two}, 2000.0).tolist() == pytest.approx([250.0, 350.0])
    assert means_over({0: one}, 1000.0).tolist() == pytest.approx([100.0, 300.0, 300.0, 300.0])
    assert means_over({}, 1000.0).tolist() == []


def test_a_swing_is_found_at_its_frequency() -> None:
    step_s = 1e-3
    at = np.arange(20_000) * step_s
    found = spectrum(300.0 + 40.0 * np.sin(2.0 * np.pi * 2.0 * at), step_s)
    assert found.strongest_hz == pytest.approx(2.0, rel=0.02)
    assert found.strongest_w == pytest.approx(40.0 / 2.0**0.5, rel=0.05)
    still = spectrum(np.full(20_000, 300.0), step_s)
    assert np.isnan(still.strongest_hz)


def test_idle_time_between_windows_hides_what_the_host_is_behind() -> None:
    """2 ms longer than recorded: of 1.5 ms nothing is left, of the next 3 ms the half that is not needed."""
    infos: list[Any] = [{"edges": {"launch": 3}, "recorded_makespan_ms": 10.0}] * 3
    totals: list[Any] = [{"makespan_ms": ms} for ms in (12.0, 10.0, 9.0)]
    idle_s = np.array([0.0, 1.5e-3, 3e-3])
    assert _not_hidden(totals, infos, idle_s).tolist() == pytest.approx([0.0, 0.0, 2.5e-3])
    waits: list[Any] = [{"edges": {"launch": 3, "sync": 1}, "recorded_makespan_ms": 10.0}] * 3
    assert _not_hidden(totals, waits, idle_s).tolist() == idle_s.tolist()


def test_what_a_row_takes_in_its_run_is_over_what_it_takes_alone() -> None:
    """Two launches of 30 us alone take 90 us in all, one of 20 us takes 10, and none is as it was."""
    frame = pl.DataFrame(
        {name: [30.0, 20.0, 20.0] for name in ("duration_us", "duration_low_us", "duration_high_us")}
        | {name: [6.0, 4.0, 4.0] for name in ("energy_mj", "energy_low_mj", "energy_high_mj")}
        | {name: [200.0, 200.0, 200.0] for name in ("power_w", "power_low_w", "power_high_w")}
    )
    totals: Any = SimpleNamespace(
        time_s=np.array([[90e-6], [10e-6], [0.0]]), energy_j=np.array([[18e-3], [1e-3], [0.0]])
    )
    placed = _in_the_run(frame, np.array([2.0, 1.0, 0.0]), totals)
    assert placed["duration_us"].to_list() == pytest.approx([45.0, 10.0, 20.0])
    assert placed["energy_mj"].to_list() == pytest.approx([9.0, 1.0, 4.0])
    assert placed["power_w"].to_list() == pytest.approx([200.0, 100.0, 200.0])


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("duration_us", [5.0, -1.0], "row 2, column duration_us: -1 is out of range"),
        ("act_sm", [0.5, 1.5], "row 2, column act_sm: 1.5 is not a share"),
        ("grid_x", [128.0, -2.0], "row 2, column grid_x: -2 is out of range"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_row(column: str, values: list[float], words: str) -> None:
    good = {
        "kernel": ["a", "b"],
        "duration_us": [5.0, 6.0],
        "clock_mhz": [1410.0] * 2,
        "power_w": [300.0] * 2,
    }
    assert check_kernels("t", pl.DataFrame(good)).height == 2
    with pytest.raises(BadInput, match=words):
        check_kernels("t", pl.DataFrame({**good, column: values}))


def test_a_share_above_one_is_refused() -> None:
    _check_shares("t", pl.DataFrame({"sparsity": [0.0, 1.0, None]}))
    with pytest.raises(BadInput, match=r"row 2, column toggle: 1.5 is not a share"):
        _check_shares("t", pl.DataFrame({"toggle": [0.1, 1.5]}))


def test_errors_of_power_are_weighed_by_energy() -> None:
    """Times without error: 30 J at 10 % and 10 J at 2 % are 8 % of 40 J."""
    timing = SimpleNamespace(duration_s=np.array([[1.0], [1.0]]), low=np.ones((2, 1)), high=np.ones((2, 1)))
    predicted: Any = SimpleNamespace(
        timing=timing, energy_j=np.array([[30.0], [10.0]]), power_half=np.array([[0.1], [0.02]]),
        parts_j={"base": np.zeros((2, 1))},
    )  # fmt: skip
    spread = run_spread(np.ones(2), predicted, run_sd=0.0, own_share=0.5, unstated=0.0)
    assert [float(side[0]) for side in spread.time_s] == [0.0, 0.0]
    sides = [float(side[0]) for side in spread.energy_j]
    assert sides == pytest.approx([40.0 * (1.0 - np.exp(-0.08)), 40.0 * (np.exp(0.08) - 1.0)])


def test_columns_of_a_table_keep_their_values_beside_predictions_of_the_same_name() -> None:
    """A name that is taken already gets the word once more."""
    frame = pl.DataFrame({"power_w": [1.0, 2.0], "input_power_w": [3.0, 4.0], "op": ["a", "b"]})
    table: Any = SimpleNamespace(frame=frame, rows=[0, 1], index=np.arange(2), kind="operators")
    made = with_inputs(table, pl.DataFrame({"power_w": [5.0, 6.0], "energy_mj": [7.0, 8.0]}))
    assert made.to_dict(as_series=False) == {
        "input_input_power_w": [1.0, 2.0], "input_power_w": [3.0, 4.0], "op": ["a", "b"],
        "power_w": [5.0, 6.0], "energy_mj": [7.0, 8.0],
    }  # fmt: skip
