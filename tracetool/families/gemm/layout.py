"""What is known of matrix products and of their layout: sizes, the rates that decide, the tiles chosen."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tracetool.core.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Products:
    """Products C[m, n] = A[m, k] B[k, n], ``batch`` of them. All of shape (n,)."""

    batch: Floats
    m: Floats
    n: Floats
    k: Floats
    in_bytes: Floats  # per element of A and B [B]
    out_bytes: Floats  # per element of C [B]
    rate: Floats  # [FLOP/clk/SM]
    tensor: Bools
    input_bytes: Floats  # distinct bytes of A and B in memory [B]
    tile_m: Floats  # tile the kernel's name states, NaN where none does
    tile_n: Floats
    split: Floats  # parts of K it states, NaN where none
    loads: Floats | None = None  # loads of an element of A and B by itself or with few others; none: 0

    def take(self, rows: Ints | slice) -> Products:
        """Return the chosen products."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        kept: dict[str, Any] = {k: None if v is None else v[rows] for k, v in held.items()}
        return Products(**kept)


@dataclass(frozen=True)
class TileRates:
    """What decides between tiles; the defaults are priors.

    Rates are shares of the hardware's peak, times are in clocks of the core.
    """

    tensor_reach: float = 0.80  # matrix units or vector pipes in steady state
    shared_reach: float = 0.80  # shared memory feeding them
    l2_reach: float = 1.5  # fills of all SMs together; above 1 where blocks of a cluster share them
    port_reach: float = 1.5  # fills of one SM, of 64 B/clk
    dram_reach: float = 0.85
    sm_bytes_clk: float = 35.0  # what one SM draws from memory [B/clk]
    latency_clk: float = 1400.0  # first load to last store
    block_clk: float = 700.0  # start and end of each wave of blocks
    slab_clk: float = 150.0  # each step through K: load, barrier and issue
    split_clk: float = 4000.0  # synchronization of a split K
    split_power: float = 0.1  # its growth with the parts
    reduce_reach: float = 0.8  # L2 rate of partial results
    store_reach: float = 1.0  # store of a tile, of 64 B/clk and SM
    fill_norm: float = 8.0  # how sharply products and fills meet
    overlap_norm: float = 3.5  # how sharply core and memory meet
    l2_hit: float = 0.05  # share of inputs still in L2, where they fit
    vector_reach: float = 0.75  # memory rate of a matrix times a vector
    vector_clk: float = 1500.0  # its latency
    least_tile: float = 8.0  # narrowest tile the library has
    odd_tiles: float = 1.0  # 0: tiles are powers of two, steps short: a library before Hopper's
    whole_waves: float = 0.0  # 1: the library charges every wave in full when it chooses
    drained: float = 0.0  # share of the starts and stores of waves but the first that overlaps memory


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
