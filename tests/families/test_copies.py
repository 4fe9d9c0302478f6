"""Copies over the host's link: pinned, pageable, and to pages nobody touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.model.operators import rows_of
from tracetool.hardware.load import load_gpu
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
