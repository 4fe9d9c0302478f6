"""Sources no clock ties together: a job that repeats fits in several places, and says so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sources.power_worlds import World, make_world
from tracetool.measure.clock_fit import _MAX_PIECES, _pieces
from tracetool.measure.power_log import PowerLog
from tracetool.measure.source_alignment import _ambiguous, _Fit, _fit
from tracetool.measure.timeline import build_timeline

NOTHING = np.empty(0)


def _found(start_s: np.ndarray, end_s: np.ndarray, time_s: np.ndarray, power_w: np.ndarray) -> _Fit:
    timeline = build_timeline(start_s, end_s, np.zeros(len(start_s), np.int64), 1)
    found = _fit(PowerLog("power.draw.instant", time_s, power_w, NOTHING, NOTHING), timeline, None)
    assert found is not None
    return found


def _square_log(first: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Readings of 100 ms of bursts of 0.6 s a second, idle before and after, offset 0."""
    random = np.random.default_rng(seed)
    time = np.arange(first - 3.0, first + count + 3.0, 0.1)
    fine = time[:, None] - 0.1 * (np.arange(50) + 0.5) / 50
    on = (fine > first) & (fine < first + count) & ((fine - first) % 1.0 < 0.6)
    return time, np.round(80.0 + 200.0 * on.mean(axis=1) + random.normal(0, 0.8, len(time)), 2)


def test_a_strictly_periodic_trace_that_sees_part_of_the_log_is_ambiguous() -> None:
    time, power = _square_log(0.0, 12, 1)
    start = np.arange(8.0)  # eight of the twelve bursts: it fits in five places
    found = _found(start, start + 0.6, time, power)
    assert len(found.rivals_s) >= 2
    places = np.array([found.offset_s, *found.rivals_s])
    assert np.abs(places - np.round(places)).max() < 0.1  # a period apart
    assert np.abs(places).min() < 0.1  # the true one is among them


def test_a_periodic_job_whose_begin_and_end_are_logged_has_one_place() -> None:
    time, power = _square_log(0.0, 12, 2)
    start = np.arange(12.0)
    found = _found(start, start + 0.6, time, power)
    assert found.rivals_s == ()
    assert abs(found.offset_s) < 0.05


@pytest.mark.parametrize("seed", [0, 4])
def test_a_job_that_does_not_repeat_has_one_place(seed: int) -> None:
    world: World = make_world(seed)
    middle = float(np.median(world.time_s))
    found = _found(world.start_s, world.end_s, world.time_s - middle, world.power_w)
    assert found.rivals_s == ()
    assert abs(found.offset_s + middle - world.offset_s) < 0.5


def test_the_interval_reaches_over_all_places() -> None:
    entry = {"offset_ns": 5_000, "low_ns": 4_000, "high_ns": 6_000, "basis": "fitted: here"}
    told = _ambiguous(entry, [10_005_000, -9_995_000])
    assert told["ambiguous"]
    assert told["low_ns"] < -9_995_000
    assert told["high_ns"] > 10_005_000
    assert "repeats" in told["basis"]


@pytest.mark.parametrize("launches", [200, 1600])
def test_launches_all_alike_are_few_pieces_of_work(launches: int) -> None:
    # powers of two: their busy times are equal to the last bit, and no piece is shorter than the others
    start = np.arange(launches) * 0.25
    timeline = build_timeline(start, start + 0.125, np.zeros(launches, np.int64), 1)
    edges_s = _pieces(timeline, 0.5)
    assert _MAX_PIECES / 2 < len(edges_s) <= 2 * _MAX_PIECES
    assert edges_s[0] == 0.0
    assert edges_s[-1] == pytest.approx(0.125 * launches)


@pytest.mark.parametrize("power_w", [0.0, 41.0])
def test_a_log_of_one_value_has_no_place(power_w: float) -> None:
    time_s = np.arange(0.0, 60.0, 0.1)
    start = np.arange(40.0)
    timeline = build_timeline(start, start + 0.5, np.zeros(40, np.int64), 1)
    log = PowerLog("power.draw", time_s, np.full(len(time_s), power_w), NOTHING, NOTHING)
    assert _fit(log, timeline, None) is None
