"""Energies, counters, filters and spans of a log from a few numbers that are added up here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse, stats

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.hardware.sensors import Sensor
from tracetool.measure.activity_energy import summed_energy
from tracetool.measure.attribute import attribute_run
from tracetool.measure.attribute_windows import _added
from tracetool.measure.attributed_work import check_overlap
from tracetool.measure.characterize import Characterized, Estimate
from tracetool.measure.class_energy import ClassEnergy
from tracetool.measure.clock_fit import _pieces
from tracetool.measure.counter import check_counter, counter_log, counter_steps, counter_totals
from tracetool.measure.design_matrix import Design, design, span_of
from tracetool.measure.energy_tables import window_table
from tracetool.measure.filters import Boxes, sensor_boxes
from tracetool.measure.identifiability import Identified, join_canceling
from tracetool.measure.identify_sensor import IdentifiedSensor, identify_sensor
from tracetool.measure.power_log import PowerLog, power_logs
from tracetool.measure.prior import _filled_power, prior_of
from tracetool.measure.readings import Readings
from tracetool.measure.served_load import phase_spans
from tracetool.measure.signature_sums import SignatureSums
from tracetool.measure.timeline import build_timeline, cut
from tracetool.measure.window_length import NOISE, class_likelihood
from tracetool.measure.windows import WindowEnergy, class_ratio
from tracetool.tables.run import Run

NONE = np.zeros(0)
S = 1_000_000_000
LAG = Sensor("draw", "lag", 0.1, np.nan, 0.5, 0.02, 1.0, 0.0, 0.0, 0.0, "measured", "")


def _one(*values: float) -> Floats:
    return np.array(values, np.float64)


def test_windows_of_two_gpus_add_up_and_their_errors_as_squares() -> None:
    asked = pl.DataFrame({"start_us": [0], "end_us": [5]})
    parts = [
        WindowEnergy(_one(100.0), _one(97.0), _one(106.0), _one(0.5)),
        WindowEnergy(_one(50.0), _one(46.0), _one(58.0), _one(0.25)),
    ]
    row = window_table(asked, parts).row(0, named=True)
    assert (row["energy_j"], row["energy_low_j"], row["energy_high_j"]) == pytest.approx(
        (150.0, 145.0, 160.0)
    )
    assert row["coverage"] == pytest.approx(0.375)


def test_a_counter_may_be_wrong_by_a_tick_at_either_end() -> None:
    """100 W over 50 s, ticks of 1 s: 5,000 J are open by 2 x 100 J, 0.04 of them."""
    time = np.arange(0.0, 51.0)

    def checked(rate: float) -> bool:
        check = check_counter(PowerLog("draw", time, np.full(51, 100.0), time, 100.0 * rate * time))
        assert check is not None
        assert (check.quantum_j, check.falls) == pytest.approx((100.0 * rate, 0))
        assert check.ratio == pytest.approx(rate)
        return check.usable

    assert checked(1.0)
    assert checked(1.15)  # 0.12 and the 0.04 of the ticks
    assert not checked(1.17)
    assert not checked(0.83)


def test_a_counter_is_read_where_both_its_time_and_its_value_are() -> None:
    time, energy = _one(0.0, 1.0, np.nan, 3.0, 4.0, 5.0), _one(5.0, np.nan, 7.0, 7.0, 7.0, 6.0)
    moments, values, part = counter_steps(time, energy)
    assert (moments.tolist(), values.tolist(), part.tolist()) == ([0.0, 3.0, 5.0], [5.0, 7.0, 6.0], [0, 0, 1])


def _restarted(field: str) -> PowerLog:
    """200 W for 20 s, a reading each tenth; the counter starts anew between 9.9 and 10 s."""
    time = np.arange(0.0, 20.05, 0.1)
    joules = 200.0 * np.where(time > 9.95, time - 10.0, time + 50.0)
    return PowerLog(field, time, np.full(201, 200.0), time, joules)


def test_a_counter_that_restarts_loses_that_interval_alone() -> None:
    log = _restarted("draw")
    shown = power_logs(
        pl.DataFrame(
            {
                "time_ns": (log.counter_time_s * S).round().astype(np.int64),
                "device": np.zeros(201, np.int32),
                "power_w": pl.Series([None] * 201, dtype=pl.Float64),
                "energy_j": log.counter_j,
                "field": pl.Series([None] * 201, dtype=pl.String),
                "power_kind": pl.Series([None] * 201, dtype=pl.String),
            }
        ),
        0,
        0,
    )[0]
    assert (shown.field, len(shown.time_s)) == ("counter", 199)
    assert shown.power_w == pytest.approx(200.0)
    as_power = counter_log(shown, 0.1)
    assert as_power.power_w == pytest.approx(200.0)
    assert 197 <= len(as_power.time_s) <= 199
    assert not ((as_power.time_s > 9.95) & (as_power.time_s < 9.99)).any()
    parts = counter_totals(log, 5.0, 15.0)
    assert [round(end - begin, 6) for begin, end, _, _ in parts] == pytest.approx([4.9, 5.0])
    assert [joules for _, _, joules, _ in parts] == pytest.approx([980.0, 1000.0])


def test_what_is_said_of_a_counter_is_what_is_done() -> None:
    beside, alone = check_counter(_restarted("draw")), check_counter(_restarted("counter"))
    assert beside is not None
    assert alone is not None
    assert (beside.falls, beside.usable, alone.falls, alone.usable) == (1, True, 1, True)
    assert beside.ratio == pytest.approx(1.0)
    assert "agrees with integrated power (1.000" in beside.sentence()
    assert "agrees" not in alone.sentence()
    assert "nothing to check its rate against" in alone.sentence()
    for check in (alone, beside):
        assert check.quantum_j == pytest.approx(20.0)
        assert "went backwards 1 time: each such interval is left out" in check.sentence()
        assert "not used" not in check.sentence()
    log = _restarted("counter")
    two = check_counter(replace(log, counter_j=log.counter_j + np.where(np.arange(201) % 2, 0.0, 1e6)))
    assert two is not None
    assert not two.usable
    assert "and is not used" in two.sentence()


def test_a_log_speaks_of_what_its_first_filter_reaches_to_its_last_reading() -> None:
    readings = Readings(_one(10.0, 11.0), _one(1.0, 1.0), 1.0, 0.0, 0.1, 2)
    boxes = sensor_boxes(LAG, jitter_s=0.1)
    first, last = span_of(readings, boxes)
    # five places of an unknown delay of 0.1 s: the least 0.01, the most 0.09; 1 % of the lag is left out
    assert last == pytest.approx(11.0 - 0.02 - 0.01)
    assert first == pytest.approx(10.0 - 0.02 - 0.09 - 0.5 * np.log(100.0))
    assert boxes.weight.sum() == pytest.approx(1.0)


def test_a_filter_is_as_long_as_a_box_that_spreads_as_far() -> None:
    """A box is its own length; two moments d apart deviate as a box of the root of 3 of it, 12 d^2 / 4."""
    assert Boxes(_one(0.5), _one(0.2), _one(1.0)).length_s == pytest.approx(0.3)
    moments = Boxes(_one(0.1, 0.5), _one(0.1, 0.5), _one(0.5, 0.5))
    assert moments.length_s == pytest.approx(3.0**0.5 * 0.4)


def test_a_lag_is_ten_boxes_of_an_exponential() -> None:
    boxes = sensor_boxes(LAG)
    share = 1.0 - np.exp(-(np.stack([boxes.front_s, boxes.back_s]) - 0.02) / 0.5)
    assert share[0] == pytest.approx(np.arange(10) / 10.0)
    assert share[1] == pytest.approx([*np.arange(1, 10) / 10.0, 0.99])
    assert boxes.weight == pytest.approx((share[1] - share[0]) / 0.99)


@pytest.mark.parametrize(("kind", "name"), [("average", "average"), (None, "draw")])
def test_a_field_without_a_name_is_called_by_its_kind(kind: str | None, name: str) -> None:
    rows = pl.DataFrame(
        {"time_ns": [S, 2 * S], "device": [0, 0], "power_w": [50.0, 60.0], "energy_j": [None, None],
         "field": [None, None], "power_kind": [kind, kind]},
        schema_overrides={"energy_j": pl.Float64, "field": pl.String, "power_kind": pl.String},
    )  # fmt: skip
    (log,) = power_logs(rows, 0, S)
    assert (log.field, log.time_s.tolist(), log.power_w.tolist()) == (name, [0.0, 1.0], [50.0, 60.0])


def test_a_counter_alone_gives_its_mean_power() -> None:
    rows = pl.DataFrame(
        {"time_ns": [0, 2 * S, 3 * S], "device": [0] * 3, "power_w": [None] * 3,
         "energy_j": [5.0, 105.0, 305.0],
         "field": [None] * 3, "power_kind": [None] * 3},
        schema_overrides={"power_w": pl.Float64, "field": pl.String, "power_kind": pl.String},
    )  # fmt: skip
    (log,) = power_logs(rows, 0, 0)
    assert (log.field, log.time_s.tolist(), log.power_w.tolist()) == ("counter", [2.0, 3.0], [50.0, 200.0])


def test_a_class_may_draw_twice_what_full_readings_show_above_idle() -> None:
    """Readings of 100 W idle and 180 W, 0.4 of each of them work: no more than 100 + 2 x 80 / 0.4 W."""
    share = np.repeat([0.0, 0.4], 10)
    design = Design(sparse.csr_matrix(np.column_stack([share, 1.0 - share, 0.0 * share])), NONE, NONE)
    power = np.where(share > 0, 180.0, 100.0)
    assert prior_of(power, design, None, np.nan).high_w == pytest.approx(500.0)


@pytest.mark.parametrize(("high_w", "floor_w"), [(180.0, 60.0), (400.0, 40.0)])
def test_a_class_draws_no_less_than_the_lowest_readings_let_it(high_w: float, floor_w: float) -> None:
    """Six tenths of 100 W idle, or a fifth of the way from idle to work below it: 100 - 60 W."""
    share = np.tile([0.0, 1.0], 50)
    shares = np.stack([share, np.zeros(100), 1.0 - share], axis=1)
    power = np.where(share > 0, high_w, 100.0)
    assert prior_of(
        power, Design(sparse.csr_matrix(shares), NONE, NONE), None, np.nan
    ).low_w == pytest.approx(floor_w)


def test_readings_in_step_with_the_work_tell_no_line() -> None:
    share = np.array([0.3, 0.1 + 0.2, 0.3])  # apart by rounding alone
    assert _filled_power(share, np.array([100.0, 250.0, 110.0])) == 0.0
    assert _filled_power(np.array([0.25, 0.5, 0.0]), np.array([100.0, 150.0, 7.0])) == pytest.approx(250.0)


def _energies(joules: Floats, sd_j: Floats, seconds: Floats) -> ClassEnergy:
    k = len(joules) - 2
    identified = Identified(
        np.ones(k + 2), np.ones(k + 2, bool), np.full(k + 2, "", object), np.full(k + 2, -1)
    )
    watts = np.divide(joules, seconds, out=np.full(k + 2, np.nan), where=seconds > 0)
    return ClassEnergy(
        seconds, np.ones(k + 2), watts, joules, sd_j, np.zeros(k + 2), identified,
        np.diag(sd_j**2), 1.0, NONE, 0.0, np.zeros((2, k + 2)),
    )  # fmt: skip


def test_windows_take_the_power_a_class_is_stated_to_have() -> None:
    """9 s at 300 W that readings see, and copies of 1 s at 100 W that none does: 280 W in the mean."""
    classes = _energies(np.array([2700.0, 100.0, 0.0, 0.0]), np.ones(4), np.array([9.0, 1.0, 0.0, 0.0]))
    ratio = class_ratio(replace(classes, prior_share=np.array([0.0, 1.0, 0.0, 0.0])))
    assert ratio == pytest.approx([300.0 / 280.0, 100.0 / 280.0])


def test_sums_over_gpus_have_errors_of_their_own() -> None:
    """300 and 100 J, deviations 3 and 4 J: 5 J of 400."""
    one = _energies(_one(300.0, 10.0, 10.0), _one(3.0, 1.0, 1.0), _one(2.0, 1.0, 1.0))
    two = replace(one, energy_j=_one(100.0, 10.0, 10.0), covariance=np.diag(_one(16.0, 1.0, 1.0)))
    sums = SignatureSums({0: np.array([7]), 1: np.array([7])}, {0: one, 1: two})
    seconds = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    share, nothing = sums.half_shares({0: seconds, 1: seconds})
    assert share == pytest.approx(Z90 * 5.0 / 400.0)
    assert np.isnan(nothing)


def test_a_set_of_a_class_that_ran_half_a_second_has_its_share() -> None:
    """30 J in 0.5 s of four launches: half of it is half of that; a class that never ran leaves none."""
    classes = _energies(_one(30.0, 0.0, 10.0, 10.0), _one(0.3, 0.0, 0.1, 0.1), _one(0.5, 0.0, 1.0, 1.0))
    sets = np.array([[0.25, 0.0, 0.0, 0.0], [0.25, 0.1, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0]])
    found = summed_energy(classes, sets)
    assert found.energy_j == pytest.approx([15.0, np.nan, 5.0], nan_ok=True)
    assert found.high_j == pytest.approx([15.0 + 0.15 * Z90, np.nan, 5.0 + 0.05 * Z90], nan_ok=True)
    assert found.identified.tolist() == [1, 0, 1]


def test_a_class_that_one_window_did_not_measure_takes_the_others_power() -> None:
    """100 J in the 2 s that were measured: 150 J in 3 s, and 50 W."""
    rows = pl.DataFrame(
        {"device": [0, 0], "signature": [4, 4], "class": ["k", "k"], "family": ["gemm", "gemm"],
         "launches": [20, 10], "duration_ns": [2 * S, S], "energy_j": [100.0, None],
         "energy_low_j": [90.0, None], "energy_high_j": [110.0, None], "identified": [True, False],
         "reason": [None, "no sensor window saw it"], "coverage": [8.0, 2.0], "prior_share": [0.0, 0.9]}
    )  # fmt: skip
    nothing = ("throttled_share", "throttled_share_low", "throttled_share_high", "wait_ns", "wait_energy_j",
               "wait_energy_low_j", "wait_energy_high_j")  # fmt: skip
    rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in nothing)
    row = _added(rows).row(0, named=True)
    assert (row["launches"], row["duration_ns"], row["identified"]) == (30, 3 * S, False)
    assert (row["energy_j"], row["energy_low_j"], row["energy_high_j"]) == pytest.approx(
        (150.0, 135.0, 165.0)
    )
    assert (row["power_w"], row["power_high_w"]) == pytest.approx((50.0, 55.0))
    assert (row["coverage"], row["prior_share"]) == pytest.approx((6.0, 0.3))  # means over 2 s and 1 s


def test_a_single_request_is_a_span_in_prefill_and_one_in_decode() -> None:
    requests = pl.DataFrame({"start_ns": [0, 50], "first_token_ns": [10, 60], "end_ns": [40, 90]})
    assert phase_spans(requests).rows() == [(0, 10, 1, 0), (10, 40, 0, 1), (50, 60, 1, 0), (60, 90, 0, 1)]


def test_activities_are_cut_at_edges() -> None:
    row, cell, start, end = cut(_one(1.5, -1.0, 5.0), _one(1.8, 1.25, 6.0), _one(0.0, 1.0, 2.0))
    assert list(zip(row, cell, start, end, strict=True)) == [
        (0, 1, 1.5, 1.8), (1, 0, 0.0, 1.0), (1, 1, 1.0, 1.25),
    ]  # fmt: skip


def test_where_nothing_ran_no_time_is_busy() -> None:
    nothing = build_timeline(_one(1.0), _one(1.0), np.zeros(1, np.int64), 1)  # it does not last
    assert nothing.span_s == (0.0, 0.0)
    assert nothing.busy(_one(-1.0, 5.0)).tolist() == nothing.share(_one(-1.0, 5.0)).tolist() == [0.0, 0.0]


def test_what_is_shorter_than_a_second_is_written_down_too() -> None:
    kept = {"window": Estimate(0.025, 0.024, 0.026), "update": Estimate(0.1, 0.099, 0.101)}
    told = Characterized("boxcar", kept["window"], None, kept["update"], Estimate(0.0, 0.0, 0.0), 9.0, "")
    averages = replace(LAG, kind="boxcar", window_s=0.1, lag_s=0.0)
    lines = IdentifiedSensor("draw", told, averages).toml().splitlines()
    assert lines[:3] == ["[sensor]", "window_ms = 25.00", "update_ms = 100.00"]


@pytest.mark.parametrize("first_s", [1e-3, 5e-3])
def test_many_bursts_are_cut_into_pieces_that_end_with_the_work(first_s: float) -> None:
    """Five hundred bursts of 1 to 5 ms are too many pieces: the shortest join their neighbors."""
    length = np.random.default_rng(3).uniform(1e-3, 5e-3, 500)
    length[0] = first_s
    start = np.arange(500.0) * 0.01
    edges = _pieces(build_timeline(start, start + length, np.zeros(500, np.int64), 1), 1.0)
    assert 60 <= len(edges) <= 121
    assert np.diff(edges)[:-1].min() > length.max()
    assert (edges[0], edges[-1]) == pytest.approx((0.0, length.sum()))
    assert np.isclose(edges[1:-1, None], np.cumsum(length), atol=1e-9).any(axis=1).mean() > 0.5


def test_work_that_ends_before_a_logs_second_reading_overlaps_it() -> None:
    time = np.arange(1.0, 11.0)
    log = PowerLog("draw", time, np.full(10, 100.0), NONE, NONE)

    def work(start_s: float, end_s: float) -> Any:
        return SimpleNamespace(start_ns=np.array([start_s * S]), end_ns=np.array([end_s * S]))

    for start_s, end_s in ((0.5, 1.5), (9.9, 30.0), (0.0, 99.0)):
        check_overlap(work(start_s, end_s), log, 0, "run")
    with pytest.raises(BadInput, match=r"begins 7,199 s after it\)") as zone:
        check_overlap(work(-7198.0, -7190.0), log, 0, "run")
    assert "if --tz were 2 h more" in str(zone.value.fix)
    later = PowerLog("draw", time + 3 * 3600.0, np.full(10, 100.0), NONE, NONE)
    with pytest.raises(BadInput, match="do not overlap") as east:
        check_overlap(work(0.0, 10.0), later, 0, "run")
    assert "if --tz were 3 h more" in str(east.value.fix)
    with pytest.raises(BadInput, match=r"begins 99 s before it\)") as other:
        check_overlap(work(100.0, 101.0), log, 0, "run")
    assert "the same run" in str(other.value.fix)


@pytest.mark.parametrize(("scale", "unit"), [(1e-3, "milliseconds"), (1e-6, "seconds")])
def test_work_in_another_unit_of_time_is_told_its_unit(scale: float, unit: str) -> None:
    epoch = 1.7e9  # s since 1970
    log = PowerLog("draw", np.arange(10.0), np.full(10, 100.0), NONE, NONE)
    work = SimpleNamespace(
        start_ns=np.array([(epoch + 2.0) * S * scale]), end_ns=np.array([(epoch + 3.0) * S * scale])
    )
    with pytest.raises(BadInput) as fault:
        check_overlap(work, log, int(epoch * S), "act.csv")  # type: ignore[arg-type]
    assert f"are its times in {unit}? give UTC microseconds" in str(fault.value.fix)


def test_energies_whose_errors_cancel_are_joined() -> None:
    """10 and 10 J off, against one another: together 2 ** 0.5 J. A third that errs alone stays so."""
    covariance = np.array([[100.0, -99.0, 0.0], [-99.0, 100.0, 0.0], [0.0, 0.0, 100.0]])
    label = join_canceling(covariance, np.full(3, 5.0))
    assert label[0] == label[1] != label[2]
    known = join_canceling(covariance / 100.0, np.full(3, 5.0))  # each is known well enough
    assert len(set(known.tolist())) == 3


def test_a_log_beside_a_run_on_another_clock_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("timestamp, index, power.draw [W]\n2026/01/05 05:00:00.250, 0, 90 W\n", "utf-8")
    run = Run(tmp_path / "run", {"clock": {"domain": "monotonic"}, "tables": {"kernels": {"rows": 1}}})
    with pytest.raises(BadInput, match="is on a monotonic clock, the log on UTC"):
        attribute_run(run, power=[log], tz="+00:00")


def test_the_likelihood_of_classes_is_that_of_a_normal_distribution() -> None:
    """The best of the noises tried, by scipy's density of readings whose powers are drawn from the prior."""
    random = np.random.default_rng(6)
    start = np.cumsum(random.uniform(0.05, 0.2, 30))
    work = build_timeline(start, start + 0.04, np.arange(30) % 2, 2)
    readings = Readings(np.arange(0.5, 3.0, 0.1), random.uniform(100.0, 300.0, 25), 0.1, 0.0, 0.0, 25)
    boxes = sensor_boxes(replace(LAG, kind="boxcar", window_s=0.1, lag_s=0.0))
    seen = design(readings, boxes, work)
    prior, shares = prior_of(readings.power_w, seen, None, np.nan), seen.matrix.toarray()
    powers = np.diag(prior.sd_w**2) + np.outer(*[prior.scale_sd * prior.shared * prior.mean_w] * 2)
    noise = NOISE * readings.power_w.std()
    density = [
        stats.multivariate_normal.logpdf(
            readings.power_w, shares @ prior.mean_w, shares @ powers @ shares.T + one**2 * np.eye(25)
        )
        for one in noise
    ]
    expected = max(density) + 12.5 * np.log(2.0 * np.pi)
    assert class_likelihood(readings, work, boxes) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("gpu", "name", "loaded"),
    [(None, "NVIDIA A100-SXM4-80GB", "a100-sxm"), ("h100-sxm", "NVIDIA A100-SXM4-80GB", "h100-sxm")],
)
def test_a_sensor_is_looked_for_on_the_gpu_a_run_names(
    gpu: str | None, name: str, loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the run says of it goes before its profiler's string; of GPUs alike busy it is the first."""
    run = SimpleNamespace(
        telemetry=pl.DataFrame({"time_ns": [0, 1000]}),
        kernels=pl.DataFrame({"device": [5, 2, 0, 4, 1, 3], "start_ns": 100, "duration_ns": 500}),
        devices=pl.DataFrame(
            {"device": [0], "gpu": [gpu], "name": [name]}, schema_overrides={"gpu": pl.String}
        ),
    )
    asked = []

    def load(called: str, **_: Any) -> Any:
        asked.append(called)
        raise KeyboardInterrupt

    for what, instead in (
        ("is_run_path", lambda _: True), ("Run", SimpleNamespace(open=lambda _: run)),
        ("telemetry_devices", lambda _: [0]), ("load_gpu", load),
    ):  # fmt: skip
        monkeypatch.setattr(f"tracetool.measure.identify_sensor.{what}", instead)
    with pytest.raises(KeyboardInterrupt):
        identify_sensor("run.tracetool")
    assert asked == [loaded]
