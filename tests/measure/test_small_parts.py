"""Small parts of measuring, each against numbers worked out here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.hardware.load import load_gpu
from tracetool.measure.align import Alignment
from tracetool.measure.attributed_work import Work, work_of_run
from tracetool.measure.characterize import characterize
from tracetool.measure.class_energy import ClassEnergy
from tracetool.measure.energy_tables import energy_table
from tracetool.measure.host_energy import _ends_error
from tracetool.measure.meter_calibration import _line
from tracetool.measure.normal_equations import NormalEquations, Prior
from tracetool.measure.observe import choose_sensor
from tracetool.measure.power_check.check import check_activity
from tracetool.measure.power_log import PowerLog
from tracetool.measure.rank_clocks import _drift
from tracetool.measure.readings import resolve_updates
from tracetool.measure.ridge_solver import _variance_inflation
from tracetool.measure.sampled_activity import activity_by_signature, activity_notes, sampled_activity
from tracetool.measure.sensors import calibrated, candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.tables.run import Run


def test_an_alignment_lies_inside_its_interval() -> None:
    found = Alignment(2.0, 0.1, np.array([2.0]), np.array([1.0]))
    assert (found.low_s, found.high_s) == pytest.approx((2.0 - 0.1 * Z90, 2.0 + 0.1 * Z90))


def test_kernels_are_of_families_and_copies_of_their_kind() -> None:
    signatures = pl.DataFrame(
        {
            "signature": [3, 5],
            "name": ["ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "[CUDA memcpy HtoD]"],
            "kind": ["kernel", "copy_h2d"],
        }
    )
    kernels = pl.DataFrame({"signature": [5, 3], "start_ns": [0, 10], "duration_ns": [5, 20]})
    work = work_of_run(cast("Run", SimpleNamespace(signatures=signatures)), kernels)
    assert work.family == ["gemm", "copy_h2d"]
    assert work.label.tolist() == [1, 0]
    assert work.end_ns.tolist() == [5, 30]


def test_a_class_that_never_ran_has_energy_and_no_power() -> None:
    """0 W in 0 s has no bounds; two seconds of 30 J +- 3 have 15 W +- 1.5 of them."""
    seconds, energy = np.array([2.0, 0.0, 1.0, 1.0]), np.array([30.0, 0.0, 5.0, 2.0])
    spread = np.array([3.0, 0.0, 0.1, 0.1])
    of_classes = cast(
        "ClassEnergy",
        SimpleNamespace(
            seconds=seconds,
            launches=np.array([4.0, 0.0, 0.0, 0.0]),
            power_w=np.array([15.0, np.nan, 5.0, 2.0]),
            energy_j=energy,
            prior_share=np.zeros(4),
            identification=SimpleNamespace(
                group=np.full(4, -1),
                coverage=np.ones(4),
                identified=np.ones(4, dtype=bool),
                reason=np.full(4, "", dtype=object),
            ),
            interval=lambda: (energy - spread, energy + spread),
            group_energy=lambda: (np.full(4, np.nan), np.full(4, np.nan)),
        ),
    )
    work = Work(["a", "b"], ["gemm", "gemm"], [0, 1], np.zeros(1), np.zeros(1), np.ones(1), 0.0)  # type: ignore[arg-type]
    table = energy_table(work, of_classes, 0)
    assert table["power_low_w"].fill_nan(None).to_list() == pytest.approx([13.5, None, 4.9, 1.9])
    assert table["power_high_w"].fill_nan(None).to_list() == pytest.approx([16.5, None, 5.1, 2.1])


def test_ends_of_a_counter_lie_anywhere_within_a_tick() -> None:
    """Each end errs by a uniform share of 40 W x 0.5 s, whose deviation is that over the root of 12."""
    error = _ends_error(np.array([40.0, 30.0]), 0.5)
    assert error == pytest.approx(40.0 * 0.5 * np.sqrt(2 / 12))


def _states(gap_s: float) -> tuple[float, float, float]:
    """Return active, gap and idle time of two seconds of work and what lies between them."""
    start = np.array([0.0, 1.0 + gap_s])
    timeline = build_timeline(start, start + 1.0, np.zeros(2, dtype=np.int64), 1)
    active, gap, idle = (ramp(np.array([-0.5, 2.5 + gap_s])) for ramp in timeline.state_ramps())
    return float(np.diff(active)[0]), float(np.diff(gap)[0]), float(np.diff(idle)[0])


@pytest.mark.parametrize("gap_s", [0.004, 0.3, 20.0])
def test_active_gap_and_idle_time_are_all_time(gap_s: float) -> None:
    active, gap, idle = _states(gap_s)
    assert active == pytest.approx(2.0)
    assert 0.0 < gap <= gap_s + 0.5 + 1e-9
    assert active + gap + idle == pytest.approx(3.0 + gap_s)


def test_a_line_errs_as_its_readings_do() -> None:
    """240 readings with 2 W of noise on power of 20 W deviation: the gain is known to 2 / (20 sqrt(240))."""
    random = np.random.default_rng(5)
    at = np.linspace(0.0, 60.0, 240)
    true = 200.0 + 20.0 * np.sqrt(2.0) * np.sin(at * 7.0)
    found = _line(true, 0.9 * true + 5.0 + random.normal(0.0, 2.0, len(at)), at, np.zeros(2))
    assert found.gain == pytest.approx(0.9, abs=0.02)
    assert found.gain_sd == pytest.approx(2.0 / (20.0 * np.sqrt(240)), rel=0.5)


def test_constant_stretches_keep_a_reading_a_period() -> None:
    """Ten seconds of one value polled every 10 ms, whose sensor updates every 100 ms."""
    found = resolve_updates(np.arange(0.0, 10.0, 0.01), np.full(1000, 80.0), 0.1)
    assert len(found) == pytest.approx(100, abs=2)


def test_a_stated_gain_is_known_to_a_percent_where_nothing_else_is_said() -> None:
    sensor = candidate_sensors(load_gpu("a100-sxm", part="sensor"), "power_w")[0]
    assert calibrated(sensor, {}) == sensor
    assert calibrated(sensor, {"gain": 1.02}).gain_sd == 0.01
    assert calibrated(sensor, {"gain": 1.02, "gain_sd": 0.003}).gain_sd == 0.003
    timed = calibrated(sensor, {"delay_s": 0.1})
    assert timed.gain_sd == sensor.gain_sd
    assert timed.offset_sd_w == sensor.offset_sd_w


def _samples(devices: list[int]) -> pl.DataFrame:
    times = [0, 100, 200, 300]
    return pl.DataFrame(
        {
            "device": [d for d in devices for _ in times],
            "time_ns": times * len(devices),
            "act_sm": [0.5] * len(times) * len(devices),
            "clock_mhz": [1000.0] * len(times) * len(devices),
        }
    )


def test_activity_names_its_gpu_where_there_are_several() -> None:
    [one] = activity_notes(_samples([0]))
    assert one.startswith("measured activity: SMs active 50.0 %")
    assert [note.split(":")[0] for note in activity_notes(_samples([0, 1]))] == [
        "measured activity of GPU 0",
        "measured activity of GPU 1",
    ]


def test_samples_of_a_gpu_that_ran_nothing_count_for_no_kernel() -> None:
    kernels = pl.DataFrame({"device": [0], "start_ns": [0], "duration_ns": [300], "signature": [9]})
    found = activity_by_signature(kernels, _samples([0, 1]))
    assert found.select("signature", "samples").rows() == [(9, 2)]  # at 100 and 200, a period inside
    assert activity_by_signature(kernels.clear(), _samples([0])).height == 0
    one = _samples([0]).head(1)  # no period
    assert activity_by_signature(kernels, one).height == 0


def _log(updates: int) -> PowerLog:
    time = np.arange(updates) * 0.1
    power = 100.0 + 50.0 * (np.arange(updates) % 3)
    return PowerLog("power_w", time, power, np.zeros(0), np.zeros(0))


def test_ten_updates_tell_a_sensor_and_nine_do_not() -> None:
    sensor = replace(candidate_sensors(load_gpu("a100-sxm", part="sensor"), "power_w")[0], update_s=0.1)
    timeline = build_timeline(np.array([0.0]), np.array([0.5]), np.zeros(1, dtype=np.int64), 1)
    with pytest.raises(BadInput, match="only 9 updates"):
        characterize(_log(9), timeline, sensor)
    characterize(_log(10), timeline, sensor)


def test_an_activity_table_is_checked_against_the_gpu_chosen(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "k", "start_us": i * 1e6, "end_us": i * 1e6 + 5e5} for i in range(20)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "activity.csv")
    lines = ["time_ns,gpu,power_w"]
    for i in range(400):  # GPU 1 is read half as often
        lines += [f"{int(i * 2e8)},{gpu},{150 + 10 * i}" for gpu in ((0, 1) if i % 2 else (0,))]
    (tmp_path / "power.csv").write_text("\n".join(lines))
    polled = []
    for device in (0, 1):
        checked = check_activity(tmp_path / "activity.csv", power=[tmp_path / "power.csv"], device=device)
        [(of, value)] = checked.findings.filter(pl.col("check") == "polling").select("device", "value").rows()
        assert of == device
        polled.append(value)
    assert polled[1] == pytest.approx(2.0 * polled[0])


def test_misses_alike_from_reading_to_reading_widen_powers() -> None:
    """One power and misses of 1: weights that fall from 1 to 0 over 30 readings make 30 of the variance."""
    n = 800
    design = sparse.csr_matrix(np.ones((n, 1)))
    alike = _variance_inflation(design, np.eye(1), np.ones(n), most=30)
    expected = 1.0 + sum(2.0 * (1.0 - lag / 30) * (n - lag) / n for lag in range(1, 30))
    assert alike == pytest.approx(expected)
    assert 29.0 < alike < 30.0
    assert _variance_inflation(design, np.eye(1), (-1.0) ** np.arange(n)) == 1.0


def test_a_drift_is_known_to_the_deviation_of_its_interval() -> None:
    """A clock that gains 200 ns a second, read with 300 ns of noise."""
    at = np.linspace(0.0, 100.0, 200)
    noise = np.random.default_rng(3).normal(0.0, 300.0, len(at))
    slope, deviation = _drift(at, 200.0 * at + noise)
    assert slope == pytest.approx(200.0, abs=5.0)
    # of a straight line through them; the slope of medians errs by 2 % more
    assert deviation == pytest.approx(300.0 / np.sqrt(((at - at.mean()) ** 2).sum()), rel=0.35)
    assert _drift(at[:19], 200.0 * at[:19]) == (0.0, 0.0)


def test_clocks_of_samples_are_told_without_a_twentieth_at_either_end() -> None:
    samples = pl.DataFrame({"act_sm": [0.5] * 101, "clock_mhz": [1000.0 + 10.0 * i for i in range(101)]})
    told = sampled_activity(samples)
    assert "clock 1,050 to 1,950 MHz (5 to 95 % of samples)" in told


@pytest.mark.parametrize("bound", [0.0, 0.5])
def test_many_powers_are_found_as_few_are(bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By steps instead of by a factor of the whole matrix; a sum known to 2 J ties them as readings do."""
    random = np.random.default_rng(8)
    shares = random.dirichlet(np.ones(6), 40)
    prior = Prior(np.full(6, 200.0), np.full(6, 30.0), np.ones(6), 0.2, 0.0, 900.0)
    totals = (np.array([[2.0, 1.0, 3.0, 0.0, 0.0, 1.0]]), np.array([1500.0]), np.array([2.0]))
    readings = shares @ random.uniform(100.0, 300.0, 6)
    system = NormalEquations(sparse.csr_matrix(shares), np.full(40, 0.01), prior, np.full(6, bound), totals)
    asked = (readings, np.full(6, 20.0), prior.mean_w, prior.mean_w)
    few = system.powers(*asked)
    monkeypatch.setattr("tracetool.measure.normal_equations._MANY_CLASSES", 1)
    assert system.powers(*asked) == pytest.approx(few, rel=1e-3)


@pytest.mark.parametrize(("scores", "chosen"), [((0.0, -30.0, 1.0), 0), ((0.0, -30.0, 99.0), 2)])
def test_a_sensor_is_another_where_that_explains_the_log_far_better_than_the_first(
    scores: tuple[float, ...], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replace(candidate_sensors(load_gpu("a100-sxm", part="sensor"), "power_w")[0], update_s=0.1)
    sensors = [replace(first, window_s=w) for w in (0.025, 0.05, 0.1)]
    told = iter(scores)
    monkeypatch.setattr("tracetool.measure.observe.log_likelihoods", lambda *_: np.array([next(told)]))
    timeline = build_timeline(np.array([0.0]), np.array([5.0]), np.zeros(1, dtype=np.int64), 1)
    log = _log(100)
    assert choose_sensor(log.time_s, log.power_w, timeline, sensors) is sensors[chosen]
