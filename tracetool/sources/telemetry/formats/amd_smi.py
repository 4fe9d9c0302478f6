"""``amd-smi metric --csv`` and ``amd-smi monitor --csv`` logs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import header_names
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.amd_log import knows, plain, readings, time_of
from tracetool.sources.telemetry.localtime import stamped_lines


def _is_header(line: str) -> bool:
    if "gpu" not in line.lower():
        return False
    names = [plain(n) for n in header_names(line)]
    return "gpu" in names and len(names) > 1 and knows(names)


def sniff(probe: Probe) -> float:
    """Score: a header with ``gpu`` and a power column of amd-smi."""
    lines = [line.text for line in stamped_lines("\n".join(probe.lines(60)))]
    return 0.9 if any(_is_header(line) for line in lines) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    return readings(path, list(_rows(read_text(path, options.max_ratio))), "amd-smi")


def _rows(text: str) -> Iterator[dict[str, str | None]]:
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if _is_header(line):
            names = [plain(n) for n in header_names(line)]
            continue
        cells = _cells(line)
        if not names or len(cells) < 2:
            continue
        row: dict[str, str | None] = dict(zip(names, cells, strict=False))
        yield row | {"device": row.get("gpu"), "stamp": time_of(row), "line": str(number)}


def _cells(line: str) -> list[str]:
    """Return the cells of a line; GPUs of several dies have lists in quotes, with commas of their own."""
    if '"' not in line:
        return [c.strip() for c in line.split(",")]
    try:
        row = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [c.strip() for c in row]


FORMAT = Format(
    title="amd-smi log (CSV)",
    holds="telemetry",
    made_by="amd-smi metric --power --clock --energy --csv --watch 1 > amd.csv",
    tried="ROCm 6.2 and 7 columns, from the tool's source; InferenceX's gpu_metrics.csv of MI355X (2026)",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".csv",),
    memory_ratio=20.0,
)
