"""Pages of diagnoses say what the console says: energies with intervals, findings, notes, then rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt

SUFFIXES = pytest.mark.parametrize("suffix", [".html", ".md"])


@pytest.fixture(scope="module")
def diagnosis(sample_run: Path) -> tt.Diagnosis:
    return tt.diagnose(sample_run, clock=1200.0)


@SUFFIXES
def test_a_page_of_causes_has_their_intervals_findings_and_notes(
    suffix: str, diagnosis: tt.Diagnosis, tmp_path: Path
) -> None:
    text = diagnosis.save(tmp_path / f"causes{suffix}").read_text("utf-8")
    finding = diagnosis.findings[0]
    assert finding.cause == "oversized clock"
    assert f"Finding 1: {finding.sentences[0]}" in text
    assert "least energy at 1,125 MHz" in text
    assert "J measured (90 %: " in text
    assert "what if clock 1,200 MHz" in text
    assert diagnosis.notes[0] in text
    assert text.index("Energy by cause") < text.index("By GPU, cause and kernel")


@SUFFIXES
def test_a_page_of_two_runs_begins_with_the_change(suffix: str, sample_run: Path, tmp_path: Path) -> None:
    pair = tt.diagnose_pair(sample_run, sample_run)
    text = pair.save(tmp_path / f"pair{suffix}").read_text("utf-8")
    assert "0 J a step more in head" in text
    assert text.index("Change by cause") < text.index("largest change first")
    assert pair.notes[0] in text
    heads = [h for h in ("change [", "energy base [", "operations base") if h in text]
    assert [text.index(h) for h in heads] == sorted(text.index(h) for h in heads)


def test_data_keep_every_row(diagnosis: tt.Diagnosis, tmp_path: Path) -> None:
    saved = diagnosis.save(tmp_path / "rows.csv").read_text("utf-8")
    assert saved.count("\n") == diagnosis.rows.height + 1


def test_several_causes_are_left_out_at_once_by_commas_or_one_by_one(sample_run: Path) -> None:
    """docs/tasks/joules.md asks for CAUSE,CAUSE."""
    listed = tt.diagnose(sample_run, without="host-bound, oversized clock").what_if
    apart = tt.diagnose(sample_run, without=["host-bound", "oversized clock"]).what_if
    assert listed is not None and apart is not None
    assert listed.sentences == apart.sentences
    assert len(listed.sentences) == 3
    with pytest.raises(tt.BadInput, match="'x' is no cause"):
        tt.diagnose(sample_run, without="host-bound,x")
