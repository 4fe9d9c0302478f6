"""Time, power and energy of rows at clocks: the physics put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.model.anchor import Anchor
from tracetool.model.anchor_groups import between, blended
from tracetool.model.blocks import PLANNED_ROWS, predicted_in_blocks, settled_rows, slices
from tracetool.model.counters import counted_shares, measured_at_several
from tracetool.model.intervals import with_intervals
from tracetool.model.operating_point import loop_groups
from tracetool.model.own_kernels import with_own_kernels
from tracetool.model.own_scatter import own_scatter
from tracetool.model.phases import govern
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of
from tracetool.model.power_transfer import with_base_under
from tracetool.model.sequence import SequenceFactors, sequence_factors
from tracetool.model.thermal import Surroundings
from tracetool.model.time_shares import TimeShares
from tracetool.model.timing import RowPieces, TimeCalibration, least_s, row_pieces
from tracetool.model.workload import Workload


def predict_rows(
    rows: OperatorColumns,
    gpu: Gpu,
    clocks_mhz: Floats,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    time_calibration: TimeCalibration | None = None,
    power_calibration: PowerCalibration | None = None,
    anchor: bool = False,
    from_others: bool = False,
    among_others: bool | SequenceFactors = False,
    surroundings: Surroundings | None = None,
    launches: Floats | None = None,
) -> Prediction:
    r"""Predict time, power and energy of each row at each clock.

    .. math:: E = t P_{base}(f, V) + V^2 (\sum_i e_i N_i + e_{SM} S \phi f t) + \sum_o e_o N_o

    Parameters
    ----------
    rows : OperatorColumns
        n pieces of work.
    gpu : Gpu
        The GPU they run on.
    clocks_mhz : array, shape (c,)
        Core clocks asked for. [MHz]
    mem_clock_mhz : float, optional
        Memory clock, by default the GPU's (anchored rows: the measured one). [MHz]
    power_cap_w : float, optional
        Power limit, by default the GPU's. [W]
    time_calibration, power_calibration : optional
        Coefficients; by default the GPU's own, else priors.
    anchor : bool
        Scale rows with a measured ``duration_us`` at ``recorded_clock_mhz`` (and ``power_w``) by
        the model's ratio between the clocks; rows of known shape without one are predicted from those
        (:mod:`tracetool.model.own_kernels`).
    from_others : bool
        Predict each row from the measured ones of other shapes instead, whatever its own measurement.
    among_others : bool
        The rows run as parts of a model, not each in a loop of its own; see :mod:`tracetool.model.sequence`.
        Factors of one's own may be given.
    surroundings : Surroundings, optional
        How warm the GPU is; by default as warm as when its coefficients were measured.
    launches : array, shape (n,), optional
        How often each row runs in one sequence. The cap then acts on the mean power of its short rows
        together, as a governor slower than they are does; by default on each row as if it ran alone.

    Returns
    -------
    Prediction
        Arrays of shape (n, c); see the record.

    Raises
    ------
    BadInput
        If too little is known of the GPU to predict on it.
    """
    gpu.require_model()
    clocks = np.atleast_1d(np.asarray(clocks_mhz, np.float64))
    start = Anchor.of(rows, gpu) if anchor and not from_others else None
    power = _power_under(power_calibration or power_calibration_of(gpu), gpu, start)
    factors = sequence_factors() if among_others is True else among_others or None
    warm = surroundings or Surroundings()
    request = _Request(
        clocks,
        reached_clocks(clocks, gpu, start),
        _limit_w(gpu, start, power_cap_w),
        _limit_w(gpu, start, None),
        launches,
    )

    def workload(
        of: OperatorColumns, pieces: RowPieces, shares: TimeShares | None, several: Bools
    ) -> Workload:
        return Workload(of, gpu, mem_clock_mhz, pieces, power, start, factors, warm, shares, several)

    if len(rows) > PLANNED_ROWS and not anchor and not from_others and launches is None:
        return _in_blocks(
            rows,
            lambda block_rows: row_pieces(block_rows, gpu, time_calibration),
            lambda of, pieces: workload(of, pieces, None, np.zeros(len(of), np.bool_)),
            request,
        )
    # tiles and splits do not depend on the clock: they are laid out once for all clocks
    pieces = row_pieces(rows, gpu, time_calibration)
    if anchor or from_others:
        pieces = with_own_kernels(rows, gpu, pieces, start or Anchor.of(rows, gpu), leave_out=from_others)
    shares = None if start is None else counted_shares(rows, gpu, start)
    several = np.zeros(len(rows), np.bool_) if start is None else measured_at_several(rows, start)
    return _settled(workload(rows, pieces, shares, several), request)


@dataclass(frozen=True)
class _Request:
    """Clocks, limits and launches that a prediction was requested for."""

    clocks_mhz: Floats  # (c,)
    reached_mhz: Floats  # (c,) those, none above what the GPU reaches
    limit_w: float
    measured_limit_w: float  # the limit under which the rows were measured
    launches: Floats | None  # (n,) how often each row runs in one sequence


def _power_under(power: PowerCalibration, gpu: Gpu, start: Anchor | None) -> PowerCalibration:
    """Return power coefficients whose base is below every measured power of the rows."""
    if start is None:
        return power
    has_power = start.measured & (start.power_w > 0)
    power_w, read_mhz, memory_mhz = (
        array[has_power] for array in (start.power_w, start.clock_mhz, start.mem_clock_mhz)
    )
    return with_base_under(power, gpu, power_w, read_mhz, memory_mhz / gpu.memory_clock_mhz)


def _in_blocks(
    rows: OperatorColumns,
    pieces_of: Callable[[OperatorColumns], RowPieces],
    workload_of: Callable[[OperatorColumns, RowPieces], Workload],
    request: _Request,
) -> Prediction:
    """Return the prediction of rows that do not depend on each other: tiles and points of blocks of them."""

    def of_block(block: slice) -> Iterator[tuple[slice, Prediction]]:
        block_rows = rows.take(block)
        pieces = pieces_of(block_rows)
        for part in slices(0, len(block_rows), settled_rows(len(request.clocks_mhz))):
            workload = workload_of(block_rows.take(part), pieces.take(part))
            yield slice(block.start + part.start, block.start + part.stop), _settled(workload, request)

    return predicted_in_blocks(len(rows), of_block)


def power_as_measured(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """Return the power of each row at its measured time and clock, whatever the limit. Shape (n,). [W]

    Each row stands for itself: the same kernel may be asked at several clocks at once.
    """
    start = Anchor.of(rows, gpu)
    alone = np.arange(len(rows))
    workload = Workload(
        rows,
        gpu,
        None,
        row_pieces(rows, gpu),
        power_calibration_of(gpu),
        start,
        shares=counted_shares(rows, gpu, start, alone),
        several=np.zeros(len(rows), np.bool_),
    )
    timing, parts = workload.at(np.where(start.measured, start.clock_mhz, gpu.clock_boost_mhz)[:, None])
    return parts.power_w(timing)[:, 0]


def _settled(workload: Workload, request: _Request) -> Prediction:
    """Return the rows at the operating points their power limit leaves them, with intervals."""
    rows, start, power = workload.rows, workload.anchor, workload.power
    clocks, reached, launches = request.clocks_mhz, request.reached_mhz, request.launches
    timing, parts = workload.at(np.broadcast_to(reached, (len(rows), len(clocks))))
    cap_w = power.cap_share * request.limit_w
    governed = govern(
        workload.of,
        (timing, parts),
        reached,
        workload.gpu.supported_clocks_mhz(),
        cap_w,
        groups=loop_groups(timing.duration_s, launches),
        anchor=start,
        measured_cap_w=power.cap_share * request.measured_limit_w,
    )
    if launches is None and governed.throttled.any():
        governed = replace(governed, parts=governed.parts.at_most(cap_w, governed.timing))
    if start is not None and (place := between(rows, start, reached)) is not None:
        assert workload.shares is not None
        per_octave, read_voltage = workload.shares.log_sd_per_octave, workload.voltage_read
        scatter = own_scatter(rows, start, workload.of, per_octave, voltage_read=read_voltage)
        timing, parts = blended(
            governed.timing, governed.parts, place, per_octave, start,
            scatter=scatter.beside(place), voltage_read=read_voltage,
        )  # fmt: skip
        governed = replace(governed, timing=timing, parts=parts)
    programs = np.zeros(len(rows), np.bool_) if start is None else start.programs()
    least = least_s(rows, workload.gpu, timing.work)
    return with_intervals(governed, clocks, workload.idle_w(clocks), request.limit_w, programs, least)


def reached_clocks(clocks_mhz: Floats, gpu: Gpu, start: Anchor | None) -> Floats:
    """Return the requested clocks, none above the GPU's highest or a measured one. Shape (c,). [MHz]"""
    stated = gpu.numbers.get("clock_max_mhz")
    top = max(gpu.clock_max_mhz, stated.high if stated is not None else 0.0)
    if start is not None and start.measured.any():
        top = max(top, float(start.clock_mhz[start.measured].max()))
    return np.minimum(clocks_mhz, top)


def _limit_w(gpu: Gpu, start: Anchor | None, asked_w: float | None) -> float:
    """Return the power limit: the requested one, else the GPU's. [W]

    A GPU that was measured may have been set to any limit its kind allows, and a reading says that
    its limit was no lower.
    """
    if asked_w is not None:
        return float(asked_w)
    if start is None or not start.measured.any():
        return gpu.power_limit_w
    most = max(gpu.power_limit_w, np.nan_to_num(gpu.power_limit_max_w))
    return float(np.nanmax([most, *start.power_w[start.measured]]))
