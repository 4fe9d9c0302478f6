"""A log integrated as it is, without a sensor's model: what most meters do, a control of attributions."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats


def naive_energy(time_s: Floats, power_w: Floats, start_s: Floats, end_s: Floats) -> Floats:
    """Return the energy of windows by integrating the log as if readings were instantaneous. Shape (w,). [J]

    Readings count for the time stamped; windows beyond the log take its first or last value.
    """
    edges = np.concatenate([[0.0], np.cumsum(0.5 * (power_w[1:] + power_w[:-1]) * np.diff(time_s))])

    def until(at: Floats) -> Floats:
        inside = np.interp(at, time_s, edges)
        i = np.clip(np.searchsorted(time_s, at) - 1, 0, len(time_s) - 2)
        share = np.clip((at - time_s[i]) / np.maximum(np.diff(time_s)[i], 1e-12), 0.0, 1.0)
        power_at_w = power_w[i] + share * (power_w[i + 1] - power_w[i])
        within = (at > time_s[0]) & (at < time_s[-1])
        exact = edges[i] + 0.5 * (power_w[i] + power_at_w) * (at - time_s[i])
        before = np.minimum(at - time_s[0], 0.0) * power_w[0]
        after = np.maximum(at - time_s[-1], 0.0) * power_w[-1]
        return np.asarray(np.where(within, exact, inside) + before + after)

    return np.asarray(until(end_s) - until(start_s))
