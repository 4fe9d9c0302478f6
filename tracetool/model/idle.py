"""Idle power: a fixed part, leakage and the clock tree."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats, Numbers
from tracetool.hardware.gpu import Gpu
from tracetool.model.power_calibration import PowerCalibration


def core_voltage_v(gpu: Gpu, clock_mhz: Numbers | float, calibration: PowerCalibration) -> Floats:
    """Return the core voltage at a clock: the calibration's curve where it has one, else the GPU's. [V]"""
    curve = calibration.voltage or gpu.voltage
    clock = np.asarray(clock_mhz, np.float64)
    if clock.ndim == 2 and clock.strides[0] == 0 and len(clock) > 1:  # every row at the same clocks
        return np.broadcast_to(curve.at(clock[:1]), clock.shape)
    return curve.at(clock)


def leakage_w(gpu: Gpu, clock_mhz: Numbers | float, calibration: PowerCalibration) -> Floats:
    """Return the leakage of an idle chip at its usual temperature. [W]"""
    return _leakage_at_w(core_voltage_v(gpu, clock_mhz, calibration), gpu, calibration)


def _leakage_at_w(volt: Floats, gpu: Gpu, calibration: PowerCalibration) -> Floats:
    """Return the leakage of an idle chip at a voltage. [W]"""
    if volt.ndim == 2 and volt.strides[0] == 0 and len(volt) > 1:
        return np.broadcast_to(_leakage_at_w(volt[:1], gpu, calibration), volt.shape)
    above = volt - (calibration.voltage or gpu.voltage).floor_v
    return np.asarray(calibration.leakage_w_per_v * volt * np.exp(calibration.leakage_per_v * above))


def leakage_change(calibration: PowerCalibration, temperature_c: Floats) -> Floats:
    r"""Return the relative change of leakage from the reference temperature: :math:`e^{k (T - T_0)} - 1`."""
    rise = np.asarray(temperature_c, np.float64) - calibration.reference_c
    return np.asarray(np.expm1(calibration.leakage_per_k * rise))


def idle_power_w(
    gpu: Gpu,
    clock_mhz: Numbers | float,
    calibration: PowerCalibration,
    temperature_c: Numbers | float | None = None,
    memory_share: Numbers | float = 1.0,
) -> Floats:
    r"""Return the power of an idle GPU whose clock is held.

    .. math:: P = c_0 + c_m f_m / f_{m0} + c_1 V e^{k (T - T_0) + b (V - V_{min})} + c_2 V^2 f

    Parameters
    ----------
    gpu : Gpu
        For its voltage curve.
    clock_mhz : float or array
        Core clock. [MHz]
    calibration : PowerCalibration
        :math:`c_0, c_m, c_1, c_2, k, b, T_0`.
    temperature_c : float or array, optional
        Chip temperature, by default :math:`T_0`; broadcast against the clock. [C]
    memory_share : float or array
        Memory clock over the GPU's usual one; broadcast against the clock.

    Returns
    -------
    array of float, the shape of ``clock_mhz``
        Idle power. [W]
    """
    clock = np.asarray(clock_mhz, np.float64)
    volt = core_voltage_v(gpu, clock, calibration)
    leakage = _leakage_at_w(volt, gpu, calibration)
    if temperature_c is not None:
        rise = np.asarray(temperature_c, np.float64) - calibration.reference_c
        leakage = leakage * np.exp(calibration.leakage_per_k * rise)
    tree = calibration.clock_w_per_v2_ghz * volt**2 * clock / 1e3
    memory = calibration.memory_w * np.asarray(memory_share, np.float64)
    return np.asarray(calibration.board_w + memory + leakage + tree)
