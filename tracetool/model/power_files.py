"""Power coefficients of a GPU: its own calibration where there is one, else priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tracetool.core.interval import Z90
from tracetool.hardware.coefficient_files import CalibrationFile, calibrated_gpus, own_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.number import Number
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import CORE_COUNTS, PowerCalibration
from tracetool.model.power_priors import node_scale, prior_calibration
from tracetool.model.power_transfer import transferred, with_own_base

_SCALARS = (
    "board_w", "memory_w", "leakage_w_per_v", "clock_w_per_v2_ghz",
    "active_pj_per_clock_sm", "dram_pj_per_byte", "link_pj_per_byte",
    "leakage_per_k", "leakage_per_v", "leakage_per_w", "reference_c", "relative_sd", "cap_share",
)  # fmt: skip


def power_calibration_of(gpu: Gpu) -> PowerCalibration:
    """Return the coefficients delivered for a GPU, or priors from its description."""
    return _cached(gpu.name) if gpu is load_gpu(gpu.name) else _power_calibration(gpu)


@cache
def _cached(name: str) -> PowerCalibration:
    return _power_calibration(load_gpu(name))


def _power_calibration(gpu: Gpu) -> PowerCalibration:
    own_file = own_calibration(gpu.name, "power")
    believed = believed_calibration(gpu)
    return believed if own_file is None else calibration_from_file(own_file, believed)


def believed_calibration(gpu: Gpu) -> PowerCalibration:
    """Return coefficients without the GPU's own calibration: carried from other GPUs, else priors.

    A fit starts from these, so that what its rows add can be separated from the prior.
    """
    prior = prior_calibration(gpu)
    monitored = _carried(gpu, "monitor", prior.monitored or prior)
    return replace(_carried(gpu, "power", prior), monitored=monitored)


def _carried(gpu: Gpu, section: str, prior: PowerCalibration) -> PowerCalibration:
    """Return coefficients carried from the nearest GPU fitted for that kind of count, else the prior.

    Nearest is the same architecture, then the same vendor and the closest process.
    """
    fitted = [load_gpu(n) for n in calibrated_gpus("power") if n != gpu.name]
    fitted = [f for f in fitted if f.vendor == gpu.vendor and _file(f.name).section(section)]
    if not fitted:
        return prior

    def distance(donor: Gpu) -> tuple[bool, bool, float, str]:
        apart = abs(np.log(node_scale(donor.node_nm) / node_scale(gpu.node_nm)))
        memory = donor.memory_type != gpu.memory_type
        return donor.architecture != gpu.architecture, memory, float(apart), donor.name

    nearest = min(fitted, key=distance)
    base = prior_calibration(nearest)
    start = base if section == "power" else base.monitored or base
    source = _coefficients(_file(nearest.name).section(section), start)
    return transferred(source, nearest, gpu, prior)


def power_basis(name: str, vendor: str) -> str:
    """Return the ``basis`` of a GPU's coefficients of operators without computing them.

    Parameters
    ----------
    name, vendor : str
        A GPU's name and maker.
    """
    own_file = own_calibration(name, "power")
    if own_file is not None and own_file.section("power"):
        return str(own_file.about.get("basis", "calibrated"))
    fitted = (n for n in calibrated_gpus("power") if n != name and _file(n).section("power"))
    return "transferred" if any(load_gpu(n).vendor == vendor for n in fitted) else "prior"


def power_promise(power: PowerCalibration) -> str:
    """Return the source of the coefficients and the expected error of power, and of what, in one line."""
    origin = f" from {power.carried_from}" if power.carried_from else ""
    mean, within = 100 * np.sqrt(2 / np.pi) * power.relative_sd, 100 * Z90 * power.relative_sd
    return (
        f"power coefficients: {power.basis}{origin}; expected power error: mean {mean:.0f} %, 90th "
        f"percentile {within:.0f} % (programs and long loops; readings of single short operators err more)"
    )


def _file(name: str) -> CalibrationFile:
    calibration = own_calibration(name, "power")
    assert calibration is not None
    return calibration


def calibration_from_file(file: CalibrationFile, prior: PowerCalibration) -> PowerCalibration:
    """Return the coefficients of a calibration file; those it does not state are the prior's.

    ``[base]`` holds for both kinds of count; ``[power]`` and ``[monitor]`` may say more. ``[sustained]``
    narrows carried coefficients of operators' counts by what the GPU was seen to run within its limit;
    they stay carried ones.
    """
    basis = str(file.about.get("basis", "calibrated"))
    curve = _curve(file.section("voltage")) or prior.voltage
    base = file.section("base")
    by_count = {}
    for section, start in (("power", prior), ("monitor", prior.monitored or prior)):
        section_values = file.section(section)
        sure = with_own_base(start) if base and not section_values else start
        narrowed = file.section("sustained") if section == "power" else {}
        read = _coefficients({**base, **narrowed, **section_values}, sure)
        origin = ("", basis) if section_values else (start.carried_from, start.basis)
        by_count[section] = replace(read, voltage=curve, carried_from=origin[0], basis=origin[1])
    return replace(by_count["power"], monitored=by_count["monitor"])


def _coefficients(numbers: Mapping[str, Number], prior: PowerCalibration) -> PowerCalibration:
    values: dict[str, Any] = {k: numbers[k].value if k in numbers else getattr(prior, k) for k in _SCALARS}
    core = {k: numbers[f"{k}_pj"].value if f"{k}_pj" in numbers else prior.core_pj[k] for k in CORE_COUNTS}
    spread = {k: (n.high - n.low) / (2 * Z90) for k, n in numbers.items() if n.high > n.low}
    return PowerCalibration(**values, core_pj=MappingProxyType(core), sd=MappingProxyType(spread))


def _curve(numbers: Mapping[str, Number]) -> VoltageCurve | None:
    if not numbers:
        return None
    return VoltageCurve(
        floor_v=numbers["floor_v"].value,
        knee_mhz=numbers["knee_mhz"].value,
        slope_v_per_ghz=numbers["slope_v_per_ghz"].value,
        curve_v_per_ghz2=numbers["curve_v_per_ghz2"].value,
        max_v=numbers["max_v"].value,
        measured=not numbers["knee_mhz"].high > numbers["knee_mhz"].low,
    )
