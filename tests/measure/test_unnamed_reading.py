"""A column that does not say which reading it holds: the log decides between average and instant."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt
from tracetool.hardware.load import load_gpu
from tracetool.measure.sensors import candidate_sensors


def plain_log(samples: Path, folder: Path) -> Path:
    """Write the instant readings of the sample's log as ``time,power_w``."""
    _, *lines = (samples / "h100_training_power.csv").read_text().splitlines()
    path = folder / "power.csv"
    cells = [line.split(", ") for line in lines]
    rows = (f"{c[0].replace('/', '-').replace(' ', 'T')}-05:00,{c[2].removesuffix(' W')}" for c in cells)
    path.write_text("\n".join(["time,power_w", *rows]) + "\n")
    return path


def test_both_readings_are_candidates_where_the_column_names_neither() -> None:
    gpu = load_gpu("h100-sxm", part="sensor")
    windows = [s.window_s for s in candidate_sensors(gpu, "power_w")]
    assert max(windows) >= 1.0
    assert min(windows) == pytest.approx(0.025)
    assert all(s.window_s >= 1.0 for s in candidate_sensors(gpu, "power.draw"))


def test_the_log_decides_and_check_power_says_so(samples: Path, sample_run: Path, tmp_path: Path) -> None:
    log = plain_log(samples, tmp_path)
    run = tt.ingest(samples / "h100_training.sqlite", log, out=tmp_path / "run.tracetool")
    said = {r["check"]: r for r in tt.check_power(run).findings.iter_rows(named=True)}["sensor"]
    assert "mean over 25" in said["reason"]
    assert "the one the log fits best" in said["reason"]
    named = tt.open(sample_run)
    joules = [tt.summary(r).parts["energy_j"][-1] for r in (run, named)]
    assert joules[0] == pytest.approx(joules[1], rel=0.01)
    alone = tt.check_power(log, gpu="h100-sxm")
    reason = next(r["reason"] for r in alone.findings.iter_rows(named=True) if r["check"] == "sensor")
    assert "assumed" in reason
    unnamed = tt.check_power(samples / "h100_training_power.csv")
    reason = next(r["reason"] for r in unnamed.findings.iter_rows(named=True) if r["check"] == "sensor")
    assert "assumed, the log alone cannot show it" in reason


def test_a_log_whose_power_is_not_recognized_is_named(samples: Path, tmp_path: Path) -> None:
    text = (samples / "h100_training_power.csv").read_text()
    log = tmp_path / "power.csv"
    log.write_text(text.replace("power.draw [W], power.draw.instant [W]", "pwr [W], pwr_inst [W]", 1))
    run = tt.ingest(samples / "h100_training.sqlite", log, out=tmp_path / "run.tracetool")
    (note,) = [str(w) for w in run.info["warnings"] if "power" in str(w) and "column" in str(w)]
    assert "pwr_inst" in note
    assert "power.draw.instant" in note
