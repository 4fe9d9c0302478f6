"""Tiling of row-wise kernels: threads on a row, rows in flight, and what a cache retains of them."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.hardware.gpu import Gpu

#: Rows up to this length stay in a warp's registers: they are read once. [elements] By definition of
#: pytorch/pytorch, ``aten/src/ATen/native/cuda/SoftMax.cu``, ``host_softmax``.
WARP_COLUMNS = 1024.0


def first_cache_bytes(gpu: Gpu) -> float:
    """Return the bytes the first-level caches of all SMs hold. [B]

    Since Volta that cache and shared memory are one [1]_; older chips and AMD's keep a small one apart.

    References
    ----------
    .. [1] Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, table 3.1.
    """
    return float(gpu.sm_count * gpu.first_cache_bytes_per_sm)


def rows_in_flight(cols: Floats, threads: Floats, gpu: Gpu) -> Floats:
    """Return the rows the GPU works on at once. Shape (n,).

    Parameters
    ----------
    cols : array, shape (n,)
        Elements of a row.
    threads : array, shape (n,)
        Threads on one row; an SM holds as many rows as its threads and blocks allow.
    """
    resident = np.minimum(
        gpu.max_threads_per_sm / threads, np.where(threads > 32.0, gpu.max_blocks_per_sm, np.inf)
    )
    return np.asarray(np.maximum(resident, 1.0) * gpu.sm_count + 0.0 * cols)


def missed(in_flight_bytes: Floats, cache_bytes: float) -> Floats:
    """Return the share of second reads that the cache no longer holds, 0 to 1. Shape (n,).

    Half of them at the cache's size: blocks drift apart, so that there is no sharp edge.

    >>> missed(np.array([1.0, 10.0, 100.0]), 10.0).round(3).tolist()
    [0.001, 0.5, 0.999]
    """
    return np.asarray(1.0 / (1.0 + (cache_bytes / np.maximum(in_flight_bytes, 1e-9)) ** 3))
