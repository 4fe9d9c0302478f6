"""The report of a prediction against a measurement: what it is about stays in a narrow terminal."""

from __future__ import annotations

from io import StringIO

import polars as pl
import pytest
from rich.console import Console

from tests.compare import frames
from tracetool.compare.accuracy import Accuracy, accuracy_table, compare_signatures
from tracetool.report.accuracy import accuracy_view
from tracetool.report.console import show_view


def _printed(width: int, measured: pl.DataFrame | None, source: str = "shapes") -> list[str]:
    long = pl.col("name").str.pad_end(60, "_")
    predictions = frames.predictions().with_columns(long, predicted_from=pl.lit(source))
    rows = compare_signatures(frames.signatures().with_columns(long), predictions, measured)
    found = Accuracy("run", "a100-sxm", 1410.0, accuracy_table(rows), (), (), ())
    out = StringIO()
    show_view(accuracy_view(found), Console(file=out, width=width, highlight=False, color_system=None))
    return out.getvalue().splitlines()


def _headings(lines: list[str], title: str) -> str:
    return lines[lines.index(title) + 1]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_difference_that_sorts_the_kernels_is_shown(width: int) -> None:
    title = "Kernels, largest difference first"
    without = _headings(_printed(width, None), title)
    assert "energy predicted" in without
    assert "time err [%]" in without
    measured = _headings(_printed(width, frames.energies()), title)
    assert "energy [" in measured
    assert "error [%]" in measured.replace("time err [%]", "")


def test_no_largest_difference_is_promised_where_nothing_is_compared() -> None:
    lines = _printed(80, None, "family")
    assert lines[0].startswith("Nothing to compare")
    assert not [line for line in lines if "difference" in line]
    assert "Kernels, none of them compared" in lines
