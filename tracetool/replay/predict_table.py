"""Predict a table of operators or kernels at other clocks, and the totals of its rows run in order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.names import variant_notes
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.sequence import sequence_factors
from tracetool.model.unmeasured_libraries import without_waits
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions, unfitted_notes
from tracetool.replay.clocks import (
    check_recorded_clocks,
    checked_cap,
    checked_clocks,
    checked_memory,
    with_recorded_clock,
)
from tracetool.replay.coverage import (
    coverage,
    crowded_host_notes,
    library_notes,
    priced_stacks,
    prior_notes,
    shared_page_notes,
)
from tracetool.replay.host import Launch, host_costs
from tracetool.replay.measured_bounds import plausibility_notes
from tracetool.replay.operand_content import content_notes
from tracetool.replay.operator_tables import InputTable, read_table, unread_notes
from tracetool.replay.optimum_prior import UsualOptimum, usual_optimum
from tracetool.replay.prediction_bounds import predicted_breaches
from tracetool.replay.prediction_frame import prediction_frame, with_inputs
from tracetool.replay.second_clock import SecondClock, second_clock
from tracetool.replay.table_totals import kernel_totals, sequence_totals
from tracetool.replay.unfused_attention import unfused
from tracetool.replay.unmeasured_notes import unmeasured_notes

#: Clocks that a second measurement is sought among where fewer were asked for. [1]
_ADVISED_CLOCKS: Final = 12
#: The lowest of them, as a share of the highest. [1]
_LOWEST_ADVISED: Final = 0.35
#: Share of the makespan from which gaps are noted. [1] A prior.
_MOSTLY_IDLE: Final = 0.9
#: Rows beyond which nobody measures a table again. [1]
_MOST_ADVISED: Final = 500


@dataclass(frozen=True)
class PredictedTable:
    """Predictions of a table: one row per input row and clock, and totals of the rows run in order."""

    frame: pl.DataFrame
    totals: list[dict[str, Any]]
    gpu: str
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    usual_optimum: UsualOptimum | None = None


@dataclass(frozen=True)
class _Case:
    """A prediction to make: a table's rows on a GPU, the clocks and the conditions."""

    table: InputTable
    rows: OperatorColumns
    gpu: Gpu
    clocks_mhz: Floats
    assumed: Assumptions
    conditions: Mapping[str, Any]  # memory clock, power cap, calibrations and temperatures
    anchored: bool  # whether measured durations and powers scale the model's
    from_others: bool

    @property
    def of_kernels(self) -> bool:
        """Whether the rows are kernels: measured ones, else operators."""
        return self.table.kind == "kernels"

    @property
    def scaled(self) -> bool:
        """Whether any row is scaled from what was measured of it."""
        return self.anchored and bool((self.rows.number("duration_us", 0.0) > 0).any())

    @property
    def power(self) -> PowerCalibration:
        """The coefficients of power in force."""
        return self.conditions["power_calibration"] or power_calibration_of(self.gpu)

    def predicted(self, clocks_mhz: Floats) -> Prediction:
        """Return the prediction of the rows, each alone."""
        return predict_rows(
            self.rows,
            self.gpu,
            clocks_mhz,
            anchor=self.anchored,
            from_others=self.from_others,
            **self.conditions,
        )


def predict_table(
    source: str | os.PathLike[str] | pl.DataFrame | InputTable,
    gpu: str,
    clocks_mhz: Sequence[float] | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    launch: Launch = "eager",
    fused_attention: bool = True,
    anchor: bool | None = None,
    from_others: bool = False,
    assumed: Assumptions = NOTHING_ASSUMED,
) -> PredictedTable:
    """Predict an operator or kernel table.

    Parameters
    ----------
    source : path, DataFrame or InputTable
        See :func:`tracetool.replay.operator_tables.read_table`.
    gpu : str
        Name of the GPU, e.g. ``a100-sxm``.
    clocks_mhz : sequence of float, optional
        Core clocks; by default the GPU's boost clock, kept under its power cap. [MHz]
    mem_clock_mhz : float, optional
        Memory clock; by default the GPU's. [MHz]
    power_cap_w : float, optional
        Power cap; by default the GPU's limit. [W]
    launch : {"eager", "graph"}
        How the host issues the rows: one by one, or all in one graph, in which no kernel waits for a host it
        was measured under.
    fused_attention : bool
        Whether attention rows run as one kernel in the totals, or operator by operator; see
        :func:`tracetool.replay.unfused_attention.unfused`. The rows of the result are fused either way.
    anchor : bool, optional
        Scale from the measured duration and power of a kernel table; by default, where it has them.
    from_others : bool
        Predict each kernel of a table from the measured ones of other shapes.
    assumed : Assumptions
        Calibrations of the user's own, and temperatures.

    Raises
    ------
    BadInput
        If the table, the GPU's name or a clock cannot be used.
    """
    table = source if isinstance(source, InputTable) else read_table(source)
    if launch == "graph" and table.kind != "kernels":
        table = replace(table, rows=without_waits(table.rows))
    gpu_spec = load_gpu(gpu)
    gpu_spec.require_model()
    clocks, clock_notes = checked_clocks(clocks_mhz, gpu_spec)
    condition_notes = [
        *variant_notes(gpu),
        *clock_notes,
        *assumed.notes(gpu_spec),
        *checked_cap(power_cap_w, gpu_spec),
        *checked_memory(mem_clock_mhz, gpu_spec),
    ]
    of_kernels = table.kind == "kernels"
    case = _Case(
        table,
        _rows_of(table, gpu_spec, assumed),
        gpu_spec,
        clocks,
        assumed,
        {"mem_clock_mhz": mem_clock_mhz, "power_cap_w": power_cap_w, **assumed.options(gpu_spec)},
        anchored=of_kernels and anchor is not False,
        from_others=of_kernels and from_others,
    )
    return _predicted_table(case, condition_notes, launch, fused_attention=fused_attention)


def _predicted_table(
    case: _Case, condition_notes: Sequence[str], launch: Launch, *, fused_attention: bool
) -> PredictedTable:
    """Return predictions, totals and notes of a case; notes on its conditions come first."""
    table = case.table
    predicted = case.predicted(case.clocks_mhz)
    time_s = np.bincount(table.index, table.counts, len(case.rows)) * predicted.timing.duration_s[:, 0]
    common = usual_optimum(case.rows, case.gpu, time_s, case.conditions, anchored=case.anchored)
    totals, total_notes, total_info = (
        _kernel_totals(case, predicted, common)
        if case.of_kernels
        else _operator_totals(case, predicted, launch, fused_attention=fused_attention)
    )
    notes = tuple(dict.fromkeys((*condition_notes, *_row_notes(case, predicted), *total_notes)))
    info = {
        "kind": table.kind,
        "anchor": "measured" if case.anchored else "others" if case.from_others else "none",
        "coverage": coverage(case.rows, time_s),
        **total_info,
    }
    frame = with_inputs(table, prediction_frame(predicted))
    return PredictedTable(frame, totals, case.gpu.name, notes, info, common)


def _rows_of(table: InputTable, gpu: Gpu, assumed: Assumptions) -> OperatorColumns:
    """Return a table's rows with what is assumed of them; kernels with the clock they were recorded at.

    Raises
    ------
    BadInput
        If a recorded clock is none of the GPU's.
    """
    if table.kind != "kernels":
        return assumed.on(table.rows)
    check_recorded_clocks(table.name, table.rows.number("recorded_clock_mhz")[table.index], gpu)
    return assumed.on_measured(with_recorded_clock(table.rows, gpu.clock_boost_mhz))


def _row_notes(case: _Case, predicted: Prediction) -> list[str]:
    """Return notes on the rows: what their figures rest on, and what is implausible."""
    rows, gpu = case.rows, case.gpu
    notes = [*prior_notes(gpu, rows, predicted), *content_notes(rows), *unread_notes(case.table)]
    if not case.of_kernels:
        calibration = case.conditions.get("time_calibration")
        notes += library_notes(rows, gpu, calibration)
        notes += shared_page_notes(rows, gpu, calibration)
        notes += crowded_host_notes(rows, gpu, calibration)
        notes += unfitted_notes(priced_stacks(rows, gpu))
        notes += unmeasured_notes(rows, gpu, calibration)
    if case.anchored:
        notes += plausibility_notes(rows, gpu, predicted, case.power, case.conditions["power_cap_w"])
    return notes + predicted_breaches(rows, gpu, predicted, case.power, case.assumed.surroundings)


#: Totals of a table at each clock, notes on them, and facts about them.
_Totals = tuple[list[dict[str, Any]], list[str], dict[str, Any]]


def _kernel_totals(case: _Case, predicted: Prediction, common: UsualOptimum | None) -> _Totals:
    """Return the totals of measured kernels, and which second clock to measure them at."""
    totals = kernel_totals(case.rows, predicted, case.table, anchored=case.scaled)
    advice = _second_clock(case, totals, common) if case.scaled else None
    if advice is None:
        return totals, [], {}
    return totals, [advice.note()], {"second_clock": advice.as_record()}


def _operator_totals(case: _Case, predicted: Prediction, launch: Launch, *, fused_attention: bool) -> _Totals:
    """Return the totals of operators run in order, their attention as one kernel or as its operators."""
    costs = host_costs(launch)
    factors = sequence_factors()
    notes, sequence = [], case.table
    if not fused_attention:
        notes.append("totals: operator by operator, attention too, each kernel among the others")
        sequence = unfused(case.table)
        sequence = replace(sequence, rows=case.assumed.on(sequence.rows))
        predicted = _among_others(sequence, case)
    totals = sequence_totals(
        sequence.rows,
        predicted,
        sequence,
        costs,
        run_sd=None if fused_attention else factors.log_sd,
        own_share=factors.own_share_on(case.gpu),
    )
    return totals, notes + _idle_notes(totals, launch), {"launch": launch, "host": costs.source}


def _idle_notes(totals: Sequence[Mapping[str, Any]], launch: Launch) -> list[str]:
    """Return a note where the host's time is nearly all of a table's: its start, and launches."""
    share = min((t["gap_ms"] / t["makespan_ms"] for t in totals if t["makespan_ms"]), default=0.0)
    if not _MOSTLY_IDLE < share < 1.0:  # rows that never run are no work to wait for
        return []
    eager = "start of a pass and its launches, not the kernels; --launch graph issues all in one call"
    why = eager if launch == "eager" else "launch of the graph, not the kernels"
    return [f"gaps are {100.0 * share:.1f} % of the makespan: the host's {why}"]


def _among_others(table: InputTable, case: _Case) -> Prediction:
    """Return the prediction of a table's rows, each among the others and as often as it is listed."""
    launches = np.bincount(table.index, table.counts, len(table.rows)).astype(np.float64)
    return predict_rows(
        table.rows, case.gpu, case.clocks_mhz, among_others=True, launches=launches, **case.conditions
    )


def _second_clock(
    case: _Case, totals: Sequence[Mapping[str, Any]], common: UsualOptimum | None
) -> SecondClock | None:
    """Return which second clock to measure a kernel table at; None where several were, or rows are many."""
    rows, gpu = case.rows, case.gpu
    measured = np.unique(rows.number("recorded_clock_mhz")[rows.number("duration_us", 0.0) > 0])
    if len(measured) != 1 or len(rows) > _MOST_ADVISED:
        return None
    if len(totals) < _ADVISED_CLOCKS:
        supported = gpu.supported_clocks_mhz()
        usable = supported[supported >= _LOWEST_ADVISED * gpu.clock_max_mhz]
        clocks = usable[np.unique(np.linspace(0, len(usable) - 1, _ADVISED_CLOCKS).round().astype(int))]
        totals = kernel_totals(rows, case.predicted(clocks), case.table, anchored=True)
    clock, energy, high = (
        np.array([t[c] for t in totals]) for c in ("clock_mhz", "energy_j", "energy_high_j")
    )
    return second_clock(clock, energy, high, float(measured[0]), common)
