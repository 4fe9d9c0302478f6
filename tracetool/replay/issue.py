"""Operators issued by one host thread onto one stream, pass after pass: host or device sets the pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.replay.host import HostCosts

#: How sharply the longer of host and device takes over: idle times of a host at par with the device cost an
#: eighth, as its time varies from operator to operator and the queue runs dry now and then.
SHARPNESS: Final = 6.0


@dataclass(frozen=True)
class Issued:
    """One stream fed by one host thread, at c clocks. Times of one pass in seconds."""

    kernel_s: Floats  # (c,) sum of the kernels' times
    makespan_s: Floats  # (c,) from one pass to the next
    idle_s: Floats  # (c,) makespan less kernel time
    host_s: float  # time the host needs to issue everything


def issue(duration_s: Floats, counts: Floats, issue_s: Floats, costs: HostCosts) -> Issued:
    r"""Makespan of rows launched in order on one stream, one pass behind the other.

    Parameters
    ----------
    duration_s : array, shape (n, c)
        Time of one launch of each row at each clock. [s]
    counts : array, shape (n,)
        Launches of each row. [1]
    issue_s : array, shape (n,)
        Host time of one launch; it does not scale with the clock. [s]
    costs : HostCosts
        Start of a pass, gap between queued kernels.

    Returns
    -------
    Issued
        Kernel time, makespan and idle time per clock. [s]

    Notes
    -----
    The host does not wait for a pass to end before it issues the next. Where it is the faster, it runs
    ahead and its start of a pass is hidden; where the device is, each kernel waits for its launch. With
    the host's time :math:`H = h_0 + \sum_i q_i h_i` and the device's :math:`K = \sum_i q_i (d_i + g)`,

    .. math:: T = (H^6 + K^6)^{1/6}

    Examples
    --------
    Two kernels of 10 us, 25 us of host each: the device waits for the host.

    >>> from tracetool.replay.host import HostCosts
    >>> costs = HostCosts(0.0, 0.0, 0.0, {}, 1.0, 1.0, "")
    >>> made = issue(np.full((2, 1), 10e-6), np.ones(2), np.full(2, 25e-6), costs)
    >>> round(float(made.makespan_s[0] * 1e6), 1), round(float(made.kernel_s[0] * 1e6), 1)
    (50.0, 20.0)
    """
    host = costs.start_s + float(np.sum(issue_s * counts))
    kernel = counts @ duration_s
    device = kernel + costs.gap_s * counts.sum()
    longest = np.maximum(device, host)
    ratio = np.divide(np.minimum(device, host), longest, out=np.zeros_like(longest), where=longest > 0)
    makespan = longest * (1.0 + ratio**SHARPNESS) ** (1.0 / SHARPNESS)
    return Issued(kernel, makespan, makespan - kernel, host)
