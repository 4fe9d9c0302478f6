"""Levels of power over time: joules of windows and their errors, against sums and dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tracetool.hardware.load import load_gpu
from tracetool.measure.filters import Boxes, sensor_boxes
from tracetool.measure.fit_levels import _block_edges, _block_s, _inner_noise
from tracetool.measure.power_levels import Levels
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Ramp

EDGES = np.arange(5.0)
ACTIVE_W = np.array([100.0, 120.0, 120.0, 60.0])
NONE = Ramp(np.zeros(1), np.zeros(1))


def _levels(active: Ramp) -> tuple[Levels, np.ndarray]:
    """Four blocks of a second, and the factor of their twelve unknowns' precision as a dense matrix."""
    random = np.random.default_rng(4)
    band = random.uniform(-0.5, 0.5, (5, 12))
    band[0] = random.uniform(1.0, 2.0, 12)
    lower = sum(np.diag(row[: 12 - below], -below) for below, row in enumerate(band))
    level = np.zeros((4, 3))
    level[:, 0] = ACTIVE_W
    mixing = sparse.csr_matrix(np.eye(12) + np.diag(np.full(11, 0.25), 1))
    return Levels(EDGES, level, (active, NONE, NONE), mixing, band, 1.0, 0.0, np.zeros(0)), np.asarray(lower)


def test_windows_hold_their_seconds_of_each_level() -> None:
    levels, lower = _levels(Ramp(np.array([0.0, 4.0]), np.array([0.0, 4.0])))
    start, end = np.array([0.5, 3.0, 0.0, 9.0]), np.array([2.5, 3.5, 4.0, 9.5])
    energy, deviation = levels.energy(start, end)
    assert energy == pytest.approx([50.0 + 120.0 + 60.0, 30.0, 400.0, 0.0])
    assert levels.power(start, end) == pytest.approx([115.0, 60.0, 100.0, 0.0])
    seconds = np.zeros((4, 12))
    seconds[:3, ::3] = [[0.5, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.5], [1.0, 1.0, 1.0, 1.0]]
    unknowns = np.linalg.solve(lower, (seconds @ levels.mixing.toarray()).T)
    assert deviation == pytest.approx(np.sqrt((unknowns**2).sum(axis=0)))


def test_a_window_that_cuts_a_block_errs_by_what_power_moves_inside() -> None:
    """Half a block: 0.5 of the square of the larger step beside it, times 0.5 x 0.5 of its second."""
    levels, _ = _levels(Ramp(np.array([0.0, 4.0]), np.array([0.0, 4.0])))
    start, end = np.array([0.5, 3.0, 0.0, 1.0]), np.array([2.5, 3.5, 4.0, 1.75])
    first, third, inner = 0.125 * 20.0**2, 0.125 * 60.0**2, 0.5 * 20.0**2 * 0.75 * 0.25
    assert levels.inner_variance(start, end) == pytest.approx([first + third, third, 0.0, inner])


def test_a_block_that_hardly_works_moves_nothing() -> None:
    """The last second holds 0.1 s of work: what its level is, the one before does not lean on."""
    levels, _ = _levels(Ramp(np.array([0.0, 3.0, 3.1, 4.0]), np.array([0.0, 3.0, 3.1, 3.1])))
    assert levels.inner_variance(np.array([2.5, 0.5]), np.array([3.0, 1.0])) == pytest.approx(
        [0.0, 0.125 * 20.0**2]
    )


def test_a_level_tied_to_those_long_after_it_errs_as_all_of_them() -> None:
    """4500 unknowns, each 0.999999 of the one before: a millisecond of the first has the sum of squares."""
    blocks, kept = 1500, 0.999999
    band = np.stack([np.ones(3 * blocks), np.full(3 * blocks, -kept)])
    active = Ramp(np.array([0.0, 1.5]), np.array([0.0, 1.5]))
    levels = Levels(
        1e-3 * np.arange(blocks + 1), np.ones((blocks, 3)), (active, NONE, NONE),
        sparse.eye(3 * blocks, format="csr"), band, 1.0, 0.0, np.zeros(0),
    )  # fmt: skip
    _, deviation = levels.energy(np.zeros(1), np.array([1e-3]))
    assert deviation == pytest.approx(1e-3 * np.sqrt((kept ** (2 * np.arange(3 * blocks))).sum()), rel=1e-3)


def _readings(time: np.ndarray) -> Readings:
    return Readings(time, np.full(len(time), 100.0), 0.1, 0.0, 0.0, len(time))


def test_blocks_reach_from_before_the_first_filter_to_the_last_reading() -> None:
    boxes = Boxes(np.array([0.6]), np.array([0.1]), np.ones(1))
    edges = _block_edges(_readings(np.arange(3.0, 13.05, 0.1)), boxes, 0.25)
    assert np.diff(edges) == pytest.approx(0.25)
    assert edges[-1] == pytest.approx(13.0, abs=1e-6)
    assert 3.0 - 0.6 - 3 * 0.25 < edges[0] <= 3.0 - 0.6


def test_a_reading_is_off_by_what_moves_where_its_filter_cuts_a_block() -> None:
    """A reading of 2.6 s shows 0.6 to 0.1 s before it: half a second from 2 s on."""
    levels, _ = _levels(Ramp(np.array([0.0, 4.0]), np.array([0.0, 4.0])))
    noise = _inner_noise(
        levels, _readings(np.array([2.6])), Boxes(np.array([0.6]), np.array([0.1]), np.ones(1))
    )
    inside = levels.inner_variance(np.array([2.0]), np.array([2.5]))
    assert inside == pytest.approx([0.5 * 60.0**2 * 0.25])
    assert noise == pytest.approx(np.sqrt(inside) / 0.5)


@pytest.mark.parametrize(
    ("field", "name", "apart_s", "block_ms"),
    [
        ("draw", "h100-sxm", 0.1, 100.0),
        ("instant", "a100-sxm", 1.0, 100.0),
        ("draw", "v100-pcie", 1.0, 20.0),
        ("draw", "mi300x", 0.1, 1.0),
        ("draw", "mi250x", 0.001, 1.0),
        ("draw", "mi250x", 0.1, 8.3),
        ("draw", "mi250x", 1.0, 14.2),
    ],
)
def test_blocks_are_as_long_as_readings_can_tell(
    field: str, name: str, apart_s: float, block_ms: float
) -> None:
    # 1 ms updates of a sensor that rises over 50 ms were 690 bands of 75,000 levels in 25 s of log
    sensor = load_gpu(name).sensor(field, None)
    time = np.arange(200) * apart_s
    readings = Readings(time, np.zeros(200), sensor.update_s, 0.0, 0.0, 200)
    assert 1e3 * _block_s(readings, sensor_boxes(sensor)) == pytest.approx(block_ms, rel=0.01)
