"""Tables of a run's page: signatures with their joules, where they go, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from tracetool.compare.accuracy import Accuracy
from tracetool.core.interval import ENDS
from tracetool.measure.logged_work import COVERED
from tracetool.tables.idle_intervals import idle_intervals

#: Gaps listed one by one.
_LARGEST_GAPS: Final = 12
_GAP_ENDS_NS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
_GAP_LENGTHS: Final = ("below 10 µs", "10 to 100 µs", "0.1 to 1 ms", "1 to 10 ms", "above 10 ms")


def signature_rows(signatures: pl.DataFrame, anchored: pl.DataFrame, accuracy: Accuracy) -> pl.DataFrame:
    """Return one row per signature with its energy over all launches, largest first.

    Parameters
    ----------
    signatures : DataFrame
        The ``signatures`` table, copies and sets included.
    anchored : DataFrame
        Predictions per launch at one clock, anchored on the measured times, with ``signature``,
        ``family`` and ``predicted_from``.
    accuracy : Accuracy
        Of the same run: what was measured, and the errors of unanchored predictions.

    Returns
    -------
    DataFrame
        ``signature``, ``name``, ``kind``, ``family``, ``operator``, ``launches``, ``time_ms``,
        ``energy_j`` with its interval (measured where the log determines it, of launches that it does not
        cover and elsewhere predicted, anchored), ``of_log_j``: what of it was measured,
        ``source`` (measured, predicted), ``power_w``, ``energy_error_pct``, ``time_error_pct`` (null where
        not compared), ``flops``, ``dram_bytes`` (per launch), ``bound``, ``predicted_from``, ``agrees``.
    """
    compared = accuracy.table.filter(pl.col("level") == "signature").select(
        "signature",
        "agrees",
        "energy_error_pct",
        "time_error_pct",
        *((pl.col(f"energy{e}_j") / pl.col("launches")).alias(f"compared{e}_j") for e in ENDS),
    )
    # copies are compared with nothing, but measured like kernels
    measured = accuracy.by_signature.select(
        pl.col("signature").cast(pl.Int64),
        "seen_ns",
        *((pl.col(f"energy{e}_j") / pl.col("seen_launches")).alias(f"measured{e}_j") for e in ENDS),
    )
    per_launch = anchored.select(
        pl.col("signature").cast(pl.Int64),
        "family",
        "bound",
        "predicted_from",
        "flops",
        "dram_bytes",
        *((pl.col(f"energy{e}_mj") / 1e3).alias(f"predicted{e}_j") for e in ENDS),
    )
    launches = pl.col("launches")
    seen = pl.col("seen_ns") / pl.col("duration_ns")
    seen = pl.when(seen < COVERED).then(seen).otherwise(1.0).alias("seen")
    rows = (
        signatures.select(
            "signature", "name", "kind", "launches", "duration_ns", pl.col("operator_name").alias("operator")
        )
        .join(per_launch, on="signature", how="left")
        .join(compared, on="signature", how="left")
        .join(measured, on="signature", how="left")
        .with_columns(pl.coalesce(f"compared{e}_j", f"measured{e}_j").alias(f"measured{e}_j") for e in ENDS)
        .with_columns(
            (pl.col("duration_ns") / 1e6).alias("time_ms"),
            pl.when(pl.col("measured_j").is_not_null()).then(seen),
        )
        .with_columns(
            *(
                (
                    pl.coalesce(
                        pl.col(f"measured{e}_j") * pl.col("seen")
                        + pl.col(f"predicted{e}_j") * (1.0 - pl.col("seen")),
                        f"measured{e}_j",
                        f"predicted{e}_j",
                    )
                    * launches
                ).alias(f"energy{e}_j")
                for e in ENDS
            ),
            (pl.col("measured_j") * pl.col("seen") * launches).fill_null(0.0).alias("of_log_j"),
            pl.when(pl.col("seen") >= 1.0)
            .then(pl.lit("measured"))
            .when(pl.col("measured_j").is_not_null())
            .then(pl.lit("measured, predicted"))
            .when(pl.col("predicted_j").is_not_null())
            .then(pl.lit("predicted"))
            .otherwise(pl.lit("none"))
            .alias("source"),
            pl.coalesce("family", "kind").alias("family"),
        )
    )
    rows = rows.with_columns(
        pl.when(pl.col("time_ms") > 0).then(pl.col("energy_j") / pl.col("time_ms") * 1e3).alias("power_w"),
    )
    return rows.sort(["energy_j", "time_ms"], descending=True, nulls_last=True, maintain_order=True).drop(
        "duration_ns",
        "seen",
        "seen_ns",
        *(f"{of}{e}_j" for of in ("measured", "compared", "predicted") for e in ENDS),
    )


def parts_by(
    kernels: pl.DataFrame, rows: pl.DataFrame, groups: pl.DataFrame | None, key: str
) -> pl.DataFrame:
    """Return energies by group and signature.

    Parameters
    ----------
    kernels : DataFrame
        The ``kernels`` table.
    rows : DataFrame
        As :func:`signature_rows` returns.
    groups : DataFrame or None
        Table of the groups (``ranges``, ``operators``) with its row number ``key`` and ``name``; None
        groups by family.
    key : str
        Column of ``kernels`` that names the group: ``range`` or ``operator``; ``family`` without groups.

    Returns
    -------
    DataFrame
        ``group``, ``name``, ``family``, ``energy_j``; groups and parts in no order.
    """
    each = rows.filter(pl.col("energy_j") > 0).select(
        "signature", "name", "family", (pl.col("energy_j") / pl.col("launches")).alias("each_j"), "energy_j"
    )
    if groups is None:
        return each.select(pl.col("family").alias("group"), "name", "family", "energy_j")
    named = groups.select(pl.col(key), pl.col("name").alias("group"))
    counts = (
        kernels.join(named, on=key, how="left")
        .group_by("group", "signature", maintain_order=True)
        .len("count")
    )
    return (
        counts.join(each, on="signature", how="inner")
        .group_by(pl.col("group").fill_null(f"(no {key})"), "name", "family", maintain_order=True)
        .agg((pl.col("each_j") * pl.col("count")).sum().alias("energy_j"))
    )


@dataclass(frozen=True)
class Gaps:
    """Times in which a device has no activity between the run's first start and last end.

    ``largest`` has ``start_ms`` (since the first activity), ``gap_ms``, ``after`` and ``before`` (the
    activities to either side; null before a device's first and after its last); ``lengths`` counts gaps
    and their time by length. ``span_ms`` is that window, once for each device.
    """

    count: int
    total_ms: float
    span_ms: float
    largest: pl.DataFrame
    lengths: pl.DataFrame


def find_gaps(kernels: pl.DataFrame) -> Gaps:
    """Return the gaps of a run: on each device, times of the run's window covered by no activity."""
    gaps = idle_intervals(kernels)
    span = kernels.select(
        pl.col("start_ns").min().alias("first"),
        (pl.col("start_ns") + pl.col("duration_ns")).max().alias("last"),
    )
    first, last = span.row(0)
    span_ns = (last - first) * kernels["device"].n_unique() if kernels.height else 0
    largest = (
        gaps.sort("gap_ns", descending=True)
        .head(_LARGEST_GAPS)
        .select(
            ((pl.col("busy_until_ns") - first) / 1e6).alias("start_ms"),
            (pl.col("gap_ns") / 1e6).alias("gap_ms"),
            "after",
            "before",
        )
    )
    step = pl.sum_horizontal(*((pl.col("gap_ns") >= end).cast(pl.Int64) for end in _GAP_ENDS_NS))
    counts = gaps.group_by(step.alias("step"), maintain_order=True).agg(
        pl.len().alias("gaps"), (pl.col("gap_ns").sum() / 1e6).alias("total_ms")
    )
    lengths = counts.sort("step").select(
        pl.col("step").replace_strict(dict(enumerate(_GAP_LENGTHS)), return_dtype=pl.String).alias("length"),
        "gaps",
        "total_ms",
    )
    return Gaps(
        gaps.height,
        float(gaps["gap_ns"].sum()) / 1e6,
        span_ns / 1e6,
        largest,
        lengths,
    )
