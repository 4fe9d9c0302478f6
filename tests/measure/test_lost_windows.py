"""Windows of a large run that a log does not measure are counted from 1, one as one."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt


@pytest.mark.parametrize(
    ("lines", "said"),
    [(330, "windows 3, 4 were not measured: their energy"), (480, "window 4 was not measured: its energy")],
)
def test_windows_without_readings_are_named(
    samples: Path, tmp_path: Path, lines: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "power.csv"
    text = (samples / "h100_training_power.csv").read_text("utf-8").splitlines()
    log.write_text("\n".join(text[: lines + 1]) + "\n", "utf-8")
    run = tt.ingest(samples / "h100_training.sqlite", log, out=tmp_path / "run.tracetool")
    monkeypatch.setenv("TRACETOOL_WINDOW", "2000")
    assert f"{said} is not in the sums" in tt.attribute(run).notes
