"""Traces and logs of invented runs, as profilers and nvidia-smi write them."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

from tests.replay.planted_causes import START_NS, Planted, kineto_file, sensor, text_files


def write_planted_cause(planted: Planted, folder: Path) -> tuple[list[Path], Path]:
    """Write traces and log; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    traces = []
    polled = [
        (sensor.read(t, sensor.Sensor(gain=1.0, offset_w=0.0, phase_s=0.011 * (r + 1)),
                     lead_s=1.5, tail_s=2.5, seed=r), t)
        for r, t in enumerate(planted.ranks)
    ]  # fmt: skip
    for number, rank in enumerate(planted.ranks):
        path = folder / f"rank{number}.json.gz"
        whole = kineto_file.Rank(number, len(planted.ranks), number) if len(planted.ranks) > 1 else None
        kineto_file.write_kineto(rank, path, utc_ns=START_NS, rank=whole)
        _add_waits(path, rank.waits)
        traces.append(path)
    log = folder / "power.csv"
    text_files.write_nvidia_smi_gpus(polled, log, utc_ns=START_NS, zone_h=0)
    _add_fields(log, planted.log)
    return traces, log


def _add_waits(path: Path, waits: list[tuple[int, int]]) -> None:
    """Add the host's waits for the stream to a trace."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    shift = START_NS - document["baseTimeNanoseconds"]
    for number, (begin, end) in enumerate(waits):
        document["traceEvents"].append(
            {
                "ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": kineto_file.PID,
                "tid": kineto_file.PID, "ts": (begin + shift) / 1e3, "dur": (end - begin) / 1e3,
                "args": {"cbid": 131, "correlation": 900_000 + number},
            }
        )  # fmt: skip
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def _add_fields(log: Path, fields: dict[str, float]) -> None:
    columns = {"temperature": ("temperature.gpu", ""), "limit": ("power.limit [W]", " W")}
    if not fields:
        return
    rows = list(csv.reader(log.read_text("utf-8").splitlines(), skipinitialspace=True))
    for name, value in fields.items():
        title, unit = columns[name]
        rows = [
            [*rows[0], title],
            *([*row, f"{value:.2f}{unit}" if unit else f"{value:.0f}"] for row in rows[1:]),
        ]
    log.write_text("\n".join(", ".join(row) for row in rows) + "\n", "utf-8")
