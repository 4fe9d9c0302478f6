"""Shares of time of kernels whose shape nobody knows."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.unknown_shapes import balanced_shares


def test_a_gpu_that_gives_an_sm_fewer_bytes_a_clock_shows_less_of_its_own_work() -> None:
    """Below the usual balance core and memory are as c B / (S f) / b0 to m, and fill what is not fixed."""
    gpu, usual = load_gpu("rtx-4090"), prior_number("unshaped.balance")
    clocks = np.array(
        [gpu.dram_bytes_per_s / (gpu.sm_count * balance * 1e6) for balance in (0.5 * usual, 4 * usual)]
    )
    core, memory, fixed = balanced_shares((0.3, 0.6, 0.1), gpu, clocks)
    assert core / memory == pytest.approx([0.25, 0.5])
    assert core + memory + fixed == pytest.approx(1.0)
    assert fixed.tolist() == [0.1, 0.1]
    # a family that its own work bounds keeps its shares
    assert np.array(balanced_shares((0.6, 0.3, 0.1), gpu, clocks))[:, 0] == pytest.approx([0.6, 0.3, 0.1])
