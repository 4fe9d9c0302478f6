"""Like with like: kernels that ran after other work on one side of a comparison than on the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.run_side import LoadedRun
from tracetool.core.arrays import Floats
from tracetool.core.figures import counted
from tracetool.measure.fingrav.history import context_labels
from tracetool.measure.fingrav.interleaving import CONTEXTS
from tracetool.tables.run import Run

#: Part of a kernel's time that must have changed its context, and of a side's energy it must be.
_MOVED: Final = 0.5
_WORTH: Final = 0.01
_MOST: Final = 3


def context_shares(run: Run, power_w: pl.DataFrame) -> dict[str, Floats]:
    """Return for each kernel name the share of its time in each context of ``CONTEXTS``.

    Parameters
    ----------
    run : Run
        The run.
    power_w : DataFrame
        ``signature`` and ``power_w``: how heavy each kind of work is.
    """
    kernels = (
        run.kernels.select("signature", "device", "start_ns", "duration_ns")
        .with_columns(pl.col("signature").cast(pl.Int64))
        .join(power_w.unique("signature"), on="signature", how="inner")
        .join(run.signatures.select(pl.col("signature").cast(pl.Int64), "name"), on="signature", how="left")
        .sort("start_ns")
    )
    shares: dict[str, Floats] = {}
    for device_kernels in kernels.partition_by("device"):
        start = (device_kernels["start_ns"] - device_kernels["start_ns"][0]).to_numpy().astype(
            np.float64
        ) * 1e-9
        length = device_kernels["duration_ns"].to_numpy().astype(np.float64) * 1e-9
        contexts = context_labels(start, start + length, device_kernels["power_w"].to_numpy())
        context_times = pl.DataFrame(
            {"name": device_kernels["name"], "context": contexts.astype(str), "s": length}
        )
        for row in context_times.group_by("name", "context").agg(pl.col("s").sum()).iter_rows(named=True):
            own = shares.setdefault(row["name"], np.zeros(len(CONTEXTS)))
            own[CONTEXTS.index(row["context"])] += row["s"]
    return {name: spent / max(float(spent.sum()), 1e-300) for name, spent in shares.items()}


def context_changes(base: Sequence[LoadedRun], head: Sequence[LoadedRun]) -> list[str]:
    """Return a sentence per kernel that ran in another context on the head side; measured energies only."""
    if not base or not head or base[0].basis != "measured":
        return []
    left, right = _side(base[0]), _side(head[0])
    if left is None or right is None:
        return []
    moved = []
    for name in left[0].keys() & right[0].keys():
        worth = max(left[1].get(name, 0.0), right[1].get(name, 0.0))
        apart = 0.5 * float(np.abs(left[0][name] - right[0][name]).sum())
        if apart >= _MOVED and worth >= _WORTH:
            moved.append((worth, name))
    moved.sort(reverse=True)
    notes = [
        f"{name[:80]} ran {_most(left[0][name])} in base, {_most(right[0][name])} in head: power lingers from"
        " what ran before, so part of its change need not be its own (see tracetool profile)"
        for _, name in moved[:_MOST]
    ]
    if len(moved) > _MOST:
        notes.append(f"{counted(len(moved) - _MOST, 'more kernel')} ran in another context in head")
    return notes


def _side(loaded: LoadedRun) -> tuple[dict[str, Floats], dict[str, float]] | None:
    """Context shares and energy shares of a run's kernels by name."""
    if loaded.run is None or loaded.signatures is None:
        return None
    rows = loaded.classes.classes.select("name", "time_s", "energy_j").with_columns(
        loaded.signatures.cast(pl.Int64).alias("signature")
    )
    with_power = rows.filter((pl.col("time_s") > 0) & pl.col("energy_j").is_not_null())
    power = with_power.select("signature", (pl.col("energy_j") / pl.col("time_s")).alias("power_w"))
    total = max(float(with_power["energy_j"].sum()), 1e-300)
    worth = {
        str(n): float(e) / total
        for n, e in with_power.group_by("name").agg(pl.col("energy_j").sum()).iter_rows()
    }
    return context_shares(loaded.run, power), worth


def _most(shares: Floats) -> str:
    """Return the context a kernel spent most time in."""
    best = int(np.argmax(shares))
    return f"{CONTEXTS[best]} ({shares[best]:.0%} of its time)"
