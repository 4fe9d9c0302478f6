"""How long rows take at clocks, and how busy each unit is."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetool.families.count import family_of, groups, known_shape
from tracetool.families.formats import dtype_of, product_rate
from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.registry import law_of
from tracetool.model.pieces import Pieces, duration_s
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.time_files import time_calibration_of
from tracetool.model.unshaped import unshaped_pieces
from tracetool.vocabulary.arrays import Floats, Ints, Texts
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.prediction import BOUNDS, UNITS, Timing
from tracetool.vocabulary.work import Work

__all__ = ["TimeCalibration", "time_rows"]


def time_rows(
    rows: OperatorColumns,
    gpu: Gpu,
    clock_mhz: Floats,
    mem_clock_mhz: float | None = None,
    calibration: TimeCalibration | None = None,
) -> Timing:
    """Return time and utilisation of each row at each clock.

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

    Returns
    -------
    Timing
        Arrays of shape (n, c); see the record.
    """
    count = len(rows)
    clock = np.atleast_1d(np.asarray(clock_mhz, np.float64))
    clock = np.broadcast_to(clock if clock.ndim == 2 else clock[None, :], (count, clock.shape[-1]))
    found = row_pieces(rows, gpu, calibration or time_calibration_of(gpu))
    return _timing(rows, gpu, clock, mem_clock_mhz, found)


@dataclass(frozen=True)
class RowPieces:
    """Parts of the time of n rows, the 90 % bounds of their duration as factors, and what they rest on."""

    pieces: Pieces
    low: Floats
    high: Floats
    basis: Texts


def row_pieces(rows: OperatorColumns, gpu: Gpu, given: TimeCalibration) -> RowPieces:
    """Return what no clock changes of each row's time; see :func:`time_rows`."""
    count = len(rows)
    known = known_shape(rows)
    columns = {f.name: np.zeros(count) for f in fields(Pieces) if f.name != "work"}
    work, low, high = Work.of(count), np.ones(count), np.ones(count)
    basis = np.full(count, given.basis, dtype=object)

    def put(places: Ints, pieces: Pieces, spread: tuple[Floats | float, Floats | float]) -> None:
        for name, values in columns.items():
            values[places] = getattr(pieces, name)
        work.put(places, pieces.work)
        low[places], high[places] = np.exp(spread[0]), np.exp(spread[1])

    for name, places in groups(rows):
        shaped, unshaped = places[known[places]], places[~known[places]]
        if shaped.size:
            part = rows.take(shaped)
            for law, inside in law_of(name).split(part, gpu):
                pieces = law.pieces(part.take(inside), gpu, given.coefficients.get(law.name, {}))
                put(shaped[inside], pieces, given.spread.get(law.name, law.spread))
                basis[shaped[inside]] = given.law_basis.get(law.name, given.basis)
        if unshaped.size:
            part = rows.take(unshaped)
            pieces, sd = unshaped_pieces(part, gpu, family_of(name))
            put(unshaped, pieces, (-sd, sd))
            basis[unshaped] = "family rate"
    return RowPieces(Pieces(**columns, work=work), low, high, basis)


def _timing(
    rows: OperatorColumns, gpu: Gpu, clock: Floats, mem_mhz: float | None, found: RowPieces
) -> Timing:
    pieces = found.pieces
    hertz = clock * 1e6
    slower = 1.0 if mem_mhz is None else gpu.memory_clock_mhz / mem_mhz
    duration = duration_s(pieces, hertz, slower)
    core = pieces.core_cycles[:, None] / hertz
    serial = pieces.serial_cycles[:, None] / hertz
    memory = np.broadcast_to(((pieces.memory_s + pieces.stream_s) * slower)[:, None], clock.shape).copy()
    busy = {u: np.minimum(b, duration) for u, b in _busy(rows, gpu, pieces.work, hertz, slower).items()}
    fixed = np.maximum(pieces.fixed_s, pieces.floor_s)
    waiting = np.clip(pieces.fixed_s[:, None] / duration, 0.0, 1.0)
    return Timing(
        duration_s=duration,
        low=found.low,
        high=found.high,
        busy_s=busy,
        sm_active=np.clip(pieces.active[:, None] * (1.0 - waiting), 0.0, 1.0),
        fixed_s=np.minimum(fixed, duration.min(axis=1, initial=np.inf)),
        core_s=serial + core,
        memory_s=memory,
        bound=_bound(busy, fixed, serial, core, memory),
        work=pieces.work,
        basis=found.basis,
    )


def _busy(rows: OperatorColumns, gpu: Gpu, work: Work, hertz: Floats, slower: float) -> dict[str, Floats]:
    """Time each unit needs at its peak. (n, c) each. [s]"""
    chip = gpu.sm_count * hertz
    rate = product_rate(dtype_of(rows, "bf16"), gpu)
    clocked = {
        "tensor": work.tensor_flops / rate,
        "fp32": work.fp32_flops / gpu.rate("fp32"),
        "fp64": work.fp64_flops / gpu.rate("fp64"),
        "int": work.int_ops / gpu.rate("int"),
        "sfu": work.sfu_ops / gpu.sfu_per_clock_sm,
        "shared": work.shared_bytes / gpu.shared_bytes_per_clock_sm,
        "l2": work.l2_bytes * gpu.sm_count / gpu.l2_bytes_per_clock,
    }
    busy = {unit: cycles[:, None] / chip for unit, cycles in clocked.items()}
    shape = hertz.shape
    busy["dram"] = np.broadcast_to((work.dram_bytes * slower / gpu.dram_bytes_per_s)[:, None], shape)
    busy["link"] = np.broadcast_to((work.link_bytes / _link_rate(rows, gpu))[:, None], shape)
    return {unit: np.asarray(busy[unit]) for unit in UNITS}


def _link_rate(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """One direction of the link a row uses: the peer link for collectives, the host's for copies."""
    peer = gpu.link_bytes_per_s if gpu.link_bytes_per_s > 0 else gpu.pcie_bytes_per_s
    return np.where(rows.family == "collective", peer, gpu.pcie_bytes_per_s)


def _bound(busy: dict[str, Floats], fixed: Floats, serial: Floats, core: Floats, memory: Floats) -> Ints:
    """Return what sets the time: launch, latency, else the busiest unit."""
    best, longest = np.zeros(core.shape, dtype=np.int64), busy[UNITS[0]]
    for place, unit in enumerate(UNITS[1:], start=1):
        more = busy[unit] > longest
        best[more] = place
        longest = np.maximum(longest, busy[unit])
    start = np.broadcast_to(fixed[:, None], core.shape)
    steady = np.maximum(core, memory)
    best = np.where(serial > steady, BOUNDS.index("latency"), best)
    best = np.where((start > steady) & (start > serial), BOUNDS.index("launch"), best)
    return best.astype(np.int64)
