"""A calibration: its file's text, and the data behind it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracetool.calibrate.second_clock import NextClock


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration file's text, and the data behind it.

    ``coefficients`` has one row per coefficient with its spread and whether the data determined it,
    ``errors`` one per kind of table with the held-out error and the plain baselines, ``rejected``
    the rows no fit saw.
    """

    gpu: str
    toml: str
    coefficients: pl.DataFrame
    errors: pl.DataFrame
    rejected: pl.DataFrame
    notes: tuple[str, ...]
    second_clock: NextClock | None = None
