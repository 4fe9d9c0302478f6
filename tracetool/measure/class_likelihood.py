"""How likely readings are when every class of work has a power of its own, whatever it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.measure.design import design
from tracetool.measure.filters import Boxes
from tracetool.measure.prior import prior_of
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline

#: Noise tried, relative to the readings' spread.
_NOISE = np.geomspace(3e-3, 1.0, 12)


def compact_classes(timeline: Timeline) -> Timeline:
    """Return the timeline with its classes numbered without holes."""
    present, label = np.unique(timeline.label, return_inverse=True)
    return replace(timeline, label=label.astype(np.int64), classes=len(present))


def class_likelihood(readings: Readings, timeline: Timeline, boxes: Boxes) -> float:
    r"""Return the log marginal likelihood of readings under a timeline on the same clock.

    Notes
    -----
    With powers :math:`x \sim N(m, D)` the readings are :math:`N(A m, A D A^T + \sigma^2)`: no power is
    fitted, so that many classes explain nothing by their number alone. The eigenvalues of
    :math:`A D A^T` give the best of a grid of :math:`\sigma` at once. One scale shared by all classes
    of work is part of :math:`D`.
    """
    class_design = design(readings, boxes, timeline)
    prior = prior_of(readings.power_w, class_design, None, np.nan)
    rows = class_design.matrix.toarray()
    lead = rows @ (prior.shared * prior.mean_w)
    kernel = (rows * prior.sd_w**2) @ rows.T + prior.scale_sd**2 * np.outer(lead, lead)
    size, turn = np.linalg.eigh(kernel)
    miss = turn.T @ (readings.power_w - rows @ prior.mean_w)
    spread = max(float(np.std(readings.power_w)), 0.3)
    variance = np.maximum(size, 0.0)[None, :] + (_NOISE[:, None] * spread) ** 2
    value = -0.5 * (np.log(variance) + miss**2 / variance).sum(axis=1)
    return float(value.max())
