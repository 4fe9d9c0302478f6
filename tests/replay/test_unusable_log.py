"""A log that check-power finds unusable measures nothing: every command says so, once, with the reason."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tracetool as tt
from tests.documents import check_document
from tracetool.compare.requested_runs import chosen_basis
from tracetool.core.errors import BadInput
from tracetool.replay.roofline import roofline

STUCK = "the power log is unusable (stuck: every reading is 70.10 W"


def flat_log(samples: Path, folder: Path) -> Path:
    """Write the sample's log with one value for every reading of power."""
    head, *lines = (samples / "h100_training_power.csv").read_text().splitlines()
    cells = [line.split(", ") for line in lines]
    path = folder / "power.csv"
    path.write_text("\n".join([head, *(", ".join([c[0], "70.10 W", "70.10 W", *c[3:]]) for c in cells)]))
    return path


@pytest.fixture(scope="module")
def stuck(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    folder = tmp_path_factory.mktemp("stuck")
    log = flat_log(samples, folder)
    return tt.ingest(samples / "h100_training.sqlite", log, out=folder / "stuck.tracetool")


def said(notes: Any) -> list[str]:
    return [note for note in notes if STUCK in note]


def test_energies_are_predicted_and_the_note_says_why(stuck: tt.Run) -> None:
    summary = tt.summary(stuck)
    assert set(summary.parts["source"]) == {"predicted"}
    diagnosed = tt.diagnose(stuck)
    grouped = tt.energy_by(stuck, ["family"])
    assert set(grouped.groups["source"]) == {"predicted"}
    for notes in (summary.notes, diagnosed.notes, grouped.notes):
        assert len(said(notes)) == 1
        assert "check-power" in said(notes)[0]


def test_attribute_says_so_before_the_joules(stuck: tt.Run, capsys: pytest.CaptureFixture[str]) -> None:
    tt.attribute(stuck).show()
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(f"note: {STUCK}")
    assert printed.count("power log is unusable") == 1


def test_diff_names_the_log_beside_its_figures(stuck: tt.Run) -> None:
    against = tt.diff(stuck)
    assert not against.accuracy.measured
    assert len(said(against.accuracy.warnings)) == 1
    assert chosen_basis([stuck.path], "auto") == "anchored"
    with pytest.raises(BadInput, match="stuck"):
        chosen_basis([stuck.path], "measured")


def test_report_export_and_roofline_say_it(stuck: tt.Run, tmp_path: Path) -> None:
    page = tt.report(stuck, tmp_path / "page.html")
    assert STUCK in Path(page.path).read_text()
    assert len(said(tt.export(stuck, tmp_path / "out.json").notes)) == 1
    assert len(said(roofline(stuck).notes)) == 1


def test_attribute_shows_what_was_asked_with_the_verdict_first(stuck: tt.Run) -> None:
    attributed = tt.attribute(stuck)
    assert attributed.notes[0].startswith(STUCK)
    assert "wrong" in attributed.notes[0]
    assert attributed.energy["energy_j"].is_not_null().any()


@pytest.mark.usefixtures("fleet_here")
def test_fleet_attribute_says_which_jobs_and_why(samples: Path, stuck: tt.Run, tmp_path: Path) -> None:
    job = tmp_path / "source" / "job"
    job.mkdir(parents=True)
    shutil.copy(samples / "h100_training.sqlite", job)
    flat_log(samples, job)
    tt.fleet_ingest(tmp_path / "source", tmp_path / "set", workers=1)
    jobs = tt.fleet_run("attribute", tmp_path / "set", workers=1)
    check_document("fleet attribute", jobs.to_dict())
    (reason,) = jobs.not_measured.values()
    assert STUCK in reason
