"""Rows that a page folds away are not announced as missing from it."""

from __future__ import annotations

import polars as pl

from tracetool.report.page import page_text
from tracetool.report.renderers.markdown import markdown_text
from tracetool.report.view import Fold, Grid, View


def test_a_page_says_once_where_its_further_rows_are() -> None:
    frame = pl.DataFrame({"name": [f"kernel {i}" for i in range(12)]})
    fold = Fold("2 more kernels", (Grid(frame.slice(10)),))
    for folded in (True, False):
        view = View("Kernels", frame, blocks=(Grid(frame, "Kernels", 10, folded=folded), fold))
        for text in (markdown_text(view), page_text(view)):
            assert "2 more kernels" in text
            assert ("in the data outputs" in text) is not folded
