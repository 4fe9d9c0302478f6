"""Matrix products and their layout: sizes, the rates that decide, the tiles chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families.coefficients import rates_of, read_coefficients, values_of


@dataclass(frozen=True)
class Products:
    """Products C[m, n] = A[m, k] B[k, n], ``batch`` of them. All of shape (n,)."""

    batch: Floats
    m: Floats
    n: Floats
    k: Floats
    in_bytes: Floats  # per element of A, and of B as tensor cores take it [B]
    out_bytes: Floats  # per element of C [B]
    rate: Floats  # [FLOP/clk/SM]
    tensor: Bools
    input_bytes: Floats  # distinct bytes of A and B in memory [B]
    tile_m: Floats  # tile the kernel's name states, NaN where none does
    tile_n: Floats
    split: Floats  # parts of K it states, NaN where none
    loads: Floats | None = None  # loads of an element of A and B by itself or with few others; none: 0
    weight_bytes: Floats | None = None  # per element of B in memory, where it differs from A's [B]
    weight_sets: Floats | None = None  # different B between two uses of one, NaN unknown; none: never again
    left: Floats | None = None  # of the architecture's matrix rate [1]; none: all of it
    double: Bools | None = None  # what is not on tensor cores is on the FP64 pipe; none: on the FP32 pipe
    packed: Floats | None = None  # FP32 operations whose lanes one outside tensor cores takes; none: one
    by_tiles: Bools | None = None  # no kernel for a matrix times a vector takes them; none: one may

    @property
    def vectors(self) -> Bools:
        """Products that a kernel for a matrix times a vector may take. Shape (n,)."""
        single = np.minimum(self.m, self.n) <= 1.0
        return single if self.by_tiles is None else single & ~self.by_tiles

    def take(self, rows: Ints | slice) -> Products:
        """Return the chosen products."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        chosen: dict[str, Any] = {k: None if v is None else v[rows] for k, v in columns.items()}
        return Products(**chosen)


@dataclass(frozen=True)
class TileRates:
    """Coefficients that decide between tiles, each documented in ``law.toml``.

    Rates are shares of the hardware's peak, times are in clocks of the core.
    """

    tensor_efficiency: float
    shared_efficiency: float
    l2_efficiency: float
    port_efficiency: float
    dram_efficiency: float
    sm_bytes_clk: float
    latency_clk: float
    block_clk: float
    k_step_cycles: float
    split_clk: float
    split_power: float
    reduce_efficiency: float
    store_efficiency: float
    fill_norm: float
    overlap_norm: float
    l2_hit: float
    weight_sets: float
    weights_hit: float
    vector_efficiency: float
    vector_clk: float
    least_tile: float
    odd_tiles: float
    whole_waves: float
    drained: float

    @classmethod
    def of(cls, coefficients: Mapping[str, float]) -> TileRates:
        """Return the rates given, else priors; then no part of a wave is drained and no B used again."""
        return rates_of(cls, coefficients, _PRIORS)


_DATA = read_coefficients(__package__)
_PRIORS = {
    **values_of(_DATA["tiles"]),
    **values_of(_DATA["one_column"]),
    **values_of(_DATA["tensor"]),
    "drained": 0.0,
    "weights_hit": 0.0,
}


@dataclass(frozen=True)
class TilePlan:
    """The tiles chosen for each product, all of shape (n,)."""

    tile_m: Floats
    tile_n: Floats
    split: Floats
    blocks: Floats
    waves: Floats  # whole fills of the GPU
    serial_cycles: Floats  # latencies nothing hides [clk]
    core_cycles: Floats  # steady state in the core domain [clk]
    memory_s: Floats  # steady state of memory [s]
    fill_bytes: Floats  # what tiles take in [B]
    l2_bytes: Floats  # of it from L2: blocks of a cluster share a fill [B]
    partial_bytes: Floats  # partial results of a split K [B]
    read_bytes: Floats  # operands from memory [B]
