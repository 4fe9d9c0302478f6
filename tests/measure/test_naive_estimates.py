"""What simple methods say of a log, against integration by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.plain_integral import naive_energy

TIME_S = np.array([1.0, 1.5, 2.5, 2.75, 4.0])
POWER_W = np.array([100.0, 300.0, 50.0, 400.0, 250.0])


@pytest.mark.parametrize(
    ("start_s", "end_s"),
    [
        (1.0, 4.0),
        (1.1, 1.4),
        (1.2, 2.6),
        (2.5, 2.75),
        (3.0, 3.9),
        (0.2, 1.3),
        (3.5, 6.0),
        (0.0, 0.5),
        (4.5, 5.0),
    ],
)
def test_a_plain_integral_takes_readings_as_corners_of_the_power(start_s: float, end_s: float) -> None:
    """Trapezoids between readings; beyond the log its first or last reading holds on."""
    grid = np.linspace(start_s, end_s, 200_001)
    middle = 0.5 * (grid[1:] + grid[:-1])
    by_hand = float((np.interp(middle, TIME_S, POWER_W) * np.diff(grid)).sum())
    energy = naive_energy(TIME_S, POWER_W, np.array([start_s]), np.array([end_s]))
    assert energy == pytest.approx([by_hand], rel=1e-6)
