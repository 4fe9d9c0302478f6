"""Request logs of serving benchmarks: when a request began, gave its first token and ended.

AIPerf's lines of JSON (``profile_export.jsonl``), and tables of InferenceX (formerly InferenceMAX): of its
replay of agents' traces (``detailed_results.csv``, times in seconds since 1970) and of its client of many
turns (``metrics_client_metrics.csv``, milliseconds of the client's clock).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.io.csv_file import has_columns, read_csv
from tracetool.sources.io.json_lines import decoded_lines
from tracetool.sources.io.text import decode, head_bytes, read_text
from tracetool.tables.benchmark_windows import LATEST_S

#: Columns of :func:`read_requests`; times in UTC.
COLUMNS: Final = {
    "start_ns": pl.Int64, "first_token_ns": pl.Int64, "end_ns": pl.Int64, "input_tokens": pl.Float64,
    "output_tokens": pl.Float64,
}  # fmt: skip
_NS_PER_MS: Final = 1e6
_F: Final = pl.Float64()
#: Columns of the two tables, and what makes a header one of them.
_REPLAYED: Final = ("request_start_time", "request_complete_time", "output_tokens_actual")
_CLIENT: Final = ("start_time_ms", "ttft_ms", "latency_ms")
_TABLE: Final = {
    "start_s": (["request_start_time"], _F),
    "first_s": (["prefill_complete_time"], _F),
    "ttft_s": (["ttft"], _F),
    "end_s": (["request_complete_time"], _F),
    "start_ms": (["start_time_ms"], _F),
    "ttft_ms": (["ttft_ms"], _F),
    "latency_ms": (["latency_ms"], _F),
    "input_tokens": (["input_tokens", "input_num_tokens"], _F),
    "output_tokens": (["output_tokens_actual", "output_num_tokens"], _F),
    "success": (["success"], pl.String()),
}
#: Times since 1970 of requests: from 2001 on. [s] A prior.
_EARLIEST_S: Final = 1e9


def is_request_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is AIPerf's ``profile_export.jsonl`` or a table of requests of InferenceX."""
    file = Path(path)
    if not file.is_file():
        return False
    head = head_bytes(file)[0]
    first = head.lstrip().split(b"\n", 1)[0]
    return _is_table(head) or (
        first.startswith(b"{")
        and (b'"request_start_ns"' in first or (b'"timestamp_ns"' in first and b'"x_request_id"' in first))
    )


def _is_table(head: bytes) -> bool:
    header = decode(head).split("\n", 1)[0]
    return has_columns(header, *_REPLAYED) or has_columns(header, *_CLIENT)


def _value(metrics: Any, *names: str) -> float | None:
    for name in names:
        metric = metrics.get(name) if isinstance(metrics, dict) else None
        value = metric.get("value") if isinstance(metric, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return float(value)
    return None


def _row(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return a request; None where a line has none."""
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
    """Return the requests of a log in their order, and what was left out.

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
        If it holds no request, or its times do not count from 1970.
    """
    file = Path(path)
    fix = "profile with --export-level records"
    if _is_table(head_bytes(file)[0]):
        fix = "copy the file again"
        frame, bad = _table_rows(file)
    else:
        rows, lines = decoded_lines(read_text(file), _row)
        bad = len(lines)
        frame = pl.DataFrame(rows, schema={**COLUMNS, "phase": pl.String, "finished": pl.Boolean})
    if not frame.height:
        raise BadInput.in_file(file, "holds no request with its times", fix)
    notes = [f"left out {counted(bad, 'line')} of {file.name}: no request"] if bad else []
    return frame.sort("start_ns"), notes


def _table_rows(file: Path) -> tuple[pl.DataFrame, int]:
    """Return the requests of a table, and how many of its lines are none."""
    cells = read_csv(file, _TABLE)
    timed = cells.select(
        start=pl.coalesce("start_s", pl.col("start_ms") / 1e3),
        first=pl.coalesce(
            "first_s", pl.col("start_s") + pl.col("ttft_s"), (pl.col("start_ms") + pl.col("ttft_ms")) / 1e3
        ),
        end=pl.coalesce("end_s", (pl.col("start_ms") + pl.col("latency_ms")) / 1e3),
        input_tokens=pl.col("input_tokens"),
        output_tokens=pl.col("output_tokens"),
        # A request that failed is stated; a table without the column holds those that came back.
        finished=pl.col("success").str.to_lowercase().ne("false").fill_null(value=True),
    )
    with_times = timed.filter(
        pl.all_horizontal(pl.col("start", "end").is_finite()), pl.col("start") < pl.col("end")
    )
    dated = with_times.filter(pl.col("start") > _EARLIEST_S, pl.col("end") < LATEST_S)
    if with_times.height and not dated.height:
        first_s = float(with_times.select(pl.col("start").min()).item())
        raise BadInput.in_file(
            file,
            f"its times do not count from 1970: the first request starts at {first_s:.10g} s",
            "add the moment at which the client's clock was 0, in ms since 1970, to start_time_ms",
        )
    tokens = {
        name: pl.when(pl.col("finished") & pl.col(name).is_between(0, 1e12)).then(pl.col(name)).otherwise(0.0)
        for name in ("input_tokens", "output_tokens")
    }
    times = {
        f"{name}_ns": (moment * 1e9).round().cast(pl.Int64)
        for name, moment in (
            ("start", pl.col("start")),
            ("first_token", pl.col("first").fill_nan(None).fill_null(pl.col("end")).clip("start", "end")),
            ("end", pl.col("end")),
        )
    }
    frame = dated.select(**times, **tokens, phase=pl.lit("profiling"), finished="finished")
    return frame, cells.height - frame.height
