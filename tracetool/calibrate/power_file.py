"""Write power coefficients as a calibration file a person can read and the model reads back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tracetool.calibrate.power_fit import PowerFit
from tracetool.calibrate.power_rows import COEFFICIENTS
from tracetool.calibrate.power_sweep import SweepFit
from tracetool.core.interval import Z90
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.memory_efficiency import MemoryEfficiency
from tracetool.model.power_calibration import BASE, PowerCalibration

_UNITS: Final = {
    "board_w": "W", "memory_w": "W", "leakage_w_per_v": "W/V", "clock_w_per_v2_ghz": "W/(V^2 GHz)",
    "active_pj_per_clock_sm": "pJ/clk/SM", "dram_pj_per_byte": "pJ/B", "link_pj_per_byte": "pJ/B",
    "shared_pj": "pJ/B", "l2_pj": "pJ/B", "stream_pj": "pJ/B", "int_pj": "pJ/op", "sfu_pj": "pJ/op",
}  # fmt: skip
#: Half-width of the knee of a voltage fitted to a few kernels, relative: with it, no voltage was read.
_KNEE_OPEN: Final = 0.15
#: A coefficient of which the rows removed less than this share of the prior's variance is left to the prior.
LEAST_DATA_SHARE: Final = 0.15
_OUTSIDE_CORE: Final = frozenset({*BASE, "dram_pj_per_byte", "link_pj_per_byte"})


@dataclass(frozen=True)
class Fitted:
    """The fit behind one section of a file: ``power`` (operators' counts), ``monitor`` or ``sustained``.

    With ``core_only`` base, memory, growth of leakage and spread are left to what the section narrows.
    """

    fit: PowerFit
    core_only: bool = False


def calibration_toml(
    *,
    about: Mapping[str, str | float],
    source: str,
    fits: Mapping[str, Fitted],
    sweep: SweepFit | None = None,
    voltage: VoltageCurve | None = None,
    efficiency: MemoryEfficiency | None = None,
) -> str:
    """Return the text of a calibration file.

    The base is written whole. Other coefficients the rows hardly determine are left out, so that
    they stay the prior's and follow it.

    Parameters
    ----------
    about : mapping
        What ``[about]`` says: title, basis, errors, how it was made.
    source : str
        Where the measurements come from.
    fits : mapping of section to Fitted
        Coefficients by section.
    sweep : SweepFit, optional
        Base and voltage curve from sweeps.
    voltage : VoltageCurve, optional
        Curve the coefficients hold for; by default the sweep's.
    efficiency : MemoryEfficiency, optional
        Memory efficiency fitted beside the coefficients.
    """
    lines = ["[about]", *(f"{k} = {_plain(v)}" for k, v in about.items())]
    if sweep is not None:
        lines += ["", "[base]"]
        lines += [_entry(n, float(v), _UNITS[n], source) for n, v in zip(BASE, sweep.base, strict=True)]
        lines.append(_entry("leakage_per_v", sweep.leakage_per_v, "1/V", source))
        if sweep.loaded:
            lines.append(_entry("leakage_per_w", sweep.leakage_per_w, "1/W", source))
    for section, fitted in fits.items():
        lines += ["", f"[{section}]", *_coefficients(fitted, source)]
    curve = voltage or (sweep.voltage if sweep is not None else None)
    if curve is not None:
        lines += _voltage(curve, source)
    if efficiency is not None:
        lines += ["", "[memory_efficiency]", _entry("clock_mhz", efficiency.clock_mhz, "MHz", source)]
        if efficiency.start_mhz > 0:
            lines.append(_entry("start_mhz", efficiency.start_mhz, "MHz", source))
        if efficiency.floor > 0:
            lines.append(_entry("floor", efficiency.floor, "1", source))
    return "\n".join(lines) + "\n"


def _coefficients(fitted: Fitted, source: str) -> list[str]:
    fit, lines = fitted.fit, []
    for name, value, sd, data_share in zip(COEFFICIENTS, fit.values, fit.sd, fit.data_share, strict=True):
        if fitted.core_only and name in _OUTSIDE_CORE:
            continue
        if data_share >= LEAST_DATA_SHARE or name in BASE:
            low, high = max(0.0, value - Z90 * sd), value + Z90 * sd
            lines.append(_entry(name, value, _UNITS.get(name, "pJ/FLOP"), source, (low, high)))
    if fitted.core_only:
        return lines
    lines.append(_entry("leakage_per_w", fit.calibration.leakage_per_w, "1/W", source))
    lines.append(_entry("relative_sd", fit.calibration.relative_sd, "1", source))
    if fit.calibration.cap_share != PowerCalibration.cap_share:
        lines.append(_entry("cap_share", fit.calibration.cap_share, "1", source))
    return lines


def _voltage(curve: VoltageCurve, source: str) -> list[str]:
    knee = curve.knee_mhz
    open_knee = None if curve.measured else (knee * (1.0 - _KNEE_OPEN), knee * (1.0 + _KNEE_OPEN))
    return [
        "",
        "[voltage]",
        _entry("floor_v", curve.floor_v, "V", source),
        _entry("knee_mhz", knee, "MHz", source, open_knee),
        _entry("slope_v_per_ghz", curve.slope_v_per_ghz, "V/GHz", source),
        _entry("curve_v_per_ghz2", curve.curve_v_per_ghz2, "V/GHz^2", source),
        _entry("max_v", curve.max_v, "V", source),
    ]


def _entry(
    name: str, value: float, unit: str, source: str, interval: tuple[float, float] | None = None
) -> str:
    fields = [
        f"value = {_plain(_rounded(value))}",
        f'unit = "{unit}"',
        'kind = "fitted"',
        f"source = {_plain(source)}",
    ]
    if interval is not None:
        fields += [f"low = {_plain(_rounded(interval[0]))}", f"high = {_plain(_rounded(interval[1]))}"]
    return f"{name} = {{ {', '.join(fields)} }}"


def _rounded(value: float, digits: int = 5) -> float:
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def _plain(value: str | float) -> str:
    if isinstance(value, str):
        printable = "".join(c if c.isprintable() and c not in '"\\' else " " for c in value)
        return f'"{printable}"'
    return repr(float(value))
