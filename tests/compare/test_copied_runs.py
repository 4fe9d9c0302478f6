"""A copy of a run beside it: nothing was run twice, and ``diff`` and ``diagnose`` say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import tracetool as tt
from tests.sources.makers import kineto
from tracetool.compare.same_recording import same_recording


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


def test_diagnose_says_so_too(tmp_path: Path) -> None:
    alone = tt.ingest(kineto(tmp_path), gpu="a100-sxm", out=tmp_path / "alone")
    copy = tt.Run.open(shutil.copytree(alone.path, tmp_path / "copy"))
    for head, what in ((alone, "run"), (copy, "recording")):
        pair = tt.diagnose_pair(alone, head)
        assert pair.notes[0] == f"base and head are the same {what}: nothing was run twice"
        assert pair.causes.row(-1)[1:4] == (0.0, 0.0, 0.0)  # its errors are the same ones on both sides


def test_another_log_of_the_same_trace_is_said() -> None:
    trace, log = {"sha256": "a", "activities": 9}, {"sha256": "b"}
    base, head, bare, empty = (
        cast("tt.Run", SimpleNamespace(path=Path(name), info={"sources": sources}))
        for name, sources in (("w", [trace]), ("x", [trace, log]), ("y", [log]), ("z", []))
    )
    assert same_recording(base, head) == (
        "base and head are the same recording with other power logs: nothing was run twice"
    )
    assert same_recording(base, bare) == same_recording(bare, empty) == ""
