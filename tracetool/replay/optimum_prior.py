"""Prior on the clock of least energy, for GPUs and programs that were hardly measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_table
from tracetool.model.anchor import Anchor
from tracetool.model.counters import measured_at_several
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of

#: Clock at which most measured work costs the least energy, over the highest clock, by architecture.
_LEAST_ENERGY = prior_table("clock.least_energy")
_PULL = prior_table("clock.pull")


@dataclass(frozen=True)
class UsualOptimum:
    """The best one clock for work on GPUs of a kind, and how much it counts.

    Parameters
    ----------
    clock_mhz : float
        That clock. [MHz]
    pull : float
        Weight of the squared logarithm of the distance from it, against the logarithm of the energy. [1]
    reason : str
        Why what is known of the work does not decide alone.
    """

    clock_mhz: float
    pull: float
    reason: str

    def cost(self, energy_j: Floats, clock_mhz: Floats) -> Floats:
        r"""Return the energy times a penalty for a clock's distance from the common one. Shape (n,). [J]

        .. math:: E' = E \, e^{w \ln^2 (f / f_c)}

        Examples
        --------
        >>> common = UsualOptimum(1000.0, 8.0, "")
        >>> common.cost(np.array([10.0, 10.0]), np.array([1000.0, 1200.0])).round(2)
        array([10.  , 13.05])
        """
        return np.asarray(energy_j * np.exp(self.pull * np.log(clock_mhz / self.clock_mhz) ** 2))

    def note(self) -> str:
        """Return the sentence on the common clock."""
        return (
            f"prior on the clock of least energy: {self.clock_mhz:.0f} MHz, the best common clock measured "
            f"on GPUs of this kind: {self.reason}"
        )


def usual_optimum(
    rows: OperatorColumns, gpu: Gpu, time_s: Floats, conditions: Mapping[str, Any], *, anchored: bool
) -> UsualOptimum | None:
    """Return the common clock that serves as a prior, or None where the evidence needs none or none is known.

    It is needed where no reading of the GPU's voltage is known, and where a program was measured at one
    clock, which does not show its host's share of the time.

    Parameters
    ----------
    rows : OperatorColumns
        n rows.
    time_s : array, shape (n,)
        Total time of each row, by which the majority of the rows is determined. [s]
    conditions : mapping
        With ``power_calibration`` where the user gave one.
    anchored : bool
        Whether measurements are scaled from.
    """
    kind = f"{gpu.architecture}-laptop" if gpu.name.endswith("-laptop") else gpu.architecture
    share = _LEAST_ENERGY.get(kind)
    if share is None or not anchored:
        return None
    power: PowerCalibration = conditions.get("power_calibration") or power_calibration_of(gpu)
    read = (power.voltage or gpu.voltage).measured
    anchor = Anchor.of(rows, gpu)
    several = _most(measured_at_several(rows, anchor), time_s)
    if not read:
        key, reason = (
            ("several" if several else "unread"),
            "no reading of this GPU's voltage over its clocks is known",
        )
    elif _most(anchor.programs(), time_s):
        key, reason = "program", "one clock does not show how much of a program's time is the host's"
        if several:
            reason = "two clocks of a program hardly determine its clock of least energy"
    else:
        return None
    return UsualOptimum(share * gpu.clock_max_mhz, _PULL[key], reason)


def _most(chosen: Bools, time_s: Floats) -> bool:
    """Return whether the chosen rows take more than half of the time."""
    return bool(np.asarray(chosen, np.float64) @ time_s > 0.5 * time_s.sum())
