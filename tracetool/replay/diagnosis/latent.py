"""Latent factors behind the joules of each kernel, range, step, module and of the run.

References
----------
.. [1] J.-W. Chung et al., "Where Do the Joules Go? Diagnosing Inference Energy Consumption", 2026
   (arXiv:2601.22076): the factors by which energies of models, tasks and settings are explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.prediction import FROM
from tracetool.core.work import Work
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.operands import MEASURED_SWITCHING
from tracetool.model.predict import predict_rows
from tracetool.replay.achieved import peak_of
from tracetool.replay.diagnosis.causes import CAUSES, NAMES
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.groups import Groups, groups_of
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Name of the row that all groups sum to, and the key that one row per kernel is called by.
RUN_ROW: Final = "run"
KERNEL: Final = "kernel"
#: Columns of the joules of each cause.
CAUSE_COLUMNS: Final = tuple(f"{name.lower().replace('-', '_').replace(' ', '_')}_j" for name in NAMES)
#: Columns that are so many joules, or that the energy divides: as uncertain as it is.
_OF_ENERGY: Final = ("energy_j", "static_j", "power_w")
_OVER_ENERGY: Final = ("gflop_per_joule", "hardware_efficiency")
_SUMS: Final = (
    "useful_flops", "issued_flops", "shaped_flops", "dram_bytes", "roof_s", "shaped_s", "ceiling_s",
    "attained_s", "active_s", "static_j", "model_dynamic_j", "dynamic_j", "switched_j", "stated_j",
)  # fmt: skip


@dataclass(frozen=True)
class LatentFactors:
    """The latent factors of groups of a run.

    Parameters
    ----------
    frame : DataFrame
        The ``latent_factors`` table: one row per group, highest energy first, ``run`` last.
    keys : tuple of str
        What the rows are groups of.
    """

    frame: pl.DataFrame
    keys: tuple[str, ...]


def latent_factors(run: Run, booked: Ledger, by: str | Sequence[str]) -> LatentFactors:
    r"""Return the latent factors behind the joules of each group of a run.

    Parameters
    ----------
    run, booked : Run, Ledger
        The run and its joules by cause.
    by : str or sequence of str
        ``kernel``, or keys of :mod:`tracetool.replay.groups`.

    Raises
    ------
    BadInput
        As :func:`tracetool.replay.groups.groups_of`.

    Notes
    -----
    Joules of causes are those of the ledger: columns sum to the group's energy, groups to the run. Counts
    and rates are of launches whose shapes are known. Intervals are those of the group's energy, as the log
    separates it from the others' (GPUs add up), and for a cause the prior of its share beside it, in squares;
    counts of launches, time and operations are exact, bytes, occupancy and ceilings the model's. The ceiling
    of a kernel is the fast end of the interval that calibration data leave its family on this GPU: 95 % of
    such kernels take longer.
    """
    keys = tuple(by.split(",") if isinstance(by, str) else by)
    groups = groups_of(run, tuple("signature" if k == KERNEL else k for k in keys))
    facts = _per_launch(run, booked)
    frames = [_side_rows(booked, groups, facts, i) for i in range(len(booked.cut.sides))]
    by_name = pl.concat(frames).group_by("name", maintain_order=True)
    summed = by_name.agg(pl.exclude("memory").sum(), pl.max("memory"))
    total = booked.totals.row(-1, named=True)
    run_row = summed.select(
        pl.lit(RUN_ROW).alias("name"),
        pl.exclude("name", "memory", "half_j").sum(),
        pl.lit((total["energy_high_j"] - total["energy_low_j"]) / 2.0).alias("half_j"),
        pl.max("memory"),
    ).select(summed.columns)
    ordered = pl.concat([summed.sort("energy_j", descending=True, maintain_order=True), run_row])
    return LatentFactors(load_schema("latent_factors").conform(_rated(ordered, booked)), keys)


def _per_launch(run: Run, booked: Ledger) -> pl.DataFrame:
    """Return counts, roofline time, the model's ceiling and parts of one launch of each signature."""
    recorded = booked.recorded
    assert recorded.replays is not None
    rows, predicted = recorded.replays.rows, recorded.replays.predicted
    gpu, mhz = load_gpu(recorded.gpu), booked.clock.recorded_mhz
    frame = recorded.signatures.sort("signature")
    shaped = (frame["predicted_from"] == FROM[0]).to_numpy()
    work, base_j = predicted.timing.work, predicted.parts_j["base"][:, 0]
    dtype = pl.Series("dtype", rows.text("dtype").astype(str))
    roof = np.maximum(
        work.useful_flops / peak_of(dtype, gpu, mhz).to_numpy(), work.dram_bytes / float(gpu.dram_bytes_per_s)
    )
    ceiling = np.zeros(len(rows))
    if (at := np.flatnonzero(shaped)).size:
        alone = predict_rows(rows.take(at), gpu, np.array([mhz]), power_cap_w=np.inf).timing
        ceiling[at] = alone.duration_s[:, 0] * alone.low[:, 0]
    is_shaped = shaped.astype(np.float64)
    switching = rows.number(MEASURED_SWITCHING)
    columns = {
        "useful_flops": work.useful_flops * is_shaped,
        "issued_flops": np.maximum(_issued(predicted.timing.work), work.useful_flops) * is_shaped,
        "shaped_flops": work.useful_flops * is_shaped,
        "dram_bytes": work.dram_bytes * is_shaped,
        "roof_s": np.where(shaped & np.isfinite(roof), roof, 0.0),
        "known": is_shaped,
        "ceiling_s": ceiling,
        "attained": (ceiling > 0).astype(np.float64),
        "sm_active": predicted.timing.sm_active[:, 0],
        "model_dynamic_j": predicted.energy_j[:, 0] - base_j,
        "base_w": base_j / np.maximum(predicted.timing.duration_s[:, 0], 1e-300),
        "switching": np.nan_to_num(switching),
        "stated": np.isfinite(switching).astype(np.float64),
        "memory": work.dram_bytes * is_shaped / _memory_bytes(run, gpu),
    }
    return pl.DataFrame({"signature": np.arange(len(rows)), **columns})


def _issued(work: Work) -> Floats:
    return np.asarray(work.tensor_flops + work.fp32_flops + work.fp64_flops)


def _memory_bytes(run: Run, gpu: Gpu) -> float:
    stated = run.devices["memory_bytes"].drop_nulls()
    return float(stated[0]) if len(stated) and stated[0] else float(gpu.memory_bytes)


def _side_rows(booked: Ledger, groups: Groups, facts: pl.DataFrame, at: int) -> pl.DataFrame:
    """Return one GPU's groups: joules by cause, time, and the sums that factors are made of."""
    side = booked.cut.sides[at]
    pieces = side.activities()
    pieces = pieces.with_columns(pl.Series("group", groups.of_activity[pieces["row"].to_numpy()]))
    by_pair = pieces.group_by("group", "pair", "signature", maintain_order=True).agg(
        pl.col("launches", "time_s", "energy_j").sum()
    )
    idle = side.idle().with_columns(pl.Series("group", groups.of_parts(side.device, side.parts.idle)))
    present, place = np.unique(
        np.concatenate([by_pair["group"].to_numpy(), idle["group"].to_numpy()]), return_inverse=True
    )
    busy, resting, g = place[: by_pair.height], place[by_pair.height :], len(present)
    shares = side.pair_shares(booked.shares)[by_pair["pair"].to_numpy()]
    joules = np.zeros((g, len(CAUSES)))
    np.add.at(joules, busy, shares * by_pair["energy_j"].to_numpy()[:, None])
    np.add.at(joules, (resting, idle["cause"].to_numpy()), idle["energy_j"].to_numpy())
    each = by_pair.join(facts, on="signature", how="left", maintain_order="left")
    time, launches, energy = (each[c].to_numpy() for c in ("time_s", "launches", "energy_j"))
    active = each["sm_active"].to_numpy()
    sums: dict[str, Floats] = {
        c: each[c].to_numpy() * launches for c in (*_SUMS[:4], "roof_s", "ceiling_s", "model_dynamic_j")
    }
    sums |= {
        "shaped_s": each["known"].to_numpy() * time,
        "attained_s": each["attained"].to_numpy() * time,
        "active_s": active * time,
        "static_j": booked.idle_w * (1.0 - np.clip(active, 0.0, 1.0)) * time,
        "dynamic_j": energy - each["base_w"].to_numpy() * time,
        "switched_j": each["switching"].to_numpy() * energy,
        "stated_j": each["stated"].to_numpy() * energy,
    }
    most = np.zeros(g)
    np.maximum.at(most, busy, each["memory"].to_numpy())
    of_piece = np.searchsorted(present, groups.of_activity[side.parts.pieces.rows])
    half_j = side.half_widths(booked.energies, of_piece, resting, g)
    return pl.DataFrame(
        {
            "name": [groups.names[i] for i in present],
            "launches": _added(launches, busy, g),
            "time_ms": _added(time, busy, g) * 1e3,
            "idle_ms": _added(idle["time_s"].to_numpy(), resting, g) * 1e3,
            "idle_j": _added(idle["energy_j"].to_numpy(), resting, g),
            "energy_j": joules.sum(axis=1),
            "half_j": half_j,
            **{column: joules[:, i] for i, column in enumerate(CAUSE_COLUMNS)},
            **{c: _added(sums[c], busy, g) for c in _SUMS},
            "memory": most,
        }
    )


def _added(values: Floats, place: Ints, count: int) -> Floats:
    return np.asarray(np.bincount(place, values, count), dtype=np.float64)


def _rated(rows: pl.DataFrame, booked: Ledger) -> pl.DataFrame:
    """Return the groups with the rates and shares that their sums make."""
    gpu = load_gpu(booked.recorded.gpu)
    best = float(gpu.peak_flops("tensor_bf16", gpu.clock_rated_mhz)) or float(
        gpu.peak_flops("fp32", gpu.clock_rated_mhz)
    )

    def ratio(numerator: str | pl.Expr, denominator: str | pl.Expr) -> pl.Expr:
        below = pl.col(denominator) if isinstance(denominator, str) else denominator
        above = pl.col(numerator) if isinstance(numerator, str) else numerator
        return pl.when(below > 0).then(above / below)

    span = pl.col("time_ms") + pl.col("idle_ms")
    per_joule = ratio("useful_flops", "energy_j") * 1e-9
    whole_j = booked.energy_j
    rated = rows.with_columns(
        (pl.col("energy_j") / whole_j if whole_j > 0 else pl.lit(0.0)).alias("share"),
        pl.when(pl.col("shaped_s") > 0).then("useful_flops").alias("useful_flops"),
        pl.when(pl.col("shaped_s") > 0).then("dram_bytes").alias("dram_bytes"),
        (1.0 - ratio("useful_flops", "issued_flops")).alias("padding_share"),
        ratio("useful_flops", "dram_bytes").alias("flop_per_byte"),
        ratio("roof_s", "shaped_s").alias("roofline_share"),
        ratio("ceiling_s", "attained_s").alias("ceiling_share"),
        ratio("time_ms", span).alias("busy_share"),
        ratio(pl.col("active_s") * 1e3, "time_ms").alias("occupancy"),
        (pl.col("static_j") + pl.col("idle_j")).alias("static_j"),
        per_joule.alias("gflop_per_joule"),
        (per_joule * 1e9 * float(gpu.power_limit_w) / best).alias("hardware_efficiency"),
        pl.when(pl.col("shaped_s") > 0).then("memory").alias("memory_share"),
        ratio("dynamic_j", "model_dynamic_j").alias("dynamic_ratio"),
        ratio("switched_j", "stated_j").alias("operand_switching"),
        ratio(pl.col("energy_j") * 1e3, span).alias("power_w"),
    )
    return rated.with_columns(_ends())


def _ends() -> list[pl.Expr]:
    """Return the ends of the intervals of what the group's energy makes uncertain."""
    open_share = pl.when(pl.col("energy_j") > 0).then(pl.col("half_j") / pl.col("energy_j")).otherwise(0.0)
    least = (1.0 - open_share).clip(1e-9)
    ends = []
    for column in _OF_ENERGY:
        stem, unit = column.rsplit("_", 1)
        ends += [
            (pl.col(column) * least).alias(f"{stem}_low_{unit}"),
            (pl.col(column) * (1.0 + open_share)).alias(f"{stem}_high_{unit}"),
        ]
    for column in _OVER_ENERGY:
        ends += [
            (pl.col(column) / (1.0 + open_share)).alias(f"{column}_low"),
            (pl.col(column) / least).alias(f"{column}_high"),
        ]
    for one, column in zip(CAUSES, CAUSE_COLUMNS, strict=True):
        half = pl.col(column).abs() * (open_share**2 + one.model_error**2).sqrt()
        stem = column.removesuffix("_j")
        ends += [
            (pl.col(column) - half).alias(f"{stem}_low_j"),
            (pl.col(column) + half).alias(f"{stem}_high_j"),
        ]
    return ends
