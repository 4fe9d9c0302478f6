"""The icicle of joules: every group in one box, names as text, usable from the keyboard."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from tests.report.browser import browser
from tests.report.hostile import HOSTILE
from tracetool.report.pictures.icicle import icicle, nested


def _groups(*rows: tuple[str, float]) -> pl.DataFrame:
    frame = pl.DataFrame(list(rows), schema=["name", "energy_j"], orient="row")
    return frame.with_columns(
        (0.9 * pl.col("energy_j")).alias("energy_low_j"),
        (1.1 * pl.col("energy_j")).alias("energy_high_j"),
        pl.lit("measured").alias("source"),
    )


GROUPS = _groups(
    ("Model_0.Layer_*.Linear_*[0]", 40.0),
    ("Model_0.Layer_*", 10.0),
    ("Model_0.Layer_*.Linear_*[0] backward", 30.0),
    ("f(x.y).part", 5.0),
    ("(idle)", 15.0),
)


def _boxes(html: str) -> dict[str, tuple[float, float, int]]:
    found = re.findall(r'data-x="([\d.]+)" data-w="([\d.]+)" data-l="(\d+)" title="([^:]*):', html)
    return {path: (float(x), float(w), int(level)) for x, w, level, path in found}


def test_boxes_hold_those_inside_them_and_sum_to_the_run() -> None:
    whole = nested(GROUPS)
    assert whole.energy_j == pytest.approx(100.0)
    boxes = _boxes(icicle(whole, "Energy by module"))
    assert boxes["run"] == (0.0, 1.0, 0)
    assert boxes["run › Model_0 › Layer_*"][1:] == (0.5, 2)
    assert boxes["run › Model_0 › Layer_* › Linear_*[0]"][1:] == (0.4, 3)
    assert boxes["run › backward › Model_0 › Layer_* › Linear_*[0]"][1:] == (0.3, 4)
    assert boxes["run › f(x.y) › part"][1:] == (0.05, 2)
    outermost = [(x, w) for x, w, level in boxes.values() if level == 1]
    assert sum(w for _, w in outermost) == pytest.approx(1.0, abs=1e-5)
    for path, (x, w, level) in boxes.items():
        if level:
            outer = boxes[path.rpartition(" › ")[0]]
            assert outer[0] - 1e-5 <= x
            assert x + w <= outer[0] + outer[1] + 1e-5


def test_names_are_text() -> None:
    html = icicle(nested(_groups(*((name, 1.0) for name in HOSTILE))), "Energy")
    assert "<script" not in html
    assert "onerror=alert(1)>" not in html
    assert "\x1b" not in html


def test_a_box_zooms_by_mouse_and_keyboard(tmp_path: Path) -> None:
    folder = files("tracetool.report.templates")
    style, script = (folder.joinpath(name).read_text("utf-8") for name in ("run.css", "icicle.js"))
    body = icicle(nested(GROUPS), "Energy")
    (tmp_path / "p.html").write_text(
        f"<!doctype html><meta charset=utf-8><style>{style}</style><main style='width:800px'>{body}</main>"
        f"<script>{script}</script>",
        "utf-8",
    )
    shown = "[...document.querySelectorAll('.icicle .box')].filter(b => !b.hidden).length"
    with browser() as page:
        page.open(tmp_path / "p.html")
        every = page.run(shown)
        page.run("document.querySelector('.icicle .box').focus()")
        for key in ("ArrowDown", "ArrowRight", "ArrowDown", "Enter"):
            page.press(key)
        assert page.run("document.activeElement.title").startswith("run › backward › Model_0")
        assert 0 < page.run(shown) < every
        width = "document.activeElement.getBoundingClientRect().width"
        assert page.run(width) == pytest.approx(
            page.run("document.querySelector('.icicle').clientWidth"), abs=1
        )
        assert "J" in page.run("document.querySelector('.icicle-detail').textContent")
        page.press("Escape")
        assert page.run(shown) == every
        assert not page.messages
