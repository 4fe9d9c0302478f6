"""What a recording leaves uncertain: the resolution of its timer, and which GPU it describes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.tables.run import Run

#: Nanoseconds of the step some profilers count in.
_STEP_NS: Final = 1000
#: Activities from which whole microseconds are no coincidence: one in a thousand is by itself. [1]
_LEAST: Final = 3
#: Variance of an error spread evenly over one step. [us^2]
_STEP_VARIANCE: Final = 1.0 / 12.0
#: Memory or SMs that differ from the sheet's by more than this are another GPU's, or a slice of it. [1]
_FAR: Final = 0.25


def with_timer_error(run: Run, rows: OperatorColumns) -> tuple[OperatorColumns, list[str]]:
    r"""Return the rows with ``duration_sd_us`` where the profiler counts whole microseconds, and a note.

    Each launch has an error of up to half a microsecond, evenly. Over n launches the errors average out as
    far as the launches differ: launches that all read alike are off alike. With :math:`s^2` their variance,

    .. math:: \sigma^2 = \frac{1}{12} \left(1 - r + \frac{r}{n}\right), \qquad r = \min(1, 12 s^2)

    Parameters
    ----------
    run : Run
        The run.
    rows : OperatorColumns
        One row a signature, with ``signature`` and ``launches``.
    """
    columns = ("start_ns", "duration_ns", "device", "process", "signature")
    activities = run.table("kernels", columns)
    coarse = _whole_microseconds(activities)
    if not coarse.height:
        return rows, []
    counted = activities.join(coarse, on=["device", "process"], how="semi", nulls_equal=True)
    spread = counted.group_by("signature").agg(
        pl.len().alias("launches"),
        ((pl.col("duration_ns") * 1e-3).var().fill_null(0.0)).alias("variance"),
    )
    random = (pl.col("variance") / _STEP_VARIANCE).clip(0.0, 1.0)
    sd = (_STEP_VARIANCE * (1.0 - random + random / pl.col("launches"))).sqrt()
    by_signature = spread.select("signature", sd.alias("sd"))
    signatures = pl.DataFrame({"signature": rows.number("signature").astype(np.int64)})
    matched = signatures.join(by_signature, on="signature", how="left", maintain_order="left")
    errors = matched["sd"].fill_null(0.0).to_numpy()
    note = (
        f"durations of {counted.height} of {activities.height} activities are whole microseconds: "
        "+-0.5 us a launch entered their intervals"
    )
    return replace(rows, columns={**rows.columns, "duration_sd_us": errors}), [note]


def _whole_microseconds(activities: pl.DataFrame) -> pl.DataFrame:
    """Return the devices and processes whose times are all whole microseconds."""
    since = pl.col("start_ns") - pl.col("start_ns").min()
    whole = (pl.col("duration_ns") % _STEP_NS == 0).all() & (since % _STEP_NS == 0).all()
    timers = activities.group_by("device", "process").agg(
        whole.alias("whole"), pl.len().alias("count"), pl.col("duration_ns").max().alias("longest")
    )
    counted = timers.filter(pl.col("whole") & (pl.col("count") >= _LEAST) & (pl.col("longest") > 0))
    return counted.select("device", "process")


def device_notes(run: Run, gpu: Gpu) -> list[str]:
    """Return notes where the trace's devices are not what the sheet of ``gpu`` describes."""
    notes = []
    worked = run.devices.join(run.table("kernels", ("device",)).unique(), on="device", how="semi")
    for name, memory_bytes, sm_count in (
        worked.select("name", "memory_bytes", "sm_count").unique().iter_rows()
    ):
        pairs = (
            ("{:.4g} GiB of memory", (memory_bytes or 0) / 2**30, gpu.memory_bytes / 2**30),
            ("{:g} SMs", sm_count or 0, gpu.sm_count),
        )
        far = [
            (t, stated, listed) for t, stated, listed in pairs if stated and abs(stated / listed - 1.0) > _FAR
        ]
        if far:
            stated_text = " and ".join(text.format(stated) for text, stated, _ in far)
            listed_text = " and ".join(text.format(listed) for text, _, listed in far)
            notes.append(
                f"the trace states {stated_text} for {name or 'its GPU'}, the sheet {gpu.name}"
                f" {listed_text}: another model or a slice of it; name the right one with ingest --gpu"
            )
    return notes
