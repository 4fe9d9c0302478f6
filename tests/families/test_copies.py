"""Copies over the host's link, pinned, pageable and to pages nobody touched; and copies on the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.model.operators import rows_of
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows

MIB = 2**20


def seconds(kind: str, mib: float) -> float:
    gpu = load_gpu("a100-sxm")
    rows = rows_of("memcpy", bytes=mib * MIB)
    kinds = np.full(len(rows), f"memcpy {kind}", dtype=object)
    rows = replace(rows, columns={**rows.columns, "kind": kinds})
    return float(time_rows(rows, gpu, np.array([gpu.clock_boost_mhz])).duration_s[0, 0])


def test_a_large_copy_back_faults_in_new_pages() -> None:
    """Blocks of at most 32 MiB are reused by the allocator; larger ones are mapped anew."""
    assert seconds("DtoH pageable", 512) > 2.0 * seconds("HtoD pageable", 512)
    assert seconds("DtoH pageable", 31) == pytest.approx(seconds("HtoD pageable", 31), rel=0.01)


def test_pinned_pages_are_there_already() -> None:
    assert seconds("DtoH pinned", 512) == pytest.approx(seconds("HtoD pinned", 512), rel=0.01)


def test_a_copy_on_the_device_is_no_faster_than_the_l2_at_a_low_clock() -> None:
    gpu = load_gpu("b200-sxm")
    rows = rows_of("memcpy", bytes=4e9)
    made = predict_rows(rows, gpu, np.array([210.0, gpu.clock_boost_mhz]))
    through_l2 = 8e9 / (gpu.l2_bytes_per_clock * np.array([210e6, gpu.clock_boost_mhz * 1e6]))
    assert (made.timing.duration_s[0] >= through_l2).all()
    assert made.timing.duration_s[0, 0] > 3.0 * made.timing.duration_s[0, 1]


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm", "b200-sxm"])
def test_a_copy_draws_what_a_kernel_that_copies_draws(name: str) -> None:
    gpu = load_gpu(name)
    clocks = np.array([gpu.clock_boost_mhz])
    copy = predict_rows(rows_of("memcpy", bytes=4e9), gpu, clocks)
    kernel = predict_rows(rows_of("elementwise", elements=2e9, reads=1.0, writes=1.0), gpu, clocks)
    assert copy.power_w[0, 0] == pytest.approx(kernel.power_w[0, 0], rel=0.15)
