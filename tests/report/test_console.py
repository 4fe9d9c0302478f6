"""What a terminal of 100 columns shows of tables too wide for it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import tracetool as tt
from tracetool.replay.diagnosis import causes
from tracetool.report.console import show_table
from tracetool.report.terminal.prediction import _REASONS, _unit

WIDTH = 100


def printed(frame: pl.DataFrame) -> str:
    out = StringIO()
    show_table(frame, console=Console(file=out, width=WIDTH, highlight=False, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("verdict", ["agrees", "identified", "verdict"])
@pytest.mark.parametrize("name", ["k", "kernel" * 40])
def test_a_verdict_is_shown_however_wide_the_other_columns_are(verdict: str, name: str) -> None:
    figures = {f"figure_of_some_length_{i}_w": [123.4] for i in range(8)}
    text = printed(pl.DataFrame({"name": [name], **figures, verdict: ["no"]}))
    table, left_out = text.split("hidden columns (use -o FILE):")
    assert verdict in table.splitlines()[0]
    assert verdict not in left_out
    assert "figure of some length 0" in table and "figure of some length 7" in " ".join(left_out.split())
    assert max(len(line) for line in table.splitlines()) <= WIDTH


def test_columns_that_fit_stay_in_their_order() -> None:
    head = printed(pl.DataFrame({"name": ["k"], "agrees": ["yes"], "power_w": [1.0]})).splitlines()[0]
    assert head.split() == ["name", "agrees", "power", "[W]"]


@pytest.mark.parametrize(
    ("values", "unit"), [([0.0], "ms"), ([0.02, 0.05], "µs"), ([0.02, 50.0], "ms"), ([2e5], "s"), ([], "ms")]
)
def test_totals_are_printed_in_a_unit_that_keeps_them_short(values: list[float], unit: str) -> None:
    found, factor = _unit(values, ("µs", "ms", "s"))
    assert found == unit
    assert all(v * factor < 1e5 for v in values)


def test_a_cause_of_idle_time_shares_no_name_with_another_cause_of_energy() -> None:
    """A tail is SMs that wait for the last blocks of a kernel; a GPU that waits for others is none."""
    assert causes.TAIL not in _REASONS.values()
    assert {causes.HOST, causes.SYNC, causes.DEPENDENCY} <= set(_REASONS.values())


def test_the_title_of_a_prediction_says_what_its_times_rest_on(
    sample_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two anchors gave two energies under one word, unanchored."""
    for anchor, words in (("measured", "anchored"), ("others", "from others"), ("none", "unanchored")):
        tt.predict(sample_run, anchor=anchor).show()
        assert capsys.readouterr().out.startswith(f"Predicted on h100-sxm, {words} (90 % interval)")
