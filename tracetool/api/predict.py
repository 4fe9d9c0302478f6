"""Predict: time, power and energy of a run or a table at other clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.arguments import given_assumptions, number, positive, several, table_or_path, text
from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike
from tracetool.replay.clocks import given_values
from tracetool.replay.power_over_time import SENSOR_NOTE, PowerOverTime
from tracetool.replay.power_over_time import power_over_time as run_power
from tracetool.replay.predict import PredictedRun, PredictedTable, parse_factors, rows_by
from tracetool.replay.predict import predict as predict_source
from tracetool.tables.schema import load_schema
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View

#: Values of an option: ``1200``, ``[900, 1200]``, or as on the command line ``"600:1410:15"``.
Values = str | float | Sequence[float]


@dataclass(frozen=True)
class Prediction(Charted):
    """Predictions at each clock.

    Attributes
    ----------
    totals : DataFrame, shape (clocks, columns)
        Time [ms], power [W] and energy [J] of kernels, copies, gaps and the whole, with 90 % intervals.
    frame : DataFrame
        The rows: of a table one per input row and clock, of a run as ``by`` asks, by default one per
        signature and clock.
    gpu : str
        The GPU predicted.
    notes : tuple of str
        What the figures rest on.
    conditions : mapping
        How the prediction was made: anchor, launch, coverage.
    """

    source: PredictedTable | PredictedRun = field(repr=False)
    by: str | None = None
    depth: int | None = None
    over_time: PowerOverTime | None = None
    tariff: Tariff = NO_TARIFF

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return self.source.gpu

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return (*self.source.notes, *((SENSOR_NOTE,) if self.over_time else ()))

    @property
    def conditions(self) -> Mapping[str, Any]:
        """Conditions of the prediction."""
        return self.source.info

    @cached_property
    def totals(self) -> pl.DataFrame:
        """One row per clock."""
        return pl.DataFrame(self._priced_totals(), infer_schema_length=None)

    def _priced_totals(self) -> list[dict[str, Any]]:
        return self.tariff.priced_records(self.source.totals)

    @cached_property
    def _rows(self) -> pl.DataFrame:
        return self.rows(self.by, self.depth)

    def rows(self, by: str | None, depth: int | None = None) -> pl.DataFrame:
        """Return a run's rows by signature, family, range, operator, module, iteration, gpu, gap, power.

        Several but the last are joined (``gpu,module``, ``gap,gpu``); ``depth`` keeps so many levels of
        modules.

        Raises
        ------
        BadInput
            If a table is asked for a breakdown, or one that is not known.
        """
        return self.tariff.priced(rows_by(self.source, by, depth))

    def _document(self) -> dict[str, Any]:
        rows = {"rows": self._rows.to_dicts()} if self.by else {}
        totals = {**self.tariff.factors(), "totals": self._priced_totals()}
        swing = {"power_over_time": self.over_time.records} if self.over_time else {}
        notes = list(self.notes)
        return {"gpu": self.gpu, **self.conditions, **totals, **rows, **swing, "notes": notes}

    @property
    def power_over_time(self) -> pl.DataFrame | None:
        """Power of each GPU of a run, step by step; None where it was not asked for."""
        return self.over_time.frame if self.over_time else None

    def save_power_over_time(self, path: PathLike) -> None:
        """Write the power over time; the extension decides the format.

        Raises
        ------
        BadInput
            If it was not asked for, or the file cannot be written.
        """
        from tracetool.report.save import save_view
        from tracetool.report.view import View

        if self.over_time is None:
            raise BadInput("the prediction holds no power over time", "predict(..., power_over_time=True)")
        title = f"Power over time on {self.gpu}"
        save_view(View(title, self.over_time.frame, load_schema("power_over_time")), path)

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Predictions on {self.gpu}", self._rows)

    def _notebook(self) -> View:
        from tracetool.report.view import Grid, Line, View

        flat = self.totals.select(pl.exclude("energy_parts_j", "gaps_ms", "gaps_j", "devices"))
        title = f"Predictions on {self.gpu}"
        notes = [Line(note, "note") for note in self.notes]
        return View(title, flat, None, (Line(title, "headline"), Grid(flat), *notes))

    def _chart(self) -> Chart:
        from tracetool.report.pictures.predicted import predicted_bars

        return predicted_bars(self.source)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the totals of every clock and, where asked for, rows."""
        from tracetool.report.terminal.cost import print_tariff
        from tracetool.report.terminal.power_swing import print_swings
        from tracetool.report.terminal.prediction import print_rows, print_totals

        anchor = str(self.conditions.get("anchor", ""))
        print_totals(self.source, self.conditions.get("coverage", {}), written, anchor)
        print_tariff(self.tariff, self.totals)
        if self.over_time:
            print_swings(self.over_time.records)
        if self.by:
            print_rows(self._rows)


@public
def predict(
    source: PathLike | pl.DataFrame,
    *,
    gpu: str | None = None,
    clock: Values | None = None,
    mem_clock: float | None = None,
    power_cap: float | None = None,
    launch: str | None = None,
    anchor: str | None = None,
    attention: str | None = None,
    stack: str | None = None,
    operands: str | None = None,
    calibration: PathLike | Sequence[PathLike] = (),
    temperature: float | None = None,
    ambient: float | None = None,
    scale: Mapping[str, float] | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    by: str | None = None,
    depth: int | None = None,
    power_over_time: bool = False,
    tariff: Tariff = NO_TARIFF,
) -> Prediction:
    """Predict time, utilization, power and energy at each clock, as ``tracetool predict``.

    Parameters
    ----------
    source : run, path or DataFrame
        A run, or an operator or kernel table (``docs/tables.md``).
    gpu : str, optional
        The GPU to predict, e.g. ``h100-sxm``; a run knows its own.
    clock : float, sequence of float or str, optional
        Core clocks: ``1200``, ``[900, 1200]`` or ``"600:1410:15"``; by default the one of the run, else the
        GPU's boost clock. [MHz]
    mem_clock : float, optional
        Memory clock; by default the GPU's. [MHz]
    power_cap : float, optional
        Power cap; by default the GPU's limit. [W]
    launch : {"eager", "graph"}, optional
        One call a kernel, or one call in all; by default a table eager, a run as recorded.
    anchor : {"measured", "others", "none"}, optional
        ``measured`` scales what was recorded (the default where there is any; kernels without a measurement
        take what those beside them state), ``others`` predicts each kernel from the measured ones of other
        shapes, ``none`` from shapes alone.
    attention : {"fused", "unfused"}, optional
        How the totals of a table count prefill attention.
    stack : str, optional
        Library that ran a table's operators where it states none: ``vllm``, ``sglang``, ``trtllm``, with or
        without a version. Kernels of a run state their own.
    operands : str, optional
        What the operands of products hold where a row does not state it: ``random``, ``zeros``, ``constant``,
        ``sorted``, ``sparse=0.5``, or a ``.npy`` or ``.safetensors`` file whose bits are counted.
    calibration : path or sequence of path
        Coefficients of :func:`tracetool.calibrate`.
    temperature, ambient : float, optional
        The chip's temperature, held, or the air's at the GPU. [°C]
    scale : mapping of str to float
        What if a family's kernels took this factor of their time. [1]
    drop : str or sequence of str
        What if these ranges of a run were left out.
    by : str, optional
        Rows of a run: ``signature``, ``family``, ``range``, ``operator``, ``module``, ``iteration``,
        ``phase``, ``gpu``, ``gap``, several of them (``gpu,module``), or ``power``; with rates achieved.
    depth : int, optional
        Levels of nested modules kept apart, all by default.
    power_over_time : bool
        Also return a run's power over time: step by step, and its peaks, ramps and spectrum.
    tariff : Tariff, optional
        Adds cost and CO2 to every energy.

    Raises
    ------
    BadInput
        If the source, the GPU, a clock or a word is not known.

    Examples
    --------
    >>> import tracetool as tt
    >>> slow, fast = run.predict(clock=[1200, 2100]).totals["makespan_ms"]
    >>> slow >= fast
    True
    """
    factors = dict(scale) if isinstance(scale, Mapping) else parse_factors(several("scale", scale))
    predicted = predict_source(
        table_or_path(source),
        text("gpu", gpu),
        given_values(clock),
        mem_clock_mhz=positive("mem_clock", mem_clock),
        power_cap_w=number("power_cap", power_cap),
        launch=launch,
        anchor=anchor,
        scale=factors,
        drop=several("drop", drop),
        attention=attention,
        assumed=given_assumptions(calibration, temperature, ambient, stack, operands),
    )
    prediction = Prediction(predicted, by, depth, run_power(predicted) if power_over_time else None, tariff)
    if by or depth or tariff:
        _ = (
            prediction.frame
        )  # an unknown breakdown or a column taken fails here, not when it is first looked at
    return prediction
