"""Time of rows at clocks, and the utilization of each unit."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import BOUNDS, UNITS, BusyTimes, Timing
from tracetool.core.work import Work
from tracetool.families import names
from tracetool.families.formats import dtype_of, tensor_clocks
from tracetool.families.pieces import Pieces, duration_s
from tracetool.families.pricing import split_by_law
from tracetool.families.registry import family_of, groups, known_shape
from tracetool.families.transfers.servers import link_s
from tracetool.hardware.gpu import Gpu
from tracetool.model.implementations import priced
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.time_files import time_calibration_of
from tracetool.model.unknown_shapes import unshaped_pieces

__all__ = ["RowPieces", "TimeCalibration", "least_s", "row_pieces", "time_rows"]

#: Rows worked on together, so that the work stays in the processor's cache. [1] By definition of the
#: chunked loop: results do not depend on it.
_CHUNK = 8192


def time_rows(
    rows: OperatorColumns,
    gpu: Gpu,
    clock_mhz: Floats,
    mem_clock_mhz: float | None = None,
    calibration: TimeCalibration | None = None,
    *,
    pieces: RowPieces | None = None,
) -> Timing:
    """Return time and utilization of each row at each clock.

    Parameters
    ----------
    rows : OperatorColumns
        n rows. One of unknown shape takes its measured ``duration_us`` at ``recorded_clock_mhz``
        (else the boost clock), split by its family's shares.
    gpu : Gpu
        The GPU they run on.
    clock_mhz : array, shape (c,) or (n, c)
        Core clocks. [MHz]
    mem_clock_mhz : float, optional
        Memory clock, by default the GPU's. [MHz]
    calibration : TimeCalibration, optional
        Coefficients; by default the GPU's own, else transferred ones.
    pieces : RowPieces, optional
        What :func:`row_pieces` gave for the same rows, where many clocks are asked for.

    Returns
    -------
    Timing
        Arrays of shape (n, c); see the record.
    """
    count = len(rows)
    clock = np.atleast_1d(np.asarray(clock_mhz, np.float64))
    clock = np.broadcast_to(clock if clock.ndim == 2 else clock[None, :], (count, clock.shape[-1]))
    pieces = pieces or row_pieces(rows, gpu, calibration or time_calibration_of(gpu))
    return _timing(rows, gpu, clock, mem_clock_mhz, pieces)


@dataclass(frozen=True)
class RowPieces:
    """Parts of the time of n rows, the 90 % bounds of their duration as factors, and what they rest on."""

    pieces: Pieces
    low: Floats
    high: Floats
    basis: Texts

    def take(self, rows: Ints | slice) -> RowPieces:
        """Return the chosen rows."""
        return RowPieces(self.pieces.take(rows), self.low[rows], self.high[rows], self.basis[rows])


def row_pieces(rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration | None = None) -> RowPieces:
    """Return the parts of each row's time, the same at every clock; see :func:`time_rows`."""
    fitted = calibration or time_calibration_of(gpu)
    count = len(rows)
    has_shape = known_shape(rows)
    columns = {f.name: np.zeros(count) for f in fields(Pieces) if f.name != "work"}
    work, low, high = Work.of(count), np.ones(count), np.ones(count)
    basis = np.full(count, fitted.basis, dtype=object)

    def put(places: Ints, pieces: Pieces, spread: tuple[Floats | float, Floats | float]) -> None:
        for name, values in columns.items():
            values[places] = getattr(pieces, name)
        work.put(places, pieces.work)
        low[places], high[places] = np.exp(spread[0]), np.exp(spread[1])

    for name, places in groups(rows):
        shaped, unshaped = places[has_shape[places]], places[~has_shape[places]]
        if shaped.size:
            group_rows = rows if shaped.size == count else rows.take(shaped)
            for law, inside in split_by_law(name, group_rows, gpu):
                of_law = group_rows if inside.size == len(group_rows) else group_rows.take(inside)
                for one in priced(law, of_law, gpu, fitted):
                    put(shaped[inside[one.places]], one.pieces, (one.low, one.high))
                    basis[shaped[inside[one.places]]] = one.basis
        if unshaped.size:
            group_rows = rows.take(unshaped)
            pieces, sd = unshaped_pieces(group_rows, gpu, family_of(name))
            put(unshaped, pieces, (-sd, sd))
            basis[unshaped] = "family rate"
    return RowPieces(Pieces(**columns, work=work), low, high, basis)


def _timing(
    rows: OperatorColumns, gpu: Gpu, clock: Floats, mem_mhz: float | None, prepared: RowPieces
) -> Timing:
    pieces, shape = prepared.pieces, clock.shape
    slower = 1.0 if mem_mhz is None else gpu.memory_clock_mhz / mem_mhz
    cycles, seconds = _busy(rows, gpu, pieces.work, slower)
    duration, core, active = (np.empty(shape) for _ in range(3))
    busy = BusyTimes(cycles, seconds, clock, duration)
    used = [unit for unit in UNITS if (cycles[unit] if unit in cycles else seconds[unit]).any()]
    bound = np.empty(shape, dtype=np.int8)
    fixed = np.maximum(pieces.fixed_s, pieces.floor_s)
    memory = (pieces.memory_s + pieces.stream_s) * slower
    for start in range(0, shape[0], _CHUNK):
        chunk = slice(start, start + _CHUNK)
        chunk_pieces, hertz = pieces.take(chunk), clock[chunk] * 1e6
        duration[chunk] = lasting = duration_s(chunk_pieces, hertz, slower)
        serial, steady = (
            chunk_pieces.serial_cycles[:, None] / hertz,
            chunk_pieces.core_cycles[:, None] / hertz,
        )
        np.add(serial, steady, out=core[chunk])
        waiting = np.minimum(chunk_pieces.fixed_s[:, None] / lasting, 1.0)
        active[chunk] = np.clip(chunk_pieces.active[:, None] * (1.0 - waiting), 0.0, 1.0)
        chunk_busy = busy.of_rows(chunk)
        crossing = seconds["link"][chunk]  # what crosses a link is none of the launch
        bound[chunk] = _bound(
            {u: chunk_busy[u] for u in used}, fixed[chunk] - crossing, serial, steady, memory[chunk]
        )
    return Timing(
        duration_s=duration,
        low=np.broadcast_to(prepared.low[:, None], shape),
        high=np.broadcast_to(prepared.high[:, None], shape),
        busy_s=busy,
        sm_active=active,
        fixed_s=np.minimum(fixed, duration.min(axis=1, initial=np.inf)),
        core_s=core,
        memory_s=np.broadcast_to(memory[:, None], shape),
        bound=bound,
        work=pieces.work,
        basis=prepared.basis,
    )


def _busy(
    rows: OperatorColumns, gpu: Gpu, work: Work, slower: float
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Time each unit needs at its peak: clocks of the core domain, and seconds of the others. (n,) each."""
    per_sm = {
        "tensor": tensor_clocks(work, dtype_of(rows, "bf16"), gpu),
        "fp32": work.fp32_flops / gpu.rate("fp32"),
        "fp64": work.fp64_flops / gpu.rate("fp64"),
        "int": work.int_ops / gpu.rate("int"),
        "sfu": work.sfu_ops / gpu.sfu_per_clock_sm,
        "shared": work.shared_bytes / gpu.shared_bytes_per_clock_sm,
    }
    cycles = {unit: clocks / gpu.sm_count for unit, clocks in per_sm.items()}
    cycles["l2"] = work.l2_bytes / gpu.l2_bytes_per_clock
    dram = work.dram_bytes * slower / gpu.dram_bytes_per_s
    return cycles, {"dram": dram, "link": _link_s(rows, gpu, work.link_bytes)}


def least_s(rows: OperatorColumns, gpu: Gpu, work: Work) -> Floats:
    """Return the time of each row's products, or of its bytes over a link, at the peak rate. Shape (n,). [s]

    No run takes less: the core clock is the GPU's highest. Memory is left out, as caches serve what they
    still hold.
    """
    products_s = tensor_clocks(work, dtype_of(rows, "bf16"), gpu) / (gpu.sm_count * gpu.clock_max_mhz * 1e6)
    return np.maximum(products_s, _link_s(rows, gpu, work.link_bytes, least=True))


def _link_s(rows: OperatorColumns, gpu: Gpu, link_bytes: Floats, *, least: bool = False) -> Floats:
    """Time of a row's bytes at the peak of its link: a collective's, else the host's. (n,) [s]"""
    collective = rows.in_families(names.COLLECTIVE)
    of_host = link_bytes / gpu.pcie_bytes_per_s
    return np.where(collective, link_s(rows, gpu, link_bytes, least=least), of_host)


def _bound(busy: dict[str, Floats], fixed: Floats, serial: Floats, core: Floats, memory: Floats) -> Numbers:
    """Return the bound of the time: launch, latency, else the busiest unit.

    Each comes after those it stands above in BOUNDS: the last that holds is the one of the highest place.
    """
    best, longest = np.zeros(core.shape, dtype=np.int8), np.zeros(core.shape)

    def where(holds: Bools, name: str) -> None:
        np.maximum(best, holds * np.int8(BOUNDS.index(name)), out=best)

    for unit, needed in busy.items():
        where(needed > longest, unit)
        np.maximum(longest, needed, out=longest)
    steady, start = np.maximum(core, memory[:, None]), fixed[:, None]
    where(serial > steady, "latency")
    where((start > np.maximum(steady, longest)) & (start > serial), "launch")
    return best
