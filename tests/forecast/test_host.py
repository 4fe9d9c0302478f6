"""The host of a forecast: as assumed, as stated, as read from a run."""

# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tracetool as tt
from tests.forecast.test_forecast import CONFIG
from tracetool.forecast.host import host_of
from tracetool.replay.host import host_costs
from tracetool.replay.recorded_host import recorded_host
from tracetool.tables.run import Run

START_US = 1_767_589_200_000_000
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"


def _run(folder: Path, steps: int, kernels: int, idle_us: float, apart_us: float) -> Path:
    """Write a run of steps of equal kernels that follow one another, and ``idle_us`` of nothing after each."""
    events: list[dict[str, Any]] = []
    launched = at = START_US + 1000.0
    for step in range(steps):
        begin = launched
        for _ in range(kernels):
            number = len(events) + 1
            args = {"correlation": number, "External id": number}
            events += [
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7,
                 "ts": launched, "dur": 3.0, "args": args},
                {"ph": "X", "cat": "kernel", "name": KERNEL, "pid": 0, "tid": 7, "ts": max(at, launched + 3.5),
                 "dur": 40.0, "args": {**args, "device": 0, "stream": 7, "grid": [64, 1, 1], "block": [128, 1, 1]}},
            ]  # fmt: skip
            at, launched = max(at, launched + 3.5) + 40.0, launched + apart_us
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7,
                       "ts": begin - 1.0, "dur": launched - begin})  # fmt: skip
        at += idle_us
        launched = max(launched, at - 3.5)
    device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "totalGlobalMem": 80 << 30}
    trace = folder / "trace.json"
    trace.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}), "utf-8"
    )
    return Path(tt.ingest(trace, out=folder / "run.tracetool").path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("host"), steps=6, kernels=400, idle_us=700.0, apart_us=10.0)


def test_idle_time_and_rate_of_issue_are_those_recorded(run: Path) -> None:
    host = recorded_host(Run.open(run))
    assert host.idle_s == pytest.approx(700e-6, rel=0.01)
    assert host.low_s <= host.idle_s <= host.high_s
    assert (host.steps, host.activities) == (5, 400)
    usual = host_costs("eager").operator_s["elementwise"]
    assert host.issue == pytest.approx(10e-6 / usual, rel=0.05)


def test_a_recorded_host_stands_in_a_step_of_serving(run: Path) -> None:
    case: dict[str, Any] = {"gpu": "h100-sxm", "mode": "decode", "bs": 4, "isl": 500}
    read, stated = tt.forecast(CONFIG, host=run, **case), tt.forecast(CONFIG, host_us=700, **case)
    assert read.frame["itl_ms"].item() == pytest.approx(stated.frame["itl_ms"].item(), rel=1e-3)
    assert "700 us without a kernel in each of 5 steps" in read.notes[0]


def test_a_slower_host_takes_longer_to_issue(run: Path, tmp_path: Path) -> None:
    slow = _run(tmp_path, steps=4, kernels=100, idle_us=500.0, apart_us=30.0)
    case: dict[str, Any] = {"gpu": "h100-sxm", "mode": "prefill", "stack": "torch", "bs": 1, "isl": 16}
    times = [tt.forecast(CONFIG, host=host, **case).frame["ttft_ms"].item() for host in (run, slow)]
    assert times[1] / times[0] == pytest.approx(3.0, rel=0.15)


def test_layers_that_repeat_are_no_steps(tmp_path: Path) -> None:
    short = _run(tmp_path, steps=8, kernels=20, idle_us=5.0, apart_us=10.0)
    with pytest.raises(tt.BadInput, match="layers, not steps"):
        tt.forecast(CONFIG, gpu="h100-sxm", mode="decode", host=short)


def test_a_host_is_stated_once_and_must_be_a_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(tt.BadInput, match=r"^host: .*twice"):
        tt.forecast(CONFIG, gpu="h100-sxm", host=run, host_us=3)
    with pytest.raises(tt.BadInput, match="no such run"):
        tt.forecast(CONFIG, gpu="h100-sxm", host=tmp_path / "none")
    assert host_of(str(run)) is host_of(str(run))
