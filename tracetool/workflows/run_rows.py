"""The signatures of a run as columns of the model, with what was measured of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.tables.run import Run
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.workflows.tables import as_columns

#: A reading counts as one under load from this utilisation on.
_LOADED: Final = 0.5
_KINDS: Final = ("memcpy", "memset")


def run_rows(run: Run) -> tuple[pl.DataFrame, OperatorColumns]:
    """Return the run's signatures in row order and the same rows as columns of the model.

    Beside shapes and launch geometry the columns hold ``duration_us``, the mean over the launches of
    a signature: its launches add up to the time that was measured.

    Raises
    ------
    BadInput
        If the run holds no activity of a device.
    """
    from tracetool.classify.structure import describe

    signatures = run.signatures.sort("signature")
    if not signatures.height:
        raise BadInput.in_file(
            run.path, "holds no GPU activity to predict", "ingest a trace with kernels in it"
        )
    described = describe(signatures)
    own = [c for c in described.columns if c != "family"]
    columns = described.select(own).with_columns(
        (signatures["duration_ns"] / signatures["launches"].clip(1) / 1e3).alias("duration_us"),
        signatures["name"].alias("name"),
    )
    family = pl.select(
        pl.when(signatures["kind"].is_in(_KINDS)).then(signatures["kind"]).otherwise(described["family"])
    ).to_series()
    if "bytes" not in columns.columns:
        columns = columns.with_columns(signatures["bytes"].cast(pl.Float64))
    return signatures.with_columns(family.alias("family")), as_columns(columns, family)


def run_gpu(run: Run, asked: str | None = None) -> Gpu:
    """Return the GPU a run was recorded on: the one asked for, else the one its trace names.

    Raises
    ------
    BadInput
        If neither is known.
    """
    if asked:
        return load_gpu(asked)
    busiest = (
        run.kernels.group_by("device").agg(pl.col("duration_ns").sum()).sort("duration_ns", descending=True)
    )
    devices = run.devices.join(busiest.select("device"), on="device", how="inner", maintain_order="right")
    for name, gpu in devices.select("name", "gpu").iter_rows():
        known = gpu or (match_gpu(name) if name else None)
        if known:
            return load_gpu(known)
    names = sorted({n for n in devices["name"].to_list() if n})
    said = f"the trace names {', '.join(names)}, which is not known" if names else "the trace names no GPU"
    raise BadInput.in_file(run.path, said, "name it: --gpu h100-sxm; the known ones: tracetool gpus")


def recorded_clock(run: Run, gpu: Gpu) -> tuple[float, str]:
    """Return the core clock a run was recorded at and a sentence on where it comes from. [MHz]"""
    readings = run.telemetry.filter(pl.col("clock_mhz").is_not_null() & (pl.col("clock_mhz") > 0))
    kernels = run.kernels
    if readings.height and kernels.height:
        ends = (kernels["start_ns"] + kernels["duration_ns"]).max()
        inside = readings.filter(pl.col("time_ns").is_between(kernels["start_ns"].min(), ends))
        loaded = inside.filter(pl.col("utilization").fill_null(1.0) >= _LOADED)
        for some in (loaded, inside):
            if some.height:
                clock = float(np.median(some["clock_mhz"].to_numpy()))
                return clock, f"recorded clock: {clock:g} MHz, median of {some.height} readings"
    clock = gpu.clock_boost_mhz
    return clock, f"recorded clock not known: taken as {clock:g} MHz, the boost clock of {gpu.name}"
