"""Pictures: well-formed, to scale, harmless."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.hostile import HOSTILE
from tracetool.report.pictures.causes import waterfall
from tracetool.report.pictures.colours import family_colours, ink_on, sequential
from tracetool.report.pictures.pareto import Clocks, front, pareto
from tracetool.report.pictures.roofline import roofline
from tracetool.report.pictures.scatter import scatter
from tracetool.report.pictures.svg import Scale
from tracetool.report.pictures.timeline import pack_timeline
from tracetool.report.pictures.treemap import Part, squarify, treemap

N = len(HOSTILE)
COLOURS = family_colours(["gemm", "norm"])


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert [e.tag for e in root[:2]] == ["title", "desc"]
    assert not [e for e in root.iter() if e.tag in ("script", "img", "a", "style")]
    return root


def pictures() -> list[str]:
    x = np.geomspace(1.0, 1e4, N)
    clocks = Clocks(np.arange(5) * 100.0 + 500, x[:5], x[4::-1][:5], x[:5] * 0.9, x[:5] * 1.1)
    return [
        treemap([Part(n, n, "gemm", float(v)) for n, v in zip(HOSTILE, x, strict=True)], COLOURS, "family"),
        scatter(x, x * 1.2, HOSTILE, ["gemm"] * N, COLOURS, quantity="time", unit="ms"),
        roofline(x, x * 1e9, x, x / x.sum(), HOSTILE, peaks_flops_per_s={"fp32": 1e13}, bytes_per_s=1e12),
        pareto(clocks, clocks.marks(700.0)),
        waterfall(100.0, {"more work": 5.0, "clock": -3.0, "idle gaps": 0.0}, 102.0, unit="J"),
    ]


@pytest.mark.parametrize("number", range(5))
def test_every_picture_is_well_formed_with_hostile_names(number: int) -> None:
    parsed(pictures()[number])


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


@given(st.floats(1e-6, 1e6), st.floats(1.5, 1e6), st.booleans())
def test_ticks_lie_on_the_scale_in_order(low: float, factor: float, log: bool) -> None:
    scale = Scale(low, low * factor, 0.0, 100.0, log)
    ticks = scale.ticks()
    assert ticks == sorted(ticks)
    places = scale.place(np.array(ticks))
    assert (places >= -1e-6).all()
    assert (places <= 100 + 1e-6).all()


def test_a_scale_without_values_still_works() -> None:
    assert Scale.over(np.array([np.nan]), 0, 1).ticks()
    assert Scale.over(np.array([3.0, 3.0]), 0, 1, log=True).ticks()


def test_text_is_read_on_every_colour() -> None:
    assert {ink_on(c) for c in [*COLOURS.values(), *sequential(np.linspace(0, 1, 9))]} <= {"#000", "#fff"}


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
    made = pack_timeline(kernels, empty)
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
    assert pack_timeline(kernels, pl.DataFrame()) is None
