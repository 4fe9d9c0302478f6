"""Rates of groups of launches: intensity, share of the roofline, GFLOP per joule."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.prediction import FROM
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.replay.predict_run import PredictedRun
from tracetool.replay.range_tree import Costs

#: Formats and the pipe whose peak is their ceiling; others run on the FP32 pipe.
PIPES: Final = {
    "fp16": "tensor_fp16", "bf16": "tensor_bf16", "tf32": "tensor_tf32", "fp8": "tensor_fp8",
    "int8": "tensor_int8", "fp64": "fp64",
}  # fmt: skip
#: Sums that rates are made of, of launches whose shapes are known.
SUMS: Final = ("shaped_flops", "shaped_bytes", "roof_s", "shaped_s", "shaped_j")


def launch_sums(prediction: PredictedRun, clock_mhz: float, costs: Costs) -> pl.DataFrame:
    r"""Return the sums behind the rates of a run's activities at one clock. n rows of :data:`SUMS`.

    Parameters
    ----------
    prediction : PredictedRun
        The run's prediction.
    clock_mhz : float
        One of its clocks. [MHz]
    costs : Costs
        What each activity costs at that clock.

    Notes
    -----
    ``roof_s`` is the time that the roofline leaves a launch: :math:`\max(F/P, D/B)` for F operations at the
    peak P of its format and D bytes of DRAM traffic at the bandwidth B.
    """
    assert prediction.replays is not None
    spec = load_gpu(prediction.gpu)
    rows = prediction.signatures.filter(pl.col("clock_mhz") == clock_mhz)
    dtype = pl.Series("dtype", prediction.replays.rows.text("dtype").astype(str))
    each = rows.select("flops", "dram_bytes", "predicted_from").with_columns(
        dtype, peak_of(dtype, spec, clock_mhz)
    )
    shaped = (pl.col("predicted_from") == FROM[0]) & (pl.col("flops") > 0) & (pl.col("dram_bytes") > 0)
    roof_s = pl.max_horizontal(
        pl.col("flops") / pl.col("peak"), pl.col("dram_bytes") / float(spec.dram_bytes_per_s)
    )
    figures = (pl.col("flops"), pl.col("dram_bytes"), roof_s, pl.lit(1.0))
    per_launch = each.select(
        pl.when(shaped).then(f).otherwise(0.0).alias(n)
        for f, n in zip(figures, (*SUMS[:3], "shaped"), strict=True)
    )
    launched = per_launch[prediction.replays.work.signature.astype(np.int64)]
    return launched.select(
        *SUMS[:3],
        (pl.col("shaped") * pl.Series((costs.end_ns - costs.start_ns) * 1e-9)).alias("shaped_s"),
        (pl.col("shaped") * pl.Series(costs.energy_j)).alias("shaped_j"),
    )


def peak_of(dtype: pl.Series, spec: Gpu, clock_mhz: float) -> pl.Series:
    """Return the peak of each number format at a clock. [FLOP/s]"""
    fp32 = float(spec.peak_flops("fp32", clock_mhz))
    distinct = dtype.unique().drop_nulls().to_list()
    peaks = {d: float(spec.peak_flops(PIPES.get(d, "fp32"), clock_mhz)) for d in distinct}
    return dtype.replace_strict(peaks, default=fp32, return_dtype=pl.Float64).alias("peak")


def with_rates(frame: pl.DataFrame) -> pl.DataFrame:
    """Return groups with their rates in place of the sums these are made of.

    Parameters
    ----------
    frame : DataFrame
        Groups with :data:`SUMS`.

    Notes
    -----
    Rates are those of the launches whose shapes are known; the share of the roofline is the time it leaves
    them over the time they took, which for one kernel is its rate over its ceiling.
    """

    def ratio(numerator: str, denominator: str, factor: float) -> pl.Expr:
        return pl.when(pl.col(denominator) > 0).then(pl.col(numerator) / pl.col(denominator) * factor)

    return frame.with_columns(
        ratio("shaped_flops", "shaped_s", 1e-12).alias("tflops"),
        ratio("shaped_bytes", "shaped_s", 1e-12).alias("tbps"),
        ratio("shaped_flops", "shaped_bytes", 1.0).alias("flop_per_byte"),
        ratio("roof_s", "shaped_s", 1.0).alias("roofline_share"),
        ratio("shaped_flops", "shaped_j", 1e-9).alias("gflop_per_joule"),
    ).drop(SUMS)
