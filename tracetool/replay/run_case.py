"""Inputs of a run's prediction: its rows as the GPU to predict sees them, and the requested clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.names import variant_notes
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows
from tracetool.replay.clocks import checked_clocks, with_recorded_clock
from tracetool.replay.gpu_transfer import on_gpu
from tracetool.replay.overlap import Rates
from tracetool.replay.recording_conditions import (
    Recorded,
    recorded,
    recorded_gpu,
    with_open_conditions,
    without_refuted_sizes,
)
from tracetool.replay.run_rows import run_rows
from tracetool.replay.totals import rates_at
from tracetool.replay.unnamed_gpu import no_gpu, taken_as_recorded
from tracetool.tables.run import Run


@dataclass(frozen=True)
class RunCase:
    """A prediction to make: the recorded rows as the GPU to predict sees them, and its clocks."""

    signatures: pl.DataFrame
    rows: OperatorColumns
    conditions: Recorded
    recorded_on: Gpu
    target: Gpu
    clocks_mhz: Floats
    notes: tuple[str, ...]

    @property
    def limit_w(self) -> float:
        """Power limit: the recorded one, or that of another GPU. [W]"""
        same_gpu = self.target.name == self.recorded_on.name
        return self.conditions.limit_w if same_gpu else self.target.power_limit_w

    @property
    def recorded_at(self) -> int | None:
        """Position of the recorded clock among those to predict; None on another GPU, or if not requested."""
        at = np.flatnonzero(self.clocks_mhz == self.conditions.clock_mhz)
        return int(at[0]) if len(at) and self.recorded_on.name == self.target.name else None


def run_case(
    run: Run,
    gpu: str | None,
    clocks_mhz: Sequence[float] | None,
    *,
    anchor: bool,
    scale: Mapping[str, float],
) -> RunCase:
    """Return the rows to predict: their recorded conditions known, carried to the GPU to predict, scaled.

    Raises
    ------
    BadInput
        If the run holds no GPU activity, its GPU is not known or not of the maker of the one to predict,
        or a family to scale is not in it.
    """
    signatures, rows, conditions, recorded_on, target, gpu_notes = _measured(run, gpu)
    # shapes that the measured time rules out are left aside only where that time is used
    notes = list(conditions.notes if anchor else conditions.notes[:1])
    notes += gpu_notes
    if anchor:
        rows = conditions.rows
    else:
        rows = with_recorded_clock(without_refuted_sizes(rows, conditions), conditions.clock_mhz)
    if not (anchor or scale or clocks_mhz) and target.name == recorded_on.name:
        rows = with_open_conditions(rows, conditions)
    clock_mhz = conditions.clock_mhz
    if target.name != recorded_on.name:
        rows, clock_mhz = on_gpu(rows, recorded_on, target), target.clock_boost_mhz
        notes.append(
            f"recorded on {recorded_on.name}: durations carried over to {target.name} by the model's ratio, "
            "host time kept"
        )
    clocks, clock_notes = checked_clocks(clocks_mhz or [clock_mhz], target)
    if scale:
        rows = _scaled(rows, target, _factors(run, rows, scale), measured=anchor)
    return RunCase(signatures, rows, conditions, recorded_on, target, clocks, (*notes, *clock_notes))


_Measured = tuple[pl.DataFrame, OperatorColumns, Recorded, Gpu, Gpu, list[str]]


def _measured(run: Run, gpu: str | None) -> _Measured:
    """Return a run's signatures, its rows, how they were recorded, its GPU, the one to predict, and a note.

    The note says which GPU the run is taken as recorded on, where its trace does not.

    A page asks it ten times of one run: the governor that held the clocks is followed once.
    """
    key = ("measured", gpu)
    if key not in run.memo:
        run_gpu = recorded_gpu(run)
        signatures, rows = run_rows(run, run_gpu or (load_gpu(gpu) if gpu else None))
        recorded_on, target = _gpus(run, run_gpu, gpu)
        gpu_notes = [*variant_notes(gpu), *([] if run_gpu else [taken_as_recorded(run, target)])]
        run.memo[key] = signatures, rows, recorded(run, rows, recorded_on), recorded_on, target, gpu_notes
    return cast("_Measured", run.memo[key])


def rates_recorded(case: RunCase, predicted: Prediction | None, cap_share: float) -> tuple[Rates, float]:
    """Return the power of each signature while it was recorded, and the limit it was under.

    ``predicted``, where it is given, is of the run as it was recorded: it serves where it has that clock.
    """
    conditions, recorded_on = case.conditions, case.recorded_on
    if predicted is not None and case.recorded_at is not None:
        return rates_at(predicted, case.recorded_at), cap_share * case.limit_w
    predicted = predict_rows(
        conditions.rows,
        recorded_on,
        np.array([conditions.clock_mhz]),
        power_cap_w=conditions.limit_w,
        anchor=True,
    )
    return rates_at(predicted, 0), power_calibration_of(recorded_on).cap_share * conditions.limit_w


def _gpus(run: Run, run_gpu: Gpu | None, gpu_name: str | None) -> tuple[Gpu, Gpu]:
    """Return the GPU a run was recorded on, ``run_gpu`` where it is known, and the one to predict."""
    target = load_gpu(gpu_name) if gpu_name else run_gpu
    if target is None:
        raise no_gpu(run)
    recorded_on = run_gpu or target
    recorded_on.require_model()
    target.require_model()
    return recorded_on, target


def _factors(run: Run, rows: OperatorColumns, scale: Mapping[str, float]) -> Floats:
    factor = np.ones(len(rows))
    families = sorted(set(rows.family.tolist()))
    for family, value in scale.items():
        in_family = rows.family == family
        if not in_family.any():
            raise BadInput.in_file(
                run.path, f"has no kernels of family {family!r}", f"its families: {', '.join(families)}"
            )
        if not 0.0 < value < 1e3:
            raise BadInput(f"--scale {family}={value:g}: the factor must lie between 0 and 1000")
        factor[in_family] *= value
    return factor


def _scaled(rows: OperatorColumns, gpu: Gpu, factor: Floats, *, measured: bool) -> OperatorColumns:
    """Return the rows with durations scaled: the measured ones, or the model's own at the recorded clock."""
    clock = rows.number("recorded_clock_mhz", gpu.clock_boost_mhz)
    duration = rows.number("duration_us", 0.0)
    if not measured:
        duration = time_rows(rows, gpu, clock[:, None]).duration_s[:, 0] * 1e6
    return replace(rows, columns={**rows.columns, "duration_us": duration * factor})
