"""Checks of a stored baseline: files in a shared folder may be damaged, or written by something else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from tracetool.compare.sides import FIGURES, GROUP, IDENTITY
from tracetool.tables.table_list import LARGEST_FIGURE

#: Least time, energy, count or clock a baseline may state, but for none. [s], [J], [1], [MHz] A prior: a
#: kernel takes more than a femtosecond.
_LEAST = 1e-15


def check_stored(frame: pl.DataFrame, header: Mapping[str, Any]) -> None:
    """Raise an error unless a baseline's classes, places and steps are those of one run.

    Parameters
    ----------
    frame : DataFrame
        Its rows, one per class.
    header : mapping
        Its figures and settings.

    Raises
    ------
    KeyError, TypeError, ValueError
        If something is missing, of another type, or impossible; the text of a ValueError names it.
    """
    for name in (*IDENTITY, "family", "kind", *({GROUP} & set(frame.columns))):
        if frame.schema.get(name) != pl.String or frame[name].null_count():
            raise ValueError(f"column {name} is not text")
    for name in FIGURES:
        if frame.schema.get(name) != pl.Float64 or frame[name].is_infinite().any():
            raise ValueError(f"column {name} is not of finite numbers")
        _check_sane(name, frame[name])
    if frame["launches"].is_nan().any():
        raise ValueError("launches without a number")
    if not frame.height or not (frame["time_s"].is_finite() & (frame["time_s"] >= 0)).all():
        raise ValueError("no classes, or times that are none")
    _check_header(header)
    places = frame["places"].explode().drop_nulls()
    if not places.dtype.is_integer() or not np.array_equal(places.sort().to_numpy(), np.arange(len(places))):
        raise ValueError("launches without a place, or two at one")
    if "step" in frame.columns:
        check_steps(frame, header)


def _check_header(header: Mapping[str, Any]) -> None:
    """Raise ValueError unless the numbers and settings in a baseline's header are possible."""
    if not all(math.isfinite(header[name]) for name in ("gap_s", "gap_j", "span_s")):
        raise ValueError("gaps or span are not finite")
    for name in ("gap_s", "gap_j", "span_s", "steps", "clock_mhz"):
        _check_sane(name, pl.Series([header[name]], dtype=pl.Float64))
    if not all(isinstance(value, str) for value in header["keys"].values()):
        raise ValueError("settings that are no text")


def check_steps(frame: pl.DataFrame, header: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError unless steps are numbered and have their times."""
    steps, times = frame["step"].explode(), frame["step_time_s"].explode()
    if not steps.dtype.is_integer() or times.dtype != pl.Float64 or not (steps >= 0).all():
        raise ValueError("steps without a number")
    if ((frame["step_time_s"].list.sum() > 0) & (frame["time_s"] <= 0)).any():
        raise ValueError("steps of classes without time")
    _check_sane("step_time_s", times)
    if not isinstance(header["step_span_s"], list):
        raise TypeError("steps without their spans")
    _check_sane("step_span_s", pl.Series(header["step_span_s"], dtype=pl.Float64))


def _check_sane(name: str, figures: pl.Series) -> None:
    """Raise ValueError where a figure is larger or smaller than any measurement, but for none at all."""
    sizes = figures.drop_nans().abs()
    if ((sizes > LARGEST_FIGURE) | ((sizes > 0.0) & (sizes < _LEAST))).any():
        raise ValueError(f"{name} holds what nobody measured")
