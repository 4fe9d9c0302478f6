"""Shares of readings: the same however they are summed, and those of a direct count."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.measure import design_matrix as module
from tracetool.measure.design_matrix import design
from tracetool.measure.filters import Boxes
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import build_timeline

CLASSES = 5
BOXES = Boxes(np.array([0.25, 0.1]), np.array([0.1, 0.0]), np.array([0.4, 0.6]))


def _inputs(seed: int) -> tuple[Readings, np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    start = np.sort(chance.uniform(0.0, 9.0, 400))
    end = np.minimum(start + chance.exponential(0.01, 400), np.append(start[1:], 9.5))  # one at a time
    time_s = np.arange(0.3, 10.0, 0.1) + 0.013
    readings = Readings(time_s, np.full(len(time_s), 100.0), 0.1, 0.0, 0.0, len(time_s))
    return readings, start, end, chance.integers(0, CLASSES, 400)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("dense", [0.0, np.inf], ids=["sums", "sparse"])
@pytest.mark.parametrize("at_once", [7, 256])
def test_shares_are_those_counted_one_by_one(
    seed: int, dense: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DENSE", dense)
    monkeypatch.setattr(module, "_READINGS", (at_once, at_once))
    readings, start, end, label = _inputs(seed)
    matrix = design(readings, BOXES, build_timeline(start, end, label, CLASSES)).matrix.toarray()
    truth = np.zeros((len(readings), CLASSES))
    for back, front, weight in zip(BOXES.back_s, BOXES.front_s, BOXES.weight, strict=True):
        low, high = readings.time_s[:, None] - back, readings.time_s[:, None] - front
        overlap = np.maximum(np.minimum(end, high) - np.maximum(start, low), 0.0)
        for k in range(CLASSES):
            truth[:, k] += overlap[:, label == k].sum(axis=1) * weight / (back - front)
    np.testing.assert_allclose(matrix[:, :CLASSES], truth, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("classes", "activities", "most"), [(3, 400, 8192), (3, 200_000, 4600), (9000, 400, 256)]
)
def test_blocks_are_long_where_classes_and_activities_are_few(
    classes: int, activities: int, most: int
) -> None:
    """A block costs its own readings and activities, not all that ran: many short ones cost as one long."""
    time_s = 0.1 * np.arange(1.0, 20_001.0)
    start = np.linspace(0.0, 2000.0, activities, endpoint=False)
    timeline = build_timeline(start, start + 1e-3, np.arange(activities) % classes, classes)
    limits = module._limits(time_s, BOXES, timeline)
    assert (limits[0], limits[-1]) == (0, 20_000)
    lengths = np.diff(limits)
    assert 0.4 * most < np.median(lengths) <= most
    assert lengths.max() < 2 * most
    inside = np.diff(np.searchsorted(start, time_s[np.array(limits) - (np.array(limits) == 20_000)]))
    assert inside.max() < 1.1 * module._ACTIVITIES


def test_only_what_a_block_may_see_is_looked_at() -> None:
    start = np.arange(100_000) * 0.01
    timeline = build_timeline(start, start + 0.005, np.zeros(100_000, np.int64), 1)
    seen = module._in_reach(timeline, np.array([500.0, 500.1]), np.array([500.1, 500.2]))
    assert seen.tolist() == list(range(50_000, 50_020))
    assert "latest_end_s" in timeline.__dict__  # once for all blocks
