"""What a power sensor does to the power it watches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sensor:
    """One power reading's behavior: ``reading = gain * (filter of power) + offset``.

    The filter is the mean over ``window_s`` ending ``delay_s`` before the update, or, where
    ``lag_s`` is set, a first-order lag of that time constant (and no window).
    """

    name: str  # e.g. "windowed-25"
    update_s: float  # time between two updates of the reading [s]
    window_s: float  # averaging window; 0 with a lag [s]
    delay_s: float = 0.0  # from the end of the window to the update [s]
    lag_s: float = 0.0  # time constant of a first-order lag; 0 without [s]
    gain: float = 1.0  # watts shown per watt drawn [1]
    gain_sd: float = 0.05  # standard deviation of the gain between boards [1]
    offset_w: float = 0.0  # watts shown at no power [W]
    offset_sd_w: float = 2.0  # its standard deviation [W]
    window_sd: float = 0.1  # relative standard deviation of window or lag [1]
    source: str = ""  # where the numbers come from

    @property
    def reach_s(self) -> float:
        """How far back one reading looks. [s]"""
        return self.delay_s + (5.0 * self.lag_s if self.lag_s else self.window_s)
