"""Operators issued one after another: the host runs ahead of the device, or the device waits for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.replay.host import HostCosts
from tracetool.vocabulary.arrays import Floats


@dataclass(frozen=True)
class Issued:
    """One stream fed by one host thread, at c clocks. Times in seconds."""

    kernel_s: Floats  # (c,) sum of the kernels' times
    makespan_s: Floats  # (c,) first issue to last end
    idle_s: Floats  # (c,) makespan less kernel time
    host_s: float  # time the host needs to issue everything


def issue(duration_s: Floats, counts: Floats, issue_s: Floats, costs: HostCosts) -> Issued:
    r"""Makespan of rows launched in order on one stream.

    Parameters
    ----------
    duration_s : array, shape (n, c)
        Time of one launch of each row at each clock. [s]
    counts : array, shape (n,)
        Launches of each row, one after another. [1]
    issue_s : array, shape (n,)
        Host time of one launch; it does not scale with the clock. [s]
    costs : HostCosts
        Start of a pass, latency from call to kernel, gap between queued kernels.

    Returns
    -------
    Issued
        Kernel time, makespan and idle time per clock. [s]

    Notes
    -----
    With :math:`H_i` the moment the host has issued row i, :math:`l` the latency, :math:`g` the gap
    and :math:`d_i` its time,

    .. math:: E_i = \max(E_{i-1} + g,\; H_i + l) + d_i

    a max-plus recurrence whose solution is a running maximum: no loop over rows. A row of
    :math:`q` equal launches is bound by its first or by its last launch.

    Examples
    --------
    Two kernels of 10 us, 25 us of host each: the device waits for the host at both.

    >>> from tracetool.replay.host import HostCosts
    >>> costs = HostCosts(0.0, 0.0, 0.0, {}, 1.0, 1.0, "")
    >>> made = issue(np.full((2, 1), 10e-6), np.ones(2), np.full(2, 25e-6), costs)
    >>> round(float(made.makespan_s[0] * 1e6), 3), round(float(made.kernel_s[0] * 1e6), 3)
    (60.0, 20.0)
    """
    q = counts[:, None]
    host_last = costs.start_s + np.cumsum(issue_s * counts)
    host_first = host_last - issue_s * np.maximum(counts - 1.0, 0.0)
    queued = duration_s + costs.gap_s
    total = np.cumsum(queued * q, axis=0)
    before = total - queued * q
    ready = np.maximum(
        host_first[:, None] + costs.latency_s - before,
        host_last[:, None] + costs.latency_s + queued - total,
    )
    ready = np.where(q > 0, ready, -np.inf)
    end = total[-1] + np.max(ready, axis=0) - costs.gap_s
    kernel = np.sum(duration_s * q, axis=0)
    makespan = np.maximum(end, kernel)
    return Issued(kernel, makespan, makespan - kernel, float(host_last[-1]))
