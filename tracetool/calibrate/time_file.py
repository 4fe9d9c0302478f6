"""Write time coefficients as a calibration file a person can read and the model reads back."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tracetool.calibrate.time import LawFit, TimeFit
from tracetool.families.pricing import laws


def time_toml(fit: TimeFit, *, about: Mapping[str, str | float], source: str) -> str:
    """Return the text of a time calibration.

    Parameters
    ----------
    fit : TimeFit
        What was fitted.
    about : mapping
        Further lines of ``[about]``: the data and the command that made it.
    source : str
        Where the measurements come from: a name of the references.
    """
    lines = ["[about]", f'title = "Time of {fit.gpu}"', 'basis = "calibrated"']
    lines += [f"{k} = {_plain(v)}" for k, v in about.items()]
    for name, law_fit in fit.laws.items():
        for key, value in (("mape", law_fit.mape_percent), ("mdape", law_fit.mdape_percent)):
            lines.append(f"held_out_{key}_percent_{name} = {_rounded(value, 3)!r}")
        lines.append(f"interval_holds_percent_{name} = {_rounded(law_fit.coverage_percent, 3)!r}")
        lines.append(f"rows_{name} = {law_fit.rows}")
    for name, law_fit in fit.laws.items():
        lines += ["", f"[{name}]", *_section(name, law_fit, source)]
    return "\n".join(lines) + "\n"


def _section(name: str, law_fit: LawFit, source: str) -> list[str]:
    lines = []
    for key, coefficient in laws()[name].priors.items():
        value = law_fit.values[key]
        if not coefficient.fitted and not coefficient.choices:
            continue
        entry = (
            f'value = {_rounded(value)!r}, unit = "{coefficient.unit}", kind = "fitted", source = "{source}"'
        )
        if key in law_fit.low:
            entry += f", low = {_rounded(law_fit.low[key])!r}, high = {_rounded(law_fit.high[key])!r}"
        lines.append(f"{key} = {{ {entry} }}")
    for kind, band in law_fit.spread.items():
        for side, value in zip(("low", "high"), band, strict=True):
            key = f"spread_{side}_{kind}".rstrip("_")
            lines.append(
                f'{key} = {{ value = {_rounded(value)!r}, unit = "1", kind = "fitted", source = "{source}" }}'
            )
    return lines


def _rounded(value: float, digits: int = 5) -> float:
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(float(value), digits - 1 - math.floor(math.log10(abs(value))))


def _plain(value: str | float) -> str:
    if isinstance(value, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else " " for c in value) + '"'
    return repr(value)
