"""Matched pairs as one wide table, with the causes of their change."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.decomposition import Pairs, decompose
from tracetool.compare.sides import FIGURES, Side
from tracetool.core.interval import Z90

_SHOWN: Final = 3
#: Columns of the causes, in the words of the ``changes`` table.
CAUSES: Final = {
    "work_j": "more work",
    "duration_j": "longer duration",
    "power_j": "higher power",
    "clock_j": "clock",
}


def matched_pairs(parts: pl.DataFrame, base: Side, head: Side, clock_ratios: pl.DataFrame) -> pl.DataFrame:
    """Return one row per pair with both sides' figures and the causes of its change.

    Parameters
    ----------
    parts : DataFrame
        As :func:`tracetool.compare.pairing.pair_sides` returns.
    base, head : Side
        The two sides.
    clock_ratios : DataFrame
        Per base ``class``: ``clock_time_ratio`` and ``clock_power_ratio``, what the change of clock alone
        does, head over base, and ``work_s``, the model's time of one launch at the base's clock; per head
        class (column ``side``) ``work_s``. Empty where clocks are equal and no model was asked.
    """
    wide = None
    for name, side in (("base", base), ("head", head)):
        shares = _shares(parts.filter(pl.col("side") == name), side)
        models = clock_ratios.filter(pl.col("side") == name).drop("side")
        rows = shares.join(models, on="class", how="left")
        summed = rows.group_by("pair", maintain_order=True).agg(
            pl.col("relation").first().alias(f"relation_{name}"),
            _names("name", "energy_j").alias(f"name_{name}"),
            *(
                _names(c, "energy_j", 1).alias(f"{c}_{name}")
                for c in ("family", "operator", "range", "group")
            ),
            pl.col("places").max().alias(f"count_{name}"),
            *(pl.col(c).sum().alias(f"{c}_{name}") for c in FIGURES),
            _mean("clock_time_ratio").alias(f"clock_time_ratio_{name}"),
            _mean("clock_power_ratio").alias(f"clock_power_ratio_{name}"),
            _mean("work_s").alias(f"work_s_{name}"),
        )
        wide = summed if wide is None else wide.join(summed, on="pair", how="full", coalesce=True)
    assert wide is not None
    pairs = wide.with_columns(
        pl.coalesce("relation_base", "relation_head").alias("relation"),
        *(pl.coalesce(f"{c}_base", f"{c}_head").alias(c) for c in ("family", "operator", "range", "group")),
        *(pl.col(f"{c}_{s}").fill_null(0.0) for c in (*FIGURES, "count") for s in ("base", "head")),
    ).sort("pair")
    work = pl.when(pl.col("relation") == "reshaped").then(pl.col("work_s_head") / pl.col("work_s_base"))
    pairs = pairs.with_columns(
        work.fill_null(1.0).fill_nan(1.0).alias("work_ratio"),
        pl.col("clock_time_ratio_base").fill_null(1.0).alias("clock_time_ratio"),
        pl.col("clock_power_ratio_base").fill_null(1.0).alias("clock_power_ratio"),
    )
    return _with_causes(pairs)


def _shares(parts: pl.DataFrame, side: Side) -> pl.DataFrame:
    """Return the part of every class that belongs to each pair, figures in proportion to launches."""
    class_figures = side.classes.select(
        "class",
        "name",
        "family",
        "operator",
        "range",
        "group",
        *(pl.col(c).alias(f"all_{c}") for c in FIGURES),
    )
    rows = parts.join(class_figures, on="class", how="left")
    share = pl.col("launches") / pl.col("all_launches")
    return rows.with_columns((pl.col(f"all_{c}") * share).alias(c) for c in FIGURES if c != "launches")


def _names(column: str, weight: str, most: int = _SHOWN) -> pl.Expr:
    """Return the distinct texts of a group, weightiest first, the first few joined."""
    ordered = pl.col(column).sort_by(weight, descending=True, maintain_order=True)
    distinct = ordered.filter(ordered != "").unique(maintain_order=True)
    joined = distinct.head(most).str.join(" + ")
    if most == 1:
        return joined
    more = distinct.len().cast(pl.Int64) - most
    return (
        pl.when(more > 0).then(pl.concat_str(joined, pl.lit(" + "), more, pl.lit(" more"))).otherwise(joined)
    )


def _mean(column: str) -> pl.Expr:
    weight = pl.when(pl.col(column).is_not_null()).then(pl.col("launches"))
    return pl.when(weight.sum() > 0).then((pl.col(column) * pl.col("launches")).sum() / weight.sum())


def _with_causes(pairs: pl.DataFrame) -> pl.DataFrame:
    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return pairs[name].cast(pl.Float64).to_numpy()

    causes = decompose(
        Pairs(
            column("count_base"),
            column("count_head"),
            column("time_s_base"),
            column("time_s_head"),
            column("energy_j_base"),
            column("energy_j_head"),
            column("work_ratio"),
            column("clock_time_ratio"),
            column("clock_power_ratio"),
        )
    )
    return pairs.with_columns(pl.Series(c, causes[cause], dtype=pl.Float64) for c, cause in CAUSES.items())


def pair_half_width() -> pl.Expr:
    r"""Return an expression: the 90 % half-width that the model's error gives a pair's change. [J]

    Notes
    -----
    With half-widths :math:`h_0, h_1` of the two sides' energies,

    .. math:: h^2 = h_0^2 + h_1^2 - 2\rho\,h_0 h_1

    The same work errs by the same share on both sides (:math:`\rho = 1`): only its change is unsure. Other
    kernels err apart (:math:`\rho = 0`). Between two shapes of one kernel the error is the more alike the
    closer they are, :math:`\rho = e^{-|\ln r|/\ln 4}` for energies per launch in the ratio :math:`r`;
    the scale of a factor of four is an assumption.
    """
    base, head = (
        (pl.col(f"energy_high_j_{s}") - pl.col(f"energy_low_j_{s}")) / 2.0 for s in ("base", "head")
    )
    each = [pl.col(f"energy_j_{s}") / pl.col(f"launches_{s}") for s in ("base", "head")]
    nearness = (-(each[1] / each[0]).log().abs() / math.log(4.0)).exp().fill_nan(0.0).fill_null(0.0)
    alike = (
        pl.when(pl.col("relation").is_in(["same", "relocated"]))
        .then(1.0)
        .when(pl.col("relation") == "reshaped")
        .then(nearness)
        .otherwise(0.0)
    )
    return (base**2 + head**2 - 2.0 * alike * base * head).clip(0.0).sqrt()


def model_error_j(pairs: pl.DataFrame) -> float:
    """Return the standard error of the energy change that the model's own error makes. [J]

    Errors of the same work are common to a family and add up with their signs; others err apart.
    """
    common = pl.col("relation").is_in(["same", "relocated"])
    signed = pair_half_width() * (pl.col("energy_j_head") - pl.col("energy_j_base")).sign()
    families = pairs.filter(common).group_by("family", maintain_order=True).agg(signed.sum().alias("j"))["j"]
    apart = pairs.filter(~common).select((pair_half_width() ** 2).sum().alias("j"))["j"]
    return math.sqrt(float((families**2).sum()) + float(apart[0] or 0.0)) / Z90
