"""Latent factors of each configuration: its work and its GPUs, derived from its figures."""

from __future__ import annotations

import math

import polars as pl

from tracetool.compare.run_tables.columns import RunTable
from tracetool.hardware.gpu import Gpu


def latent_factors(table: RunTable) -> pl.DataFrame:
    """Return the configurations with what follows from their figures.

    Parameters
    ----------
    table : RunTable
        Measured configurations.

    Returns
    -------
    DataFrame
        The configurations, least energy per unit first within a task, and beside them ``request_j`` [J],
        ``units_per_s``, ``power_per_gpu_w``, ``units_per_j``, ``idle_pct`` (share of the energy that the GPUs
        draw when idle: the least that static power takes), ``compute_pct`` and ``memory_pct`` (floating-point
        rate of the generated tokens, and bytes of weights a step reads, over the GPU's peaks; prefill, keys
        and values, which a table of runs does not state, come on top), ``weights_pct`` (weights over all
        memory). Null where the GPU or the parameters are not known.
    """
    frame = table.frame
    column_types = {
        "gpu": pl.String,
        **dict.fromkeys(("_flops", "_bytes_per_s", "_memory", "_idle_w"), pl.Float64),
    }
    sheets = pl.DataFrame(
        [
            (name, _peak(gpu), gpu.dram_bytes_per_s, gpu.memory_bytes, gpu.idle_w)
            for name, gpu in table.sheets.items()
        ],
        schema=column_types,
        orient="row",
    ).with_columns(pl.when(pl.col(c) > 0).then(pl.col(c)).alias(c) for c in column_types if c != "gpu")
    rate = pl.col("power_w") / pl.col("energy_j")
    token = pl.col("unit") == "token"
    active, total = pl.col("active_billions"), pl.max_horizontal("total_billions", "active_billions")
    # experts asked for by at least one of a batch's tokens, each taking as many as one token does
    read = pl.max_horizontal(total * (1.0 - (1.0 - active / total).clip(0.0, 1.0) ** pl.col("batch")), active)
    return (
        frame.join(sheets, on="gpu", how="left", maintain_order="left")
        .with_columns(
            request_j=pl.col("energy_j") * pl.col("units_per_request"),
            units_per_s=rate,
            power_per_gpu_w=pl.col("power_w") / pl.col("gpus"),
            units_per_j=1.0 / pl.col("energy_j"),
            idle_pct=100.0 * pl.col("_idle_w") * pl.col("gpus") / pl.col("power_w"),
            compute_pct=pl.when(token).then(200e9 * active * rate / pl.col("gpus") / pl.col("_flops")),
            memory_pct=pl.when(token).then(
                100e9
                * read
                * pl.col("weight_bytes")
                / pl.col("step_s")
                / pl.col("gpus")
                / pl.col("_bytes_per_s")
            ),
            weights_pct=pl.when(token).then(
                100e9 * total * pl.col("weight_bytes") / pl.col("gpus") / pl.col("_memory")
            ),
        )
        .drop("_flops", "_bytes_per_s", "_memory", "_idle_w")
        .sort("task", "energy_j", "row")
    )


def _peak(gpu: Gpu) -> float:
    """Return the dense 16-bit floating-point rate of the tensor cores at the boost clock. [FLOP/s]"""
    per_clock = max(
        gpu.flops_per_clock_sm.get("tensor_bf16", 0.0), gpu.flops_per_clock_sm.get("tensor_fp16", 0.0)
    )
    peak = per_clock * gpu.sm_count * gpu.clock_rated_mhz * 1e6
    return peak if math.isfinite(peak) else 0.0
