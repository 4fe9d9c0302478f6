"""Kernels that ran at once above the cap keep their measured times at the recorded clock."""

from __future__ import annotations

import json

import pytest

import tracetool as tt
from tracetool.replay.group_energy import RunEnergies, predicted_costs
from tracetool.replay.predict_run import predict_run
from tracetool.replay.time_budget import time_budget

STREAMS = (7, 13, 17)
KERNEL_US = 150.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    """A PyTorch trace of an A100: products on three streams at once, above any burst, then idle time."""
    folder = tmp_path_factory.mktemp("bursts")
    events, correlation = [], 0
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur": 0.5}
    shape = {"grid": [400, 1, 1], "block": [256, 1, 1], "registers per thread": 128, "shared memory": 0}
    for i in range(40):
        for stream in STREAMS:
            correlation += 1
            start_us = 1000.0 + 300.0 * i + stream / 10
            events.append(launch | {"ts": start_us - 20.0, "args": {"correlation": correlation}})
            where = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
            kernel = {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x128_nn", "pid": 0, "tid": stream}
            events.append(kernel | {"ts": start_us, "dur": KERNEL_US, "args": where | shape})
    device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108}
    trace = folder / "bursts.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}))
    return tt.ingest(trace, out=folder / "bursts.tracetool")


def test_bursts_last_as_long_as_they_were_measured(run: tt.Run) -> None:
    predicted = predict_run(run)
    total = predicted.totals[0]
    assert predicted.replays is not None
    assert predicted.replays.governed is not None
    assert predicted.replays.governed.burst_w == pytest.approx(total["peak_power_w"])  # bursts reach it
    assert total["kernel_time_ms"] == pytest.approx(len(STREAMS) * 40 * KERNEL_US * 1e-3, rel=1e-9)
    assert total["makespan_ms"] == pytest.approx(predicted.info["recorded_makespan_ms"], rel=1e-9)
    assert total["slowed_together_ms"] == 0.0
    assert not [note for note in predicted.notes if "are slowed by" in note]


def test_summary_and_predict_give_the_recorded_run_one_energy(run: tt.Run) -> None:
    predicted = predict_run(run)
    energies = RunEnergies(run, None, predicted_costs(run, recorded=predicted))
    whole = time_budget(run, energies=energies).together().row(-1, named=True)
    assert whole["energy_j"] == pytest.approx(predicted.totals[0]["energy_j"], rel=1e-9)


def test_a_lower_cap_than_the_recorded_one_does_slow_them(run: tt.Run) -> None:
    as_recorded, lower = (predict_run(run, power_cap_w=cap_w).totals[0] for cap_w in (None, 250.0))
    assert lower["kernel_time_ms"] > 1.05 * as_recorded["kernel_time_ms"]
