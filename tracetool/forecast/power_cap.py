"""A forecast under a power cap: the mean of all its steps is held, by lower clocks and longer times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tracetool.forecast.figures import Forecast
from tracetool.forecast.pricing import PricedPass
from tracetool.forecast.steps import HostTime, Step, compose

#: Halvings of the cap steps are held to, where together they draw more than each. [1] Down to 1e-6 of it.
_HALVINGS: Final = 20
#: A power this far above the cap is above it. [1] Below the digits that are printed.
_ABOVE: Final = 1.0001
#: What a cap is that the GPU draws more than at any clock.
NOT_KEPT: Final = "is not kept"


@dataclass(frozen=True)
class CappedPasses:
    """The passes of a case at falling clocks, their hosts, and the cap of one GPU.

    Parameters
    ----------
    passes : sequence of PricedPass
        Each at one clock or more: a governor can slow those alone that have several.
    hosts : sequence of HostTime
        The host's time of each.
    cap_w : float
        Mean power the governor of one GPU holds. [W]
    figures : callable
        Returns the figures, given the passes as they run.
    """

    passes: Sequence[PricedPass]
    hosts: Sequence[HostTime]
    cap_w: float
    figures: Callable[[Sequence[Step]], Forecast]

    def at(self, cap_w: float) -> Forecast:
        """Return the forecast with the mean of each step held to a cap."""
        steps = [compose(*one, cap_w) for one in zip(self.passes, self.hosts, strict=True)]
        return self.figures(steps)

    def is_over(self, forecast: Forecast) -> bool:
        """Return whether a forecast draws more than the cap."""
        return mean_power_w(forecast) > self.cap_w * _ABOVE

    def forecast(self) -> Forecast:
        """Return the forecast at the highest clocks that hold the mean of all under the cap.

        What runs beside a step, such as an exchange beside the passes of training, adds to its power: then
        each step is held further down. Where not even the lowest clock keeps the cap its figures stand:
        energy is never less than the work takes.
        """
        free = self.at(self.cap_w)
        if not self.is_over(free):
            return free
        lowest = self.at(0.0)
        if self.is_over(lowest):
            return lowest
        low_w, high_w, kept = 0.0, self.cap_w, lowest
        for _ in range(_HALVINGS):
            middle_w = (low_w + high_w) / 2.0
            if self.is_over(tried := self.at(middle_w)):
                high_w = middle_w
            else:
                low_w, kept = middle_w, tried
        return kept


def mean_power_w(forecast: Forecast) -> float:
    """Return the mean power of one GPU. [W]"""
    return forecast.figures["power_w"].value / forecast.gpus


def not_kept(forecast: Forecast, limit_w: float) -> tuple[str, ...]:
    """Return a note where a GPU draws more than its power limit at the lowest clock."""
    power_w = mean_power_w(forecast)
    if power_w <= limit_w * _ABOVE:
        return ()
    drawn = f"{power_w:.4g} W at its lowest clock ({forecast.clock_mhz:.4g} MHz)"
    return (f"a cap of {limit_w:g} W {NOT_KEPT}: the GPU draws {drawn}; figures are of that clock",)
