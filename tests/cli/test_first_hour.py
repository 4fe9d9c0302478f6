"""What a new user reads first: energy before all else, nothing twice, and no verdict on an assumed clock."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
TRACE, LOG = SAMPLES / "h100_training.sqlite", SAMPLES / "h100_training_power.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("first")


@pytest.fixture(scope="module")
def logged(folder: Path) -> tt.Run:
    return tt.ingest(TRACE, power=LOG, out=folder / "logged.tracetool")


@pytest.fixture(scope="module")
def bare(folder: Path) -> tt.Run:
    return tt.ingest(TRACE, out=folder / "bare.tracetool")


def test_attributed_energy_comes_first_and_notes_last(
    logged: tt.Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    logged.attribute().show()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run: 5,098 J measured (90 %: 4,756 to 5,441)")
    notes = [line.startswith("note: ") for line in lines]
    assert any(notes)
    assert all(notes[notes.index(True) :])


def test_a_summary_says_once_how_long_the_gpu_was_throttled(
    logged: tt.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    tt.summary(logged).show()
    printed = capsys.readouterr().out
    assert printed.count("throttled for") == 1
    assert "idle: dependency  0.0010 (0.0009..0.0011)        <0.1" in printed


def test_an_assumed_clock_on_one_side_is_no_change_of_energy(logged: tt.Run, bare: tt.Run) -> None:
    document = tt.diff(logged, bare).to_dict()
    assert document["not_comparable"] == {"clock": ["recorded", "not recorded"]}
    verdicts = {figure["verdict"] for figure in document["metrics"]}
    verdicts |= {row["verdict"] for row in document["families"]}
    assert verdicts <= {"inconclusive", None}
    assert tt.diff(bare, bare).to_dict()["not_comparable"] == {}
