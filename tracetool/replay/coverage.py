"""What the time of each row is predicted from, and which share of the kernels' time each kind has."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetool.core.arrays import Floats, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import FROM
from tracetool.families import names
from tracetool.families.registry import known_shape
from tracetool.model.counters import from_counters
from tracetool.replay.budget import COPIES

_SHAPES, _ANCHORED, _RATE, _NOTHING = FROM


def predicted_from(rows: OperatorColumns) -> Texts:
    """Return what each row's time is predicted from, one of :data:`FROM`. Shape (n,).

    A size inferred from a row's own measured time predicts other clocks, not that time; sizes read off
    the launch are shapes. Counters beside a measured time say how it divides, not how long it is. Shapes
    that the measured time rules out are none where times are anchored on it.
    """
    measured = rows.number("duration_us", 0.0) > 0
    shaped = known_shape(rows)
    # an interval of a size (as a factor) stands beside those that the duration told, and only there
    from_duration = np.isfinite(rows.number("inferred_low"))
    circular = (shaped & from_duration) | (~shaped & measured & from_counters(rows))
    usual = measured & (rows.family.astype(str) != names.UNKNOWN)
    sources = np.where(usual, _RATE, _NOTHING)
    sources = np.where(shaped, _SHAPES, sources)
    return np.where(circular, _ANCHORED, sources).astype(object)


def coverage(rows: OperatorColumns, time_s: Floats) -> dict[str, Any]:
    """Return the share of the kernels' time that is predicted from each of :data:`FROM`. [%]

    Parameters
    ----------
    rows : OperatorColumns
        n rows; copies are left out.
    time_s : array, shape (n,)
        Time of all launches of each: measured where there is a measurement. [s]
    """
    kernels = ~np.isin(rows.family.astype(str), COPIES)
    source, time = predicted_from(rows)[kernels], time_s[kernels]
    whole = float(time.sum())
    return {
        f"{name.replace(' ', '_')}_pct": 100.0 * float(time[source == name].sum()) / whole if whole else 0.0
        for name in FROM
    }
