"""Exports of traces no one here wrote: other programs read the joules of ``tracetool attribute`` back."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.report.trace_processor import rows_of

#: A trace of NVIDIA with its log, and one each of PyTorch on NVIDIA and of rocprofv3 on AMD, which have none.
#: ``make fuzz`` takes all, else the first.
TRACES = (
    ("nsys/Flame__Results_torch-ex_torch-ex.sqlite", "Flame__Results_torch-ex_torch-ex-smi.csv", None, 1200),
    ("kineto/tracelens__h100__gaunernst_bert-small-uncased.json.gz", None, "h100-sxm", 1410),
    ("rocm/rocprofv3_908_results.json.gz", None, "mi300x", 1500),
)[: None if "TRACETOOL_TRACE_BYTES" in os.environ else 1]


def _log(run: tt.Run, path: Path) -> Path:
    """Write a log that covers a run: a reading every 10 ms."""
    first = int(run.kernels["start_ns"].min())  # type: ignore[arg-type]
    last = int((run.kernels["start_ns"] + run.kernels["duration_ns"]).max())  # type: ignore[arg-type]
    time_s = np.arange(first / 1e9 - 2, last / 1e9 + 2, 0.01)
    power_w = 300 + 50 * np.sin(time_s * 7)
    lines = (f"{t:.3f},{p:.2f}" for t, p in zip(time_s, power_w, strict=True))
    path.write_text("time,power_w\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.data
@pytest.mark.parametrize(("trace", "log", "gpu", "clock"), TRACES, ids=lambda given: str(given)[:6])
def test_joules_of_real_traces_come_back_from_every_tool(
    trace: str, log: str | None, gpu: str | None, clock: int, data: Path, tmp_path: Path, root: Path
) -> None:
    source = data / "traces" / trace
    if log:
        power = data / "telemetry" / log
    else:
        power = _log(tt.ingest(source, gpu=gpu, out=tmp_path / "timed.tracetool"), tmp_path / "power.csv")
    run = tt.ingest(source, power=power, gpu=gpu, out=tmp_path / "run.tracetool")
    energy = run.attribute().energy.filter(
        pl.col("signature").is_not_null(), pl.col("energy_j").is_not_null()
    )
    attributed = dict(energy.group_by("family").agg(pl.col("energy_j").sum()).iter_rows())
    assert len(attributed) >= 3

    perfetto, chrome, metrics = (tmp_path / f"run.{suffix}" for suffix in ("pftrace", "json", "prom"))
    tt.export(run, perfetto, clock=clock)
    page = (root / "docs" / "export.md").read_text("utf-8")
    sums = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[0]
    processes = (
        "select p.name, count(*), sum(extract_arg(s.arg_set_id, 'debug.predicted_energy_j')) from slice s"
        " join process_track t on s.track_id = t.id join process p using (upid)"
        " where s.category in ('kernel', 'memcpy', 'memset') group by 1 order by 1"
    )
    faults = "select name from stats where severity in ('error', 'data_loss') and value > 0"
    families, held, faulty = rows_of(perfetto, tmp_path, sums, processes, faults)
    assert dict(families) == pytest.approx(attributed, rel=1e-6)  # type: ignore[call-overload]
    (recorded, n, _), (replay, again, joules) = held
    assert (recorded, str(replay).split(" on ")[0]) == ("recorded", f"replay at {clock} MHz")
    assert n == again == run.kernels.filter(pl.col("kind") != "graph").height
    totals = run.predict(clock=clock).totals
    expected = totals.select(pl.sum_horizontal("kernel_energy_j", "copy_energy_j")).item()
    assert joules == pytest.approx(expected, rel=1e-6)
    assert not faulty

    tt.export(run, chrome)
    by_family: Counter[str] = Counter()
    for event in json.loads(chrome.read_text("utf-8"))["traceEvents"]:
        if "energy_j" in event.get("args", {}):
            by_family[event["args"]["family"]] += event["args"]["energy_j"] or 0.0
    assert dict(by_family) == pytest.approx(attributed, rel=1e-6)

    tt.export(run, metrics)
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    parsed = {f.name: f for f in parser.text_string_to_metric_families(metrics.read_text("utf-8"))}
    stated = {s.labels["family"]: s.value for s in parsed["tracetool_energy_joules"].samples}
    assert stated == pytest.approx(attributed, rel=1e-6)
