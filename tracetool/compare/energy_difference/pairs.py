"""Matched work of two runs as columns: energies, times, work, and the effect of clocks and peaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.energy_difference.classes import WorkClasses
from tracetool.compare.energy_difference.factors import MatchedWork
from tracetool.compare.energy_difference.matching import matched_classes
from tracetool.compare.sides import same_clock
from tracetool.core.arrays import Floats
from tracetool.replay.predict_run import predict_run

#: Texts of a class that name its row.
NAMED: Final = ("name", "operator", "module", "family")
_FIGURES: Final = ("launches", "calls", "time_s", "energy_j", "flops", "dram_bytes", "roof_s", "roof_there_s")


def matched_pairs(sides: Sequence[WorkClasses], *, foreign: bool) -> tuple[pl.DataFrame, MatchedWork, float]:
    """Return matched work as rows, one a pair, and as arrays, and the clock's factor on idle power."""
    clock = _clock_ratios(sides, foreign=foreign)
    matched = matched_classes(sides[0].classes, sides[1].classes)
    if clock is not None:
        ratios = clock[0]
        matched = (
            matched[0].join(ratios, on="signature", how="left", maintain_order="left"),
            matched[1],
        )
    wide = None
    for name, rows in zip(("base", "head"), matched, strict=True):
        weight = pl.col("energy_j")
        heaviest = [
            pl.col(c).sort_by(weight, descending=True, maintain_order=True).first().alias(f"{c}_{name}")
            for c in NAMED
        ]
        sums = [
            pl.when(pl.col(c).is_not_null().all() & pl.col(c).is_finite().all())
            .then(pl.col(c).sum())
            .alias(f"{c}_{name}")
            for c in _FIGURES
        ]
        error = pl.when(weight.sum() > 0).then((pl.col("sd") * weight).sum() / weight.sum()).otherwise(0.0)
        ratios_of = [
            ((pl.col(c).fill_null(1.0) * weight).sum() / weight.sum()).fill_nan(1.0).alias(c)
            for c in ("clock_time", "clock_power")
            if c in rows.columns
        ]
        summed = rows.group_by("pair", maintain_order=True).agg(
            pl.col("level").first().alias(f"level_{name}"),
            *heaviest,
            *sums,
            error.alias(f"sd_{name}"),
            *ratios_of,
        )
        wide = summed if wide is None else wide.join(summed, on="pair", how="full", coalesce=True)
    assert wide is not None
    zero = [f"{c}_{s}" for c in ("launches", "calls", "time_s", "energy_j", "sd") for s in ("base", "head")]
    joined = wide.sort("pair").with_columns(
        pl.coalesce("level_base", "level_head").alias("level"), pl.col(zero).fill_null(0.0)
    )
    return joined, _matched_work(joined, foreign=foreign), 1.0 if clock is None else clock[1]


def _matched_work(joined: pl.DataFrame, *, foreign: bool) -> MatchedWork:
    def column(name: str, default: float = np.nan) -> Floats:
        if name not in joined.columns:
            return np.full(joined.height, default)
        return np.asarray(joined[name].cast(pl.Float64).fill_null(default).to_numpy())

    with np.errstate(divide="ignore", invalid="ignore"):
        flops, calls = (column(f"{c}_head") / column(f"{c}_base") for c in ("flops", "calls"))
        # on one GPU at one clock: what another does is a cause of its own
        at = "roof_s" if foreign else "roof_there_s"
        roof = column(f"{at}_head") / column(f"{at}_base")
        # what the other GPU's peaks do, mean of the two runs' work
        gpu = np.sqrt(
            column("roof_there_s_base")
            / column("roof_s_base")
            * column("roof_s_head")
            / column("roof_there_s_head")
        )
    counted = np.isfinite(flops) & (flops > 0)
    # a module runs as often as the unit of work asks for it, whatever its kernels are called
    calls = np.where((joined["level"] == "module").to_numpy() & np.isfinite(calls), 1.0, calls)
    return MatchedWork(
        column("energy_j_base"),
        column("energy_j_head"),
        column("time_s_base"),
        column("time_s_head"),
        np.where(counted, flops, np.nan_to_num(calls, nan=0.0, posinf=0.0)),
        np.where(counted, roof, np.nan),
        gpu if foreign else np.ones(joined.height),
        column("clock_time", 1.0),
        column("clock_power", 1.0),
    )


def _clock_ratios(sides: Sequence[WorkClasses], *, foreign: bool) -> tuple[pl.DataFrame, float] | None:
    """Return the clock's factors on each signature of the base, and on idle power; None if equal."""
    base, head = sides
    if foreign or not (base.clock_stated and head.clock_stated):
        return None
    if same_clock(base.clock_mhz, head.clock_mhz):
        return None
    predicted = predict_run(base.cut.run, base.gpu, sorted([base.clock_mhz, head.clock_mhz]))
    assert predicted.replays is not None
    each = predicted.signatures.select(
        pl.col("signature").cast(pl.Int64), "clock_mhz", "duration_us", "power_w"
    )
    at_base, at_head = (
        each.filter((pl.col("clock_mhz") - c).abs() < 1e-6 * c).drop("clock_mhz")
        for c in (base.clock_mhz, head.clock_mhz)
    )
    ratios = at_base.join(at_head, on="signature", suffix="_there").select(
        "signature",
        (pl.col("duration_us_there") / pl.col("duration_us")).alias("clock_time"),
        (pl.col("power_w_there") / pl.col("power_w")).alias("clock_power"),
    )
    at = predicted.replays.predicted
    idle = dict(zip(at.requested_mhz.tolist(), at.idle_w.tolist(), strict=True))
    return ratios, idle[head.clock_mhz] / idle[base.clock_mhz]
