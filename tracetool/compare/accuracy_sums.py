"""Sums of compared kernels: by family, and over all of them."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.interval import ENDS
from tracetool.families.names import UNKNOWN
from tracetool.measure.signature_sums import SignatureSums
from tracetool.replay.scope_totals import TIME_COMMON

#: Name of the row over everything that was compared.
COMPARED: Final = "(compared)"


#: A collective that waited longer than this share of its time has energy of waiting, which no transfer
#: predicts. [1]
WAITED: Final = 0.01


def with_errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Return signature rows with their errors, whether they agree and ``compared_pct``, worst first."""
    share = 100.0 * ratio(transfer_ms(), pl.col("time_ms")).fill_null(1.0)
    return worst_first(
        rows.with_columns(
            *errors(), agrees(), pl.when("compared").then(share).otherwise(0.0).alias("compared_pct")
        )
    )


def transfer_ms() -> pl.Expr:
    """Return the measured time without what collectives waited for other ranks. [ms]"""
    return pl.col("time_ms") - pl.col("waiting_ms").fill_null(0.0)


def _waited() -> pl.Expr:
    return (pl.col("waiting_ms") > WAITED * pl.col("time_ms")).fill_null(value=False)


def agrees(low: str = "energy_predicted_low_j", high: str = "energy_predicted_high_j") -> pl.Expr:
    """Return in a word whether the 90 % intervals of two energies overlap."""
    apart = (pl.col(low) > pl.col("energy_high_j")) | (pl.col(high) < pl.col("energy_low_j"))
    return (
        pl.when(pl.col("energy_j").is_null())
        .then(pl.lit("not measured"))
        .when(~pl.col("compared") | _lone_wait())
        .then(pl.lit("not compared"))
        .when(~pl.col("identified"))
        .then(pl.lit("inconclusive"))
        .when(apart)
        .then(pl.lit("no"))
        .otherwise(pl.lit("yes"))
        .alias("agrees")
    )


def worst_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows sorted by the size of the miss: joules where measured, else milliseconds of time.

    Rows that were not compared come last.
    """
    miss = (pl.col("energy_predicted_j") - pl.col("energy_j")).abs()
    slip = (pl.col("time_predicted_ms") - transfer_ms()).abs()
    return rows.sort(
        [pl.col("compared"), pl.when("compared").then(miss), slip],
        descending=True,
        nulls_last=True,
        maintain_order=True,
    )


def sum_rows(
    rows: pl.DataFrame, level: str, by: str | None, shared: SignatureSums | None = None
) -> pl.DataFrame:
    """Return sums of signature rows: by a column, or over all of them.

    Parameters
    ----------
    rows : DataFrame
        Signature rows; ``part``, where there is one, is the share of its signature that a row holds.
    level : str
        Level of the sums.
    by : str, optional
        The column.
    shared : SignatureSums, optional
        What errors the measured energies share.

    Notes
    -----
    Only kernels that were compared count, on both sides over the same launches: times over all of them,
    energies and powers over those whose energy was measured (over all of them where none was).
    ``compared_pct`` is the share of the measured time of all kernels of the row that this is. What
    collectives waited for other ranks (``waiting_ms``) is in ``time_ms`` and in no error; the energy of
    those that waited is not compared.
    Predicted intervals are those of sums everywhere (:func:`tracetool.replay.scope_totals.family_spread`):
    energies of one family share their coefficients and err together, times in part, and families err apart.
    Measured
    ones are those of the sum: what errors classes share through the log adds up, what cancels between classes
    it does not separate does cancel.
    """
    timed = pl.col("compared")
    metered = timed & pl.col("energy_j").is_not_null() & ~_waited()
    with_energy = pl.when(metered.any()).then(metered).otherwise(timed)
    rows = rows.with_columns(
        *_variances("time_predicted", "ms", timed, TIME_COMMON, by),
        *_variances("energy_predicted", "j", _judged(timed, metered, by), 1.0, by),
    )
    sums = [
        pl.col("launches").filter(timed).sum(),
        pl.col("time_ms").filter(timed).sum(),
        pl.col("waiting_ms").filter(timed & pl.col("waiting_ms").is_not_null()).sum(),
        *_predicted_sums("time_predicted", "ms", timed),
        *(pl.when(metered.any()).then(pl.col(f"energy{e}_j").filter(metered).sum()) for e in ENDS),
        *_predicted_sums("energy_predicted", "j", with_energy),
        pl.col("time_ms").filter(metered).sum().alias("metered_ms"),
        pl.col("time_predicted_ms").filter(with_energy).sum().alias("judged_predicted_ms"),
        pl.col("all_ms").sum(),
        (pl.col("identified") | ~metered).all(),
        pl.col("reason").drop_nulls().first(),
        timed.any().alias("compared"),
    ]
    grouped = rows.group_by(by, maintain_order=True).agg(sums) if by else rows.select(sums)
    name = pl.col(by) if by else pl.lit(COMPARED)
    if shared is not None and shared.classes:
        grouped = _with_joint_ends(grouped, rows.filter(metered), by, shared)
    sums_by_row = grouped.with_columns(
        pl.lit(level).alias("level"),
        name.fill_null(UNKNOWN).alias("name"),
        (pl.col(by) if by else pl.lit(None, dtype=pl.String)).alias("family"),
        pl.lit(None, dtype=pl.Int64).alias("signature"),
        pl.lit(None, dtype=pl.String).alias("basis"),
        pl.when(pl.col("waiting_ms") > 0).then("waiting_ms").alias("waiting_ms"),
        ratio(100.0 * transfer_ms(), pl.col("all_ms")).alias("compared_pct"),
        ratio(100.0 * pl.col("metered_ms"), pl.col("time_ms")).alias("measured_pct"),
        *(ratio(pl.col(f"energy{e}_j"), pl.col("metered_ms") / 1e3).alias(f"power{e}_w") for e in ENDS),
        *(
            ratio(pl.col(f"energy_predicted{e}_j"), pl.col("judged_predicted_ms") / 1e3).alias(
                f"power_predicted{e}_w"
            )
            for e in ENDS
        ),
    )
    return worst_first(sums_by_row.with_columns(*errors(), agrees()))


def _judged(timed: pl.Expr, metered: pl.Expr, by: str | None) -> pl.Expr:
    """Return which rows energies are summed over: those measured, or where a group has none all compared."""
    any_metered = metered.any().over(by) if by else metered.any()
    return pl.when(any_metered).then(metered).otherwise(timed)


def _variances(name: str, unit: str, chosen: pl.Expr, common: float, by: str | None) -> list[pl.Expr]:
    r"""Return each row's part of the squared half-widths of its group's predicted sum, below and above.

    .. math:: s^2 = \sum_f \Bigl( c \bigl(\sum_i h_i\bigr)^2 + (1 - c) \sum_i h_i^2 \Bigr)
        = \sum_i \Bigl( c\,h_i \sum_{j \in f(i)} h_j + (1 - c)\,h_i^2 \Bigr)
    """
    group = [pl.col("family").fill_null(UNKNOWN), *([pl.col(by)] if by else [])]
    added = []
    for end in ENDS[1:]:
        half = (pl.col(f"{name}{end}_{unit}") - pl.col(f"{name}_{unit}")).abs()
        half = pl.when(chosen).then(half).otherwise(0.0).fill_null(0.0)
        variance = common * half * half.sum().over(group) + (1.0 - common) * half**2
        added.append(variance.alias(f"{name}{end}_variance"))
    return added


def _predicted_sums(name: str, unit: str, chosen: pl.Expr) -> list[pl.Expr]:
    """Return a predicted sum of the chosen rows of a group and the ends of its 90 % interval."""
    total = pl.col(f"{name}_{unit}").filter(chosen).sum()
    below, above = (pl.col(f"{name}{end}_variance").sum().sqrt() for end in ENDS[1:])
    low, high = ENDS[1:]
    return [
        total,
        (total - below).clip(lower_bound=0.0).alias(f"{name}{low}_{unit}"),
        (total + above).alias(f"{name}{high}_{unit}"),
    ]


def _with_joint_ends(
    grouped: pl.DataFrame, metered: pl.DataFrame, by: str | None, shared: SignatureSums
) -> pl.DataFrame:
    """Return sums with the measured intervals that their rows have together, where any row was metered."""
    shares_of_sums = metered.select(
        (pl.col(by) if by else pl.lit(COMPARED)).fill_null(UNKNOWN).alias("name"),
        "signature",
        (pl.col("part") if "part" in metered.columns else pl.lit(1.0)).alias("part"),
    )
    names = sorted(set(shares_of_sums["name"].to_list()))
    if not names:
        return grouped
    half = pl.DataFrame(
        {"joined": names, "half": shared.half_shares(shared.work_seconds(shares_of_sums, names))}
    ).with_columns(pl.col("half").fill_nan(None))
    name = (pl.col(by) if by else pl.lit(COMPARED)).fill_null(UNKNOWN)
    joined = grouped.with_columns(name.alias("joined")).join(
        half, on="joined", how="left", maintain_order="left"
    )
    low, high = pl.col("energy_j") * (1.0 - pl.col("half")), pl.col("energy_j") * (1.0 + pl.col("half"))
    return joined.with_columns(
        pl.coalesce(low.clip(lower_bound=0.0), "energy_low_j").alias("energy_low_j"),
        pl.coalesce(high, "energy_high_j").alias("energy_high_j"),
    ).drop("joined", "half")


#: Sums of a signature's launches, which its groups share.
_SHARED: Final = (
    *("launches", "time_ms", "all_ms", "waiting_ms"),
    *(f"time_predicted{end}_ms" for end in ENDS),
    *(f"energy{what}{end}_j" for what in ("", "_predicted") for end in ENDS),
)


def grouped_rows(
    rows: pl.DataFrame, signature: pl.Series, group: pl.Series, shared: SignatureSums | None = None
) -> pl.DataFrame:
    """Return the signature rows' sums by group of their launches; level ``group``.

    Parameters
    ----------
    rows : DataFrame
        Signature rows.
    signature, group : Series, shape (n,)
        Of each activity.
    shared : SignatureSums, optional
        What errors the measured energies share.

    Notes
    -----
    A group has as large a share of a signature's sums as it has of its launches.
    """
    launched = pl.DataFrame({"signature": signature.cast(pl.Int64), "group": group})
    launches_of_group = launched.group_by("signature", "group", maintain_order=True).len("count")
    share = pl.col("count") / pl.col("count").sum().over("signature")
    split = launches_of_group.with_columns(share.alias("part")).join(rows, on="signature", how="inner")
    split = split.with_columns(pl.col(c) * pl.col("part") for c in _SHARED if c in split.columns)
    return sum_rows(split, "group", "group", shared).with_columns(
        pl.lit(None, dtype=pl.String).alias("family")
    )


def errors() -> list[pl.Expr]:
    """Return the errors of time, energy and power of compared rows, null where none are compared. [%]

    The time is that without waiting for other ranks; energy and power of what waited are not compared.
    """
    compared = pl.col("compared")
    figures = (
        ("time", "ms", transfer_ms(), compared),
        ("energy", "j", pl.col("energy_j"), compared & ~_lone_wait()),
        ("power", "w", pl.col("power_w"), compared & ~_lone_wait()),
    )
    return [
        pl.when(comparable & (measured > 0))
        .then(100.0 * (pl.col(f"{what}_predicted_{unit}") / measured - 1.0))
        .alias(f"{what}_error_pct")
        for what, unit, measured, comparable in figures
    ]


def _lone_wait() -> pl.Expr:
    """Return which signature rows waited; sums leave such rows out by themselves."""
    return (pl.col("level") == "signature") & _waited()


def ratio(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    """Return part over whole, null where the whole is zero."""
    return pl.when(denominator > 0).then(numerator / denominator)
