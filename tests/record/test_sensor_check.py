"""The square wave finds out what the fake sensor is."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.documents import check_document
from tests.record.conftest import FAKES, Machine
from tracetool.record import square_wave


def test_the_window_and_period_are_found(machine: Machine) -> None:
    """What the fake sensor shows is exact, however late its reader or the program that makes the load."""
    done = machine.tool(
        "sensor", "check", "--seconds", "9", "--json", "-o", "card.toml", "--", sys.executable,
        FAKE_NVML_UPDATE_US="100000", FAKE_NVML_WINDOW_US="50000", PYTHONPATH=str(FAKES / "python"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_document("sensor check", json.loads(done.stdout))
    fields = json.loads(done.stdout)["fields"]
    found = next(f for f in fields if f["field"] == "power.draw.instant")
    assert found["kind"] == "boxcar", found
    assert found["window_s"]["value"] == pytest.approx(0.050, rel=0.25)
    assert found["update_s"]["value"] == pytest.approx(0.100, rel=0.02)
    sensor = tomllib.loads((machine.folder / "card.toml").read_text("utf-8"))["sensor"]
    assert sensor["update_ms"] == pytest.approx(100, rel=0.02)


def test_without_a_gpu_package_the_lack_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", square_wave.__file__, "--marks", str(tmp_path / "marks")],
        capture_output=True, text=True, check=False, timeout=60, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "no GPU package works here" in done.stderr
    assert not (tmp_path / "marks").exists()


def test_it_needs_some_time_and_its_own_command(machine: Machine) -> None:
    for words in (["sensor", "check", "--seconds", "1"], ["record", "--sensor-check"]):
        done = machine.tool(*words)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
