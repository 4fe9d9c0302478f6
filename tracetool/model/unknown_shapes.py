"""Timing of kernels of unknown shape, within what their launch can keep busy.

A measured duration is split by what its family's time goes to; few blocks cover few SMs, few threads few
lanes of an SM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, product_rate
from tracetool.families.names import UNKNOWN
from tracetool.families.pieces import Pieces, combined
from tracetool.families.spec import Family
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table

#: Bytes a thread keeps on their way from memory, and that way. [B] [clk]
IN_FLIGHT: Final = prior_number("launch.in_flight")
MEMORY_LATENCY: Final = prior_number("launch.memory_latency")


@dataclass(frozen=True)
class LaunchLimits:
    """Most of the GPU that each row's launch can use; each of shape (n,), 1 where the launch is not known.

    Parameters
    ----------
    sms : array
        Share of the SMs that hold a block.
    lanes : array
        Share of the lanes of all SMs that have a thread to work for.
    bytes_per_clock : array
        Bytes that these SMs can draw from L2 and memory together; infinite where not known. [B/clk]
    """

    sms: Floats
    lanes: Floats
    bytes_per_clock: Floats


def launch_limits(rows: OperatorColumns, gpu: Gpu) -> LaunchLimits:
    r"""Return the bounds that launches of rows set, by blocks B of T threads on S SMs.

    .. math:: s = \min(1, B/S), \qquad l = s \min\left(1, \frac{\max(1, B/S) T}{n W}\right), \qquad
       b = s S \min\left(p, \frac{16 \min(\max(1, B/S) T, T_{max})}{L}\right)

    with W the warp size, n the schedulers of an SM, p the bytes its path to L2 carries in a clock and L the
    latency of memory (Little's law). None of them falls when blocks are added.

    Parameters
    ----------
    rows : OperatorColumns
        n rows with ``blocks``, or ``grid_x`` to ``grid_z``, and ``threads``, or ``block_x`` to ``block_z``.
    gpu : Gpu
        The GPU they run on.
    """
    blocks = _count(rows, "blocks", "grid")
    threads = _count(rows, "threads", "block")
    per_sm = blocks / gpu.sm_count
    sms = np.where(np.isfinite(per_sm), np.minimum(1.0, per_sm), 1.0)
    resident = np.minimum(np.maximum(1.0, per_sm) * threads, gpu.max_threads_per_sm)
    filled = np.minimum(1.0, resident / (gpu.schedulers_per_sm * gpu.warp_size))
    drawn = np.minimum(gpu.l2_port_bytes_per_clock_sm, resident * IN_FLIGHT / MEMORY_LATENCY)
    return LaunchLimits(
        sms=sms,
        lanes=sms * np.where(np.isfinite(filled), filled, 1.0),
        bytes_per_clock=np.where(np.isfinite(drawn), sms * gpu.sm_count * drawn, np.inf),
    )


def _count(rows: OperatorColumns, column: str, stem: str) -> Floats:
    """Return a launch's count of blocks or threads, NaN where the rows do not state it. (n,)"""
    sides = [rows.number(f"{stem}_{axis}") for axis in "xyz"]
    product = sides[0] * np.nan_to_num(sides[1], nan=1.0) * np.nan_to_num(sides[2], nan=1.0)
    stated = rows.number(column)
    count = np.where(np.isfinite(product), product, stated)
    return np.asarray(np.where(count > 0, count, np.nan))


#: Duration of a kernel nothing is known of. [s]
UNKNOWN_S = prior_number("unshaped.duration")
#: ln of the 95 % bound of its true duration over that guess, and of a measured one at another clock.
UNKNOWN_SPREAD, SPLIT_SPREAD = (
    float(np.log(prior_table("unshaped.factor")[row])) for row in ("guess", "split")
)
#: Share of its peak a unit reaches while it sets the time.
REACHED = prior_number("unshaped.reached")
#: Share of the SMs that hold a block while a kernel of many blocks runs: the last of them leave some idle.
ACTIVE = prior_number("unshaped.active")
#: Least bytes memory delivers per clock and SM with which families' usual shares hold.
_USUAL_BALANCE = prior_number("unshaped.balance")
_OVERLAP = prior_number("unshaped.overlap")
_USE = prior_table("unshaped.use")


def balanced_shares(
    shares: tuple[float, float, float], gpu: Gpu, clock_mhz: Floats
) -> tuple[Floats, Floats, Floats]:
    r"""Return the shares of core, memory and neither on a GPU of another balance than the usual one.

    .. math:: c' : m' = c \, \frac{B / (S f)}{b_0} : m

    with B/(S f) the bytes memory delivers per clock and SM. Only families that memory bounds as a rule: the
    less of them an SM is given, the less its own work shows. (n,)
    """
    core, memory, fixed = shares
    if not (memory > core and np.isfinite(gpu.dram_bytes_per_s)):
        usual = np.ones(len(clock_mhz))
        return core * usual, memory * usual, fixed * usual
    bytes_per_clock_sm = gpu.dram_bytes_per_s / (gpu.sm_count * np.maximum(clock_mhz, 1.0) * 1e6)
    scaled = core * np.minimum(bytes_per_clock_sm / _USUAL_BALANCE, 1.0)
    moving = (1.0 - fixed) / (scaled + memory)
    return scaled * moving, memory * moving, np.full(len(clock_mhz), fixed)


def unshaped_pieces(rows: OperatorColumns, gpu: Gpu, family: Family) -> tuple[Pieces, Floats]:
    """Return the parts of rows of unknown shape and ln of their 95 % bound.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of one family, with ``duration_us`` and ``recorded_clock_mhz`` where measured.
    gpu : Gpu
        The GPU they ran on.
    family : Family
        Says how time divides as a rule.
    """
    measured = rows.number("duration_us") * 1e-6
    has_time = np.isfinite(measured) & (measured > 0)
    duration = np.where(has_time, measured, UNKNOWN_S)
    clock = rows.number("recorded_clock_mhz", gpu.clock_boost_mhz)
    clock = np.where(clock > 0, clock, gpu.clock_boost_mhz)
    memory_clock = rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz)
    core, memory, fixed = balanced_shares(family.shares, gpu, clock)
    cycles = core * duration * clock * 1e6
    memory_s = memory * duration * memory_clock / gpu.memory_clock_mhz
    limits = launch_limits(rows, gpu)
    chip = REACHED * gpu.sm_count * cycles * limits.lanes
    drawn = limits.bytes_per_clock * clock * 1e6 / gpu.dram_bytes_per_s
    streaming = np.minimum(1.0, drawn / REACHED)
    moved = REACHED * gpu.dram_bytes_per_s * memory_s * streaming
    counts: dict[str, Floats] = {"dram_bytes": moved, "l2_bytes": _USE["l2"] * moved}
    if family.pipe == "tensor":
        counts["tensor_flops"] = chip * product_rate(dtype_of(rows, "bf16"), gpu)
        counts["shared_bytes"] = _USE["shared"] * chip * gpu.shared_bytes_per_clock_sm
    elif family.pipe == "fp32":
        counts["fp32_flops"] = _USE["fp32"] * chip * gpu.rate("fp32")
        counts["int_ops"] = _USE["int"] * chip * gpu.rate("int")
    n = len(rows)
    # of these two the kernel takes as long as its shares say, however much they overlap
    steady_core, steady_memory = cycles * limits.lanes / (clock * 1e6), memory_s * streaming
    overlap = 1.0 if family.name == UNKNOWN else _OVERLAP
    together = combined(steady_core, steady_memory, overlap)
    hidden = np.divide(steady_core + steady_memory, together, out=np.ones(n), where=together > 0)
    pieces = Pieces(
        fixed_s=fixed * duration,
        # time in which no unit is near its rate is latency of its clock's domain
        serial_cycles=cycles * (1.0 - limits.lanes),
        stream_s=memory_s * (1.0 - streaming),
        floor_s=np.zeros(n),
        core_cycles=cycles * limits.lanes * hidden,
        memory_s=memory_s * streaming * hidden,
        norm=np.full(n, overlap),
        active=np.minimum(ACTIVE, limits.sms),
        work=Work.of(n, **counts),
    )
    return pieces, np.where(has_time, SPLIT_SPREAD, UNKNOWN_SPREAD)
