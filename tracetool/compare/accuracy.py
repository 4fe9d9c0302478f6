"""Predicted against measured, per kernel signature, per family and over all that was compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from tracetool.compare.accuracy_sums import sum_rows, with_errors
from tracetool.compare.thresholds import Threshold
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.core.prediction import FROM
from tracetool.measure.signature_sums import SignatureSums
from tracetool.tables.schema import load_schema

#: Rows of this source are compared: any other prediction rests on the very time it would be set against.
SHAPES: Final = FROM[0]


def compare_signatures(
    signatures: pl.DataFrame, predicted: pl.DataFrame, measured: pl.DataFrame | None
) -> pl.DataFrame:
    """Return one row per kernel signature: measured beside predicted, worst offenders first.

    Parameters
    ----------
    signatures : DataFrame
        ``signatures`` of the run; only rows of kind ``kernel`` are compared.
    predicted : DataFrame, shape (signatures, columns)
        One row per signature in the ``predictions`` columns (means per launch), plus ``signature``,
        ``family`` and ``predicted_from``; not anchored.
    measured : DataFrame or None
        Rows of the ``energy`` table; those with a ``signature`` are used. None where nothing was measured.

    Returns
    -------
    DataFrame
        Rows of level ``signature`` of the ``accuracy`` table, without shares, plus ``identified``,
        ``compared`` (whether its prediction is a prediction) and ``all_ms``, the time of all launches.

    Notes
    -----
    Where a log covers only part of the run, the launches inside its span are compared: the prediction
    is per launch and times the launches seen. Powers are energies over times, so the three errors of a
    row agree with one another.
    """
    kernels = signatures.filter(pl.col("kind") == "kernel").select(
        "signature", "name", "launches", (pl.col("duration_ns") / 1e6).alias("all_ms")
    )
    per_launch = predicted.select(
        pl.col("signature").cast(pl.Int64),
        "family",
        "basis",
        "predicted_from",
        *(f"duration{end}_us" for end in ENDS),
        *(f"energy{end}_mj" for end in ENDS),
        *(pl.col(f"power{end}_w").alias(f"power_predicted{end}_w") for end in ENDS),
    )
    measured_rows = measured_by_signature(measured)
    joined = kernels.join(per_launch, on="signature", how="left").join(
        measured_rows, on="signature", how="left"
    )
    launches = pl.coalesce("seen_launches", "launches")
    rows = joined.with_columns(
        launches.alias("launches"),
        pl.coalesce(pl.col("seen_ns") / 1e6, "all_ms").alias("time_ms"),
        *((pl.col(f"duration{e}_us") * launches / 1e3).alias(f"time_predicted{e}_ms") for e in ENDS),
        *((pl.col(f"energy{e}_mj") * launches / 1e3).alias(f"energy_predicted{e}_j") for e in ENDS),
        pl.col("identified").fill_null(value=False),
        (pl.col("predicted_from") == SHAPES).fill_null(value=False).alias("compared"),
        pl.lit("signature").alias("level"),
    ).filter(pl.col("launches") > 0)
    seconds = pl.col("time_ms") / 1e3
    rows = rows.with_columns(
        pl.when(seconds > 0).then(pl.col(f"energy{end}_j") / seconds).alias(f"power{end}_w") for end in ENDS
    )
    rows = rows.with_columns(
        pl.lit(None, dtype=pl.Float64).alias("waiting_ms"),
        pl.when(pl.col("energy_j").is_not_null()).then(100.0).otherwise(0.0).alias("measured_pct"),
    )
    return with_errors(rows)


def measured_by_signature(measured: pl.DataFrame | None) -> pl.DataFrame:
    """Return measured time and energy of each signature, copies too, over all GPUs; no rows without any.

    Returns
    -------
    DataFrame
        ``signature``, ``seen_launches`` and ``seen_ns`` inside the log, ``energy_j`` with its interval,
        ``identified``, ``reason``.
    """
    energy = load_schema("energy")
    rows = energy.empty() if measured is None else measured
    rows = rows.filter(pl.col("signature").is_not_null() & (pl.col("launches") > 0))
    return rows.group_by("signature", maintain_order=True).agg(
        pl.col("launches").sum().alias("seen_launches"),
        pl.col("duration_ns").sum().alias("seen_ns"),
        *(
            pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum()).first().alias(c)
            for c in ("energy_j", "energy_low_j", "energy_high_j")
        ),
        pl.col("identified").all(),
        pl.col("reason").drop_nulls().first(),
    )


def accuracy_table(
    signature_rows: pl.DataFrame,
    scopes: pl.DataFrame | None = None,
    groups: pl.DataFrame | None = None,
    sums: SignatureSums | None = None,
) -> pl.DataFrame:
    """Return the ``accuracy`` table: total, scopes of the run, families, then signatures, each worst first.

    Parameters
    ----------
    signature_rows : DataFrame
        As :func:`compare_signatures` returns.
    scopes : DataFrame, optional
        Rows of level ``kernels``, ``copies`` and ``gap``: the whole run's.
    groups : DataFrame, optional
        Rows of level ``group``.
    sums : SignatureSums, optional
        What errors the measured energies share.
    """
    total = sum_rows(signature_rows, "total", None, sums)
    families = sum_rows(signature_rows, "family", "family", sums)
    tables = [total, *(rows for rows in (scopes, families, groups) if rows is not None), signature_rows]
    rows_of_all_levels = pl.concat(tables, how="diagonal_relaxed")
    metered = signature_rows["energy_j"].is_not_null().any()
    figure = "energy_j" if metered else "energy_predicted_j"
    of_kernels = float(signature_rows[figure].sum())
    share = 100.0 * pl.col(figure) / of_kernels if of_kernels else pl.lit(None, dtype=pl.Float64)
    inside = pl.col("level").is_in(["gap", "copies"]).not_()
    return load_schema("accuracy").conform(
        rows_of_all_levels.with_columns(pl.when(inside).then(share).alias("kernel_share_pct"))
    )


@dataclass(frozen=True)
class Accuracy:
    """Errors of the prediction against the measurement of one run."""

    run: str
    gpu: str
    clock_mhz: float
    table: pl.DataFrame  # the accuracy table
    breaches: tuple[str, ...]  # one sentence per threshold that does not hold
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    by: tuple[str, ...] = ()  # what rows of level ``group`` are by
    coverage: Mapping[str, float] = field(default_factory=dict)  # share of the kernels' time by source [%]
    whole: Mapping[str, float] = field(default_factory=dict)  # measured energy of the run, where all of it is
    #: As :func:`measured_by_signature` returns it.
    by_signature: pl.DataFrame = field(default_factory=lambda: measured_by_signature(None))

    def total(self) -> dict[str, object]:
        """Return the row over all kernels that were compared."""
        return self.table.row(0, named=True)

    def scope(self, level: str) -> dict[str, object] | None:
        """Return the row over all the run's ``kernels``, its ``copies`` or its ``gap``; None without one."""
        rows = self.table.filter(pl.col("level") == level)
        return rows.row(0, named=True) if rows.height else None

    @property
    def measured(self) -> bool:
        """Whether energies were measured at all."""
        return bool(self.table["energy_j"].is_not_null().any())


def breaches(table: pl.DataFrame, thresholds: Sequence[Threshold]) -> tuple[str, ...]:
    """Return a sentence per threshold on predicted-against-measured that does not hold, in order.

    Parameters
    ----------
    table : DataFrame
        The ``accuracy`` table.
    thresholds : sequence of Threshold
        Limits on the size of the error; one with a scope covers families and kernels.

    Raises
    ------
    BadInput
        If a threshold asks for something the run did not measure, or covers no row.
    """
    sentences = []
    for threshold in thresholds:
        rows = _covered(table, threshold)
        if not rows.height:
            raise BadInput(
                f"--fail-on {threshold.text()!r}: no family or kernel of this run is called that",
                "tracetool diff RUN -o diff.csv lists them",
            )
        column = f"{threshold.metric}_error_pct"
        measured_rows = rows.filter(pl.col(column).is_not_null())
        if not measured_rows.height and not (rows["compared_pct"] > 0).any():
            raise BadInput(
                f"--fail-on {threshold.text()!r} cannot be checked: no time of the kernels it covers could be"
                " predicted, because the trace has no shapes of their operators",
                "record them: torch.profiler.profile(record_shapes=True), or NVTX ranges with shapes",
            )
        if not measured_rows.height:
            raise BadInput(
                f"--fail-on {threshold.text()!r} cannot be checked:"
                f" this run has no measured {threshold.metric}",
                "ingest it with --power LOG",
            )
        for row in measured_rows.filter(pl.col(column).abs() > 100.0 * threshold.limit).iter_rows(named=True):
            of = "" if row["level"] == "total" else f" of {row['name']}"
            sentences.append(
                f"predicted {threshold.metric}{of} is {row[column]:+.1f} % off the measured one,"
                f" limit {100 * threshold.limit:g} %"
            )
    return tuple(sentences)


def _covered(table: pl.DataFrame, threshold: Threshold) -> pl.DataFrame:
    if threshold.metric == "edp":
        raise BadInput("--fail-on edp= judges two runs; against one run use energy=, time= or power=")
    if not threshold.scope:
        return table.filter(pl.col("level") == "total")
    groups = table.filter(pl.col("level") == "group")
    if groups.height:
        names = [n == threshold.scope or threshold.covers("", n) for n in groups["name"].to_list()]
        if any(names):
            return groups.filter(pl.Series(names))
    families = table.filter((pl.col("level") == "family") & (pl.col("name") == threshold.scope))
    if families.height:
        return families
    matches = [threshold.covers("", name) for name in table["name"].to_list()]
    return table.filter(pl.Series(matches, dtype=pl.Boolean) & (pl.col("level") == "signature"))
