"""Runs of profilers that let one kernel run at a time: their gaps are told of, and rest no finding."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

import tracetool as tt
from tests.sources.makers import rocprof_csv, rocprof_json, rocprofv3_csv
from tracetool.replay.diagnosis.causes import BY_TIMING
from tracetool.tables.serialized import SERIALIZED


def _run(folder: Path, make: object) -> str:
    path = make(folder)  # type: ignore[operator]
    return str(tt.ingest([path], gpu="mi300x", out=folder / "run.tracetool").path)


@pytest.mark.parametrize("make", [rocprof_csv, rocprof_json])
def test_gaps_of_the_profiler_are_said_to_be_its_own(tmp_path: Path, make: object) -> None:
    run = _run(tmp_path, make)
    assert SERIALIZED in tt.summary(run, gpu="mi300x").notes
    assert SERIALIZED in tt.predict(run, gpu="mi300x").notes
    diagnosis = tt.diagnose(run, gpu="mi300x")
    assert SERIALIZED in diagnosis.notes


def test_no_finding_rests_on_them(tmp_path: Path) -> None:
    run = _run(tmp_path, rocprof_csv)
    diagnosis = tt.diagnose(run, gpu="mi300x")
    *parts, whole = diagnosis.causes.iter_rows(named=True)
    by_timing = [one for one in parts if one["cause"] in BY_TIMING]
    assert sum(one["share"] for one in by_timing) > 0.01
    assert sum(one["energy_j"] for one in parts) == pytest.approx(whole["energy_j"])
    assert not {one.cause for one in diagnosis.findings} & set(BY_TIMING)
    (left_out,) = (note for note in diagnosis.notes if note.startswith("no finding on"))
    assert all(one["cause"] in left_out for one in by_timing)
    # who asks for it all the same is answered
    asked = tt.diagnose(run, gpu="mi300x", without=[by_timing[0]["cause"]])
    assert asked.what_if is not None


def test_the_report_says_so_beside_the_budget_and_the_causes(tmp_path: Path) -> None:
    run = _run(tmp_path, rocprof_csv)
    written = tt.report(run, tmp_path / "page.html", gpu="mi300x")
    page = html.unescape(written.path.read_text())
    sections = page.split("<section")
    for name in ("budget", "causes"):
        (section,) = (one for one in sections if one.startswith(f' id="{name}"'))
        assert SERIALIZED in section
    assert "no finding on" in page


def test_other_profilers_gaps_are_the_programs(tmp_path: Path) -> None:
    run = _run(tmp_path, rocprofv3_csv)
    diagnosis = tt.diagnose(run, gpu="mi300x")
    assert SERIALIZED not in diagnosis.notes
    assert not any(note.startswith("no finding on") for note in diagnosis.notes)
    assert {one.cause for one in diagnosis.findings} & set(BY_TIMING)
