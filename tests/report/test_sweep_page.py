"""The page of a sweep begins with what was asked: the best points, with intervals and units."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_the_best_points_stand_above_all_points(suffix: str, sample_run: Path, tmp_path: Path) -> None:
    swept = tt.sweep(sample_run, clock="600:1950:150", power_cap=[300.0])
    text = swept.save(tmp_path / f"sweep{suffix}").read_text("utf-8")
    best = swept.best.row(0, named=True)
    ends = [100 * best[f"energy_saved_{end}"] for end in ("low", "high")]
    saved = f"{100 * best['energy_saved']:.1f} % (90 %: {ends[0]:.1f} to {ends[1]:.1f}) less than at 1755 MHz"
    assert f"Least energy on h100-sxm at {best['clock_mhz']:g} MHz" in text
    assert saved in text
    order = ("Best operating points, against 1755 MHz", "Each family alone", "All points")
    assert sorted(order, key=text.index) == list(order)
    for head in ("energy saved [%]", "saved there [%]", "energy x time [J·s]", "power cap [W]"):
        assert head in text
    assert swept.notes[0] in text


def test_a_point_faster_than_the_reference_is_not_said_to_be_slower(sample_run: Path, tmp_path: Path) -> None:
    """Against 600 MHz the headline read "-39.9 % slower"."""
    swept = tt.sweep(sample_run, clock="600:1950:150", against=600.0)
    best = swept.best.row(0, named=True)
    assert best["slowdown"] < 0.0
    headline = swept.save(tmp_path / "sweep.md").read_text("utf-8").splitlines()[0]
    assert headline.endswith(f"less than at 600 MHz, in {-100 * best['slowdown']:.1f} % less time")


def test_data_keep_the_points_alone(sample_run: Path, tmp_path: Path) -> None:
    swept = tt.sweep(sample_run, clock="600:1950:450")
    lines = swept.save(tmp_path / "points.csv").read_text("utf-8").splitlines()
    assert len(lines) == swept.points.height + 1
    assert swept._repr_html_().count("<table") == 3
