"""Write power coefficients as a calibration file a person can read and the model reads back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tracetool.calibrate.power_fit import PowerFit
from tracetool.calibrate.power_rows import COEFFICIENTS
from tracetool.calibrate.power_sweep import SweepFit
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import BASE, PowerCalibration
from tracetool.model.reach import Reach
from tracetool.vocabulary.interval import Z90

_UNITS: Final = {
    "board_w": "W", "leakage_w_per_v": "W/V", "clock_w_per_v2_ghz": "W/(V^2 GHz)",
    "active_pj_per_clock_sm": "pJ/clk/SM", "dram_pj_per_byte": "pJ/B", "link_pj_per_byte": "pJ/B",
    "shared_pj": "pJ/B", "l2_pj": "pJ/B", "int_pj": "pJ/op", "sfu_pj": "pJ/op",
}  # fmt: skip
#: A coefficient of which the rows removed less than this share of the prior's variance is left to the prior.
TOLD: Final = 0.15


def power_toml(
    fit: PowerFit,
    *,
    about: Mapping[str, str | float],
    source: str,
    section: str = "power",
    reach: Reach | None = None,
) -> str:
    """Return the text of a calibration file.

    The base is written whole. Other coefficients the rows told little of are left out, so that they
    stay the prior's and follow it.

    Parameters
    ----------
    fit : PowerFit
        Coefficients, their spread and what the rows told.
    about : mapping
        What ``[about]`` says: title, basis, errors, how it was made.
    source : str
        Where the measurements come from.
    section : {"power", "monitor"}
        What the counts were: an operator's, or a monitor's.
    reach : Reach, optional
        Memory reach fitted beside the coefficients.
    """
    lines = ["[about]", *(f"{k} = {_plain(v)}" for k, v in about.items()), "", f"[{section}]"]
    for name, value, sd, told in zip(COEFFICIENTS, fit.values, fit.sd, fit.told, strict=True):
        if told >= TOLD or name in BASE:
            unit = _UNITS.get(name, "pJ/FLOP")
            low, high = max(0.0, value - Z90 * sd), value + Z90 * sd
            lines.append(_entry(name, value, unit, source, (low, high)))
    lines.append(_entry("relative_sd", fit.calibration.relative_sd, "1", source))
    if fit.calibration.cap_share != PowerCalibration.cap_share:
        lines.append(_entry("cap_share", fit.calibration.cap_share, "1", source))
    if fit.calibration.voltage is not None:
        lines += _voltage(fit.calibration.voltage, source)
    return "\n".join([*lines, *_reach(reach, source)]) + "\n"


def sweep_toml(
    fit: SweepFit, *, about: Mapping[str, str | float], source: str, reach: Reach | None = None
) -> str:
    """Return the text of a calibration file from a sweep: the base and the voltage curve alone."""
    lines = ["[about]", *(f"{k} = {_plain(v)}" for k, v in about.items()), "", "[base]"]
    for name, value in zip(COEFFICIENTS[:3], fit.base, strict=True):
        lines.append(_entry(name, float(value), _UNITS[name], source))
    lines += _voltage(fit.voltage, source)
    return "\n".join([*lines, *_reach(reach, source)]) + "\n"


def _reach(reach: Reach | None, source: str) -> list[str]:
    if reach is None:
        return []
    lines = ["", "[reach]", _entry("clock_mhz", reach.clock_mhz, "MHz", source)]
    if reach.low_factor > 1:
        lines.append(_entry("low_mhz", reach.low_mhz, "MHz", source))
        lines.append(_entry("low_factor", reach.low_factor, "1", source))
    return lines


def _voltage(curve: VoltageCurve, source: str) -> list[str]:
    return [
        "",
        "[voltage]",
        _entry("floor_v", curve.floor_v, "V", source),
        _entry("knee_mhz", curve.knee_mhz, "MHz", source),
        _entry("slope_v_per_ghz", curve.slope_v_per_ghz, "V/GHz", source),
        _entry("curve_v_per_ghz2", curve.curve_v_per_ghz2, "V/GHz^2", source),
        _entry("max_v", curve.max_v, "V", source),
    ]


def _entry(
    name: str, value: float, unit: str, source: str, interval: tuple[float, float] | None = None
) -> str:
    parts = [
        f"value = {_plain(_rounded(value))}",
        f'unit = "{unit}"',
        'kind = "fitted"',
        f'source = "{source}"',
    ]
    if interval is not None:
        parts += [f"low = {_plain(_rounded(interval[0]))}", f"high = {_plain(_rounded(interval[1]))}"]
    return f"{name} = {{ {', '.join(parts)} }}"


def _rounded(value: float, digits: int = 5) -> float:
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def _plain(value: str | float) -> str:
    if isinstance(value, str):
        kept = "".join(c if c.isprintable() and c not in '"\\' else " " for c in value)
        return f'"{kept}"'
    return repr(float(value))
