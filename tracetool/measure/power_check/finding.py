"""Findings of checks of a power log, and the input of all checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline

#: Verdicts, best first. ``usable``: energies hold within their intervals, but something is to be looked at.
VERDICTS: Final = ("good", "usable", "unusable")


@dataclass(frozen=True)
class Finding:
    """The result of one check on one GPU's log."""

    check: str
    verdict: str  # one of VERDICTS
    reason: str
    value: float | None = None
    unit: str = ""

    def row(self, device: int | None) -> dict[str, Any]:
        """Return the finding as a row of the ``power_check`` table."""
        return {
            "device": device,
            "check": self.check,
            "verdict": self.verdict,
            "value": None if self.value is None or not np.isfinite(self.value) else float(self.value),
            "unit": self.unit,
            "reason": self.reason,
        }


def worst(verdicts: list[str]) -> str:
    """Return the worst of some verdicts; ``good`` where there are none.

    >>> worst(["good", "unusable", "usable"]), worst([])
    ('unusable', 'good')
    """
    return max(verdicts, key=VERDICTS.index, default="good")


def graded(value: float, usable_above: float, unusable_above: float) -> str:
    """Return the verdict of a figure that should be small.

    >>> graded(0.1, 0.2, 0.5), graded(0.3, 0.2, 0.5), graded(0.6, 0.2, 0.5)
    ('good', 'usable', 'unusable')
    """
    return VERDICTS[int(value > usable_above) + int(value > unusable_above)]


@dataclass(frozen=True)
class LogCase:
    """One GPU's log, and what ran on that GPU; times in seconds since one origin."""

    device: int
    frame: pl.DataFrame  # telemetry of this device
    log: PowerLog
    readings: Readings
    sensor: Sensor
    gpu: Gpu | None
    timeline: Timeline | None  # None without a trace
    candidates: int = 1  # sensors that the reading may come from

    @cached_property
    def spacing_s(self) -> float:
        """Time between two readings with new values: updates, or polls where those are slower. [s]"""
        steps = np.diff(self.log.time_s)
        steps = steps[steps > 0]
        poll_s = float(np.median(steps)) if len(steps) else 0.0
        return max(poll_s, self.readings.update_s)

    @property
    def window_s(self) -> float:
        """Time before a reading that the reading covers. [s]"""
        return self.sensor.window_s if self.sensor.kind == "boxcar" else 2.0 * self.sensor.lag_s

    @property
    def span_s(self) -> tuple[float, float]:
        """First start and last end of the work, or of the log where there is no trace. [s]"""
        if self.timeline is not None:
            return self.timeline.span_s
        return float(self.log.time_s[0]), float(self.log.time_s[-1])

    def busy_share(self, offset_s: float = 0.0, window_s: float | None = None) -> Floats:
        """Return the share of each reading's window in which anything ran, the log moved back. (n,) [1]"""
        assert self.timeline is not None
        window = max(self.window_s if window_s is None else window_s, 1e-4)
        at_s = self.readings.time_s - offset_s
        return np.asarray((self.timeline.busy(at_s) - self.timeline.busy(at_s - window)) / window)

    def loaded(self) -> tuple[Floats, Floats]:
        """Return the readings under load and those without any. [W]

        Between the two lie readings whose window saw both.
        """
        share = self.busy_share()
        quiet = (share <= 0.0) & (self.busy_share(0.0, self.window_s + 1.0) <= 0.0)
        return self.readings.power_w[share > 0.9 * share.max(initial=0.0)], self.readings.power_w[quiet]
