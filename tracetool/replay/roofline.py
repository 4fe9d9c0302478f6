"""Achieved rates of a recorded run's operators: intensity, share of the roofline, GFLOP per joule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import ENDS
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.measure.measured_scopes import measured_scopes
from tracetool.measure.own_time import with_own_time
from tracetool.measure.sampled_activity import SHARES, activity_by_signature
from tracetool.replay.achieved import peak_of
from tracetool.replay.measured_energy import attribute_or_note
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.tables.measured_work import with_errors_of_work, work_by_signature, work_notes
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.windows import PARTS, refuse_large


@dataclass(frozen=True)
class Roofline:
    """Achieved rates of a run.

    Parameters
    ----------
    frame : DataFrame
        The ``roofline`` table, highest energy first.
    gpu : str
        The GPU whose ceilings they are set against.
    clock_mhz : float
        Clock of those ceilings: the recorded one. [MHz]
    notes : tuple of str
        What the figures rest on.
    """

    frame: pl.DataFrame
    gpu: str
    clock_mhz: float
    notes: tuple[str, ...] = ()

    def products(self) -> pl.DataFrame:
        """Return the matrix products: rows with M, N and K."""
        return self.frame.filter(pl.col("m").is_not_null())


def roofline(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
) -> Roofline:
    r"""Return the achieved rates of every operator and shape of a run.

    Parameters
    ----------
    run : Run or path
        The run.
    gpu : str, optional
        Name of the GPU; by default the one the run recorded.
    power : sequence of path
        Power logs in place of the run's.
    tz : str, optional
        Zone of those logs.

    Raises
    ------
    BadInput
        If the run holds no kernels or the GPU is not known.

    Notes
    -----
    Times are measured. Operations are those the shapes ask for, bytes the model's count of DRAM traffic;
    with both known, intensity I and the rate r,

    .. math:: \text{share} = \frac{r}{\min(P, I\,B)}

    with the peak P of the format's pipe at the recorded clock and the memory's bandwidth B (Williams,
    Waterman, Patterson, "Roofline", CACM 52(4), 2009). Rows without known shapes have no rates.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    refuse_large(opened, "achieved rates", PARTS)
    predicted = predict_run(opened, gpu)
    clock_mhz = float(predicted.totals[0]["clock_mhz"])
    spec = load_gpu(predicted.gpu)
    rows = _rows(opened, predicted)
    notes = list(predicted.notes)
    energy, gaps_j, energy_notes = _energy(opened, rows, gpu, power, tz)
    if gaps_j is None:
        gaps_j = float(predicted.totals[0]["gap_energy_j"])
    rows = rows.join(energy, on="signature", how="left")
    notes += energy_notes
    measured = pl.col("measured_j").is_not_null()
    rows = rows.with_columns(
        pl.when(measured).then(pl.lit("measured")).otherwise(pl.lit("predicted")).alias("source"),
        *(
            pl.when(measured).then(f"measured{e}_j").otherwise(f"predicted{e}_j").alias(f"energy{e}_j")
            for e in ENDS
        ),
    )
    keys = ["operator", "family", "dtype", "layout", "batch", "m", "n", "k", "shape", "predicted_from"]
    rows = rows.join(work_by_signature(opened), on="signature", how="left", maintain_order="left")
    sampled = activity_by_signature(opened.kernels, opened.telemetry)
    rows = rows.join(sampled, on="signature", how="left", maintain_order="left")
    grouped = rows.group_by(keys, maintain_order=True).agg(
        *((pl.col(c) * pl.col("samples")).sum() / pl.col("samples").sum() for c in SHARES),
        *(  # of all launches; a kernel that was not counted leaves the sum open
            pl.when(pl.col(c).null_count() == 0).then((pl.col(c) * pl.col("launches")).sum()).first().alias(c)
            for c in ("measured_flops", "measured_dram_bytes")
        ),
        pl.col("launches").sum(),
        pl.col("name").n_unique().alias("kernels"),
        pl.col("time_ms", "energy_j", "energy_low_j", "energy_high_j", "flops", "dram_bytes").sum(),
        pl.when((pl.col("source") == "measured").all())
        .then(pl.lit("measured"))
        .otherwise(pl.lit("predicted"))
        .first()
        .alias("source"),
    )
    grouped = with_errors_of_work(grouped).with_columns(pl.col(list(SHARES)).fill_nan(None))
    notes += work_notes(grouped)
    table = load_schema("roofline").conform(
        _with_rates(grouped, spec, clock_mhz, gaps_j).sort(
            ["energy_j", "time_ms"], descending=True, nulls_last=True, maintain_order=True
        )
    )
    return Roofline(table, predicted.gpu, clock_mhz, tuple(notes))


def _with_rates(grouped: pl.DataFrame, spec: Gpu, clock_mhz: float, gaps_j: float) -> pl.DataFrame:
    """Return the groups with the rates they achieved, and the ceiling of the roofline above each."""
    peak = peak_of(grouped["dtype"], spec, clock_mhz)
    shaped = (pl.col("predicted_from") == "shapes") & (pl.col("time_ms") > 0)
    flops = pl.when(shaped & (pl.col("flops") > 0)).then("flops")
    moved = pl.when(shaped & (pl.col("dram_bytes") > 0)).then("dram_bytes")
    seconds = pl.col("time_ms") * 1e-3
    return grouped.with_columns(
        (flops / seconds / 1e12).alias("tflops"),
        (moved / seconds / 1e12).alias("tbps"),
        (pl.col("measured_flops") / seconds / 1e12).alias("measured_tflops"),
        (pl.col("measured_dram_bytes") / seconds / 1e12).alias("measured_tbps"),
        (flops / moved).alias("flop_per_byte"),
        (flops / pl.col("energy_j") / 1e9).alias("gflop_per_joule"),
        (pl.col("energy_j") / (pl.col("energy_j").sum() + gaps_j)).alias("share"),
        (pl.col("time_ms") * 1e3 / pl.col("launches")).alias("duration_us"),
    ).with_columns(
        (
            pl.col("tflops")
            * 1e12
            / pl.min_horizontal(peak, pl.col("flop_per_byte") * float(spec.dram_bytes_per_s))
        ).alias("roofline_share"),
        pl.when(pl.col("flop_per_byte").is_not_null())
        .then(
            pl.when(pl.col("flop_per_byte") * float(spec.dram_bytes_per_s) < peak)
            .then(pl.lit("memory"))
            .otherwise(pl.lit("compute"))
        )
        .alias("ceiling"),
    )


def _rows(run: Run, predicted: PredictedRun) -> pl.DataFrame:
    """Return one row per signature: identity, shape, time and counts over all launches."""
    assert predicted.replays is not None
    columns = predicted.replays.rows
    signatures = run.signatures.sort("signature")
    frame = predicted.signatures.sort("signature")
    products = np.isfinite(columns.number("m")) & np.isfinite(columns.number("k"))

    def whole(name: str) -> pl.Series:
        values: Floats = np.where(products, columns.number(name), np.nan)
        return pl.Series(name, values).fill_nan(None).cast(pl.Int64)

    launches = pl.col("launches")
    texts = {name: pl.Series(name, columns.text(name).astype(str)) for name in ("dtype", "layout")}
    shape = (
        signatures["input_dims"]
        .list.eval(pl.element().list.eval(pl.element().cast(pl.String)).list.join("x"))
        .list.join(" ")
    )
    return frame.select(
        pl.col("signature").cast(pl.Int64),
        pl.coalesce(signatures["operator_name"], pl.col("name")).alias("operator"),
        "name",
        "family",
        "launches",
        "predicted_from",
        *(pl.when(s != "").then(s).alias(name) for name, s in texts.items()),
        *(whole(name) for name in ("batch", "m", "n", "k")),
        shape.alias("shape"),
        (pl.col("measured_duration_us") * launches / 1e3).alias("time_ms"),
        (pl.col("flops") * launches).alias("flops"),
        (pl.col("dram_bytes") * launches).alias("dram_bytes"),
        *((pl.col(f"energy{e}_mj") * launches / 1e3).alias(f"predicted{e}_j") for e in ENDS),
    )


def _energy(
    run: Run, rows: pl.DataFrame, gpu: str | None, power: Sequence[Path], tz: str | None
) -> tuple[pl.DataFrame, float | None, list[str]]:
    """Return the measured energy of each signature over all GPUs, that of the gaps, and notes.

    Only what the log determines: signatures without are absent, gaps None. [J]
    """
    columns: dict[str, Any] = {"signature": pl.Int64, **{f"measured{e}_j": pl.Float64 for e in ENDS}}
    empty = pl.DataFrame(schema=columns)
    attributed, why_not = attribute_or_note(run, gpu=gpu, power=power, tz=tz)
    if attributed is None:
        return empty, None, why_not
    summed_rows = with_own_time(run, attributed.energy).filter(
        pl.col("signature").is_not_null() & pl.col("energy_j").is_not_null()
    )
    summed = summed_rows.group_by("signature", maintain_order=True).agg(
        *(pl.col(f"energy{e}_j").sum().alias(f"measured{e}_j") for e in ENDS), pl.col("duration_ns").sum()
    )
    with_times = summed.join(rows.select("signature", "time_ms"), on="signature")
    near = (pl.col("duration_ns") * 1e-6 - pl.col("time_ms")).abs() < 0.02 * pl.col("time_ms")
    gaps = measured_scopes(run, attributed.energy).get("gaps", {})
    gaps_j = 100.0 * gaps["energy_j"] / gaps["measured_pct"] if gaps.get("measured_pct") else None
    return with_times.filter(near).select(list(columns)), gaps_j, list(attributed.notes)
