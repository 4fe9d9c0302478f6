r"""Swing of power: peak, mean and ramp over stated windows, and its spectrum from 0.1 to 20 Hz.

What a facility's transformers, generators and batteries follow is power averaged over some time, how fast
that mean changes, and how strongly it oscillates. All of it is of the power drawn: no averaging of a sensor
is in it.

Notes
-----
With :math:`\bar P_i` the mean power of window i of length w, ramps are the largest rise and fall of
:math:`(\bar P_{i+1} - \bar P_i) / w`. The swing of a band of frequencies is the root of the variance in it,
from the periodogram of 10 ms means under a Hann window, with their averaging (:math:`\operatorname{sinc}^2`)
divided out: a sine of amplitude A has :math:`A / \sqrt 2`, and swings of separate bands add up in squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.replay.power import PowerCurve

#: Windows that peak, mean and ramp are stated over. [ms]
WINDOWS_MS: Final = (1.0, 10.0, 100.0, 1000.0)
#: Ends of the spectrum. [Hz] What facilities ask for: below lie schedules, above it capacitors smooth.
LOWEST_HZ: Final = 0.1
HIGHEST_HZ: Final = 20.0
#: Bands of the spectrum, about a third of an octave each.
BANDS: Final = 23
#: Means at most; longer timelines have longer first windows.
_MOST: Final = 2_000_000
#: Means that the spectrum is of. [ms]
_SPECTRUM_MS: Final = 10.0
#: Periods that a frequency needs within the timeline: a Hann window joins two lines of the periodogram.
_PERIODS: Final = 2.0


@dataclass(frozen=True)
class Spectrum:
    """Swing by frequency; NaN where the timeline is too short for a band."""

    edge_hz: Floats  # (b + 1,)
    swing_w: Floats  # (b,) root of the variance in each band
    strongest_hz: float  # NaN where nothing swings
    strongest_w: float  # root of the variance about it


def means_over(curves: Mapping[int, PowerCurve], window_ms: float) -> Floats:
    """Return the power of all GPUs together in consecutive windows, without the rest at the end. [W]

    Parameters
    ----------
    curves : mapping of int to PowerCurve
        Power of each GPU over one span.
    window_ms : float
        Length of a window. [ms]
    """
    spans = [c.edge_ns[[0, -1]] for c in curves.values()]
    if not spans:
        return np.zeros(0)
    first, last = spans[0]
    count = int((last - first) / (window_ms * 1e6) + 1e-9)
    edges = first + window_ms * 1e6 * np.arange(count + 1)
    total = np.zeros(count)
    for curve in curves.values():
        total += np.diff(curve.energy_until(edges, 0.0))
    return np.asarray(total / (window_ms * 1e-3))


def first_window_ms(span_ms: float) -> float:
    """Return the shortest of the windows that a timeline of this length is cut into. [ms]"""
    fits = [w for w in WINDOWS_MS if span_ms / w <= _MOST]
    return fits[0] if fits else WINDOWS_MS[-1]


def spectrum(power_w: Floats, step_s: float) -> Spectrum:
    """Return the swing of evenly spaced means by frequency.

    Parameters
    ----------
    power_w : array, shape (n,)
        Mean power of consecutive steps. [W]
    step_s : float
        Their length. [s]

    Examples
    --------
    A swing of 100 W at 2 Hz, for a minute.

    >>> time = np.arange(6000) * 0.01
    >>> found = spectrum(400.0 + 100.0 * np.sin(2 * np.pi * 2.0 * time), 0.01)
    >>> round(found.strongest_hz, 2), round(found.strongest_w, 1)
    (2.0, 70.8)
    """
    edges = np.geomspace(LOWEST_HZ, HIGHEST_HZ, BANDS + 1)
    n = len(power_w)
    nothing = Spectrum(edges, np.full(BANDS, np.nan), np.nan, np.nan)
    span = n * step_s
    if span * HIGHEST_HZ < _PERIODS:
        return nothing
    window = np.hanning(n)
    lines = np.fft.rfft((power_w - power_w.mean()) * window)
    variance = 2.0 * np.abs(lines) ** 2 / (n * float(window @ window))
    frequency = np.fft.rfftfreq(n, step_s)
    variance = variance / np.sinc(frequency * step_s) ** 2
    variance[frequency > HIGHEST_HZ * 1.5] = 0.0
    ends = np.concatenate([[0.0], frequency + 0.5 / span])
    total = np.concatenate([[0.0], np.cumsum(variance)])
    lowest = _PERIODS / span
    bands = np.diff(np.interp(np.maximum(edges, lowest), ends, total))
    swing = np.where(edges[1:] > lowest, np.sqrt(np.maximum(bands, 0.0)), np.nan)
    inside = (frequency >= max(LOWEST_HZ, lowest) * (1 - 1e-9)) & (frequency <= HIGHEST_HZ)
    if not inside.any() or not variance[inside].max() > 0.0:
        return Spectrum(edges, swing, np.nan, np.nan)
    top = int(np.flatnonzero(inside)[np.argmax(variance[inside])])
    about = variance[max(top - 2, 1) : top + 3].sum()
    return Spectrum(edges, swing, float(frequency[top]), float(np.sqrt(about)))


def swing_record(curves: Mapping[int, PowerCurve], low: float, high: float) -> dict[str, Any]:
    """Return peak, mean, ramp and spectrum of the power of all GPUs together.

    Parameters
    ----------
    curves : mapping of int to PowerCurve
        Power of each GPU over one span.
    low, high : float
        90 % interval of powers, as factors. [1]

    Returns
    -------
    dict
        ``mean_w``; ``windows``: for each of :data:`WINDOWS_MS` that fits, ``peak_w``, ``lowest_w``,
        ``ramp_up_w_per_ms`` and ``ramp_down_w_per_ms``; ``spectrum``: ``bands`` with ``from_hz``, ``to_hz``
        and ``swing_w``, all of them together as ``swing_w``, and ``strongest_hz`` with its ``strongest_w``.
        Each power with ``_low`` and ``_high``; None where the timeline is too short.
    """
    edge = next(iter(curves.values())).edge_ns if curves else np.zeros(2)
    span_ms = float(edge[-1] - edge[0]) * 1e-6
    shortest = first_window_ms(span_ms)
    windows = []
    for window in WINDOWS_MS:
        means = means_over(curves, window) if window >= shortest else np.zeros(0)
        if len(means) < 2:
            continue
        ramp = np.diff(means) / window
        figures = {
            "peak_w": float(means.max()),
            "lowest_w": float(means.min()),
            "ramp_up_w_per_ms": max(float(ramp.max()), 0.0),
            "ramp_down_w_per_ms": max(float(-ramp.min()), 0.0),
        }
        windows.append({"window_ms": window, **_bounded(figures, low, high)})
    step = max(_SPECTRUM_MS, shortest)
    power_spectrum = spectrum(means_over(curves, step), step * 1e-3)
    joules = sum(c.energy_j for c in curves.values())
    bands = zip(power_spectrum.edge_hz[:-1], power_spectrum.edge_hz[1:], power_spectrum.swing_w, strict=True)
    swing_w = (
        float(np.sqrt(np.nansum(power_spectrum.swing_w**2)))
        if np.isfinite(power_spectrum.swing_w).any()
        else np.nan
    )
    return {
        "span_ms": span_ms,
        **_bounded({"mean_w": joules / (span_ms * 1e-3) if span_ms > 0 else np.nan}, low, high),
        "windows": windows,
        "spectrum": {
            "strongest_hz": power_spectrum.strongest_hz if np.isfinite(power_spectrum.strongest_hz) else None,
            **_bounded({"swing_w": swing_w, "strongest_w": power_spectrum.strongest_w}, low, high),
            "bands": [
                {"from_hz": float(a), "to_hz": float(b), **_bounded({"swing_w": float(w)}, low, high)}
                for a, b, w in bands
            ],
        },
    }


def _bounded(figures: Mapping[str, float], low: float, high: float) -> dict[str, float | None]:
    """Return each figure with its interval, the ends named before the unit; None where it is not known."""
    rows: dict[str, float | None] = {}
    for name, value in figures.items():
        stem, _, unit = name.partition("_w")
        for end, factor in (("", 1.0), ("_low", low), ("_high", high)):
            rows[f"{stem}{end}_w{unit}"] = value * factor if np.isfinite(value) else None
    return rows
