"""Predict: a table's rows or a run's kernels at other clocks, and what the whole timeline becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
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
from tracetool.replay.coverage import coverage, library_notes, priced_stacks, prior_notes, shared_page_notes
from tracetool.replay.host import Launch, host_costs
from tracetool.replay.operand_content import content_notes
from tracetool.replay.operator_tables import InputTable, read_table, unread_notes
from tracetool.replay.plausibility import plausibility_notes
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.predicted_breaches import predicted_breaches
from tracetool.replay.prediction_frame import prediction_frame, with_inputs
from tracetool.replay.replays import Launching
from tracetool.replay.second_clock import SecondClock, second_clock
from tracetool.replay.table_totals import kernel_totals, sequence_totals
from tracetool.replay.unfused import unfused
from tracetool.replay.usual_optimum import UsualOptimum, usual_optimum
from tracetool.tables.run_folder import is_run_path

__all__ = ["PredictedRun", "PredictedTable", "predict", "predict_run", "predict_table"]

#: Clocks, from this share of the highest up, that a second measurement is sought among where fewer were asked
#: for; and rows beyond which nobody measures a table again.
_ADVISED_CLOCKS: Final = 12
_LOWEST_ADVISED: Final = 0.35
_MOST_ADVISED: Final = 500
_LAUNCHING: Final[Mapping[str | None, Launching]] = {None: "recorded", "eager": "eager", "graph": "graph"}


@dataclass(frozen=True)
class PredictedTable:
    """Predictions of a table: one row per input row and clock, and totals of the rows run in order."""

    frame: pl.DataFrame
    totals: list[dict[str, Any]]
    gpu: str
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    usual_optimum: UsualOptimum | None = None


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
        :func:`tracetool.replay.unfused.unfused`. The rows of the result are fused either way.
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
    notes = [
        *clock_notes,
        *assumed.notes(gpu_spec),
        *checked_cap(power_cap_w, gpu_spec),
        *checked_memory(mem_clock_mhz, gpu_spec),
    ]
    conditions: dict[str, Any] = {
        "mem_clock_mhz": mem_clock_mhz,
        "power_cap_w": power_cap_w,
        **assumed.options(gpu_spec),
    }
    of_kernels = table.kind == "kernels"
    if of_kernels:
        check_recorded_clocks(table.name, table.rows.number("recorded_clock_mhz")[table.index], gpu_spec)
    anchored = of_kernels and anchor is not False
    from_others = of_kernels and from_others
    recorded = with_recorded_clock(table.rows, gpu_spec.clock_boost_mhz) if of_kernels else table.rows
    rows = assumed.on_measured(recorded) if of_kernels else assumed.on(recorded)
    predicted = predict_rows(rows, gpu_spec, clocks, anchor=anchored, from_others=from_others, **conditions)
    notes += [*prior_notes(gpu_spec, rows, predicted), *content_notes(rows), *unread_notes(table)]
    if not of_kernels:
        calibration = conditions.get("time_calibration")
        notes += library_notes(rows, gpu_spec, calibration)
        notes += shared_page_notes(rows, gpu_spec, calibration)
        notes += [note for note in unfitted_notes(priced_stacks(rows, gpu_spec)) if note not in notes]
    if anchored:
        power = conditions["power_calibration"] or power_calibration_of(gpu_spec)
        notes += plausibility_notes(rows, gpu_spec, predicted, power, power_cap_w)
    coefficients = conditions["power_calibration"] or power_calibration_of(gpu_spec)
    notes += predicted_breaches(rows, gpu_spec, predicted, coefficients)
    time_s = np.bincount(table.index, table.counts, len(rows)) * predicted.timing.duration_s[:, 0]
    info: dict[str, Any] = {
        "kind": table.kind,
        "anchor": "measured" if anchored else "others" if from_others else "none",
        "coverage": coverage(rows, time_s),
    }
    common = usual_optimum(rows, gpu_spec, time_s, conditions, anchored=anchored)
    if of_kernels:
        scaled = anchored and bool((rows.number("duration_us", 0.0) > 0).any())
        totals = kernel_totals(rows, predicted, table, anchored=scaled)
        if (
            scaled
            and (advice := _second_clock(table, rows, gpu_spec, totals, conditions, common)) is not None
        ):
            notes.append(advice.note())
            info["second_clock"] = advice.as_record()
    else:
        costs = host_costs(launch)
        info |= {"launch": launch, "host": costs.source}
        sequence, sequence_prediction = table, predicted
        if not fused_attention:
            notes.append("totals: operator by operator, attention too, each kernel among the others")
            sequence = unfused(table)
            sequence = replace(sequence, rows=assumed.on(sequence.rows))
            sequence_prediction = _among_others(sequence, gpu_spec, clocks, conditions)
        factors = sequence_factors()
        totals = sequence_totals(
            sequence.rows,
            sequence_prediction,
            sequence,
            costs,
            run_sd=None if fused_attention else factors.log_sd,
            own_share=factors.own_share_on(gpu_spec),
        )
    frame = with_inputs(table, prediction_frame(predicted))
    return PredictedTable(frame, totals, gpu_spec.name, tuple(notes), info, common)


def _second_clock(
    table: InputTable,
    rows: OperatorColumns,
    gpu: Gpu,
    totals: Sequence[Mapping[str, Any]],
    conditions: Mapping[str, Any],
    common: UsualOptimum | None,
) -> SecondClock | None:
    """Return which second clock to measure a kernel table at; None where several were, or rows are many."""
    measured = np.unique(rows.number("recorded_clock_mhz")[rows.number("duration_us", 0.0) > 0])
    if len(measured) != 1 or len(rows) > _MOST_ADVISED:
        return None
    if len(totals) < _ADVISED_CLOCKS:
        supported = gpu.supported_clocks_mhz()
        usable = supported[supported >= _LOWEST_ADVISED * gpu.clock_max_mhz]
        clocks = usable[np.unique(np.linspace(0, len(usable) - 1, _ADVISED_CLOCKS).round().astype(int))]
        predicted = predict_rows(rows, gpu, clocks, anchor=True, **conditions)
        totals = kernel_totals(rows, predicted, table, anchored=True)
    clock, energy, high = (
        np.array([t[c] for t in totals]) for c in ("clock_mhz", "energy_j", "energy_high_j")
    )
    return second_clock(clock, energy, high, float(measured[0]), common)


def _among_others(
    table: InputTable, gpu: Gpu, clocks_mhz: Floats, conditions: Mapping[str, Any]
) -> Prediction:
    """Return the prediction of a table's rows, each among the others and as often as it is listed."""
    launches = np.bincount(table.index, table.counts, len(table.rows)).astype(np.float64)
    return predict_rows(table.rows, gpu, clocks_mhz, among_others=True, launches=launches, **conditions)


def predict(
    source: str | os.PathLike[str] | pl.DataFrame,
    gpu: str | None = None,
    clocks_mhz: Sequence[float] | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    launch: str | None = None,
    anchor: str | None = None,
    scale: Mapping[str, float] | None = None,
    drop: Sequence[str] = (),
    attention: str | None = None,
    assumed: Assumptions = NOTHING_ASSUMED,
) -> PredictedTable | PredictedRun:
    """Predict a run (a folder) or a table (a file); see :func:`predict_run` and :func:`predict_table`.

    Parameters
    ----------
    launch : {"eager", "graph"}, optional
        By default a table eager, a run as recorded. ``eager`` said outright also
        means that attention is issued operator by operator.
    anchor : {"measured", "others", "none"}, optional
        By default what was measured is used; ``others`` predicts each kernel from the measured ones of other
        shapes, ``none`` all from shapes alone.
    attention : {"fused", "unfused"}, optional
        By default unfused in the totals of a table launched ``eager``.

    Raises
    ------
    BadInput
        If a word is not known, or the source cannot be used.
    """
    if launch not in _LAUNCHING:
        raise BadInput(f"--launch {launch!r} is not known", "give eager or graph")
    if anchor not in {None, "measured", "others", "none"}:
        raise BadInput(f"--anchor {anchor!r} is not known", "give measured, others or none")
    if anchor == "others" and scale:
        raise BadInput("--scale changes measured times, --anchor others leaves them out", "give one of them")
    if attention not in {None, "fused", "unfused"}:
        raise BadInput(f"--attention {attention!r} is not known", "give fused or unfused")
    if not isinstance(source, pl.DataFrame) and is_run_path(source):
        return predict_run(
            source,
            gpu,
            clocks_mhz,
            mem_clock_mhz=mem_clock_mhz,
            power_cap_w=power_cap_w,
            launch=_LAUNCHING[launch],
            anchor=anchor in {None, "measured"},
            from_others=anchor == "others",
            scale=scale,
            drop=drop,
            assumed=assumed,
        )
    if scale or drop:
        raise BadInput("--scale and --drop change a run's timeline; a table has none", "give a run")
    table = read_table(source)
    if anchor in {"measured", "others"} and table.kind != "kernels":
        raise BadInput(
            f"--anchor {anchor} needs measured kernels, and a table of operators has none",
            "leave it out, or give a table with kernel, duration_us and clock_mhz",
        )
    if not gpu:
        where = "table" if isinstance(source, pl.DataFrame) else source
        raise BadInput.in_file(where, "a table does not say which GPU", "name it: --gpu h100-sxm")
    return predict_table(
        table,
        gpu,
        clocks_mhz,
        mem_clock_mhz=mem_clock_mhz,
        power_cap_w=power_cap_w,
        launch="graph" if launch == "graph" else "eager",
        fused_attention=attention == "fused" or (not attention and launch != "eager"),
        anchor=anchor in {None, "measured"},
        from_others=anchor == "others",
        assumed=assumed,
    )


def parse_factors(texts: Sequence[str]) -> dict[str, float]:
    """Return factors by family from ``FAMILY=0.5``.

    Raises
    ------
    BadInput
        If a text is not of that form.

    Examples
    --------
    >>> parse_factors(["gemm=0.5"])
    {'gemm': 0.5}
    """
    factors = {}
    for text in texts:
        family, _, value = text.partition("=")
        try:
            factors[family.strip()] = float(value)
        except ValueError:
            raise BadInput(f"--scale {text!r} is not FAMILY=FACTOR", "e.g. --scale gemm=0.5") from None
    return factors


def rows_by(
    prediction: PredictedTable | PredictedRun, by: str | None = None, depth: int | None = None
) -> pl.DataFrame:
    """Return the rows to write or show: a table's predictions, or a run's breakdown.

    Raises
    ------
    BadInput
        If a breakdown of a table is asked for, or one that is not known.
    """
    from tracetool.replay.breakdown import breakdown

    if isinstance(prediction, PredictedRun):
        return breakdown(prediction, by or "signature", depth)
    if by or depth:
        raise BadInput("--by breaks down a run's timeline; a table has none", "give a run")
    return prediction.frame
