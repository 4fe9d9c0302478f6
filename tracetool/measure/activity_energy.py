"""Measured energy of any set of activities: the classes' energies summed by the time each set has of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Z90
from tracetool.measure.class_energy import ClassEnergy

#: An unidentified wait may be this share of its collective before that is unidentified too. [1]
_UNCLEAR_SHARE = 0.25
#: A sum is identified when its deviation, the sensor's gain and offset aside, stays below this share of it:
#: its 90 % interval then reaches 3 % either way. [1]
IDENTIFIED = 0.03 / Z90
_UNCLEAR_WAIT = "most of it waits for other ranks, at a power the log does not resolve"


def with_own_waits(class_energy: ClassEnergy, waited_ns: Ints) -> ClassEnergy:
    """Return the energies of whole collectives: those of their transfers and their share of the waits.

    Parameters
    ----------
    class_energy : ClassEnergy
        Of k classes of work, the last of them the waits, then gaps and idle.
    waited_ns : array of int, shape (k - 1,)
        Time that the launches of each class waited for other ranks. [ns]

    Returns
    -------
    ClassEnergy
        Of k - 1 classes, gaps and idle.
    """
    k = len(waited_ns)
    share = waited_ns / max(int(waited_ns.sum()), 1)
    kept_columns = np.delete(np.arange(k + 3), k)
    sums = np.eye(k + 3)[kept_columns]
    sums[:k, k] = share
    seconds, energy = sums @ class_energy.seconds, sums @ class_energy.energy_j
    covariance = sums @ class_energy.covariance @ sums.T
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    ran = np.where(seconds > 0, 1.0, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        prior_j = sums @ (np.nan_to_num(class_energy.energy_j) * class_energy.prior_share)
        prior_share = np.where(energy > 0, prior_j / energy, class_energy.prior_share[kept_columns])
        power = energy / seconds * ran
    before = class_energy.identification
    unclear = np.zeros(k + 2, np.bool_)
    if not before.identified[k]:
        unclear[:k] = share * class_energy.energy_j[k] > _UNCLEAR_SHARE * energy[:k]
    identification = replace(
        before,
        coverage=sums @ before.coverage,
        identified=before.identified[kept_columns] & ~unclear,
        reason=np.where(
            before.identified[kept_columns] & unclear, _UNCLEAR_WAIT, before.reason[kept_columns]
        ),
        group=before.group[kept_columns],
    )
    return replace(
        class_energy,
        seconds=seconds,
        launches=class_energy.launches[kept_columns],
        power_w=power,
        energy_j=energy,
        energy_sd_j=deviation,
        prior_share=np.clip(prior_share, 0.0, 1.0),
        identification=identification,
        covariance=covariance,
        sensor_j=class_energy.sensor_j @ sums.T,
    )


@dataclass(frozen=True)
class SummedEnergy:
    """Energy of g sets of activities of one GPU; NaN where a class of a set was not measured."""

    energy_j: Floats  # (g,)
    low_j: Floats
    high_j: Floats
    identified: Ints  # (g,) 1 where the log separates the set from the rest
    own_deviation_j: Floats  # (g,) without the sensor's gain and offset
    share: Floats  # (g, k + 2) of each class' time
    launch_variance_j2: Floats  # (g,) of the sets' launches being some of their classes'
    classes: ClassEnergy

    @property
    def deviation_j(self) -> Floats:
        """Standard deviation of each sum. (g,) [J]"""
        return np.asarray((self.high_j - self.energy_j) / Z90)

    def covariance_j2(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return the covariance of some sets' energies: whole, and without the sensor's gain and offset.

        Two arrays of shape (rows, rows). [J^2]
        """
        share = self.share[rows]
        covariance = share @ np.nan_to_num(self.classes.covariance) @ share.T
        covariance[np.diag_indices(len(rows))] += self.launch_variance_j2[rows]
        sensor = share @ np.nan_to_num(self.classes.sensor_j).T
        return covariance, covariance - sensor @ sensor.T


def summed_energy(class_energy: ClassEnergy, seconds: Floats) -> SummedEnergy:
    r"""Return the energy of sets of activities from the energies of their classes.

    Parameters
    ----------
    class_energy : ClassEnergy
        Energies of k classes of work, then of gaps and of idle time, with their covariance.
    seconds : array, shape (g, k + 2)
        Time that each set has of each class, moments shared by several activities divided equally. [s]

    Notes
    -----
    With the share :math:`a_{gi} = s_{gi} / S_i` of a class' time :math:`S_i`,

    .. math:: E_g = \sum_i a_{gi} E_i, \quad
        \sigma_g^2 = a_g^\top C\, a_g + \sigma^2 \sum_i a_{gi} (1 - a_{gi}) E_i^2 / N_i

    where C is the covariance of the energies: errors that classes share, of the GPU's gain and offset among
    them, add up and those that cancel between classes the log cannot separate do cancel. The second term is
    that a set has some of a class' :math:`N_i` launches, each of which draws its own power, by
    :math:`\sigma` (``ClassEnergy.launch_spread``) off the class' mean; a set with all of them has none of it.
    """
    whole_s = class_energy.seconds
    ran = seconds > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(ran, seconds / whole_s, 0.0)
    measured = np.isfinite(class_energy.power_w) & (whole_s > 0)
    incomplete = (ran & ~measured).any(axis=1)
    share = np.where(measured, np.nan_to_num(share, posinf=0.0), 0.0)
    energy = share @ np.nan_to_num(class_energy.energy_j)
    covariance = np.nan_to_num(class_energy.covariance)
    variance = np.einsum("gi,ij,gj->g", share, covariance, share, optimize=True)
    k = len(whole_s) - 2
    each_j = np.nan_to_num(class_energy.energy_j[:k]) ** 2 / np.maximum(class_energy.launches[:k], 1.0)
    class_share = np.clip(share[:, :k], 0.0, 1.0)
    launched = class_energy.launch_spread**2 * ((class_share * (1.0 - class_share)) @ each_j)
    deviation = np.sqrt(np.maximum(variance + launched, 0.0))
    sensor = np.square(share @ np.nan_to_num(class_energy.sensor_j).T).sum(axis=1)
    without_sensor = np.sqrt(np.maximum(deviation**2 - sensor, 0.0))
    identified = ((without_sensor < IDENTIFIED * energy) & ~incomplete).astype(np.int64)
    hide = np.where(incomplete, np.nan, 0.0)
    low = np.maximum(energy - Z90 * deviation, 0.0) + hide
    high = energy + Z90 * deviation + hide
    return SummedEnergy(energy + hide, low, high, identified, without_sensor, share, launched, class_energy)
