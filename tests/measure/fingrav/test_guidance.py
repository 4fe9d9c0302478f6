from __future__ import annotations

import numpy as np

from tracetool.measure.fingrav.executions import largest_bin
from tracetool.measure.fingrav.guidance import guidance, runs_wanted


def test_the_table_is_the_papers() -> None:
    assert (guidance(30e-6).runs, guidance(30e-6).margin) == (400, 0.05)
    assert (guidance(150e-6).runs, guidance(150e-6).margin) == (200, 0.05)
    assert (guidance(500e-6).runs, guidance(500e-6).margin) == (200, 0.02)
    assert (guidance(5e-3).runs, guidance(5e-3).margin) == (200, 0.02)
    assert guidance(40e-6).samples == 8
    assert guidance(100e-6).samples == 10


def test_further_runs_grow_with_what_is_missing_and_what_is_thrown_away() -> None:
    assert runs_wanted(0, 1e-4, 1e-3, 0.5) == 0
    assert runs_wanted(5, 1e-4, 1e-3, 1.0) == 50
    assert runs_wanted(5, 1e-4, 1e-3, 0.5) == 100


def test_the_fullest_bin_wins_and_of_two_the_narrower() -> None:
    values = np.array([1.0, 1.01, 1.02, 2.0, 2.05, 2.06, np.nan])
    assert largest_bin(values, 0.05).tolist() == [True, True, True, False, False, False, False]
