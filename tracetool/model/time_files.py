"""Time coefficients of a GPU: its own calibration, else those of the nearest architecture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from tracetool.families.law import Law
from tracetool.families.pricing import laws
from tracetool.hardware.architecture import generations_apart, load_architecture
from tracetool.hardware.coefficient_files import CalibrationFile, calibrated_gpus, own_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.calibration_scope import fitted_to
from tracetool.model.time_calibration import TimeCalibration, spread_key

_NEAR, _SLOWED = prior_number("carried_time.near"), prior_number("carried_time.slowed")
_WEIGHT, _LIMITED = prior_number("carried_time.weight"), prior_number("carried_time.limited")
#: What a transfer adds to either side of a law's band, ln of a factor, by law.
_TRANSFER_SPREAD: Final = prior_table("carried_time.spread")


def time_calibration_of(gpu: Gpu) -> TimeCalibration:
    """Return the coefficients delivered for a GPU, law by law from the nearest GPU measured."""
    return _cached(gpu.name)


@cache
def _cached(name: str) -> TimeCalibration:
    gpu = load_gpu(name)
    own_file = own_calibration(name, "time")
    donors = tuple(
        (load_gpu(n), file) for n in calibrated_gpus("time") if (file := own_calibration(n, "time"))
    )
    calibration = merged(gpu, own_file, [donor for donor in donors if donor[0].name != name])
    if own_file is None or own_file.delivered:
        return replace(calibration, delivered=frozenset(laws()))
    uncalibrated_laws = frozenset(laws().keys() - own_file.numbers.keys())
    return replace(calibration, delivered=uncalibrated_laws, fitted_to=fitted_to(own_file))


def merged(
    gpu: Gpu, own_file: CalibrationFile | None, donors: Sequence[tuple[Gpu, CalibrationFile]]
) -> TimeCalibration:
    """Return a GPU's coefficients from its own file and, what is missing there, of the nearest architecture.

    Parameters
    ----------
    gpu : Gpu
        The GPU asked about.
    own_file : CalibrationFile, optional
        Its own calibration.
    donors : sequence of (Gpu, CalibrationFile)
        Other calibrated GPUs. Coefficients are clocks, shares of peaks and microseconds, so that
        they carry over; the geometric mean of the GPUs near is taken, nearer ones weighing more.
    """
    coefficients: dict[str, Mapping[str, float]] = {}
    spread: dict[str, tuple[float, float]] = {}
    basis: dict[str, str] = {}
    for law in laws().values():
        if law.other_kernels:
            counterpart = load_architecture(gpu.architecture).other_kernels
            made_for = counterpart.architecture if counterpart is not None else ""
            near = [(g, f, 0.0) for g, f in donors if g.architecture == made_for and f.section(law.parent)]
            if near:
                coefficients[law.name] = _mean(
                    law, [_read(f, law, law.parent)[0] for _, f, _ in near], [0.0] * len(near)
                )
                basis[law.name] = f"transferred from {', '.join(g.name for g, *_ in near)}"
            continue
        if own_file is not None and own_file.section(law.name):
            coefficients[law.name], bands = _read(own_file, law)
            spread |= {spread_key(law.name, kind): band for kind, band in bands.items()}
            basis[law.name] = "calibrated"
            continue
        near = _nearest(gpu, law.name, donors)
        if near:
            donor_values = [_read(file, law) for _, file, _ in near]
            mean = _mean(law, [f[0] for f in donor_values], [distance for *_, distance in near])
            if all(g.vendor != gpu.vendor for g, *_ in near):
                mean = _of_vendor(law, mean, gpu)
            coefficients[law.name] = _limited(law, mean, gpu)
            spread |= _widened(law, [f[1] for f in donor_values])
            basis[law.name] = f"transferred from {', '.join(g.name for g, *_ in near)}"
    for law in laws().values():
        if law.name not in coefficients and law.parent in coefficients:
            coefficients[law.name] = _limited(law, law.lent(coefficients[law.parent]), gpu)
            basis[law.name] = basis[law.parent].replace("calibrated", "transferred from " + law.parent)
            if not law.other_kernels and law.parent in spread:
                more = _TRANSFER_SPREAD.get(law.name, _TRANSFER_SPREAD["otherwise"])
                low, high = spread[law.parent]
                spread[law.name] = (low - more, high + more)
    return TimeCalibration(
        MappingProxyType(coefficients), MappingProxyType(spread), "prior", MappingProxyType(basis)
    )


#: Coefficients that are shares of the memory's peak. [1] By definition here.
_OF_MEMORY: Final = ("dram_efficiency", "vector_efficiency")


def _limited(law: Law, lent: Mapping[str, float], gpu: Gpu) -> Mapping[str, float]:
    """Return coefficients that other GPUs lend, none above what a chip itself draws from its memory."""
    if gpu.dram_efficiency >= _LIMITED:
        return lent
    shares = {name: lent.get(name, law.priors[name].value) for name in _OF_MEMORY if name in law.priors}
    capped = {name: min(share, gpu.dram_efficiency) for name, share in shares.items()}
    return MappingProxyType({**lent, **capped})


def _of_vendor(law: Law, lent: Mapping[str, float], gpu: Gpu) -> Mapping[str, float]:
    """Return coefficients that other vendors' GPUs lend, with those that differ on this vendor's."""
    values = dict(lent)
    for key, own_values in law.by_vendor.items():
        vendor, _, kind = key.partition("/")
        if vendor == gpu.vendor and (not kind or _is_of(gpu, kind)):
            values |= own_values
    if "dram_efficiency" in law.priors:
        lent_share = values.get("dram_efficiency", law.priors["dram_efficiency"].value)
        values["dram_efficiency"] = math.sqrt(lent_share * min(lent_share, gpu.dram_efficiency))
    return MappingProxyType(values)


def _is_of(gpu: Gpu, kind: str) -> bool:
    """Return whether a GPU's warps have so many lanes, or it is of an architecture or a later one like it."""
    if kind.isdecimal():
        return int(kind) == gpu.warp_size
    first, own = load_architecture(kind), load_architecture(gpu.architecture)
    lanes = first.shared["compute"]["warp_size"].value
    return lanes == gpu.warp_size and own.generation.value >= first.generation.value


def _read(
    file: CalibrationFile, law: Law, section: str = ""
) -> tuple[Mapping[str, float], Mapping[str, tuple[float, float]]]:
    """Return a law's coefficients and its bands by kind, that of all rows under ""; or of a section named."""
    numbers = file.section(section or law.name)
    values = {k: numbers[k].value for k in law.priors if k in numbers}
    bands = {"": law.spread}
    for kind in ("", *law.kinds):
        low, high = (f"spread_{side}_{kind}".rstrip("_") for side in ("low", "high"))
        if low in numbers and high in numbers:
            bands[kind] = (numbers[low].value, numbers[high].value)
    return MappingProxyType(values), MappingProxyType(bands)


def _widened(law: Law, donors: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """Return the widest of some GPUs' bands of each kind, and what a transfer adds to them."""
    widened, more = {}, _TRANSFER_SPREAD.get(law.name, _TRANSFER_SPREAD["otherwise"])
    for kind in {k for bands in donors for k in bands}:
        have = [bands.get(kind, bands[""]) for bands in donors]
        low, high = min(b[0] for b in have), max(b[1] for b in have)
        widened[spread_key(law.name, kind)] = (low - more, high + more)
    return widened


def _mean(law: Law, sets: Sequence[Mapping[str, float]], distances: Sequence[float]) -> Mapping[str, float]:
    """Return geometric means that weigh near GPUs more; of sizes and habits, the nearest GPU's."""
    means: dict[str, float] = {}
    for name, coefficient in law.priors.items():
        carried_values = [
            (s[name], 1.0 / (_WEIGHT + distance))
            for s, distance in zip(sets, distances, strict=True)
            if name in s
        ]
        if carried_values and coefficient.carried:
            values, weights = np.array(carried_values).T
            mean = np.exp(np.average(np.log(np.maximum(values, 1e-12)), weights=weights))
            means[name] = float(values[0] if coefficient.choices else mean)
    return MappingProxyType(means)


def _nearest(
    gpu: Gpu, law: str, donors: Sequence[tuple[Gpu, CalibrationFile]]
) -> list[tuple[Gpu, CalibrationFile, float]]:
    """Return the nearest GPUs, the nearest first, with the difference of their ages."""
    ordered = [(_distance(gpu, g, f), g.name, g, f) for g, f in donors if f.section(law)]
    if not ordered:
        return []
    ordered.sort(key=lambda one: one[:2])
    least = ordered[0][0]
    reach = least + _NEAR if least > 0 else 0.0
    return [(g, f, distance) for distance, _, g, f in ordered if distance <= reach]


def _distance(gpu: Gpu, donor: Gpu, file: CalibrationFile) -> float:
    slowed = _SLOWED if file.about.get("slowed_by_power_limit") else 0.0
    return generations_apart(gpu.architecture, donor.architecture) + slowed
