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
