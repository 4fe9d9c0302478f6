from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetool.families.rowwise.tiling import missed, rows_in_flight
from tracetool.hardware.load import load_gpu


@given(st.floats(1, 1e12), st.floats(1, 1e9))
def test_more_in_flight_misses_more(in_flight: float, cache: float) -> None:
    low, high = missed(np.array([in_flight, 2 * in_flight]), cache)
    assert 0 <= low <= high <= 1


def test_rows_in_flight_fill_the_threads() -> None:
    gpu = load_gpu("a100-sxm")
    warp, block = rows_in_flight(np.array([100.0, 4096.0]), np.array([32.0, 1024.0]), gpu)
    assert warp == gpu.sm_count * gpu.max_threads_per_sm / 32
    assert block == gpu.sm_count * 2
