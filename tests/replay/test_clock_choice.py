"""The clock of least energy that a diagnosis names is the one a sweep names."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.replay.diagnosis.clock import clock_choice
from tracetool.replay.predict_run import predict_run


@pytest.mark.parametrize("sample", ["h100_training.sqlite", "a100_generation.pt.trace.json.gz"])
def test_the_clock_of_least_energy_is_the_sweeps(samples: Path, tmp_path: Path, sample: str) -> None:
    run = tt.ingest(samples / sample, out=tmp_path / "run.tracetool")
    choice = clock_choice(run, predict_run(run), None)
    swept = tt.sweep(run)
    best = swept.best.row(by_predicate=pl.col("goal") == "least energy", named=True)
    assert choice.best_mhz == best["clock_mhz"]
    assert choice.energy_j[1] == pytest.approx(best["energy_j"], rel=1e-9)


def test_a_brief_prediction_has_the_same_energies_and_times(samples: Path, tmp_path: Path) -> None:
    run = tt.ingest(samples / "mi300x_kernel_trace.csv", out=tmp_path / "run.tracetool")
    brief, whole = (predict_run(run, "mi300x", [900.0, 1980.0], brief=one) for one in (True, False))
    assert brief.signatures.equals(whole.signatures)
    for name in ("clock_mhz", "energy_j", "energy_low_j", "makespan_ms", "kernel_time_ms", "gaps_ms"):
        assert [t[name] for t in brief.totals] == [t[name] for t in whole.totals]
    assert brief.notes == () and "devices" not in brief.totals[0]
