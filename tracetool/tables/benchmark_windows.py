"""Windows of benchmarks as srt-slurm writes them: a JSON file for each, in its power package."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput

_FOLDER: Final = "windows"
_LARGEST: Final = 1 << 24
_MOST: Final = 10_000
#: Times since 1970 lie before this, in 2286. [s] A prior: more digits are of milliseconds.
LATEST_S: Final = 1e10
START, END = "benchmark_start_time_unix", "benchmark_end_time_unix"


def holds_windows(path: Path) -> bool:
    """Whether a path is a power package, its folder of windows, or one of them, which states its times."""
    files = _files(path)
    return bool(files) and (path.is_dir() or bool({START, END} & small_json(path).keys()))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        folder = path if path.name == _FOLDER else path / _FOLDER
        return sorted(folder.glob("*.json"))[:_MOST]
    return [path] if path.suffix.lower() == ".json" and path.is_file() else []


def window_documents(path: Path) -> dict[str, dict[str, Any]]:
    """Return the documents of a package's windows, by the name of the file; empty where it cannot be read."""
    return {file.stem: small_json(file) for file in _files(path)}


def small_json(file: Path) -> dict[str, Any]:
    """Return the JSON object of a small file, an empty one where there is none."""
    try:
        if not file.is_file() or file.is_symlink() or file.stat().st_size > _LARGEST:
            return {}
        document = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_benchmark_windows(path: Path) -> pl.DataFrame:
    """Return the windows of a power package that have an end: ``name``, ``start_us``, ``end_us``, by start.

    Raises
    ------
    BadInput
        If no window has a start and an end: a benchmark that was interrupted states no end.
    """
    times = {name: _times(document) for name, document in window_documents(path).items()}
    rows = [(name, *span) for name, span in times.items() if span is not None]
    if not rows:
        raise BadInput.in_file(
            path, f"has no window of a benchmark with {START} and {END}", "did a benchmark end?"
        )
    schema = {"name": pl.String(), "start_us": pl.Int64(), "end_us": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("start_us", "name")


def _times(window: dict[str, Any]) -> tuple[int, int] | None:
    """Return start and end of a window in microseconds since 1970; None where it has none."""
    start, end = (_seconds(window.get(key)) for key in (START, END))
    return (round(start * 1e6), round(end * 1e6)) if start < end else None


def _seconds(value: object) -> float:
    """Return a time, not a number where it is none. [s]"""
    plausible = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LATEST_S
    return float(value) if plausible else math.nan  # type: ignore[arg-type]
