"""A wrong unit: a log whose power and energy counter disagree by the factor between two units."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.number_text import number

#: Factor between integrated power and a counter to what it means: if power is larger, if the counter is.
_FACTORS: Final = {
    1e3: ("milliwatts taken for watts, or kJ for J", "kilowatts taken for watts, or mJ for J"),
    3.6e3: ("watt hours taken for joules", "joules taken for watt hours"),
    1e6: ("microwatts taken for watts, or MJ for J", "microjoules taken for joules, or MW for W"),
    3.6e6: ("kilowatt hours taken for joules", "joules taken for kilowatt hours"),
    1e9: ("gigajoules taken for joules", "nanojoules taken for joules"),
}
#: Gains of sensors and counters that run fast differ by less than this from each other. [1]
_TOLERANCE: Final = 1.35
#: Fewest values of a counter, and the least time they span, that determine its rate. [1], [s]
_FEWEST, _LEAST_S = 3, 1.0
_NS = 1e-9


def check_units(telemetry: pl.DataFrame, path: Path) -> None:
    """Refuse a log whose power integrates to a unit's factor times what its energy counter gained.

    Parameters
    ----------
    telemetry : DataFrame
        Readings of one log: ``time_ns``, ``device``, ``power_w``, ``energy_j``, ``field``, ``scope``.
    path : Path
        The log.

    Raises
    ------
    BadInput
        With both figures, if they are 1e3, 3600, 1e6, 3.6e6 or 1e9 apart: whichever is wrong, every joule
        of the log would be.

    Notes
    -----
    Counters that run at a wrong rate (by 2 or 15, as some drivers do) are no unit's factor: they stay, and
    the counter is checked against power where it is used.
    """
    if not {"power_w", "energy_j"} <= set(telemetry.columns):
        return
    if "scope" in telemetry.columns:  # a counter beside power has the GPU's scope without saying so
        telemetry = telemetry.with_columns(pl.col("scope").fill_null("gpu"))
    keys = [c for c in ("device", "scope") if c in telemetry.columns]
    for _, part in telemetry.group_by(keys, maintain_order=True):
        counted = part.drop_nulls("energy_j").unique("time_ns").sort("time_ns")
        if counted.height < _FEWEST:
            continue
        powered = part.drop_nulls("power_w")
        sensors = powered.partition_by("field") if "field" in powered.columns else [powered]
        for readings in sensors:
            _check(readings.unique("time_ns").sort("time_ns"), counted, path)


def _check(powered: pl.DataFrame, counted: pl.DataFrame, path: Path) -> None:
    """Refuse readings of one sensor against the counter beside it."""
    if powered.height < _FEWEST:
        return
    time, watts = powered["time_ns"].to_numpy() * _NS, powered["power_w"].to_numpy()
    ticks, joules = counted["time_ns"].to_numpy() * _NS, counted["energy_j"].to_numpy()
    inside = (ticks >= time[0]) & (ticks <= time[-1])
    ticks, joules = ticks[inside], joules[inside]
    steps, lasted = np.diff(joules), np.diff(ticks)
    rises = steps >= 0  # a counter that starts anew loses that step alone
    if rises.sum() < _FEWEST - 1 or lasted[rises].sum() < _LEAST_S:
        return
    integrated = float(np.diff(integrals(time, watts, ticks))[rises].sum())
    gained = float(steps[rises].sum())
    moved = int((steps[rises] > 0).sum())  # one step of a coarse counter, of a kWh say, shows no rate
    if not (integrated > 0 and moved >= _FEWEST - 1):
        return
    if (meaning := wrong_unit(integrated / gained)) is not None:
        seconds = number(float(lasted[rises].sum()))
        raise BadInput.in_file(
            path,
            f"its power integrates to {number(integrated)} J and its energy counter gained "
            f"{number(gained)} J over the same {seconds} s: {meaning}",
            "name the column by its unit (power_mw, energy_kwh), or correct what is wrong",
        )


def wrong_unit(ratio: float) -> str | None:
    """Return what a ratio of power to the energy it should have given means, where it is a unit's factor.

    >>> wrong_unit(1.02e3), wrong_unit(1e-3), wrong_unit(8.0)
    ('milliwatts taken for watts, or kJ for J', 'kilowatts taken for watts, or mJ for J', None)
    """
    for factor, meanings in _FACTORS.items():
        off = max(ratio, 1.0 / ratio) / factor
        if 1.0 / _TOLERANCE < off < _TOLERANCE:
            return meanings[ratio < 1.0]
    return None


def integrals(time: Floats, watts: Floats, until: Floats) -> Floats:
    """Return the integral of readings up to each moment, straight between them. [J]"""
    grid = np.union1d(time, until)
    draw = np.interp(grid, time, watts)
    summed = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (draw[1:] + draw[:-1]) / 2)])
    return np.asarray(np.interp(until, grid, summed))
