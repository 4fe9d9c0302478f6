"""A log's offset: its posterior against the product of two normal distributions, planted places found."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.arrays import Floats
from tracetool.measure.align import Alignment, _posterior, align, coarse_offsets, join_parts
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline, build_timeline

PRIOR_SD = 0.005


@pytest.mark.parametrize("place", np.linspace(-0.0079, 0.0079, 9).tolist())
@pytest.mark.parametrize("sd", [4e-4, 2e-3])
def test_an_offset_is_found_between_the_places_tried_first(place: float, sd: float) -> None:
    """Precisions add: the places tried first lie 1.7 ms apart, and rounds look closer on either side."""
    found = align(lambda x: -0.5 * ((x - place) / sd) ** 2, prior_sd_s=PRIOR_SD)
    precision = 1.0 / sd**2 + 1.0 / PRIOR_SD**2
    assert found.offset_s == pytest.approx(place / sd**2 / precision, abs=0.12 * sd)
    assert found.offset_sd_s == pytest.approx(precision**-0.5, rel=0.25)


def test_a_likelihood_of_two_peaks_keeps_its_spread() -> None:
    found = align(lambda x: float(np.logaddexp(*(-0.5 * ((x - p) / 3e-4) ** 2 for p in (-0.004, 0.004)))))
    assert abs(found.offset_s) < 3e-4
    assert found.offset_sd_s == pytest.approx(0.004, rel=0.1)


def test_parts_that_move_apart_tell_the_drift() -> None:
    """Offsets of 1, 2 and 3 ms at 0, 100 and 200 s: 10 ppm about the middle."""
    at = np.array([0.0, 100.0, 200.0])
    parts = [
        align(lambda x, p=p: -0.5 * ((x - p) / 1e-5) ** 2, around_s=p, prior_sd_s=1e-4)  # type: ignore[misc]
        for p in (0.001, 0.002, 0.003)
    ]
    joined = join_parts(parts, at, 1e-3)
    assert joined.drift == pytest.approx(1e-5, rel=0.02)
    assert joined.offset_s + joined.drift * (100.0 - joined.pivot_s) == pytest.approx(0.002, abs=2e-6)


def test_points_stand_for_the_cells_around_them() -> None:
    """Two of equal weight 1 s from one another: a quarter, and a twelfth of the square of half a second."""
    mean, sd, weight = _posterior(np.array([0.0, 1.0]), np.zeros(2))
    assert (mean, sd) == pytest.approx((0.5, (0.25 + 0.25 / 12.0) ** 0.5))
    assert weight.tolist() == [0.5, 0.5]


def test_parts_that_disagree_widen_what_they_say() -> None:
    """0, 3 and 0 ms, 1 ms each: 1 ms without drift, missed by -1, 2 and -1 deviations: 6 of one freedom."""
    none = np.zeros(1)
    parts = [Alignment(at, 1e-3, none, none) for at in (0.0, 3e-3, 0.0)]
    joined = join_parts(parts, np.array([0.0, 100.0, 200.0]), 1e-3)
    assert joined.drift == pytest.approx(0.0, abs=1e-12)
    assert (joined.offset_s, joined.offset_sd_s) == pytest.approx((1e-3, 1e-3 * (6.0 / 3.0) ** 0.5))
    lever = 2.0 * (100.0 / 1e-3) ** 2 + 1e6
    assert joined.drift_sd == pytest.approx((6.0 / lever) ** 0.5)


def _readings(load: Timeline, offset_s: float) -> Readings:
    """Readings of the busy share of each tenth of a second, stamped ``offset_s`` late."""
    at = np.arange(-1.0, load.span_s[1] + 1.0, 0.1)
    power = 100.0 + 200.0 * (load.busy(at + 0.1) - load.busy(at)) / 0.1
    return Readings(at + offset_s, power, 0.1, 1e-6, 0.0, len(at))


def _busy(start: Floats, length: Floats | float) -> Timeline:
    return build_timeline(start, start + length, np.zeros(len(start), np.int64), 1)


def test_a_load_of_its_own_fits_in_one_place_within_reach() -> None:
    random = np.random.default_rng(2)
    load = _busy(np.cumsum(random.uniform(0.5, 2.5, 60)), random.uniform(0.1, 0.5, 60))
    ((offset_s, correlation),) = coarse_offsets(_readings(load, 1.3), load, 3.0)
    assert offset_s == pytest.approx(1.3, abs=0.051)
    assert correlation > 0.95
    for reach_s in (1.2, 1.0, 0.5):  # its place is beyond
        assert all(abs(at) <= reach_s + 1e-9 for at, _ in coarse_offsets(_readings(load, 1.3), load, reach_s))


def test_a_load_that_repeats_fits_a_period_away_too() -> None:
    load = _busy(2.0 * np.arange(60.0), 0.7)
    places = sorted(at for at, _ in coarse_offsets(_readings(load, 0.6), load, 3.0))
    assert places == pytest.approx([-1.4, 0.6, 2.6], abs=0.051)


@pytest.mark.parametrize("step_s", [1e-3, 0.1])
def test_a_log_that_is_its_load_correlates_wholly_at_any_pace(step_s: float) -> None:
    """Half a thousand updates of 1 ms or 0.1 s that read what part of each was work: all of it, in place."""
    random = np.random.default_rng(2)
    length, gap = random.integers(2, 20, (2, 25)) * step_s
    end = np.cumsum(length + gap)
    load = build_timeline(end - length, end, np.zeros(25, np.int64), 1)
    at = np.arange(-10, int(end[-1] / step_s) + 10) * step_s
    power = 100.0 + 200.0 * (load.busy(at + step_s) - load.busy(at)) / step_s
    offset, correlation = coarse_offsets(Readings(at, power, step_s, 0.0, 0.0, len(at)), load, 5.0 * step_s)[
        0
    ]
    assert abs(offset) <= step_s
    assert correlation > 0.95
