"""Energy of a served load by phase, from its requests and the power of the GPUs that served it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.measure.attribute import attribute_activity
from tracetool.measure.power_log import read_power_logs, telemetry_devices
from tracetool.sources.request_log import read_requests
from tracetool.tables.schema import load_schema
from tracetool.tables.scratch import temporary_folder

_PREFILL, _DECODE, _MIXED = "prefill", "decode", "prefill and decode"


def phase_spans(requests: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of time in which the same numbers of requests were in prefill and in decode.

    Parameters
    ----------
    requests : DataFrame
        ``start_ns``, ``first_token_ns``, ``end_ns``.

    Returns
    -------
    DataFrame
        ``start_ns``, ``end_ns``, ``prefills``, ``decodes``; spans without any request are left out.
    """
    at = np.concatenate(
        [requests[c].to_numpy() for c in ("start_ns", "first_token_ns", "first_token_ns", "end_ns")]
    )
    n = requests.height
    prefill = np.repeat([1, -1, 0, 0], n)
    decode = np.repeat([0, 0, 1, -1], n)
    order = np.argsort(at, kind="stable")
    at = at[order]
    spans = pl.DataFrame(
        {
            "start_ns": at[:-1],
            "end_ns": at[1:],
            "prefills": np.cumsum(prefill[order])[:-1],
            "decodes": np.cumsum(decode[order])[:-1],
        }
    )
    return spans.filter(
        (pl.col("end_ns") > pl.col("start_ns")) & (pl.col("prefills") + pl.col("decodes") > 0)
    )


def served_energy(
    requests: str | os.PathLike[str], logs: Sequence[Path], tz: str | None, gpu: str | None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the ``request_energy`` table of a load and what it rests on.

    Parameters
    ----------
    requests : path
        The request log.
    logs : sequence of path
        Power logs of the GPUs that served; all their GPUs are added.
    tz, gpu : str, optional
        Zone of logs in local time; the GPU, whose file states the sensor.

    Notes
    -----
    Time is cut where any request begins, gives its first token or ends. Spans of prefill alone, of decode
    alone and of both at once are three kinds of work whose energies the power log gives with their intervals.
    What both drew at once is shared by the requests in each; the ends of an interval give all of it to
    either, so that it holds however a batch was made up.

    Raises
    ------
    BadInput
        If a file cannot be used, or log and requests do not overlap.
    """
    table, left_out = read_requests(requests)
    if not logs:
        raise BadInput.in_file(requests, "is a request log without a power log", "give one: --power LOG")
    spans = phase_spans(table)
    kinds = [_phase_kind(p, d) for p, d in spans.select("prefills", "decodes").iter_rows()]
    activity = spans.select(
        pl.Series("name", kinds), start_us=pl.col("start_ns") // 1000, end_us=pl.col("end_ns") // 1000
    ).filter(pl.col("end_us") > pl.col("start_us"))
    devices = telemetry_devices(read_power_logs(logs, tz))
    if not devices:
        raise BadInput.in_file(logs[0], "holds no power of a GPU")
    joules = {kind: np.zeros(3) for kind in (_PREFILL, _DECODE, _MIXED)}
    notes = list(left_out)
    with temporary_folder() as folder:
        path = folder / f"{Path(requests).name}.csv"
        activity.write_csv(path)
        for device in devices:
            measured = attribute_activity(path, power=logs, tz=tz, gpu=gpu, device=device)
            notes += [n for n in measured.notes if n not in notes]
            for row in measured.energy.filter(pl.col("class").is_in([*joules])).iter_rows(named=True):
                energies = [row[f"energy{end}_j"] for end in ENDS]
                joules[row["class"]] += np.array([np.nan if p is None else p for p in energies])
    if len(devices) > 1:
        notes.append(f"energies of {len(devices)} GPUs are added, their errors taken as common")
    return _phases(table, spans, kinds, joules), tuple(notes)


def _phase_kind(prefills: int, decodes: int) -> str:
    if prefills and decodes:
        return _MIXED
    return _PREFILL if prefills else _DECODE


def _phases(
    table: pl.DataFrame, spans: pl.DataFrame, kinds: Sequence[str], joules: Mapping[str, Any]
) -> pl.DataFrame:
    """Return prefill, decode and all of the load: the mixed spans shared, the ends giving all to either."""
    timed = spans.with_columns(
        pl.Series("kind", kinds), seconds=(pl.col("end_ns") - pl.col("start_ns")).cast(pl.Float64) * 1e-9
    )
    mixed = timed.filter(pl.col("kind") == _MIXED)
    share = mixed.select(
        (pl.col("seconds") * pl.col("prefills") / (pl.col("prefills") + pl.col("decodes"))).sum()
        / pl.col("seconds").sum()
    ).item()
    shares = (
        {_PREFILL: share or 0.0, _DECODE: 1.0 - (share or 0.0)}
        if mixed.height
        else dict.fromkeys(joules, 0.0)
    )
    finished = int(table["finished"].sum())
    tokens = {_PREFILL: float(table["input_tokens"].sum()), _DECODE: float(table["output_tokens"].sum())}
    tokens["all"] = tokens[_DECODE]
    rows = []
    for phase in (_PREFILL, _DECODE, "all"):
        if phase == "all":
            middle, low, high = (sum(float(joules[k][i]) for k in joules) for i in range(3))
            seconds = float(timed["seconds"].sum())
        else:
            alone, both = joules[phase], joules[_MIXED]
            middle = float(alone[0] + shares[phase] * both[0])
            low, high = float(alone[1]), float(alone[2] + both[2])
            seconds = float(timed.filter(pl.col("kind") == phase)["seconds"].sum())
        row: dict[str, Any] = {
            "phase": phase,
            "requests": finished,
            "tokens": tokens[phase],
            "seconds": seconds,
        }
        for end, value in zip(ENDS, (middle, low, high), strict=True):
            row[f"energy{end}_j"] = value
            row[f"energy_per_token{end}_j"] = value / tokens[phase] if tokens[phase] else None
            row[f"energy_per_request{end}_j"] = value / finished if finished else None
        row["tokens_per_joule"] = tokens[phase] / middle if middle > 0 else None
        rows.append(row)
    return load_schema("request_energy").conform(pl.DataFrame(rows, infer_schema_length=None).fill_nan(None))
