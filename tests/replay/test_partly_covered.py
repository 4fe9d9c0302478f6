"""A log that covers a part of the run: one energy, part measured and part predicted, in every command."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tracetool as tt
from tests.documents import check_document
from tracetool.measure.logged_work import Covered
from tracetool.replay.energy_source import joules_by_source
from tracetool.report.accuracy import whole_line

#: Lines of the sample's log that are kept: its first two thirds of the training.
LINES = 427


@pytest.fixture(scope="module")
def part(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    folder = tmp_path_factory.mktemp("part")
    log = folder / "power.csv"
    lines = (samples / "h100_training_power.csv").read_text().splitlines()
    log.write_text("\n".join(lines[: LINES + 1]) + "\n")
    return tt.ingest(samples / "h100_training.sqlite", log, out=folder / "part.tracetool")


def test_the_share_outside_is_that_of_the_time() -> None:
    part = Covered(0.5, 100, 200)
    outside = part.outside(np.array([0, 50, 100, 150, 300, 150]), np.array([50, 150, 200, 250, 400, 150]))
    assert outside.tolist() == [1.0, 0.5, 0.0, 0.5, 1.0, 0.0]


def test_all_commands_give_one_energy_and_say_how_much_was_measured(part: tt.Run, tmp_path: Path) -> None:
    summary, diagnosis = tt.summary(part), tt.diagnose(part)
    row = summary.parts.row(-1, named=True)
    joules, measured = row["energy_j"], summary.budget.measured_j
    assert row["source"] == "measured, predicted"
    assert 0.5 * joules < measured < 0.8 * joules
    groups = tt.energy_by(part, ["family"]).groups.row(-1, named=True)
    for end in ("energy_j", "energy_low_j", "energy_high_j"):
        assert groups[end] == pytest.approx(row[end], rel=1e-9)
    assert groups["source"] == row["source"]
    document = diagnosis.to_dict()
    check_document("diagnose", document)
    check_document("summary", summary.to_dict())
    assert document["energy_j"] == pytest.approx(joules, rel=1e-9)
    assert document["measured_j"] == pytest.approx(measured, rel=1e-9)
    assert document["source"] == row["source"]
    words = joules_by_source(joules, row["source"], measured)
    assert re.search(r" J, \d\d % measured, the rest predicted$", words)
    assert summary.budget.energy_words == diagnosis.source.energy_words == words
    for notes in (summary.notes, diagnosis.notes):
        assert sum("the log covers 67" in note for note in notes) == 1
        assert sum("does not cover are predicted" in note for note in notes) == 1
    page = tt.report(part, tmp_path / "page.html")
    fact = page.facts.row(0, named=True)
    assert fact["value"] == words.split(",  ")[0].split(" J,")[0] + " J"
    assert "measured, the rest predicted" in fact["note" if "note" in fact else "about"]


def test_measured_scopes_hold_what_the_log_covers(part: tt.Run) -> None:
    scopes = part.attribute().scopes
    assert "run" not in scopes
    for scope in ("kernels", "gaps"):
        assert 55.0 < scopes[scope]["measured_pct"] < 80.0
    by_log = sum(scopes[scope]["energy_j"] for scope in ("kernels", "copies", "gaps"))
    assert by_log == pytest.approx(tt.summary(part).budget.measured_j, rel=0.01)


def test_diff_names_the_time_that_its_joules_are_of(part: tt.Run) -> None:
    line = whole_line(tt.diff(part).accuracy)
    assert re.search(r"7,983 ms measured, [\d,]+ J in the 5,\d+ ms that the log covers; 7,555 ms", line)


def test_an_interval_reaches_over_what_was_not_measured(part: tt.Run, sample_run: Path) -> None:
    whole = tt.open(sample_run)
    width = [
        (row["energy_high_j"] - row["energy_low_j"]) / row["energy_j"]
        for row in (tt.summary(run).parts.row(-1, named=True) for run in (whole, part))
    ]
    assert width[1] > 1.2 * width[0]
