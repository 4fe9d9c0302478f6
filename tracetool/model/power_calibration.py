"""The coefficients of the power model: few, bounded, each with a unit and an uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tracetool.hardware.priors import prior_number
from tracetool.hardware.voltage import VoltageCurve

#: Counts that cost energy in the core voltage domain. Tensor counts are split by number format. A streamed
#: byte is one of memory's: crossbar, L2, load, registers, and the instructions that move it.
CORE_COUNTS = (
    "tensor_fp64", "tensor_tf32", "tensor_fp16", "tensor_fp8", "tensor_int8", "tensor_fp4",
    "fp32", "fp64", "int", "sfu", "shared", "l2", "stream",
)  # fmt: skip
#: Coefficients of what runs while nothing does: a fixed part, leakage, clock tree.
BASE = ("board_w", "memory_w", "leakage_w_per_v", "clock_w_per_v2_ghz")


@dataclass(frozen=True)
class PowerCalibration:
    """Coefficients of one GPU.

    Energies of the core domain are stated at 1 V and scale with the square of the voltage;
    those of memory and links have their own supply and do not.

    Parameters
    ----------
    board_w : float
        Regulators, fans, refresh: what no clock or voltage changes. [W]
    memory_w : float
        Device memory with nothing to do, at its usual clock; follows the memory clock. [W]
    leakage_w_per_v : float
        Leakage per volt at ``reference_c``. [W/V]
    clock_w_per_v2_ghz : float
        Clock tree of the whole chip, idle. [W/(V^2 GHz)]
    leakage_per_k : float
        Relative growth of leakage per kelvin. [1/K]
    leakage_per_v : float
        Relative growth of leakage per volt above the curve's floor, beyond proportion. [1/V]
    leakage_per_w : float
        Relative growth of leakage per watt drawn beyond idle, in steady state: a chip under load is
        warmer than the idle one its base was read from. Zero where the base was fitted under load. [1/W]
    reference_c : float
        Temperature the leakage is stated at. [C]
    core_pj : mapping of str to float
        Energy of one count of ``CORE_COUNTS`` at 1 V. [pJ]
    active_pj_per_clock_sm : float
        Extra energy per clock of an SM that holds a block, at 1 V: issue, registers, its clock tree. [pJ]
    dram_pj_per_byte, link_pj_per_byte : float
        Energy of a byte through device memory or a link, whole path outside the core domain. [pJ]
    relative_sd : float
        Spread of a kernel's power about the model: the root mean square relative residual on
        kernels the coefficients were not fitted to. [1]
    cap_share : float
        Share of the power limit at which the GPU's governor holds the reading. [1]
    basis : str
        "calibrated" (fitted on this GPU), "transferred" (scaled from others) or "prior".
    carried_from : str
        The GPU whose energies were scaled, where ``basis`` is "transferred".
    voltage : VoltageCurve, optional
        Curve fitted with the coefficients, where it differs from the GPU's own.
    sd : mapping of str to float
        Standard deviation of each coefficient, in its own unit.
    monitored : PowerCalibration, optional
        Coefficients for counts read from a monitor's busy shares. A monitor sees neither integer
        work nor traffic inside the chip, so what it does see costs more per count.
    """

    board_w: float
    memory_w: float
    leakage_w_per_v: float
    clock_w_per_v2_ghz: float
    core_pj: Mapping[str, float]
    active_pj_per_clock_sm: float
    dram_pj_per_byte: float
    link_pj_per_byte: float
    leakage_per_k: float = prior_number("power.leakage_per_k")
    leakage_per_v: float = 0.0
    leakage_per_w: float = 0.0
    reference_c: float = prior_number("power.reference")
    relative_sd: float = prior_number("power.usual_relative_sd")
    cap_share: float = prior_number("power.cap_share")
    basis: str = "prior"
    carried_from: str = ""
    voltage: VoltageCurve | None = None
    sd: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    monitored: PowerCalibration | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickles and copies hold: Python pickles no read-only mapping."""
        return {**self.__dict__, "core_pj": dict(self.core_pj), "sd": dict(self.sd)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        read_only = {name: MappingProxyType(state[name]) for name in ("core_pj", "sd")}
        self.__dict__.update({**state, **read_only})
