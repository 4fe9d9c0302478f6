"""Throttled spans of an exported timeline: those of the log's readings, in Perfetto and in Chrome's JSON."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tests.report.trace_processor import rows_of

START_S = 1_767_589_200
PERIOD_NS = 100_000_000
#: Readings: idle 10, capped 15, idle 5, thermal 10, silence for 3 s while capped, idle, capped to the end.
REASONS = (
    *["0x0000000000000001"] * 10, *["0x0000000000000004"] * 15, *["0x0000000000000001"] * 5,
    *["0x0000000000000040"] * 10, "silence", *["0x0000000000000004"] * 4, *["0x0000000000000000"] * 4,
    *["0x0000000000000004"] * 3,
)  # fmt: skip
SILENCE = 30


def _times() -> list[tuple[int, str]]:
    """Return when each reading was made, and its reasons. [ns]"""
    placed, at = [], 0
    for reasons in REASONS:
        if reasons == "silence":
            at += SILENCE
            continue
        placed.append((START_S * 10**9 + at * PERIOD_NS, reasons))
        at += 1
    return placed


def _expected() -> list[tuple[int, int]]:
    """Return start and length of each span, found reading by reading. [ns]"""
    spans: list[list[int]] = []
    for (now, reasons), (after, _) in zip(_times(), _times()[1:], strict=False):
        if int(reasons, 16) & 0x4C and after - now <= 5 * PERIOD_NS:
            if spans and spans[-1][1] == now:
                spans[-1][1] = after
            else:
                spans.append([now, after])
    return [(a, b - a) for a, b in spans]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    folder = tmp_path_factory.mktemp("throttled")
    kernels = folder / "kernels.csv"
    first_us = START_S * 10**6
    kernels.write_text(
        "kernel,start_us,duration_us\n"
        + "".join(f"gemm_{i % 2},{first_us + 50_000 * i},40000\n" for i in range(160))
    )
    log = folder / "smi.csv"
    head = "timestamp, index, power.draw [W], clocks.current.sm [MHz], clocks_event_reasons.active\n"
    lines = []
    for time_ns, reasons in _times():
        second, rest = divmod(time_ns - START_S * 10**9, 10**9)
        stamp = f"2026/01/05 05:00:{second:02d}.{rest // 10**6:03d}"
        lines.append(f"{stamp}, 0, 300.00 W, 1410 MHz, {reasons}\n")
    log.write_text(head + "".join(lines))
    return tt.ingest(kernels, power=log, tz="+00:00", gpu="a100-sxm", out=folder / "run.tracetool")


def test_spans_in_perfetto_are_those_of_the_readings(run: tt.Run, tmp_path: Path) -> None:
    tt.export(run, tmp_path / "run.pftrace")
    query = (
        "select s.ts, s.dur, t.name, extract_arg(s.arg_set_id, 'debug.basis') from slice s"
        " join track t on s.track_id = t.id where s.category = 'throttled' order by s.ts"
    )
    (spans,) = rows_of(tmp_path / "run.pftrace", tmp_path, query)
    assert [(start, length) for start, length, *_ in spans] == _expected()
    assert {tuple(row[2:]) for row in spans} == {("GPU 0 throttled", "reasons")}


def test_spans_in_json_are_those_of_the_readings(run: tt.Run, tmp_path: Path) -> None:
    tt.export(run, tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    base = int(document["baseTimeNanoseconds"])
    spans = [e for e in document["traceEvents"] if e.get("cat") == "throttled"]
    read = sorted((base + round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in spans)
    assert read == _expected()


def test_a_log_without_a_lowered_clock_has_no_span(run: tt.Run, tmp_path: Path) -> None:
    calm = run.path.with_name("calm.csv")
    smi = run.path.with_name("smi.csv").read_text()
    calm.write_text(smi.replace("0x0000000000000004", "0x0000000000000001").replace("40\n", "00\n"))
    again = tt.ingest(
        run.path.with_name("kernels.csv"), power=calm, tz="+00:00", gpu="a100-sxm", out=tmp_path / "calm"
    )
    assert set(again.telemetry["throttle_reasons"].drop_nulls()) <= {
        "0x0000000000000000",
        "0x0000000000000001",
    }
    tt.export(again, tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert not [e for e in events if e.get("cat") == "throttled"]
    assert any(e.get("cat") == "kernel" for e in events)


def test_spans_are_in_attributes_share(run: tt.Run) -> None:
    """Kernels ran from the first reading on: spans are about the share that ``attribute`` gives."""
    inside = sum(length for _, length in _expected())
    (record,) = run.attribute().measured.throttled.values()
    kernels = run.kernels.select(first=pl.col("start_ns").min(), last=(pl.col("start_ns") + 40_000_000).max())
    covered = _times()[-1][0] - _times()[0][0] - (SILENCE + 1) * PERIOD_NS
    assert int(kernels["last"][0] - kernels["first"][0]) > covered
    assert record["throttled_share"] == pytest.approx(inside / covered, abs=0.05)
