"""The sample traces: reproducible, true to their truth, and openly synthetic."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

TRACES = (
    "h100_training.sqlite",
    "h100_training_power.csv",
    "a100_generation.pt.trace.json.gz",
    "a100_generation_power.csv",
    "mi300x_kernel_trace.csv",
    "truth.json",
)


@pytest.fixture(scope="module")
def made(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([sys.executable, samples / "make.py", folder], check=True, timeout=200)
    return folder


@pytest.fixture(scope="module")
def truth(samples: Path) -> dict[str, Any]:
    return json.loads((samples / "truth.json").read_text("utf-8"))


@pytest.mark.parametrize("name", TRACES)
def test_the_generator_writes_what_is_committed(name: str, made: Path, samples: Path) -> None:
    """Compared by content: SQLite and gzip releases differ in bytes that mean nothing."""
    assert _content(made / name) == _content(samples / name)


def _content(path: Path) -> object:
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as connection:
            return list(connection.iterdump())
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_they_say_that_they_are_synthetic(samples: Path) -> None:
    assert "synthetic" in (samples / "README.md").read_text("utf-8")


@pytest.mark.parametrize("script", ["make.py", "rank_job.py"])
def test_a_script_asked_for_help_writes_nothing(script: str, samples: Path, tmp_path: Path) -> None:
    call = [sys.executable, samples / script, "--help"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "folder" in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_generator_knows_nothing_of_the_tool(samples: Path) -> None:
    for path in samples.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = getattr(node, "module", None) or " ".join(a.name for a in node.names)
                assert "tracetool" not in named.split(".")[0], path.name


def test_truth_adds_up(truth: dict[str, Any]) -> None:
    for job in truth.values():
        kernels = job["kernels"].values()
        assert sum(k["launches"] for k in kernels) == job["launches"]
        assert sum(k["energy_j"] for k in kernels) == pytest.approx(job["kernel_energy_j"], rel=1e-6)
        assert sum(k["duration_s"] for k in kernels) + job["gap_s"] == pytest.approx(job["makespan_s"])
        assert job["gap_energy_j"] == pytest.approx(job["gap_s"] * job["gap_w"], rel=1e-6)


def test_the_database_holds_the_truths_launches(samples: Path, truth: dict[str, Any]) -> None:
    database = f"file:{samples / 'h100_training.sqlite'}?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as connection:
        kernels, busy = connection.execute(
            "SELECT count(*), sum(end - start) / 1e9 FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ).fetchone()
        copies = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchone()[0]
    known = truth["h100_training.sqlite"]
    assert kernels + copies == known["launches"]
    of_kernels = sum(k["duration_s"] for k in known["kernels"].values() if k["kind"] != "memcpy")
    assert busy == pytest.approx(of_kernels, rel=1e-9)


def test_the_power_log_holds_the_truths_energy(samples: Path, truth: dict[str, Any]) -> None:
    """The logged watts, summed over the log, must give the job's joules within what the sensor loses."""
    known = truth["h100_training.sqlite"]
    with (samples / "h100_training_power.csv").open(encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, skipinitialspace=True))
    times = [
        datetime.strptime(r["timestamp"], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
        for r in rows
    ]
    watts = [float(r["power.draw.instant [W]"].removesuffix(" W")) for r in rows]
    assert times == sorted(times)
    logged = sum(w * (b - a) for w, a, b in zip(watts, times, times[1:], strict=False))
    held = known["gap_w"] * known["hold_s"]
    idle = known["idle_w"] * (times[-1] - times[0] - known["makespan_s"] - known["hold_s"])
    expected = (known["kernel_energy_j"] + known["gap_energy_j"] + held + idle) * known["sensor"]["gain"]
    assert logged == pytest.approx(expected, rel=0.03)
