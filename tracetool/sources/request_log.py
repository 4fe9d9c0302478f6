"""Request logs of serving benchmarks: when a request began, gave its first token and ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.io.text import head_bytes, read_text
from tracetool.sources.telemetry.json_lines import decoded_lines

#: Columns of :func:`read_requests`; times in UTC.
COLUMNS: Final = {
    "start_ns": pl.Int64, "first_token_ns": pl.Int64, "end_ns": pl.Int64, "input_tokens": pl.Float64,
    "output_tokens": pl.Float64,
}  # fmt: skip
_NS_PER_MS: Final = 1e6


def is_request_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is AIPerf's ``profile_export.jsonl``."""
    file = Path(path)
    if not file.is_file():
        return False
    first = head_bytes(file)[0].lstrip().split(b"\n", 1)[0]
    return first.startswith(b"{") and (
        b'"request_start_ns"' in first or (b'"timestamp_ns"' in first and b'"x_request_id"' in first)
    )


def _value(metrics: Any, *names: str) -> float | None:
    for name in names:
        metric = metrics.get(name) if isinstance(metrics, dict) else None
        value = metric.get("value") if isinstance(metric, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return float(value)
    return None


def _row(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return a request; None where a line holds none."""
    metadata, metrics = record.get("metadata"), record.get("metrics")
    if not isinstance(metadata, dict):
        return None
    # Releases before 0.2 (October 2025) name the start "timestamp_ns" and give the end among the metrics.
    start = metadata.get("request_start_ns", metadata.get("timestamp_ns"))
    end = metadata.get("request_end_ns")
    if end is None and type(start) is int and (latency_ms := _value(metrics, "request_latency")) is not None:
        end = start + round(latency_ms * _NS_PER_MS)
    if not (type(start) is int and type(end) is int and 0 < start < end < 1 << 62):
        return None
    first_ms = _value(metrics, "time_to_first_token", "ttft")
    first = end if first_ms is None else min(end, start + round(first_ms * _NS_PER_MS))
    unfinished = bool(record.get("error")) or metadata.get("was_cancelled") is True
    return {
        "start_ns": start,
        "first_token_ns": first,
        "end_ns": end,
        "input_tokens": 0.0 if unfinished else _value(metrics, "input_sequence_length") or 0.0,
        "output_tokens": 0.0
        if unfinished
        else _value(metrics, "output_sequence_length", "output_token_count") or 0.0,
        "phase": str(metadata.get("benchmark_phase") or metadata.get("credit_phase") or "profiling"),
        "finished": not unfinished,
    }


def read_requests(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, list[str]]:
    """Return the requests of AIPerf's ``profile_export.jsonl`` in their order, and what was left out.

    Returns
    -------
    requests : DataFrame
        :data:`COLUMNS`, ``phase`` (``warmup`` or ``profiling``), ``finished``. A request that failed or was
        canceled drew power while it ran, and has no tokens. Without a time to the first token all of a
        request is prefill.
    notes : list of str
        How many lines were no requests.

    Raises
    ------
    BadInput
        If it holds no request.
    """
    file = Path(path)
    rows, bad = decoded_lines(read_text(file), _row)
    frame = pl.DataFrame(rows, schema={**COLUMNS, "phase": pl.String, "finished": pl.Boolean})
    if not frame.height:
        raise BadInput.in_file(file, "holds no request with its times", "profile with --export-level records")
    notes = [f"{len(bad)} lines of {file.name} are no requests"] if bad else []
    return frame.sort("start_ns"), notes
