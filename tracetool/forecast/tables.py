"""Tables of cases and of forecasts: read, checked, written."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeGuard

import polars as pl

from tracetool.core import escape
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.core.paths import PathLike
from tracetool.forecast.case import COLUMNS, SETTINGS, SINGLE, TEXTS, WHOLE, read_case, without_effect
from tracetool.forecast.explore import Explored, explored
from tracetool.forecast.figures import Forecast, Part
from tracetool.forecast.forecast import LESS_SURE, Outcome, forecast_cases
from tracetool.forecast.grid import expand
from tracetool.forecast.operator_model import TABLES
from tracetool.forecast.power_cap import NOT_KEPT
from tracetool.forecast.replica_memory import BEYOND
from tracetool.forecast.torch_check import Checked
from tracetool.forecast.trace_comparison import Compared
from tracetool.hardware.load import load_gpu
from tracetool.hardware.modified_gpu import with_numbers
from tracetool.replay.operator_tables import load_table
from tracetool.tables.schema import load_schema


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of cases, one row each in the order of the cases.

    ``single`` is whether one case was asked about; then ``parts`` holds its operators, ``pieces`` them as
    they were priced. ``grid`` says which cases are best, where several of one model were asked about;
    ``compared`` sets one against a trace, ``checked`` its model against what torch counts of it.
    """

    frame: pl.DataFrame
    single: bool
    parts: pl.DataFrame = field(default_factory=pl.DataFrame)
    facts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    title: str = ""
    grid: Explored | None = None
    pieces: tuple[Part, ...] = field(default=(), repr=False)
    compared: Compared | None = None
    checked: Checked | None = None


def is_table(source: PathLike | pl.DataFrame | Mapping[str, Any]) -> TypeGuard[PathLike | pl.DataFrame]:
    """Return whether a source is a table of cases, not a model or the operators of one."""
    if isinstance(source, pl.DataFrame):
        return True
    if isinstance(source, Mapping) or Path(source).suffix.lower() not in TABLES:
        return False
    columns = load_table(Path(source)).columns
    return "model" in columns or "op" not in columns


def forecast_table(source: PathLike | pl.DataFrame, defaults: Mapping[str, Any]) -> Forecasts:
    """Return the forecasts of a table of cases.

    Parameters
    ----------
    source : path or DataFrame
        Columns as :data:`tracetool.forecast.case.COLUMNS`; others are carried over.
    defaults : mapping
        Values of cases that state none.

    Raises
    ------
    BadInput
        If the table cannot be read, or every case fails.
    """
    frame = source if isinstance(source, pl.DataFrame) else load_table(Path(source))
    name = "table" if isinstance(source, pl.DataFrame) else os.fspath(source)
    folder = None if isinstance(source, pl.DataFrame) else Path(source).parent
    if not frame.height:
        raise BadInput.in_file(name, "holds no cases", "give one row per case: docs/forecast.md")
    if "model" not in frame.columns:
        raise BadInput.in_file(name, "has no column model", "one row per case: docs/forecast.md")
    stated_defaults = {key: value for key, value in defaults.items() if value is not None}
    rows = [
        {**stated_defaults, **{k: v for k, v in row.items() if k in COLUMNS and v is not None}}
        for row in frame.iter_rows(named=True)
    ]
    outcomes = forecast_cases(rows, folder)
    if all(o.forecast is None for o in outcomes):
        raise BadInput.in_file(name, f"no case can be forecast; the first: {outcomes[0].error}")
    failed = sum(o.forecast is None for o in outcomes)
    why = next((o.error for o in outcomes if o.forecast is None), "")
    have = "has" if failed == 1 else "have"
    notes = [f"{failed} of {len(outcomes)} cases {have} no forecast: see the column error; the first: {why}"]
    notes = notes if failed else []
    notes += [note for note in _notes_of_cases(outcomes) if NOT_KEPT in note]
    return Forecasts(_frame(frame, outcomes), False, notes=(*notes, *_unread(frame, outcomes)))


def _unread(frame: pl.DataFrame, outcomes: Sequence[Outcome]) -> list[str]:
    """Return notes on the columns of a table that decide no case: unknown ones, and those of other modes."""
    figures = {column.name for column in load_schema("forecast").columns}
    unknown = [name for name in frame.columns if name not in COLUMNS and name not in figures]
    notes = [f"columns without effect: {', '.join(map(escape.name, unknown))}"] if unknown else []
    unread: dict[tuple[str, str], int] = {}
    for case in (outcome.case for outcome in outcomes):
        for name in without_effect(case) if case is not None and case.mode != SINGLE else ():
            unread[str(case.mode), name] = unread.get((str(case.mode), name), 0) + 1  # type: ignore[union-attr]
    return notes + [
        f"{name} without effect on {counted(cases, 'case')} of mode {mode}"
        for (mode, name), cases in unread.items()
    ]


def forecast_model(values: Mapping[str, Any], slowdown: float) -> Forecasts:
    """Return the forecast of one case, or of all combinations of the values of lists and ranges.

    Parameters
    ----------
    values : mapping
        Columns as :data:`tracetool.forecast.case.COLUMNS`, each with one value or several.
    slowdown : float
        Slowdown that goals among several cases allow. [1]

    Raises
    ------
    BadInput
        If a value cannot be used or the model does not fit; of several cases, if none can be forecast.
    """
    cases, varied = expand(values)
    if not varied:
        return forecast_one(cases[0])
    for case in cases:  # a slip of the pen is no case that cannot run
        checked_case = read_case(case)
        with_numbers(str(checked_case.gpu), checked_case.set or {})
    outcomes = forecast_cases(cases)
    if all(outcome.forecast is None for outcome in outcomes):
        raise BadInput(f"none of {len(cases)} cases can be forecast; the first: {outcomes[0].error}")
    modes = [None if outcome.case is None else outcome.case.mode for outcome in outcomes]
    records = [
        _shown(case) | ({"mode": mode} if mode else {}) for case, mode in zip(cases, modes, strict=True)
    ]
    shown = pl.DataFrame(records, infer_schema_length=None, strict=False)
    gpus = [None if outcome.forecast is None else outcome.forecast.gpus for outcome in outcomes]
    grid = explored(_frame(shown, outcomes), gpus, varied, slowdown)
    name = Path(str(shown["model"][0])).name
    changed = (f"a GPU with changed numbers was never measured: {LESS_SURE}",) if values.get(SETTINGS) else ()
    return Forecasts(
        grid.frame, False, notes=(*_notes_of_cases(outcomes), *grid.notes, *changed), title=name, grid=grid
    )


#: Signs in which notes of one kind may differ.
_NUMBERS: Final = "0123456789."


def _notes_of_cases(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the notes that all forecasts have, and of those of some one for each kind, with their number.

    Notes of one kind differ in numbers alone. Those of a grid as a whole are left out: of a changed GPU, and
    of batches beyond the memory.
    """
    forecasts = [outcome.forecast for outcome in outcomes if outcome.forecast is not None]
    kinds: dict[str, list[str]] = {}
    for forecast in forecasts:
        for note in forecast.notes:
            if LESS_SURE not in note and BEYOND not in note:
                kinds.setdefault("".join(sign for sign in note if sign not in _NUMBERS), []).append(note)
    notes = []
    for alike in kinds.values():
        same = len(alike) == len(forecasts) and len(set(alike)) == 1
        of_some = f"{len(alike)} of {len(outcomes)} cases; the first: {alike[0]}"
        notes.append(alike[0] if same else of_some)
    return notes


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a case as a table shows them: numbers as numbers, the model by its name."""
    shown: dict[str, Any] = {}
    flat = {**values, **(values.get(SETTINGS) or {})}
    flat.pop(SETTINGS, None)
    for name, value in flat.items():
        if name in TEXTS:
            shown[name] = value if isinstance(value, str) else _named(value)
            continue
        try:
            shown[name] = int(float(value)) if name in WHOLE else float(value)
        except (TypeError, ValueError, OverflowError):
            shown[name] = None
    return {**shown, "mode": shown.get("mode") or "serve"}


def forecast_one(values: Mapping[str, Any]) -> Forecasts:
    """Return the forecast of one case.

    Raises
    ------
    BadInput
        If a value cannot be used or the model does not fit.
    """
    (outcome,) = forecast_cases([values])
    if outcome.forecast is None or outcome.case is None:
        raise BadInput(outcome.error)
    case = outcome.case
    stated = {name: value for name in COLUMNS if (value := getattr(case, name)) is not None}
    shown = _shown(stated)
    frame = _frame(pl.DataFrame([shown]), [outcome])
    forecast = outcome.forecast
    return Forecasts(
        frame,
        True,
        _operator_frame(forecast),
        forecast.facts,
        forecast.notes,
        _title(shown, forecast),
        None,
        forecast.parts,
    )


def _named(source: Any) -> str:
    if isinstance(source, Mapping):
        return str(source.get("_name_or_path") or source.get("model_type") or "configuration")
    return str(os.fspath(source))


def _title(case: Mapping[str, Any], forecast: Forecast) -> str:
    gpu = load_gpu(str(case["gpu"])).name  # whichever of its names was given
    gpus = f"{forecast.gpus} x {gpu}" if forecast.gpus > 1 else gpu
    changed = "".join(f", {name} {case[name]:g}" for name in case if name not in COLUMNS)
    return (
        f"{Path(str(case['model'])).name}, {case['mode']} on {gpus}{changed} at {forecast.clock_mhz:.0f} MHz"
    )


def _frame(cases: pl.DataFrame, outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return the input columns, the figures and the errors, a row per case."""
    schema = load_schema("forecast")
    records = [
        {**({} if o.forecast is None else o.forecast.record()), "error": o.error or None} for o in outcomes
    ]
    columns = [column.name for column in schema.columns]
    values = {name: [record.get(name) for record in records] for name in columns}
    figures = schema.conform(pl.DataFrame(values, strict=False))
    return pl.concat([cases.drop(columns, strict=False), figures], how="horizontal")


#: Columns of operator rows with their sizes, in the order they are written.
_SIZES: Final = (
    *("batch", "m", "n", "k", "q_len", "kv_len", "heads", "kv_heads", "head_dim", "window", "tokens"),
    *("hidden", "intermediate", "top_k", "experts", "rows", "cols", "elements", "bytes", "ranks"),
)


def _operator_frame(forecast: Forecast) -> pl.DataFrame:
    """Return the operators of a forecast, largest energy first, equal modules and shapes together."""
    records = [_operator_record(part) for part in forecast.parts]
    if not records:
        return pl.DataFrame()
    frame = pl.DataFrame(records, infer_schema_length=None)
    total_j = float(frame["energy_j"].sum()) or 1.0
    return (
        frame.group_by("module", "op", "shape", "family", "basis", maintain_order=True)
        .agg(pl.col("launches").sum(), pl.col("time_ms").sum(), pl.col("energy_j").sum())
        .with_columns((100.0 * pl.col("energy_j") / total_j).alias("energy_share_pct"))
        .sort("energy_j", descending=True, maintain_order=True)
    )


def _size(value: float) -> str:
    """Return a size: whole numbers whole, means over steps with six digits.

    >>> _size(117440512.0), _size(593.744286541)
    ('117440512', '593.744')
    """
    return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"


def _operator_record(part: Part) -> dict[str, Any]:
    sizes = (f"{name} {_size(float(part.row[name]))}" for name in _SIZES if _stated(part.row.get(name)))
    return {
        "module": part.name,
        "op": str(part.row["op"]),
        "shape": ", ".join(sizes),
        "family": part.family,
        "basis": part.basis,
        "launches": part.launches,
        "time_ms": part.time_s * 1e3,
        "energy_j": part.energy_j,
    }


def _stated(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value != 1
    )
