"""Between which memories a copy goes, by the names every profiler gives it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.transfers.problem import over_host_link, over_link, within_gpu
from tracetool.kernels.refine import refined

WITHIN = [
    "DtoD",  # Nsight Systems, rocprof
    "DtoD (managed)",
    "DtoA",
    "AtoD",
    "AtoA",
    "[CUDA memcpy DtoD]",
    "[CUDA memcpy Device-to-Device]",
    "Memcpy DtoD (Device -> Device)",  # PyTorch on CUDA and HIP
    "CopyDeviceToDevice",
    "MEMORY_COPY_DEVICE_TO_DEVICE",
    "MemcpyD2D",  # XLA
]
HOST = [
    "HtoD",
    "HtoD (pageable)",
    "HtoA",
    "AtoH",
    "DtoH (managed)",
    "[CUDA memcpy Host-to-Device]",
    "Memcpy HtoD (Pinned -> Device)",
    "Memcpy DtoH (Device -> Pageable)",
    "CopyHostToDevice",
    "CopyDeviceToHost",
    "MEMORY_COPY_DEVICE_TO_HOST",
    "MemcpyH2D",
]
#: Between GPUs, or nobody says where.
NEITHER = ["PtoP", "Memcpy PtoP (Device -> Device)", "HtoH", "copy", "Memcpy"]


def _rows(name: str, activity: str) -> OperatorColumns:
    row = refined(pl.DataFrame({"name": [name], "kind": [activity]}))
    family, kind = (row[column].to_numpy().astype(object) for column in ("family", "kind"))
    return OperatorColumns(family, {"kind": kind, "bytes": np.array([1000.0])})


@pytest.mark.parametrize("name", [*WITHIN, *HOST, *NEITHER])
def test_the_name_tells_between_which_memories_a_copy_goes(name: str) -> None:
    rows = _rows(name, "memcpy")
    assert within_gpu(rows).tolist() == [name in WITHIN]
    assert over_host_link(rows).tolist() == [name in HOST]
    assert over_link(rows).tolist() == [name in HOST or "PtoP" in name]


def test_a_set_is_no_copy() -> None:
    rows = _rows("Memset (Device)", "memset")
    assert not within_gpu(rows).any()
    assert not over_host_link(rows).any()
