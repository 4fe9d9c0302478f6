"""A comparison asks what a run's power log is worth once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracetool as tt
from tracetool.measure import logged_work

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def test_each_log_of_a_comparison_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, log = SAMPLES / "h100_training.sqlite", SAMPLES / "h100_training_power.csv"
    base = tt.ingest(trace, power=log, out=tmp_path / "base.tracetool")
    head = tt.ingest(trace, power=log, out=tmp_path / "head.tracetool")
    judged = []
    check_telemetry = logged_work.check_telemetry

    def counted(telemetry: Any, work: Any, *rest: Any, **named: Any) -> Any:
        judged.append(telemetry.height)
        return check_telemetry(telemetry, work, *rest, **named)

    monkeypatch.setattr(logged_work, "check_telemetry", counted)
    assert tt.diff(base.path, head.path).compared.basis == "measured"
    assert len(judged) == 2
