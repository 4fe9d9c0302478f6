"""Joules of pieces, groups and altered runs from a few numbers that are added up here, without a run."""

from __future__ import annotations

from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tests.model.operators import rows_of
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.measure.sensors import GPU_TO_GPU_GAIN_SD
from tracetool.replay.breakdown import _with_idle
from tracetool.replay.diagnosis.altered_kernels import Altered, fused
from tracetool.replay.diagnosis.gpu_pieces import CutRun, Side
from tracetool.replay.diagnosis.latent import _SUMS, CAUSE_COLUMNS, _rated
from tracetool.replay.diagnosis.neighbors import chain_shares
from tracetool.replay.diagnosis.replayed import _idle_j, replayed, rescaled
from tracetool.replay.diagnosis.shares import Measured, _tail
from tracetool.replay.gap_causes import Gap
from tracetool.replay.governor import Governor
from tracetool.replay.gpu_work import _own_errors
from tracetool.replay.prepare import _in_range, prepare
from tracetool.replay.scope_totals import DeviceWork, Spread, budget
from tracetool.tables.schema import load_schema


def _stream(signatures: list[int]) -> pl.DataFrame:
    """Activities one after the other on one stream."""
    n = len(signatures)
    return pl.DataFrame({"start_ns": range(n), "device": [0] * n, "stream": [7] * n, "signature": signatures})


def test_two_elementwise_kernels_in_a_row_save_what_they_hand_over() -> None:
    """The first of two keeps one tensor of three in registers, the second one of two, a product none."""
    rows = OperatorColumns(
        np.array(["elementwise", "elementwise", "gemm"], dtype=object),
        {"elements": np.full(3, 1e6), "reads": np.array([2.0, 1.0, 1.0]), "writes": np.ones(3)},
    )
    assert chain_shares(_stream([0, 1, 2]), rows).tolist() == pytest.approx([1 / 3, 1 / 2, 0.0])
    assert chain_shares(_stream([0, 2, 1]), rows).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("tensor_s", "time", "energy"), [(0.0, 0.6, 0.6), (2.0, 1.0, 1.0 - 0.4 * 0.25)])
def test_a_fused_kernel_saves_writing_as_far_as_memory_bounds_it(
    tensor_s: float, time: float, energy: float
) -> None:
    """4 of the product's 10 MB are handed on: 40 % of it, or of its DRAM energy, a quarter of the whole."""
    rows = OperatorColumns(
        np.array(["gemm", "elementwise"], dtype=object),
        {"elements": np.array([np.nan, 2e6]), "dtype": np.array(["bf16", "bf16"], dtype=object)},
    )
    timing = SimpleNamespace(
        work=SimpleNamespace(dram_bytes=np.array([10e6, 16e6])),
        busy_s={"dram": np.ones((2, 1)), "tensor": np.array([[tensor_s], [0.0]])},
    )
    predicted = SimpleNamespace(
        timing=timing, parts_j={"dram": np.array([[2.0], [1.0]])}, energy_j=np.array([[8.0], [1.0]])
    )
    replays = SimpleNamespace(rows=rows, predicted=predicted, launches=np.ones(2))
    booked: Any = SimpleNamespace(
        recorded=SimpleNamespace(replays=replays), cut=SimpleNamespace(kernels=_stream([0, 1]))
    )
    before = Altered(np.ones(2), np.ones(2), 1.0, np.zeros(2))
    after = fused(booked, before, "gemm", "elementwise")
    assert after.time.tolist() == pytest.approx([time, 0.75])
    assert after.energy.tolist() == pytest.approx([energy, 0.75])
    timing.work.dram_bytes = np.array([10e6, 2e6])  # less than is handed on: no kernel takes no time
    least = fused(booked, before, "gemm", "elementwise")
    assert (least.time[1], least.energy[1]) == pytest.approx((0.01, 0.01))


def test_factors_of_a_group_below_a_joule_and_a_millisecond() -> None:
    """0.4 ms of work and 0.1 idle for 0.2 J: four fifths busy, 400 W, half of the roof."""
    sums = dict.fromkeys(_SUMS, 0.0) | {
        "useful_flops": 3e8, "issued_flops": 4e8, "dram_bytes": 1e6, "shaped_s": 4e-4, "roof_s": 2e-4,
        "active_s": 3e-4, "dynamic_j": 0.1, "model_dynamic_j": 0.08,
    }  # fmt: skip
    frame = pl.DataFrame(
        {"time_ms": 0.4, "idle_ms": 0.1, "idle_j": 0.05, "energy_j": 0.2, "half_j": 0.02, "memory": 0.5}
        | dict.fromkeys(CAUSE_COLUMNS, 0.0) | sums
    )  # fmt: skip
    booked: Any = SimpleNamespace(recorded=SimpleNamespace(gpu="a100-sxm"), energy_j=0.8)
    row = _rated(frame, booked).row(0, named=True)
    expected = {
        "share": 0.25, "busy_share": 0.8, "power_w": 400.0, "roofline_share": 0.5, "occupancy": 0.75,
        "padding_share": 0.25, "flop_per_byte": 300.0, "gflop_per_joule": 1.5, "dynamic_ratio": 1.25,
        "power_low_w": 360.0, "power_high_w": 440.0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("idle_s", "closed", "joules"),
    [
        (0.4, (0.0, 0.0), 0.4 * 60.0),  # as the half second that was recorded at 60 W
        (0.4, (0.2, 6.0), 0.3 * 80.0 + 0.1 * 30.0),  # 24 J in the 0.3 s that are kept, beyond them 30 W
        (0.6, (0.5, 30.0), 0.6 * 60.0),  # all of it closed: its own mean
    ],
)
def test_idle_time_costs_what_the_rest_of_it_did(
    idle_s: float, closed: tuple[float, float], joules: float
) -> None:
    """Half a second for 30 J; at the other clock idle power is twice that of the recorded one."""
    models = [SimpleNamespace(replays=SimpleNamespace(predicted=SimpleNamespace(idle_w=np.array([w]))))
              for w in (50.0, 100.0)]  # fmt: skip
    plain: Any = SimpleNamespace(model=models[0], idle_s=0.5)
    predicted: Any = models[1]
    shut: Any = SimpleNamespace(time_s=closed[0], energy_j=closed[1])
    assert _idle_j(plain, predicted, idle_s, 30.0, shut) == pytest.approx(2.0 * joules)


@pytest.mark.parametrize(
    ("time", "energy", "factors"),
    [([1.0, 1.0], [1.0, 0.5], True), ([0.5, 1.0], [1.0, 1.0], True), ([1.0, 1.0], [1.0, 1.0], False)],
)
def test_a_timeline_is_replayed_with_whatever_one_kernel_takes_or_draws_otherwise(
    time: list[float], energy: list[float], factors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less energy is less power, which a limit tells: one kernel of two is enough."""
    asked = []

    def ends(*given: Any) -> Any:
        asked.extend(g.tolist() for g in given[1:])
        raise KeyboardInterrupt

    monkeypatch.setattr("tracetool.replay.diagnosis.replayed.rescaled", ends)
    nothing: Any = None
    predicted: Any = SimpleNamespace(replays=SimpleNamespace(at=lambda _: ends(nothing)))
    altered = Altered(np.array(time), np.array(energy), 1.0, np.zeros(2))
    with pytest.raises(KeyboardInterrupt):
        replayed(nothing, predicted, altered, nothing, nothing)
    assert asked == ([time, energy] if factors else [])


def test_activities_of_a_kernel_share_its_energy_by_weight() -> None:
    """8 J of a signature whose launches weigh 1 and 3; of a launch half in this part, half its weight."""
    side: Any = SimpleNamespace(
        of_pair=sparse.csr_matrix(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
        weight=np.array([1.0, 3.0, 0.0]),
        pairs=np.array([[5, 0], [6, 0]]),
        of_pairs_j=np.array([8.0, 1.0]),
        parts=SimpleNamespace(
            pieces=SimpleNamespace(rows=np.array([0, 1, 2]), part=np.array([1.0, 0.5, 1.0])),
            shared_s=np.array([[1.0, 2.0, 0.0], [0.5, 0.0, 0.0]]),
        ),
    )
    made = Side.activities(side).sort("row")
    assert made["energy_j"].to_list() == pytest.approx([2.0, 6.0, 1.0])
    assert made["launches"].to_list() == [1.0, 0.5, 1.0]
    assert made["time_s"].to_list() == [1.5, 2.0, 0.0]
    assert made["signature"].to_list() == [5, 5, 6]


@pytest.mark.parametrize(("measured", "weight"), [(True, [2.0, 1.0]), (False, [10.0, 6.0])])
def test_launches_weigh_by_time_where_a_log_tells_their_energy(
    measured: bool, weight: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it does not, by what the model says of each, here 10 J and half of 12 J."""
    monkeypatch.setattr("tracetool.replay.diagnosis.gpu_pieces._sets", lambda *_, **__: None)
    monkeypatch.setattr("tracetool.replay.diagnosis.gpu_pieces._energy_of", lambda *_: (None, measured))
    idle = SimpleNamespace(start_ns=np.zeros(0), end_ns=np.zeros(0), whole_s=np.zeros(0))
    parts: Any = SimpleNamespace(
        device=0, idle=idle, idle_cause=np.zeros(0, np.int64), shared_s=np.array([[2.0, 1.0]]),
        pieces=SimpleNamespace(rows=np.array([0, 1]), part=np.array([1.0, 0.5])),
    )  # fmt: skip
    predicted = SimpleNamespace(energy_j=np.array([10.0, 12.0]))
    energies: Any = SimpleNamespace(predicted=predicted, covered=lambda _: None)  # a log of all of the run
    assert Side.of(energies, _stream([3, 3]), parts, np.zeros(4, np.bool_)).weight.tolist() == weight


def test_the_energy_of_a_run_is_the_last_set_of_each_gpu() -> None:
    sides: Any = [
        SimpleNamespace(energy=SimpleNamespace(energy_j=np.array(e))) for e in ([1.0, 3.0], [2.0, 4.0])
    ]
    nothing: Any = None
    assert CutRun(nothing, nothing, nothing, nothing, tuple(sides)).energy_j == 7.0


def test_gpus_of_one_model_differ_by_their_own_gain() -> None:
    """5 % in all, 4 of them the gain: 3 are left, beside the least that gains of one model differ by."""
    joules = np.array([0.0, 0.0, 100.0])
    energy: Any = SimpleNamespace(energy_j=joules, high_j=joules * (1.0 + 0.05 * Z90))
    sets: Any = SimpleNamespace(share=np.ones((3, 1)), shared_s=np.ones(1))
    sensor = SimpleNamespace(gain_sd=0.04, gain=1.0, pivot_w=0.0, offset_sd_w=0.0)
    energies: Any = SimpleNamespace(
        run=SimpleNamespace(devices=pl.DataFrame({"device": [0, 1], "gpu": ["a100-sxm"] * 2})),
        measured=SimpleNamespace(observations={d: SimpleNamespace(sensor=sensor) for d in (0, 1)}),
    )
    gpus: list[Any] = [SimpleNamespace(device=d) for d in (0, 1)]
    tables = [(gpus[0], sets, energy, None), (gpus[1], sets, None, energy)]
    own = (0.03**2 + GPU_TO_GPU_GAIN_SD**2) ** 0.5
    assert _own_errors(energies, tables).tolist() == pytest.approx([own, 0.05])


def test_the_peak_is_as_uncertain_as_what_draws_most_of_what_runs() -> None:
    """200 W, 25 % less or 30 % more, for 2 ms; a kernel of 300 W is known but never launched."""
    column = lambda *values: np.array(values)[:, None]  # noqa: E731
    predicted: Any = SimpleNamespace(
        power_w=column(100.0, 200.0, 300.0), power_low_w=column(90.0, 150.0, 299.0),
        power_high_w=column(110.0, 260.0, 301.0), idle_w=np.array([50.0]), requested_mhz=np.array([1410.0]),
        throttled_share=np.zeros((3, 1)),
    )  # fmt: skip
    rows = rows_of("gemm", m=[64, 64, 64])
    work = DeviceWork(rows, predicted, column(1e-3, 2e-3, 0.0), column(0.1, 0.4, 0.0))
    one, none = np.ones(1), np.zeros(1)
    window: Any = SimpleNamespace(
        makespan_s=one, makespan_low_s=one, makespan_high_s=one, busy_s=one, gap_s=none, gap_low_s=none,
        gap_high_s=none, peak_w=np.array([220.0]),
    )  # fmt: skip
    spread = Spread((none, none), (none, none))
    (record,) = budget(work, window, anchored=True, spread=lambda _: spread)
    ends = [record[f"peak_power{end}_w"] for end in ("", "_low", "_high")]
    assert ends == pytest.approx([220.0, 0.75 * 220.0, 1.3 * 220.0])


def test_ranges_within_a_dropped_one_go_with_it() -> None:
    ranges = pl.DataFrame(
        {"range": [0, 1, 2, 3], "name": ["step", "layer", "mlp", "after"], "parent": [None, 0, 1, None]}
    )
    run: Any = SimpleNamespace(table=lambda _: ranges, path="run")
    kernels = pl.DataFrame({"range": [2, 0, 3, None, 1]})
    assert _in_range(run, kernels, "st*").tolist() == [True, True, False, False, True]
    assert _in_range(run, kernels, "layer").tolist() == [True, False, False, False, True]


@pytest.mark.parametrize(("governor", "speed"), [(None, 0.5), (Governor(0.02, 0.01, 0.04, 1.2), 0.75)])
def test_a_governor_tells_how_fast_overlapping_kernels_were_recorded(
    governor: Governor | None, speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half as fast under a limit kept at every moment; three quarters where bursts pass it."""
    n = 2
    kernels = load_schema("kernels").conform(
        pl.DataFrame({"start_ns": [0, 100], "duration_ns": [1000, 1000], "device": [0] * n, "stream": [1, 2],
                      "kind": ["kernel"] * n, "name": ["a", "b"], "signature": range(n)})
    )  # fmt: skip
    tables = {"kernels": kernels, "host_calls": load_schema("host_calls").empty()}
    run: Any = SimpleNamespace(table=lambda name, *_: tables[name], path="run")
    monkeypatch.setattr("tracetool.replay.prepare.alike_collectives", lambda _: np.full(n, -1))
    monkeypatch.setattr("tracetool.replay.prepare.recorded_speed", lambda *_: np.full(n, 0.5))
    monkeypatch.setattr("tracetool.replay.prepare.governed_speed", lambda *a: 1.5 * a[3] if a[4] else None)
    nothing: Any = None
    made = prepare(
        run, rows_of("gemm", m=[64.0] * n), nothing, recorded=lambda: (nothing, 300.0), governor=governor
    )
    assert made.cap.speed is not None
    assert made.cap.speed.tolist() == [speed] * n


def test_what_is_not_replayed_leaves_its_time_idle() -> None:
    """Of 60 ms two kernels ran in 20 ms; that between them is not replayed: 40 ms at 50 W are 2 J."""
    ms = 1_000_000
    replayed = SimpleNamespace(
        start_ns=np.array([0.0, 20.0, 50.0]) * ms, end_ns=np.array([10.0, 40.0, 60.0]) * ms,
        each_reason=np.full(3, int(Gap.HOST)), each_late_ns=np.zeros(3),
    )  # fmt: skip
    replays: Any = SimpleNamespace(
        work=SimpleNamespace(device=np.zeros(3, np.int64)), at=lambda *_, **__: replayed,
        in_replay=np.array([True, False, True]),
        predicted=SimpleNamespace(idle_w=np.array([50.0])),
    )  # fmt: skip
    active = pl.DataFrame(
        {"name": ["work"], "launches": [2], "recorded_time_ms": [20.0], "device_time_ms": [20.0],
         "energy_j": [6.0], "share": [1.0]}
    )  # fmt: skip
    found = _with_idle(active, {"gap": pl.Series("gap", ["work"] * 3)}, replays, 0)
    assert found["energy_j"].to_list() == pytest.approx([6.0, 2.0])
    assert found["idle_ms"].to_list() == pytest.approx([0.0, 40.0])
    assert found["share"].to_list() == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("pace", [None, 2.0])
@pytest.mark.parametrize("governed_at", [None, 0, 1])
def test_a_governor_that_followed_the_recorded_clock_lets_altered_bursts_pass(
    governed_at: int | None, pace: float | None
) -> None:
    """Kernels of 1 and 2 s at half and three times their time; three launches of both."""
    timed = make_dataclass("timed", ["duration_s"])
    rated = make_dataclass("rated", ["timing", "energy_j", "parts_j"])
    followed = make_dataclass("followed", ["predicted", "work", "governed", "pace"])
    column = np.array([[1.0], [2.0]])
    governed = None if governed_at is None else SimpleNamespace(at={governed_at: None})
    paces = None if pace is None else np.full(3, pace)
    replays: Any = followed(
        rated(timed(column), column, {"dram": column}), SimpleNamespace(signature=np.array([1, 0, 1])),
        governed, paces,
    )  # fmt: skip
    made: Any = rescaled(replays, np.array([0.5, 3.0]), np.array([0.1, 1.0]))
    assert made.predicted.timing.duration_s.ravel().tolist() == [0.5, 6.0]
    assert (
        made.predicted.energy_j.ravel().tolist()
        == made.predicted.parts_j["dram"].ravel().tolist()
        == [0.1, 2.0]
    )
    if governed_at == 0:
        assert made.governed is governed
        assert made.pace.tolist() == [(pace or 1.0) * factor for factor in (3.0, 0.5, 3.0)]
    else:
        assert made.governed is None
        assert made.pace is paces


def test_a_wave_that_is_not_full_costs_the_idle_power_of_its_empty_sms() -> None:
    """A fifth of a second waits; of the rest SMs work three quarters: a quarter idles at 50 of 200 W."""
    column = lambda value: np.array([[value]])  # noqa: E731
    timing = SimpleNamespace(
        fixed_s=np.array([0.2]), duration_s=column(1.0), sm_active=column(0.6),
        busy_s={"tensor": column(0.5), "dram": column(0.4)},
    )  # fmt: skip
    recorded: Any = SimpleNamespace(timing=timing)
    one = np.ones(1)
    measured = Measured(2.0 * one, 400.0 * one, 2.0 * one, one, 50.0)
    rows = rows_of("gemm", m=[64])
    assert _tail(rows, recorded, np.ones(1, np.bool_), measured).tolist() == pytest.approx([0.25 * 0.25])
    assert _tail(rows, recorded, np.zeros(1, np.bool_), measured).tolist() == [0.0]
