"""Value of a measurement at a second clock, and which clock that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.hardware.priors import prior_number
from tracetool.replay.optimum_prior import UsualOptimum

#: Share of the variance of a predicted energy's error that is linear in the octaves from the measured clock,
#: as with a wrong division of the time. The rest is a random walk.
_TILT = prior_number("second.tilt")
#: Relative standard deviation of a measured energy.
_READING_SD = prior_number("anchor.power_reading")
#: Curves drawn from the posterior. [1] By definition of that average: the regret converges to a hundredth of
#: it.
_DRAWS: Final = 400
#: Candidate clocks at most. [1] By definition of that search: its grid.
_MOST_CLOCKS: Final = 64
#: Seed of the draws: the same advice for the same input. [1] By definition.
_SEED: Final = 19


@dataclass(frozen=True)
class SecondClock:
    """The clock to measure next.

    Parameters
    ----------
    clock_mhz : float
        Where a second measurement narrows the regret most. [MHz]
    regret_now, regret_then : float
        Energy that the recommended clock is expected to cost above the least, as a share of it: from what
        is measured, and with that measurement too. [1]
    """

    clock_mhz: float
    regret_now: float
    regret_then: float

    def as_record(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return asdict(self)

    def note(self) -> str:
        """Return the sentence that advises it."""
        now, then = (f"{100 * regret:.1f}" for regret in (self.regret_now, self.regret_then))
        if now == then:
            return (
                f"measured at one clock: the clock of least energy found here is expected to take {now} % "
                "more than the true least, and "
                f"a second measurement at {self.clock_mhz:g} MHz would not reduce that"
            )
        return (
            f"measured at one clock: the clock of least energy found here is expected to take {now} % more "
            "than the true least, and "
            f"a second measurement at {self.clock_mhz:g} MHz would reduce that to {then} %"
        )


def second_clock(
    clock_mhz: Floats,
    energy_j: Floats,
    energy_high_j: Floats,
    measured_mhz: float,
    common: UsualOptimum | None = None,
) -> SecondClock | None:
    r"""Return which second clock to measure, or None where fewer than three clocks are known.

    The logarithm of the predicted energy errs by a Gaussian process over :math:`x = \log_2 f` that is zero
    at the measured clock,

    .. math:: k(x, y) = s^2 \left( a (x - x_0)(y - y_0) + (1 - a) \min(|x - x_0|, |y - x_0|) \right)

    (the second term on one side of :math:`x_0` only), with s from the interval of the prediction. Curves are
    drawn; for each clock that could be measured, the posterior mean chooses the clock of least energy, and
    its mean regret decides.

    Parameters
    ----------
    clock_mhz, energy_j, energy_high_j : array, shape (c,)
        Predicted energy and the upper end of its 90 % interval. [MHz], [J]
    measured_mhz : float
        The clock measured. [MHz]
    common : UsualOptimum, optional
        Prior on the recommended clock, which is part of the prior of the energy.

    Examples
    --------
    >>> clocks = np.array([600.0, 800.0, 1000.0, 1200.0, 1400.0])
    >>> advice = second_clock(clocks, np.array([11.0, 10.2, 10.0, 10.6, 12.0]), np.full(5, 14.0), 1400.0)
    >>> advice.clock_mhz < 1400.0, advice.regret_then < advice.regret_now
    (True, True)
    """
    if len(clock_mhz) > _MOST_CLOCKS:
        sampled = np.linspace(0, len(clock_mhz) - 1, _MOST_CLOCKS).round().astype(int)
        clock_mhz, energy_j, energy_high_j = (a[sampled] for a in (clock_mhz, energy_j, energy_high_j))
    if len(clock_mhz) < 3 or not (energy_j > 0).all():
        return None
    x = np.log2(clock_mhz / measured_mhz)
    if (reach := float(np.sqrt((x**2).mean()))) == 0.0:
        return None
    half = np.log(np.maximum(energy_high_j / energy_j, 1.0)) / Z90
    scale = float(np.sqrt((half**2).mean())) / reach
    same_side = np.sign(x)[:, None] * np.sign(x)[None, :] > 0
    random_walk = np.where(same_side, np.minimum(np.abs(x)[:, None], np.abs(x)[None, :]), 0.0)
    covariance = scale**2 * (_TILT * np.outer(x, x) + (1.0 - _TILT) * random_walk)
    rng = np.random.default_rng(_SEED)
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(x)))
    expected = np.log(energy_j if common is None else common.cost(energy_j, clock_mhz))
    curves = expected + rng.standard_normal((_DRAWS, len(x))) @ root.T
    least = curves.min(axis=1)
    now = float((curves[:, np.argmin(expected)] - least).mean())
    readings = curves - expected + _READING_SD * rng.standard_normal(curves.shape)
    gain = covariance / (np.diag(covariance) + _READING_SD**2)[:, None]
    # (draws, measured, clocks): what each second measurement makes of the curve
    posterior = expected + readings[:, :, None] * gain[None, :, :]
    chosen = np.argmin(posterior, axis=2)
    then = (np.take_along_axis(curves, chosen, axis=1) - least[:, None]).mean(axis=0)
    best = int(np.argmin(then))
    return SecondClock(float(clock_mhz[best]), float(np.expm1(now)), float(np.expm1(min(then[best], now))))
