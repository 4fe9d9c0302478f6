"""Logs and traces of hours: placed in bounded memory, to a millisecond, whatever their clocks drift."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tracetool.core.arrays import Floats
from tracetool.hardware.load import load_gpu
from tracetool.measure.align import coarse_offsets, least_correlation
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.source_alignment import _fit
from tracetool.measure.timeline import Timeline, build_timeline

NOTHING = np.zeros(0)
DRIFT = 20e-6


def _hours(seconds: float, seed: int = 3) -> tuple[Timeline, Timeline]:
    """Blocks of a fifth of a second to a second and idle times, of two kinds; and the same as one kind."""
    random = np.random.default_rng(seed)
    length = random.uniform(0.2, 1.0, int(seconds))
    end = np.cumsum(length + random.uniform(0.1, 0.9, len(length)))
    kind = random.integers(0, 2, len(length))
    kind, end, length = kind[end < seconds], end[end < seconds], length[end < seconds]
    return build_timeline(end - length, end, kind, 2), build_timeline(end - length, end, 0 * kind, 1)


def _log(work: Timeline, watts: tuple[float, float], every_s: float) -> tuple[Floats, Floats]:
    """What a socket's sensor shows of it, the mean of a millisecond, and when: on the work's clock."""
    at = np.arange(-20.0, work.span_s[1] + 20.0, every_s)
    at += np.random.default_rng(4).uniform(0.0, 0.002, len(at))
    power = np.full(len(at), 100.0)
    for start, end, kind in zip(work.start_s, work.end_s, work.label, strict=True):
        first, last = np.searchsorted(at, [start, end])
        power[first:last] = watts[kind]
    return at, power + np.random.default_rng(5).normal(0.0, 1.0, len(at))


def test_two_hours_beside_two_hours_are_placed_to_a_step_in_bounded_memory() -> None:
    work, load = _hours(7200.0)
    at, power = _log(work, (400.0, 400.0), 0.5)
    tracemalloc.start()
    offset_s, correlation = coarse_offsets(
        Readings(at + 77.777, power, 1e-3, 0.0, 1e-3, len(at)), load, 2.0 * at[-1]
    )[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert offset_s == pytest.approx(77.777, abs=0.02)  # readings each half a second tell no more
    assert correlation > 0.9
    assert peak < 600e6  # a grid of milliseconds took 4 GB, and beyond 20 million steps no place at all


def test_the_clocks_of_an_hour_drift_apart_further_than_a_place_is_looked_for() -> None:
    work, load = _hours(3600.0)
    at, power = _log(work, (300.0, 500.0), 0.25)
    middle = float(np.median(at))
    shown = 123.4 + (at - middle) * (1.0 + DRIFT)
    fit = _fit(
        PowerLog("average_socket_power", shown, power, NOTHING, NOTHING),
        load.shifted(-middle),
        load_gpu("mi300x", part="sensor"),
    )
    assert fit is not None
    drift, sd = fit.fit.alignment.drift, fit.fit.alignment.drift_sd
    assert sd < 2e-6
    assert abs(drift - DRIFT) < 4.0 * sd
    assert fit.correlation > fit.least


def test_attribution_follows_the_drift_of_an_hour() -> None:
    work, _ = _hours(3600.0)
    at, power = _log(work, (300.0, 500.0), 0.25)
    middle = float(at.mean())
    shown = middle + (at - middle) * (1.0 + DRIFT)
    sensors = candidate_sensors(load_gpu("mi300x", part="sensor"), "average_socket_power", None)
    seen = observe(PowerLog("average_socket_power", shown, power, NOTHING, NOTHING), work, sensors)
    assert seen.alignment.drift == pytest.approx(DRIFT, abs=5e-6)


def test_thousands_of_readings_may_correlate_less_than_dozens() -> None:
    random = np.random.default_rng(1)
    assert least_correlation(random.normal(0.0, 1.0, 60)) == 0.5
    assert least_correlation(random.normal(0.0, 1.0, 1200)) == pytest.approx(12.0 / np.sqrt(1200.0), rel=0.1)
    assert least_correlation(np.cumsum(random.normal(0.0, 1.0, 1200))) == 0.5  # neighbors tell the same
    assert least_correlation(random.normal(0.0, 1.0, 40_000)) == 0.3
