"""The design matrix against the overlap of every window with every activity, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.arrays import Floats
from tracetool.measure.design import design
from tracetool.measure.filters import Boxes
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline, build_timeline

#: Windows of one length, and a lag's chain of windows, of which the later ones count less.
FILTERS = {
    "one": Boxes(np.array([0.4]), np.array([0.0]), np.array([1.0])),
    "chain": Boxes(np.array([0.1, 0.3, 0.9]), np.array([0.0, 0.1, 0.3]), np.array([0.5, 0.3, 0.2])),
}


def worked(classes: int, streams: int) -> Timeline:
    rng = np.random.default_rng(7)
    end = np.cumsum(rng.exponential(0.03, (streams, 400)), axis=1)
    start = end - 0.7 * np.diff(end, axis=1, prepend=0.0)
    label = rng.integers(0, classes, end.size)
    return build_timeline(start.ravel(), end.ravel(), label, classes)


def one_by_one(time_s: Floats, boxes: Boxes, timeline: Timeline) -> Floats:
    """Give each reading's share of each class from every pair of a window and an activity."""
    out = np.zeros((len(time_s), timeline.classes))
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        for row, time in enumerate(time_s):
            for start, end, label in zip(timeline.start_s, timeline.end_s, timeline.label, strict=True):
                low, high = max(start, time - back), min(end, time - front)
                if high > low:
                    shared = float(np.diff(timeline.share(np.array([low, high])))[0])
                    out[row, label] += weight * shared / (back - front)
    return out


@pytest.mark.parametrize("boxes", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize(("classes", "streams"), [(3, 1), (3, 2), (300, 2)])
def test_shares_are_those_of_every_pair(boxes: Boxes, classes: int, streams: int) -> None:
    timeline = worked(classes, streams)
    time_s = np.linspace(-0.5, 13.0, 40)
    readings = Readings(time_s, np.ones(40), 0.3, 0.0, 0.0, 50)
    matrix = design(readings, boxes, timeline).matrix.toarray()
    np.testing.assert_allclose(matrix[:, :classes], one_by_one(time_s, boxes, timeline), atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-9)


def test_readings_in_blocks_are_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline, boxes = worked(30, 2), FILTERS["chain"]
    readings = Readings(np.linspace(0.0, 12.0, 50), np.ones(50), 0.3, 0.0, 0.0, 50)
    whole = design(readings, boxes, timeline).matrix.toarray()
    monkeypatch.setattr("tracetool.measure.design._READINGS", 7)
    np.testing.assert_allclose(design(readings, boxes, timeline).matrix.toarray(), whole, atol=1e-12)
    monkeypatch.setattr("tracetool.measure.design._DENSE", np.inf)
    np.testing.assert_allclose(design(readings, boxes, timeline).matrix.toarray(), whole, atol=1e-12)
