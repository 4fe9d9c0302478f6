"""The power a page draws keeps the GPU's limit: bursts pass it by a bounded share, their mean does not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tracetool.api.ingest import ingest
from tracetool.core.errors import TracetoolError
from tracetool.hardware.load import load_gpu
from tracetool.replay.governor import Governor
from tracetool.replay.predict_run import predict_run
from tracetool.report.run_report import report_run
from tracetool.tables.run import Run

#: Measured traces that are drawn in a moment, every other one; ``make fuzz`` takes all, of any size. [bytes]
MOST_BYTES = {"kineto": 40_000, "nsys": 150_000, "rocm": 1_700_000}
EVERY = 1 if "TRACETOOL_TRACE_BYTES" in os.environ else 2
SAMPLES = {
    "h100_training.sqlite": None,
    "a100_generation.pt.trace.json.gz": None,
    "mi300x_kernel_trace.csv": "mi300x",
}


def within_limit(run: Run, gpu: str | None) -> None:
    """Assert that what a run's page draws keeps the limit of bursts: the curve, its table, every kernel."""
    page = report_run(run, gpu=gpu)
    assert page.timeline is not None
    gpu_sheet = load_gpu(page.accuracy.gpu)
    limit = Governor.of(gpu_sheet).burst_share * gpu_sheet.power_limit_w * (1 + 1e-6)
    curves = page.timeline.packed["model"]
    assert curves
    assert max(c["highest_w"] for c in curves) <= limit + 0.1
    assert page.power["power_w"].max() <= len(curves) * limit
    predicted = page.rows.filter((page.rows["source"] == "predicted") & page.rows["power_w"].is_not_null())
    assert max(predicted["power_w"], default=0.0) <= limit


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_keep_the_limit(name: str, samples: Path, tmp_path: Path) -> None:
    within_limit(Run.open(ingest([samples / name], gpu=SAMPLES[name], out=tmp_path / "run")), SAMPLES[name])


@pytest.mark.data
@pytest.mark.parametrize("kind", ["kineto", "nsys", "rocm"])
def test_real_traces_keep_the_limit(kind: str, data: Path, tmp_path: Path) -> None:
    drawn = 0
    for number, trace in enumerate(sorted((data / "traces" / kind).iterdir())[::EVERY]):
        if trace.stat().st_size > int(os.environ.get("TRACETOOL_TRACE_BYTES", MOST_BYTES[kind])):
            continue
        try:
            run = Run.open(ingest([trace], out=tmp_path / f"{number}"))
            predicted = predict_run(run)
            replays = predicted.replays
        except TracetoolError:  # no GPU named, or none at work
            continue
        assert replays is not None
        for curve in replays.recorded_curves(0).values():
            limit_w = replays.cap.limit_w
            governor = Governor.of(load_gpu(predicted.gpu))
            assert curve.power_w.max() <= governor.burst_share * limit_w * (1 + 1e-6)
            # Over ten time constants: the limit, and one of them behind idle time.
            edges = np.arange(*curve.edge_ns[[0, -1]], 1e10 * governor.time_constant_s)
            means = np.diff(curve.energy_until(edges, 0.0)) / np.diff(edges) * 1e9
            assert means.max(initial=0.0) <= 1.1 * limit_w * 1.02
            assert np.isfinite(curve.power_w).all()
        drawn += 1
    assert drawn >= 1
