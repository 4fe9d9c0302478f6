"""The clock of least energy that a diagnosis names is the one a sweep names."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt
from tracetool.replay.diagnosis.clock import clock_choice
from tracetool.replay.predict_run import predict_run


@pytest.mark.parametrize("sample", ["h100_training.sqlite", "a100_generation.pt.trace.json.gz"])
def test_the_clock_of_least_energy_is_the_sweeps(samples: Path, tmp_path: Path, sample: str) -> None:
    run = tt.ingest(samples / sample, out=tmp_path / "run.tracetool")
    choice = clock_choice(run, predict_run(run), None)
    swept = dict(tt.sweep(run).frame.select("clock_mhz", "energy_j").iter_rows())
    assert choice.energy_j[1] == pytest.approx(min(swept.values()), rel=1e-9)
    assert swept[choice.best_mhz] == pytest.approx(choice.energy_j[1], rel=1e-9)
