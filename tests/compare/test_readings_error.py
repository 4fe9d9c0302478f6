"""What readings leave open of measured energies is no change between two runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.compare.readings_error import ReadingsError
from tracetool.compare.significance import Criteria, effects_of

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def test_errors_that_cancel_between_classes_cancel_in_their_sum() -> None:
    """Two classes known to 5 J each, whose sum is known to 1 J, beside 3 J of gain that all classes share."""
    sensor = np.array([[3.0, 4.0], [0.0, 0.0]])
    own = np.array([[25.0, -24.5], [-24.5, 25.0]])
    error = ReadingsError(
        np.array([7, 9, 9]), np.array([1.0, 0.5, 0.5]), ((np.array([7, 9]), own + sensor.T @ sensor, sensor),)
    )
    at, row = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 1, 2, 0, 1, 2])
    assert error.variance_j2(at, row, np.ones(6), 3) == pytest.approx([25.0, 25.0, 1.0])
    assert error.variance_j2(at[:1], row[:1], np.array([0.5]), 1) == pytest.approx([25.0 / 4.0])
    assert error.variance_j2(at, row, np.ones(6), 4)[3] == 0.0


def test_readings_widen_a_change_but_nothing_that_is_the_same() -> None:
    base, head = np.array([[10.0, 10.0]]), np.array([[10.0, 15.0]])
    effects = effects_of(base, head, Criteria("measured"), np.array([0.5, 0.5]))
    alone = effects_of(base, head, Criteria("measured"))
    assert (effects.low[0], effects.high[0]) == (0.0, 0.0)
    assert alone.low[1] > 0.3
    assert effects.low[1] < 0.0 < effects.high[1]
    assert "readings" in effects.basis


def test_half_a_log_of_a_run_is_no_change_of_its_kernels(tmp_path: Path) -> None:
    head, *lines = (SAMPLES / "h100_training_power.csv").read_text().splitlines()
    log = tmp_path / "power.csv"
    log.write_text("\n".join([head, *lines[: int(0.55 * len(lines))]]) + "\n")
    trace = SAMPLES / "h100_training.sqlite"
    whole = tt.ingest(trace, power=SAMPLES / "h100_training_power.csv", out=tmp_path / "whole.tracetool")
    half = tt.ingest(trace, power=log, out=tmp_path / "half.tracetool")
    rows = tt.diff(whole.path, half.path, fail_on="memcpy:energy=2%").table
    judged = rows.filter(pl.col("verdict").is_not_null())
    assert judged.height > 20
    assert set(judged["verdict"]) <= {"inconclusive", "unchanged"}
    assert not tt.diff(whole.path, half.path, fail_on="memcpy:energy=2%").failed
    same = tt.diff(whole.path, whole.path).table
    assert set(same["verdict"].drop_nulls()) == {"unchanged"}
