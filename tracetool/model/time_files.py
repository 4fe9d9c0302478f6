"""Time coefficients of a GPU: its own calibration where there is one, else those of its kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np

from tracetool.hardware.calibrated import CalibrationFile, calibrated_gpus, own_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.laws.law import Law
from tracetool.model.laws.registry import laws
from tracetool.model.time_calibration import TimeCalibration

#: Architectures from old to new: coefficients come from the nearest one that was measured.
AGE = {
    "kepler": 0, "maxwell": 1, "pascal": 2, "volta": 3, "turing": 4, "ampere-ga100": 5,
    "ampere-ga10x": 5.2, "ada": 6, "hopper": 7, "blackwell": 8, "cdna1": 4, "cdna2": 5, "cdna3": 7,
    "cdna4": 8,
}  # fmt: skip
#: Boards this much farther than the nearest one still count as near, unless that is of the same architecture.
NEAR = 1.2
#: What a transfer adds to the spread of a calibrated law: ln of a factor at 90 %.
TRANSFER_SPREAD = 0.25


def time_calibration_of(gpu: Gpu) -> TimeCalibration:
    """Return the coefficients delivered for a GPU, law by law from the nearest board measured."""
    return _cached(gpu.name)


@cache
def _cached(name: str) -> TimeCalibration:
    gpu = load_gpu(name)
    own = own_calibration(name, "time")
    donors = tuple(
        (load_gpu(n), file) for n in calibrated_gpus("time") if (file := own_calibration(n, "time"))
    )
    return merged(gpu, own, [d for d in donors if d[0].name != name])


def merged(
    gpu: Gpu, own: CalibrationFile | None, donors: Sequence[tuple[Gpu, CalibrationFile]]
) -> TimeCalibration:
    """Return a GPU's coefficients from its own file and, for what that lacks, its nearest kin's.

    Parameters
    ----------
    gpu : Gpu
        The GPU asked about.
    own : CalibrationFile, optional
        Its own calibration.
    donors : sequence of (Gpu, CalibrationFile)
        Other calibrated boards. Coefficients are clocks, shares of peaks and microseconds, so that
        they carry over; the geometric mean of the boards near is taken.
    """
    coefficients: dict[str, Mapping[str, float]] = {}
    spread: dict[str, tuple[float, float]] = {}
    basis: dict[str, str] = {}
    for law in laws().values():
        if own is not None and own.section(law.name):
            coefficients[law.name], spread[law.name] = _read(own, law)
            basis[law.name] = "calibrated"
            continue
        near = _nearest(gpu, law.name, donors)
        if near:
            found = [_read(file, law) for _, file in near]
            coefficients[law.name] = _mean(law, [f[0] for f in found])
            low, high = min(f[1][0] for f in found), max(f[1][1] for f in found)
            spread[law.name] = (low - TRANSFER_SPREAD, high + TRANSFER_SPREAD)
            basis[law.name] = f"transferred from {', '.join(g.name for g, _ in near)}"
    for law in laws().values():
        if law.name not in coefficients and law.parent in coefficients:
            coefficients[law.name] = coefficients[law.parent]
            basis[law.name] = basis[law.parent].replace("calibrated", "transferred from " + law.parent)
    return TimeCalibration(
        MappingProxyType(coefficients), MappingProxyType(spread), "prior", MappingProxyType(basis)
    )


def _read(file: CalibrationFile, law: Law) -> tuple[Mapping[str, float], tuple[float, float]]:
    numbers = file.section(law.name)
    values = {k: numbers[k].value for k in law.priors if k in numbers}
    low = numbers["spread_low"].value if "spread_low" in numbers else law.spread[0]
    high = numbers["spread_high"].value if "spread_high" in numbers else law.spread[1]
    return MappingProxyType(values), (low, high)


def _mean(law: Law, sets: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Return the geometric mean of coefficients; of sizes and habits, the first board's."""
    made: dict[str, float] = {}
    for name, coefficient in law.priors.items():
        values = [s[name] for s in sets if name in s]
        if values:
            made[name] = (
                values[0]
                if coefficient.choices
                else float(np.exp(np.mean(np.log(np.maximum(values, 1e-12)))))
            )
    return MappingProxyType(made)


def _nearest(
    gpu: Gpu, law: str, donors: Sequence[tuple[Gpu, CalibrationFile]]
) -> list[tuple[Gpu, CalibrationFile]]:
    able = [(g, f) for g, f in donors if f.section(law)]
    if not able:
        return []
    age = AGE.get(gpu.architecture.lower(), 5)
    distance = [
        abs(AGE.get(g.architecture.lower(), 5) - age) + 4.0 * (g.vendor != gpu.vendor) for g, _ in able
    ]
    least = min(distance)
    reach = least + NEAR if least > 0 else 0.0
    return [pair for pair, d in zip(able, distance, strict=True) if d <= reach]
