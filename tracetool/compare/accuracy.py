"""Predicted against measured, per kernel signature, per family and over all kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from tracetool.compare.thresholds import Threshold
from tracetool.tables.schema import load_schema
from tracetool.vocabulary.errors import BadInput

_PARTS = ("time", "energy", "power")
_UNIT = {"time": "ms", "energy": "j", "power": "w"}
#: Basis of rows without known shapes: their time is the recorded one, so it agrees with itself.
FROM_ITS_OWN_TIME: Final = "family rate"


def _error(part: str) -> pl.Expr:
    unit = _UNIT[part]
    measured = pl.col(f"{part}_{unit}")
    change = 100.0 * (pl.col(f"{part}_predicted_{unit}") / measured - 1.0)
    return pl.when(measured > 0).then(change).alias(f"{part}_error_pct")


def _agrees(low: str = "energy_predicted_low_j", high: str = "energy_predicted_high_j") -> pl.Expr:
    apart = (pl.col(low) > pl.col("energy_high_j")) | (pl.col(high) < pl.col("energy_low_j"))
    return (
        pl.when(pl.col("energy_j").is_null())
        .then(pl.lit("not measured"))
        .when(~pl.col("identified"))
        .then(pl.lit("not told apart"))
        .when(apart)
        .then(pl.lit("no"))
        .otherwise(pl.lit("yes"))
        .alias("agrees")
    )


def compare_signatures(
    signatures: pl.DataFrame, predicted: pl.DataFrame, measured: pl.DataFrame | None
) -> pl.DataFrame:
    """Return one row per kernel signature: measured beside predicted, worst offenders first.

    Parameters
    ----------
    signatures : DataFrame
        ``signatures`` of the run; only rows of kind ``kernel`` are compared.
    predicted : DataFrame, shape (signatures, columns)
        One row per signature in the ``predictions`` columns (per launch), plus ``signature`` and ``family``.
    measured : DataFrame or None
        Rows of the ``energy`` table; those with a ``signature`` are used. None where nothing was measured.

    Returns
    -------
    DataFrame
        Rows of level ``signature`` of the ``accuracy`` table, without shares, plus ``identified``.

    Notes
    -----
    Where a log covers only part of the run, the launches inside its span are compared: the prediction
    is per launch and times the launches seen. Powers are energies over times, so the three errors of a
    row agree with one another.
    """
    kernels = signatures.filter(pl.col("kind") == "kernel").select(
        "signature", "name", "launches", pl.col("duration_ns").alias("all_ns")
    )
    per_launch = predicted.select(
        pl.col("signature").cast(pl.Int64),
        "family",
        "basis",
        *(f"duration{end}_us" for end in ("", "_low", "_high")),
        *(f"energy{end}_mj" for end in ("", "_low", "_high")),
        *(f"power{end}_w" for end in ("", "_low", "_high")),
    ).rename({f"power{end}_w": f"power_predicted{end}_w" for end in ("", "_low", "_high")})
    seen = _measured(measured)
    joined = kernels.join(per_launch, on="signature", how="left").join(seen, on="signature", how="left")
    launches = pl.coalesce("seen_launches", "launches")
    made = joined.with_columns(
        launches.alias("launches"),
        (pl.coalesce("seen_ns", "all_ns") / 1e6).alias("time_ms"),
        *(
            (pl.col(f"duration{end}_us") * launches / 1e3).alias(f"time_predicted{end}_ms")
            for end in ("", "_low", "_high")
        ),
        *(
            (pl.col(f"energy{end}_mj") * launches / 1e3).alias(f"energy_predicted{end}_j")
            for end in ("", "_low", "_high")
        ),
        pl.col("identified").fill_null(value=False),
        pl.lit("signature").alias("level"),
    ).filter(pl.col("launches") > 0)
    seconds = pl.col("time_ms") / 1e3
    made = made.with_columns(
        *(
            pl.when(seconds > 0).then(pl.col(f"energy{end}_j") / seconds).alias(f"power{end}_w")
            for end in ("", "_low", "_high")
        )
    )
    made = made.with_columns(
        *(_error(p) for p in _PARTS if p != "time"),
        pl.when(pl.col("basis").fill_null("") != FROM_ITS_OWN_TIME)
        .then(_error("time"))
        .alias("time_error_pct"),
        _agrees(),
        pl.when(pl.col("energy_j").is_not_null()).then(100.0).otherwise(0.0).alias("measured_pct"),
    )
    return worst_first(made)


def _measured(measured: pl.DataFrame | None) -> pl.DataFrame:
    energy = load_schema("energy")
    rows = energy.empty() if measured is None else measured
    rows = rows.filter(pl.col("signature").is_not_null() & (pl.col("launches") > 0))
    return rows.group_by("signature").agg(
        pl.col("launches").sum().alias("seen_launches"),
        pl.col("duration_ns").sum().alias("seen_ns"),
        *(
            pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum()).first().alias(c)
            for c in ("energy_j", "energy_low_j", "energy_high_j")
        ),
        pl.col("identified").all(),
        pl.col("reason").drop_nulls().first(),
    )


def worst_first(rows: pl.DataFrame, predicted: str = "energy_predicted_j") -> pl.DataFrame:
    """Return rows sorted by the size of the miss: joules where measured, else milliseconds of time."""
    miss = (pl.col(predicted) - pl.col("energy_j")).abs()
    slip = (pl.col("time_predicted_ms") - pl.col("time_ms")).abs()
    return rows.sort([miss, slip], descending=True, nulls_last=True, maintain_order=True)


def sum_rows(rows: pl.DataFrame, level: str, by: str | None) -> pl.DataFrame:
    """Return sums of signature rows: by a column, or over all of them.

    Notes
    -----
    Ends of intervals are added, not combined in squares: errors of kernels of one family share their
    coefficients and those of attributed energies share the log, so squares would claim too much.
    A sum's measured energy covers the kernels a log saw. Its errors of energy and power set them beside
    the predictions of the same kernels; the predicted figures themselves cover every kernel. Likewise
    its error of time leaves out kernels without known shapes, whose predicted time is the recorded one.
    """
    seen = pl.col("energy_j").is_not_null()
    timed = pl.col("time_error_pct").is_not_null()
    sums = [pl.col("launches").sum(), pl.col("time_ms").sum()]
    for stem, unit in (("time_predicted", "ms"), ("energy_predicted", "j")):
        for end in ("", "_low", "_high"):
            column = pl.col(f"{stem}{end}_{unit}")
            sums.append(pl.when(column.null_count() == 0).then(column.sum()).alias(f"{stem}{end}_{unit}"))
    for end in ("", "_low", "_high"):
        column = pl.col(f"energy{end}_j")
        sums.append(pl.when(seen.any()).then(column.sum()).alias(f"energy{end}_j"))
    sums += [
        pl.col("time_ms").filter(timed).sum().alias("timed_ms"),
        pl.col("time_predicted_ms").filter(timed).sum().alias("timed_predicted_ms"),
        pl.col("time_ms").filter(seen).sum().alias("seen_ms"),
        pl.col("time_predicted_ms").filter(seen).sum().alias("seen_predicted_ms"),
        *(
            pl.col(f"energy_predicted{end}_j").filter(seen).sum().alias(f"seen_predicted{end}_j")
            for end in ("", "_low", "_high")
        ),
        (pl.col("identified") | ~seen).all().alias("identified"),
        pl.col("reason").drop_nulls().first(),
    ]
    grouped = rows.group_by(by).agg(sums) if by else rows.select(sums)
    name = pl.col(by) if by else pl.lit("(kernels)")
    made = grouped.with_columns(
        pl.lit(level).alias("level"),
        name.fill_null("unknown").alias("name"),
        (pl.col(by) if by else pl.lit(None, dtype=pl.String)).alias("family"),
        pl.lit(None, dtype=pl.Int64).alias("signature"),
        pl.lit(None, dtype=pl.String).alias("basis"),
        _ratio(100.0 * pl.col("seen_ms"), pl.col("time_ms")).alias("measured_pct"),
        *(
            _ratio(pl.col(f"energy{e}_j"), pl.col("seen_ms") / 1e3).alias(f"power{e}_w")
            for e in ("", "_low", "_high")
        ),
        *(
            _ratio(pl.col(f"energy_predicted{e}_j"), pl.col("time_predicted_ms") / 1e3).alias(
                f"power_predicted{e}_w"
            )
            for e in ("", "_low", "_high")
        ),
    )
    seen_power = _ratio(pl.col("seen_predicted_j"), pl.col("seen_predicted_ms") / 1e3)
    made = made.with_columns(
        (100.0 * (_ratio(pl.col("timed_predicted_ms"), pl.col("timed_ms")) - 1.0)).alias("time_error_pct"),
        (100.0 * (_ratio(pl.col("seen_predicted_j"), pl.col("energy_j")) - 1.0)).alias("energy_error_pct"),
        (100.0 * (_ratio(seen_power, pl.col("power_w")) - 1.0)).alias("power_error_pct"),
        _agrees("seen_predicted_low_j", "seen_predicted_high_j"),
    )
    return worst_first(made, "seen_predicted_j")


def _ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole)


def accuracy_table(signature_rows: pl.DataFrame, gaps: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the ``accuracy`` table: total, gaps, families, then signatures, each worst first."""
    total = sum_rows(signature_rows, "total", None)
    families = sum_rows(signature_rows, "family", "family")
    parts = [total, families, signature_rows]
    if gaps is not None and gaps.height:
        parts.insert(1, gaps)
    whole = pl.concat(parts, how="diagonal_relaxed")
    figure = "energy_j" if total["energy_j"][0] is not None else "energy_predicted_j"
    all_of_it = total[figure][0]
    share = 100.0 * pl.col(figure) / all_of_it if all_of_it else pl.lit(None, dtype=pl.Float64)
    return load_schema("accuracy").conform(
        whole.with_columns(pl.when(pl.col("level") != "gap").then(share).alias("share_pct"))
    )


@dataclass(frozen=True)
class Accuracy:
    """How far prediction and measurement lie apart in one run."""

    run: str
    gpu: str
    clock_mhz: float
    table: pl.DataFrame  # the accuracy table
    breaches: tuple[str, ...]  # one sentence per threshold that does not hold
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def total(self) -> dict[str, object]:
        """Return the row over all kernels."""
        return self.table.row(0, named=True)

    @property
    def untimed_pct(self) -> float:
        """Share of the kernels' time whose prediction is the recorded time, for want of shapes. [%]"""
        rows = self.table.filter(pl.col("level") == "signature")
        own = rows.filter(pl.col("basis") == FROM_ITS_OWN_TIME)["time_ms"].sum()
        return 100.0 * float(own) / (float(rows["time_ms"].sum()) or 1.0)

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
    found = []
    for threshold in thresholds:
        rows = _covered(table, threshold)
        if not rows.height:
            raise BadInput(
                f"--fail-on {threshold.text()!r}: no family or kernel of this run is called that",
                "tracetool diff RUN -o diff.csv lists them",
            )
        column = f"{threshold.metric}_error_pct"
        judged = rows.filter(pl.col(column).is_not_null())
        if not judged.height:
            raise BadInput(
                f"--fail-on {threshold.text()!r} cannot be checked:"
                f" this run has no measured {threshold.metric}",
                "ingest it with --power LOG",
            )
        for row in judged.filter(pl.col(column).abs() > 100.0 * threshold.limit).iter_rows(named=True):
            of = "" if row["level"] == "total" else f" of {row['name']}"
            found.append(
                f"predicted {threshold.metric}{of} is {row[column]:+.1f} % off the measured one,"
                f" limit {100 * threshold.limit:g} %"
            )
    return tuple(found)


def _covered(table: pl.DataFrame, threshold: Threshold) -> pl.DataFrame:
    if threshold.metric == "edp":
        raise BadInput("--fail-on edp= judges two runs; against one run use energy=, time= or power=")
    if not threshold.scope:
        return table.filter(pl.col("level") == "total")
    families = table.filter((pl.col("level") == "family") & (pl.col("name") == threshold.scope))
    if families.height:
        return families
    matches = [threshold.covers("", name) for name in table["name"].to_list()]
    return table.filter(pl.Series(matches, dtype=pl.Boolean) & (pl.col("level") == "signature"))
