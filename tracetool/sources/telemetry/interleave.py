"""Logs of several GPUs without a column that tells them apart."""

from __future__ import annotations

import polars as pl

#: Readings of one poll lie this much closer together than polls do.
SEPARATION = 5.0
MOST_GPUS = 16


def split_interleaved(time_ns: pl.Series, memory: pl.Series | None = None) -> tuple[pl.Series, str]:
    """Return the device of each row and a note where it had to be guessed.

    Parameters
    ----------
    time_ns : Series of int, shape (n,)
        Time stamps in the order logged. [ns]
    memory : Series, optional
        ``memory.total`` of each row: cards of different size tell themselves apart.

    Notes
    -----
    A poll of k cards writes k rows milliseconds apart, then waits. Rows are given out in turn when
    every poll has the same k and the wait is at least :data:`SEPARATION` times the spacing within.
    """
    import numpy as np  # only logs need it

    n = len(time_ns)
    none = pl.Series("device", np.zeros(n, dtype=np.int32))
    if n < 4:
        return none, ""
    gap = np.diff(time_ns.to_numpy())
    found = 0
    for k in range(2, MOST_GPUS + 1):
        if n < 3 * k:
            break
        inside = np.ones(n - 1, dtype=bool)
        inside[k - 1 :: k] = False
        within, between = gap[inside], gap[~inside]
        if (within >= 0).all() and np.quantile(within, 0.98) * SEPARATION < np.quantile(between, 0.02):
            found = k
            break
    if found:
        device = pl.Series("device", (np.arange(n) % found).astype(np.int32))
        return device, (
            f"{found} GPUs share the log without an index column: rows are dealt to them in turn"
            " (add index or uuid to --query-gpu)"
        )
    if memory is not None and 1 < memory.n_unique() <= MOST_GPUS:
        order = {v: i for i, v in enumerate(memory.unique(maintain_order=True).to_list())}
        device = memory.replace_strict(list(order), list(order.values()), return_dtype=pl.Int32).alias(
            "device"
        )
        return device, f"{len(order)} GPUs share the log without an index column: told apart by memory.total"
    return none, ""
