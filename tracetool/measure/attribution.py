"""The outcome of an attribution: measured energies, their basis, and their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.measure.attributed_work import WAITING
from tracetool.measure.class_energy import ClassEnergy
from tracetool.measure.logged_work import Covered
from tracetool.measure.naive_estimates import by_model, by_time
from tracetool.measure.observe import Observation
from tracetool.measure.signature_sums import SignatureSums
from tracetool.measure.timeline import ACTIVE_IDLE, IDLE
from tracetool.measure.windows import power_profile

_STATES = [ACTIVE_IDLE, IDLE]


@dataclass(frozen=True)
class Attribution:
    """Measured energy of a run or an activity table.

    Attributes
    ----------
    energy : DataFrame
        One row per device and class: schema ``energy``.
    windows : DataFrame or None
        One row per requested window: schema ``windows``.
    notes, class_notes : tuple of str
        Sentences on the basis of the figures, and those of them that are about single classes.
    alignment, sensor : mapping
        Clock offset and sensor of each device, by its number as text.
    observations : mapping of int to Observation
        Log and timeline of each device, aligned.
    classes : mapping of int to ClassEnergy
        Energies of each device's classes with their covariance.
    origin_ns : int
        Zero of the log's seconds. [ns]
    expected_w : mapping of int to array, shape (classes,)
        Prior power of each device's classes, where a prior was given. [W]
    scopes : mapping
        The run's kernels, copies, gaps and whole: see :mod:`tracetool.measure.measured_scopes`.
    throttled : mapping of int to mapping
        Share of time each device's clock was lowered.
    sums : SignatureSums
        Energies by signature, with their covariance.
    half_shares : mapping of str to float
        Of a run read in windows: half the 90 % interval of each scope, as a share of its energy. [1]
    covered : mapping of int to Covered
        Devices whose log covers only a part of the run.
    verdict : str
        Verdict of the checks of the log, where a device's readings are unusable; else empty.
    """

    energy: pl.DataFrame
    windows: pl.DataFrame | None
    notes: tuple[str, ...]
    alignment: Mapping[str, Any]
    sensor: Mapping[str, Any] = field(default_factory=dict)
    observations: Mapping[int, Observation] = field(default_factory=dict, repr=False)
    classes: Mapping[int, ClassEnergy] = field(default_factory=dict, repr=False)
    origin_ns: int = 0
    expected_w: Mapping[int, Floats] = field(default_factory=dict, repr=False)
    scopes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    throttled: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    sums: SignatureSums = field(default_factory=SignatureSums, repr=False)
    class_notes: tuple[str, ...] = ()
    half_shares: Mapping[str, float] = field(default_factory=dict)
    covered: Mapping[int, Covered] = field(default_factory=dict)
    verdict: str = ""

    def power_profile(self, device: int) -> tuple[Floats, Floats]:
        """Return times and power of a device over its log, reconstructed between readings. [s], [W]"""
        return power_profile(self.observations[device], self.classes[device])

    def controls(self) -> list[dict[str, Any]]:
        """Return each class's measured energy beside two naive estimates: by time and by the prior. [J]

        Both divide the measured energy of all the device's classes of work.
        """
        out: list[dict[str, Any]] = []
        for device, class_energy in self.classes.items():
            k = len(class_energy.seconds) - 2
            seconds, measured = class_energy.seconds[:k], np.nan_to_num(class_energy.energy_j[:k])
            total = float(measured.sum())
            timed = by_time(seconds, total)
            expected = self.expected_w.get(device)
            prior_complete = expected is not None and np.isfinite(expected).all()
            modeled = by_model(seconds, expected, total) if prior_complete and expected is not None else None
            device_energy = self.energy.filter(
                (pl.col("device") == device) & pl.col("class").is_in(_STATES).not_()
            )
            names = [*device_energy["class"].to_list(), WAITING]
            out += [
                {
                    "device": device,
                    "class": names[i] if i < len(names) else str(i),
                    "energy_j": float(measured[i]),
                    "time_share_j": float(timed[i]),
                    "model_share_j": None if modeled is None else float(modeled[i]),
                }
                for i in range(k)
            ]
        return out
