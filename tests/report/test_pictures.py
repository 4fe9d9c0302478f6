"""Charts and the treemap: well-formed, to scale, harmless."""

from __future__ import annotations

import base64
import json
import re
import sys
import xml.etree.ElementTree as ET
import zlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.hostile import HOSTILE
from tracetool.core.errors import BadInput, MissingPart
from tracetool.replay.operating_points import Clocks, front
from tracetool.report.page import save_chart
from tracetool.report.pictures.charts import (
    BACK,
    INK,
    LINE,
    MEASURED,
    MODEL,
    SOFT,
    Chart,
    blank,
    chart_html,
    limits,
    need_bokeh,
    plain,
)
from tracetool.report.pictures.measured import attributed_bars, energy_bars, log_picture
from tracetool.report.pictures.pareto import pareto
from tracetool.report.pictures.run_table import _distinct_names
from tracetool.report.pictures.svg import family_colors, ink_on, share_label, text_width
from tracetool.report.pictures.timeline import pack_timeline
from tracetool.report.sections.agreement import scatter
from tracetool.report.sections.comparison import waterfall
from tracetool.report.sections.energy_shares import Part, squarify, treemap
from tracetool.report.sections.roofline import roofline

N = len(HOSTILE)
COLORS = family_colors(["gemm", "norm"])


def charts() -> list[Chart]:
    x = np.geomspace(1.0, 1e4, N)
    clocks = Clocks(np.arange(5) * 100.0 + 500, x[:5], x[4::-1][:5], x[:5] * 0.9, x[:5] * 1.1)
    return [
        scatter(x, x * 1.2, HOSTILE, ["gemm"] * N, COLORS, quantity="time", unit="ms"),
        roofline(x, x * 1e9, x, x / x.sum(), HOSTILE, peaks_flops_per_s={"fp32": 1e13}, bytes_per_s=1e12),
        pareto(clocks, clocks.marks(700.0)),
        waterfall(100.0, {"more work": 5.0, "clock": -3.0, "idle gaps": 0.0}, 102.0, unit="J"),
        energy_bars(HOSTILE, x, 0.9 * x, 1.1 * x),
        log_picture(x, x, x * 1.1, HOSTILE[0]),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_chart_holds_hostile_names_as_data(number: int) -> None:
    html = chart_html(charts()[number], "x")
    assert html.count("<script") == html.count("</script>") == 1
    assert "<!--" not in html
    assert "\x1b" not in html
    data = re.fullmatch(r'<div class="chart" .*?></div><script [^>]*>(.*)</script>', html, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["target_id"] == "chart-x"


def test_the_treemap_is_well_formed_with_hostile_names() -> None:
    parts = [Part(n, n, "gemm", float(v)) for v, n in enumerate(HOSTILE, 1)]
    root = ET.fromstring(treemap(parts, COLORS, "family"))
    assert root.get("role") == "img"
    assert [e.tag for e in root[:2]] == ["title", "desc"]
    assert not [e for e in root.iter() if e.tag in ("script", "img", "a", "style")]


@pytest.mark.parametrize("count", [3, 12, 40])
def test_labels_of_the_treemap_stay_in_their_rectangles(count: int) -> None:
    names = [f"void at::native::kernel_{i}<{'W' * (5 * i)}, float>(int)" for i in range(count)]
    parts = [Part(f"group {i % 5} of some length", n, "gemm", 1.0 / (i + 1)) for i, n in enumerate(names)]
    root = ET.fromstring(treemap(parts, COLORS, "family"))
    space = "{http://www.w3.org/2000/svg}" if root.tag.startswith("{") else ""
    assert not root.findall(f"{space}text"), "every label is clipped to a box"
    boxes = []
    for box in root.findall(f"{space}svg"):
        (text,) = box.findall(f"{space}text")
        assert text_width(text.text or "", bold=text.get("class") == "group") <= float(box.get("width", "0"))
        boxes.append([float(box.get(k, "0")) for k in ("x", "y")] + [float(box.get("width", "0")), 18.0])
    assert boxes
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, s, t in boxes[:i]:
            assert x + w <= u + 0.1 or u + s <= x + 0.1 or y + h <= v + 2.1 or v + t <= y + 2.1, (
                "labels collide"
            )
    titles = {t.text for t in root.iter(f"{space}title")}
    assert len(titles) >= count, "what has no label has a tooltip"


def test_names_of_ceilings_lie_outside_the_roofline() -> None:
    from bokeh.models import LogAxis, Text

    made = next(c for c in charts() if c.title == "Roofline").model
    assert not list(made.select(Text)), "no text lies where points may be"
    axes = [a for a in made.right if isinstance(a, LogAxis)]
    assert any("fp32" in str(label) for a in axes for label in a.major_label_overrides.values())
    assert any("memory" in str(a.axis_label) for a in axes)


def test_a_log_scale_of_one_decade_and_more_has_ticks_all_along() -> None:
    chart = blank((0.06, 4.0), (2.0, 900.0), ("x", "y"), height=300, log=True)
    ticks = [tick for tick in chart.xaxis[0].ticker.ticks if 0.06 <= tick <= 4.0]
    assert ticks == [0.1, 0.2, 0.5, 1.0, 2.0]
    assert not hasattr(chart.yaxis[0].ticker, "ticks"), "wider ones keep the library's"


def test_a_waterfall_says_where_its_axis_is_cut_and_what_saves_energy() -> None:
    small = waterfall(100.0, {"more work": -1.0, "clock": 2.0}, 101.0, unit="J").model
    assert re.fullmatch(r"J\nbase and head cut off below 98\.\d+", small.xaxis[0].axis_label)
    assert small.x_range.start > 98.0
    assert "less work" in small.y_range.factors and "more work" not in small.y_range.factors
    large = waterfall(100.0, {"more work": 90.0}, 190.0, unit="J").model
    assert (large.xaxis[0].axis_label, large.x_range.start) == ("J", 0.0)


def test_a_share_in_a_picture_is_whole_or_absent() -> None:
    """Cut in its middle, "oversized clock 9.4 %" read "oversiz...4 %"."""
    for width in range(0, 200, 5):
        label = share_label("oversized clock", "19.4 %", float(width))
        assert label == "" or label.endswith("19.4 %")
        assert text_width(label) <= width


def test_no_name_is_taken_for_a_formula() -> None:
    for opens, closes in (("$$", "$$"), (r"\[", r"\]"), (r"\(", r"\)")):
        assert opens not in plain(f"kernel {opens}x{closes}")


def test_scripts_styles_and_charts_speak_of_the_same_colors() -> None:
    folder = files("tracetool.report.templates")
    script, style = (folder.joinpath(n).read_text("utf-8") for n in ("charts.js", "page.css"))
    pairs = dict(re.findall(r'"(#[0-9a-f]{6})": "(--[a-z]+)"', script))
    assert set(pairs) == {INK, SOFT, LINE, BACK, MEASURED, MODEL}
    light = style.split("}")[0]
    assert all(f"{key}: {color};" in light for color, key in pairs.items())


def test_a_chart_alone_is_a_page_and_nothing_else(tmp_path: Path) -> None:
    chart = charts()[4]
    text = save_chart(chart, tmp_path / "bars.html").read_text("utf-8")
    assert "default-src 'none'" in text
    assert "5 classes" not in text
    assert f"{N} classes" in text
    with pytest.raises(BadInput, match=r"\.html"):
        save_chart(chart, tmp_path / "bars.svg")


def test_without_the_library_the_command_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh.plotting", None)
    with pytest.raises(MissingPart) as caught:
        need_bokeh()
    assert caught.value.exit_code == 3
    assert "pip install bokeh" in caught.value.line()


@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=40), st.floats(10, 1000), st.floats(10, 1000))
def test_areas_are_in_proportion_and_inside(sizes: list[float], width: float, height: float) -> None:
    ordered = sorted(sizes, reverse=True)
    boxes = squarify(ordered, (0.0, 0.0, width, height))
    assert len(boxes) == len(ordered)
    scale = width * height / sum(ordered)
    for size, (x, y, w, h) in zip(ordered, boxes, strict=True):
        assert w * h == pytest.approx(size * scale, rel=1e-6, abs=1e-6 * width * height)
        assert x >= -1e-6
        assert x + w <= width * (1 + 1e-6)
        assert y >= -1e-6
        assert y + h <= height * (1 + 1e-6)


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=1, max_size=20))
def test_nothing_beats_a_point_of_the_front(points: list[tuple[float, float]]) -> None:
    time, energy = np.array(points).T
    best = front(time, energy)
    assert best.any()
    for i in np.flatnonzero(best):
        assert not (
            (time <= time[i]) & (energy <= energy[i]) & ((time < time[i]) | (energy < energy[i]))
        ).any()


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values(values: list[float], log: bool) -> None:
    low, high = limits(np.array(values), log=log)
    assert low < min(values) <= max(values) < high
    assert not log or low > 0


def test_an_axis_without_values_still_works() -> None:
    assert limits(np.array([np.nan])) == (1.0, 10.0)
    assert limits(np.array([0.0, -1.0]), log=True) == (1.0, 10.0)


def test_text_is_read_on_every_color() -> None:
    assert {ink_on(c) for c in COLORS.values()} <= {"#000", "#fff"}


def test_the_packed_timeline_gives_every_launch_back() -> None:
    rng = np.random.default_rng(0)
    n = 5000
    length = rng.integers(500, 50_000, n)
    start = np.cumsum(length + rng.integers(0, 1000, n)) - length + 10**15
    signature = rng.integers(0, 300, n)
    kernels = pl.DataFrame(
        {"start_ns": start, "duration_ns": length, "device": np.zeros(n, np.int32), "stream": [7] * n,
         "signature": signature}
    )  # fmt: skip
    empty = pl.DataFrame(
        schema={"time_ns": pl.Int64, "device": pl.Int32, "field": pl.String, "power_w": pl.Float64}
    )
    made = pack_timeline(kernels, empty, {})
    assert made is not None

    def column(name: str) -> np.ndarray:
        planes = zlib.decompress(base64.b64decode(made.packed[name]), -15)
        return np.frombuffer(planes, np.uint8).reshape(4, n).T.copy().view("<u4")[:, 0].astype(np.int64)

    quantum = made.packed["quantum_ns"]
    assert np.cumsum(column("start")) * quantum == pytest.approx(start - start[0], abs=quantum)
    assert column("length") * quantum == pytest.approx(length, abs=quantum)
    assert (column("signature") == signature).all()


def test_a_run_without_activity_has_no_timeline() -> None:
    kernels = pl.DataFrame(schema={"start_ns": pl.Int64, "duration_ns": pl.Int64, "device": pl.Int32,
                                   "stream": pl.Int64, "signature": pl.Int64})  # fmt: skip
    assert pack_timeline(kernels, pl.DataFrame(), {}) is None


def test_letters_of_pictures_stay_readable_on_a_telephone() -> None:
    style = files("tracetool.report").joinpath("templates/run.css").read_text("utf-8")
    narrow = style.partition("@media (max-width: 40rem) {")[2].partition("\n}")[0]
    (least_rem,) = re.findall(r"\.picture > svg[^{]*\{ min-width: (\d+)rem", narrow)
    # pictures are drawn 960 wide with letters of 12 or more
    assert float(least_rem) * 16 / 960 * 12 >= 9


def test_bars_of_idle_time_say_that_they_are_of_the_whole_log() -> None:
    rows = {"class": ["(idle)", "norm"], "signature": [None, 2], "duration_ns": [9, 5], "device": [0, 0],
            "energy_j": [3.0, 2.0], "energy_low_j": [2.0, 1.0], "energy_high_j": [4.0, 3.0],
            "identified": [True] * 2}  # fmt: skip
    chart = attributed_bars(pl.DataFrame(rows))
    source = next(r.data_source for r in chart.model.renderers if "class" in r.data_source.data)
    assert source.data["class"] == ["1. (idle), whole log", "2. norm"]


def test_the_words_below_bars_fit_beside_their_names_on_a_telephone() -> None:
    chart = energy_bars(["a", "b"], np.ones(2), np.ones(2), np.ones(2), [True, False]).model
    lines = chart.xaxis[0].axis_label.split("\n")
    assert lines[:2] == ["energy [J]", "lines: 90 % intervals"]
    assert max(map(len, lines)) <= 21


def test_bars_of_one_kernel_in_two_shapes_have_names_of_their_own() -> None:
    name = "a_kernel_of_a_long_name_that_is_cut_in_a_chart"
    rows = {"class": [name, name, "norm"], "signature": [4, 7, 2], "duration_ns": [9, 5, 2],
            "device": [0, 0, 0], "energy_j": [3.0, 2.0, 1.0], "energy_low_j": [2.0, 1.0, 0.5],
            "energy_high_j": [4.0, 3.0, 1.5], "identified": [True] * 3}  # fmt: skip
    chart = attributed_bars(pl.DataFrame(rows))
    source = next(r.data_source for r in chart.model.renderers if "class" in r.data_source.data)
    assert [label[-2:] for label in source.data["class"]] == ["#4", "#7", "rm"]
    assert f"{name} #7: 2.000 J, 1.000 to 3.000" in chart.caption
    two = attributed_bars(pl.DataFrame({**rows, "device": [0, 1, 1]}))
    assert "GPU 1: norm: 1.000 J" in two.caption


def test_curves_of_a_legend_are_told_apart_by_what_differs() -> None:
    curves = pl.DataFrame(
        {
            "gpus": [8.0, 8.0],
            "gpu": ["b200-sxm"] * 2,
            "model": ["maker/a-model-of-a-very-long-name-1024px_diffusers"] * 2,
            "task": ["image"] * 2,
            "precision": ["bf16"] * 2,
            "parallel": ["tensor_parallel=1 ulysses_degree=2", "tensor_parallel=1 ulysses_degree=4"],
        }
    )
    assert _distinct_names(curves) == ["8xb200-sxm, Ulysses 2", "8xb200-sxm, Ulysses 4"]


def test_marks_of_a_logarithmic_axis_are_round() -> None:
    chart = blank((0.03, 0.31), (0.03, 0.31), ("time [ms]", "time [ms]"), height=300, log=True)
    assert {axis.formatter.format for axis in (*chart.xaxis, *chart.yaxis)} == {"%.4g"}
    assert chart.xaxis.axis_label == "time [ms], log scale"


def test_marks_of_predicted_against_measured_have_bars_of_both_intervals() -> None:
    from tracetool.report.sections.agreement import scatter

    ends = {"x_low": np.array([1.0, np.nan]), "x_high": np.array([3.0, np.nan]),
            "y_low": np.array([2.0, 3.0]), "y_high": np.array([4.0, 5.0])}  # fmt: skip
    two = (np.array([2.0, 4.0]), np.array([3.0, 4.0]), ["a", "b"], ["gemm", "norm"], {})
    drawn = scatter(*two, quantity="energy", unit="J", bounds=ends).model.renderers
    bars = [r.data_source.data for r in drawn if "x0" in r.data_source.data]
    assert [(b["x0"].tolist(), b["x1"].tolist()) for b in bars] == [([1.0], [3.0]), ([2.0, 4.0], [2.0, 4.0])]
    assert bars[1]["y1"].tolist() == [4.0, 5.0]
