"""Ranks of a run's collectives: how many take part, and whether the others' times are in the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.tables.run import Run


def with_ranks(run: Run, rows: OperatorColumns) -> OperatorColumns:
    """Return the rows with the ranks of collectives that state none, and whether they wait for ranks unseen.

    Parameters
    ----------
    run : Run
        The run.
    rows : OperatorColumns
        One row a signature, with ``signature``; ``ranks`` where a profiler or the kernel's name states them.

    Returns
    -------
    OperatorColumns
        With ``ranks``: as all others of the run state, else as many as its GPUs that run collectives, where
        several do, else as many as the profiler counts in the job. ``keeps_waits`` is 1 for collectives of a
        run of one such GPU: what they waited for the others is in their time. The same rows where the run
        has no collective.
    """
    collectives = np.asarray(rows.family == names.COLLECTIVE, dtype=np.bool_)
    if not collectives.any():
        return rows
    devices = _devices_of(run, rows.number("signature")[collectives].astype(np.int64))
    ranks = rows.number("ranks")
    stated = np.unique(ranks[collectives & np.isfinite(ranks)])
    alone = devices <= 1
    of_run = _ranks_of_job(run) if alone else float(devices)
    assumed = float(stated[0]) if len(stated) == 1 else of_run
    columns = {
        "ranks": np.where(collectives & np.isnan(ranks), assumed, ranks),
        "keeps_waits": np.where(collectives & alone, 1.0, 0.0),
    }
    return replace(rows, columns={**rows.columns, **columns})


def _devices_of(run: Run, signatures: Ints) -> int:
    """Return on how many of a run's GPUs these signatures ran."""
    if run.devices.height <= 1:
        return run.devices.height
    activities = run.table("kernels", ("device", "signature"))
    return activities.filter(pl.col("signature").is_in(signatures.tolist()))["device"].n_unique()


def _ranks_of_job(run: Run) -> float:
    """Return the ranks that all traces of a run count in their job; NaN where they differ or count none."""
    sources = run.info.get("sources")
    details = [s.get("details") for s in sources if isinstance(s, dict)] if isinstance(sources, list) else []
    counts = {d.get("world_size") for d in details if isinstance(d, dict) and d}
    count = counts.pop() if len(counts) == 1 else None
    return float(count) if isinstance(count, int) and count > 1 else np.nan
