"""Copies that no sensor window separates: no kernel's power is believed of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import tracetool as tt
from tracetool.measure.design_matrix import Design
from tracetool.measure.prior import prior_of

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NONE = np.zeros(0)


def test_a_copy_is_believed_to_draw_little_over_idle_before_any_reading() -> None:
    share = np.repeat([0.0, 1.0], 20)
    design = Design(sparse.csr_matrix(np.column_stack([share, 0 * share, 1 - share, 0 * share])), NONE, NONE)
    power = np.where(share > 0, 500.0, 100.0)
    plain = prior_of(power, design, None, 700.0)
    told = prior_of(power, design, None, 700.0, np.array([False, True]))
    assert plain.mean_w[1] == pytest.approx(500.0, rel=0.01)
    assert told.mean_w[0] == plain.mean_w[0]
    assert told.mean_w[1] == pytest.approx(100.0 + 0.3 * 400.0)  # idle and three tenths of the way to work
    assert told.mean_w[1] + 1.645 * told.sd_w[1] > 400.0  # one inside the device may draw as a kernel does
    stated = prior_of(power, design, np.array([np.nan, 333.0]), 700.0, np.array([False, True]))
    assert stated.mean_w[1] == 333.0


def test_copies_that_half_a_log_does_not_see_hold_their_true_energy(tmp_path: Path) -> None:
    head, *lines = (SAMPLES / "h100_training_power.csv").read_text().splitlines()
    log = tmp_path / "power.csv"
    log.write_text("\n".join([head, *lines[: int(0.55 * len(lines))]]) + "\n")
    run = tt.ingest([SAMPLES / "h100_training.sqlite"], power=log, out=tmp_path / "run.tracetool")
    truth = json.loads((SAMPLES / "truth.json").read_text())["h100_training.sqlite"]["kernels"]
    copied_j = sum(k["energy_j"] for k in truth.values() if k["kind"] == "memcpy")
    copies = tt.summary(run).parts.filter(pl.col("part") == "copies").row(0, named=True)
    assert copies["energy_low_j"] < copied_j < copies["energy_high_j"]
    assert copies["energy_j"] < 2.0 * copied_j
