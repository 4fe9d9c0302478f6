"""A copy of a run beside it: nothing was run twice, and ``diff`` says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import tracetool as tt


def test_a_copy_is_the_same_recording(samples: Path, tmp_path: Path) -> None:
    trace = samples / "h100_training.sqlite"
    train = tt.ingest(trace, samples / "h100_training_power.csv", out=tmp_path / "train")
    copy = shutil.copytree(train.path, tmp_path / "base")
    said = json.dumps(tt.diff(copy, train).to_dict())
    assert "base and train are the same recording: nothing was run twice" in said
    assert "spread assumed" not in said
    assert "base and head are the same run" in json.dumps(tt.diff(train, train).to_dict())
    other = tt.ingest(samples / "mi300x_kernel_trace.csv", gpu="mi300x", out=tmp_path / "other")
    assert "same recording" not in json.dumps(tt.diff(train, other).to_dict())
