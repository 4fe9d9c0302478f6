"""Intervals of measured sums over signatures: shared errors add up, those that cancel do cancel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.activity_energy import summed_energy
from tracetool.measure.class_energy import ClassEnergy


@dataclass(frozen=True)
class SignatureSums:
    """Measured energies of a run's signatures on each GPU, with the covariance of their errors.

    Parameters
    ----------
    signature : mapping of int to array of int, shape (k,)
        The signature of each class of work, by device.
    classes : mapping of int to ClassEnergy
        Energies of those k classes, then of gaps and of idle time, by device.
    """

    signature: Mapping[int, Ints] = field(default_factory=dict)
    classes: Mapping[int, ClassEnergy] = field(default_factory=dict)

    def half_shares(self, seconds: Mapping[int, Floats]) -> Floats:
        """Return half the 90 % interval of sums, as a share of each; NaN where a sum is zero.

        Parameters
        ----------
        seconds : mapping of int to array, shape (g, k + 2)
            Time that each of g sums has of each class, by device; of what was not measured it is left out.
            [s] Errors of GPUs are independent.
        """
        energy: Floats | None = None
        square: Floats | None = None
        for device, device_seconds in seconds.items():
            classes = self.classes[device]
            measured = np.isfinite(classes.power_w) & (classes.seconds > 0)
            shown = device_seconds.copy()
            if not measured[-1]:  # a log that never idles: as soon after work
                shown[:, -2] += shown[:, -1]
            summed = summed_energy(classes, np.where(measured, shown, 0.0))
            half = summed.high_j - summed.energy_j
            energy = summed.energy_j if energy is None else energy + summed.energy_j
            square = half**2 if square is None else square + half**2
        assert energy is not None
        assert square is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(energy > 0, np.sqrt(square) / energy, np.nan))

    def work_seconds(self, members: pl.DataFrame, names: list[str]) -> dict[int, Floats]:
        """Return the time that named sums have of each class of work, gaps and idle time left at zero. [s]

        Parameters
        ----------
        members : DataFrame
            ``name`` of the sum, ``signature`` and ``member_share``: the share of that signature's launches.
        names : list of str
            The sums, in the order of the rows returned, g.

        Returns
        -------
        dict of int to array, shape (g, k + 2)
            By device.
        """
        row = {name: i for i, name in enumerate(names)}
        place = np.array([row[name] for name in members["name"].to_list()], dtype=np.int64)
        signature, member_share = (
            members["signature"].to_numpy(),
            members["part"].to_numpy().astype(np.float64),
        )
        seconds = {}
        for device, classes in self.classes.items():
            ids = self.signature[device]
            column = np.minimum(np.searchsorted(ids, signature), max(len(ids) - 1, 0))
            of_signature = ids[column] == signature if len(ids) else np.zeros(len(signature), np.bool_)
            share = np.zeros((len(names), len(classes.seconds)))
            np.add.at(share, (place[of_signature], column[of_signature]), member_share[of_signature])
            seconds[device] = share * classes.seconds
        return seconds
