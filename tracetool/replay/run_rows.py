"""The signatures of a run as columns of the model, what was measured of them and what ran beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.families.transfers.problem import over_link
from tracetool.hardware.gpu import Gpu
from tracetool.replay.collective_ranks import with_ranks
from tracetool.replay.operator_tables import as_columns
from tracetool.replay.sizes_by_law import sizes_by_law
from tracetool.tables.recorded_clock import recorded_clock
from tracetool.tables.run import Run

#: GPUs of a node behind one PCIe switch: ranks of a training read their batches at once. [1] As in NVIDIA's
#: DGX-1 and DGX A100 (system architecture white papers, 2017 and 2020).
_SHARERS: Final = 2.0


def with_traffic_beside(run: Run, rows: OperatorColumns) -> OperatorColumns:
    """Return the rows with the share of a launch's time in which links of its device were busy.

    Parameters
    ----------
    run : Run
        The run.
    rows : OperatorColumns
        One row a signature, with ``signature``.

    Returns
    -------
    OperatorColumns
        With ``beside_collective`` and ``beside_copy``, means over the launches of a signature, 0 to 1: none
        for collectives and copies over a link themselves. Where the run has collectives, ``link_sharers`` is
        how many GPUs share the host's link of its copies. The same rows where the run has neither.
    """
    collectives = np.asarray(rows.family == names.COLLECTIVE, dtype=np.bool_)
    copies = over_link(rows) & ~collectives
    if not (collectives.any() or copies.any()):
        return rows
    activities = run.table("kernels", ("start_ns", "duration_ns", "device", "signature"))
    signature = rows.number("signature").astype(np.int64)
    row = np.full(int(signature.max(initial=0)) + 1, -1, dtype=np.int64)
    row[signature] = np.arange(len(signature))
    numbers = row[activities["signature"].to_numpy()]
    start = activities["start_ns"].to_numpy()
    end = start + activities["duration_ns"].to_numpy()
    device = activities.select(pl.col("device").fill_null(-1))["device"].to_numpy()
    launches = np.maximum(np.bincount(numbers, minlength=len(rows)), 1)
    beside = {}
    for column, links in (("beside_collective", collectives), ("beside_copy", copies)):
        share = _shares(start, end, device, links[numbers])
        mean = np.bincount(numbers, share, len(rows)) / launches
        beside[column] = np.where(collectives | copies, 0.0, mean)
    if collectives.any():
        beside["link_sharers"] = np.where(copies, _SHARERS, 1.0)
    return replace(rows, columns={**rows.columns, **beside})


def _shares(start: Floats, end: Floats, device: Floats, chosen: Bools) -> Floats:
    """Return the share of each activity's time in which a chosen one of its device ran. Shape (n,)."""
    share = np.zeros(len(start))
    for device_number in np.unique(device[chosen]):
        device_rows = np.flatnonzero(device == device_number)
        origin = start[device_rows].min()
        first, last = (
            start[device_rows[chosen[device_rows]]] - origin,
            end[device_rows[chosen[device_rows]]] - origin,
        )
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        apart = np.concatenate([[True], first[1:] > last[:-1]])
        begins, ends = first[apart], last[np.concatenate([apart[1:], [True]])]
        covered = np.concatenate([[0], np.cumsum(ends - begins)])
        from_start, to_end = (_covered(t[device_rows] - origin, begins, ends, covered) for t in (start, end))
        share[device_rows] = (to_end - from_start) / np.maximum(end[device_rows] - start[device_rows], 1)
    return share


def _covered(time: Floats, begins: Floats, ends: Floats, covered: Floats) -> Floats:
    """Return the time before each moment that disjoint intervals cover. [ns]"""
    place = np.searchsorted(begins, time, side="right")
    last = np.maximum(place - 1, 0)
    inside = np.where(place > 0, np.minimum(time - begins[last], ends[last] - begins[last]), 0)
    return np.asarray(covered[last] * (place > 0) + inside, dtype=np.float64)


_KINDS: Final = ("memcpy", "memset")


def run_rows(run: Run, gpu: Gpu | None = None) -> tuple[pl.DataFrame, OperatorColumns]:
    """Return the run's signatures in row order and the same rows as columns of the model.

    Beside shapes and launch geometry the columns hold ``duration_us``, the mean over the launches of
    a signature: its launches add up to the time that was measured; the ranks of collectives
    (:func:`with_ranks`); and what ran beside them (:func:`with_traffic_beside`). ``gpu`` is the one it ran
    on, where the trace does not tell.

    Raises
    ------
    BadInput
        If the run holds no activity of a device.
    """
    from tracetool.kernels.structure import describe

    signatures = run.signatures.sort("signature")
    if not signatures.height:
        raise BadInput.in_file(
            run.path, "holds no GPU activity to predict", "ingest a trace with kernels in it"
        )
    clock = recorded_clock(run)
    described = describe(signatures, gpu, clock[0] if clock else None)
    columns_of_names = [c for c in described.columns if c != "family"]
    columns = described.select(columns_of_names).with_columns(
        (signatures["duration_ns"] / signatures["launches"].clip(1) / 1e3).alias("duration_us"),
        # A signature is one kernel: another of the same name and launch has other shapes.
        pl.format("{} #{}", signatures["name"], signatures["signature"]).alias("name"),
    )
    family = pl.select(
        pl.when(signatures["kind"].is_in(_KINDS)).then(signatures["kind"]).otherwise(described["family"])
    ).to_series()
    if "bytes" not in columns.columns:
        columns = columns.with_columns(signatures["bytes"].cast(pl.Float64))
    rows = with_traffic_beside(run, with_ranks(run, as_columns(columns, family)))
    if gpu is not None and gpu.scope == "model":
        rows = sizes_by_law(rows, gpu, clock[0] if clock else gpu.clock_boost_mhz)
    return signatures.with_columns(family.alias("family")), rows
