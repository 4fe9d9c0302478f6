"""One of two runs as classes of like work: time, joules, operations and bytes of each, per unit of work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.sides import count_steps
from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.core.prediction import FROM
from tracetool.hardware.load import load_gpu
from tracetool.replay.achieved import peak_of
from tracetool.replay.diagnosis.causes import NAMES
from tracetool.replay.diagnosis.gpu_pieces import WAITS, CutRun, Side
from tracetool.replay.group_energy import GroupEnergy
from tracetool.replay.groups import activity_names
from tracetool.tables.list_columns import shape_texts
from tracetool.tables.recorded_clock import recorded_clock

#: What separates a signature from the others, whatever its number in its run.
IDENTITY: Final = ("operator", "shapes", "name", "geometry")
_SUMS: Final = ("launches", "time_s", "energy_j", "flops", "dram_bytes", "roof_s", "roof_there_s")


@dataclass(frozen=True)
class WorkClasses:
    """One run, per unit of work.

    Parameters
    ----------
    cut : CutRun
        The run cut into pieces whose joules are known.
    units : float
        Units of work in it.
    classes : DataFrame
        One row per signature and module: :data:`IDENTITY`, ``module``, ``family``, ``launches``, ``calls``
        (of the framework's operators, launches where there are none), ``time_s``, ``energy_j``, ``sd``
        (relative standard error of the energy), and, null where a shape is not known, ``flops``,
        ``dram_bytes``, ``roof_s`` (time the roofline leaves them on this GPU) and ``roof_there_s`` (on the
        other run's).
    waiting : DataFrame
        Collectives waiting for other ranks: ``name``, ``launches``, ``time_s``, ``energy_j``, ``sd``.
    idle : DataFrame
        Idle time: ``name`` of its cause, ``time_s``, ``energy_j``, ``sd``.
    clock_mhz : float
        Core clock. [MHz]
    clock_stated : bool
        Whether a log states it.
    half_width_j : float
        Half-width of the 90 % interval of the whole. [J]
    """

    cut: CutRun = field(repr=False)
    units: float
    classes: pl.DataFrame
    waiting: pl.DataFrame
    idle: pl.DataFrame
    clock_mhz: float
    clock_stated: bool
    half_width_j: float

    @property
    def energy_j(self) -> float:
        """Energy of a unit of work. [J]"""
        return self.cut.energy_j / self.units

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return self.cut.recorded.gpu


def work_classes(cut: CutRun, units: float, reference: CutRun | None = None) -> WorkClasses:
    """Return a run as classes of like work.

    Parameters
    ----------
    cut : CutRun
        The run.
    units : float
        Units of work in it.
    reference : CutRun, optional
        The other run, where it ran on another GPU.
    """
    pieces = pl.concat(_errors(side).with_columns(pl.lit(side.device).alias("device")) for side in cut.sides)
    named = pieces.with_columns(
        _modules(cut).gather(pieces["row"]).alias("module"),
        cut.run.table("kernels", ["operator"])["operator"].gather(pieces["row"]).alias("call"),
    )
    waits = pl.col("part") == WAITS
    figures = _per_launch(cut, reference)
    work = (
        named.filter(~waits)
        .group_by("signature", "module", maintain_order=True)
        .agg(
            pl.col("launches", "time_s", "energy_j").sum(),
            _mean_error(),
            pl.col("call").drop_nulls().n_unique().cast(pl.Float64).alias("calls"),
        )
        .join(figures, on="signature", how="left", maintain_order="left")
        .with_columns(pl.col("flops", "dram_bytes", "roof_s", "roof_there_s") * pl.col("launches"))
        .with_columns(pl.when(pl.col("calls") > 0).then("calls").otherwise("launches").alias("calls"))
    )
    waiting = (
        named.filter(waits)
        .join(figures.select("signature", "name"), on="signature", how="left", maintain_order="left")
        .group_by("name", maintain_order=True)
        .agg(pl.col("launches", "time_s", "energy_j").sum(), _mean_error())
    )
    idle = pl.concat(_idle(side) for side in cut.sides)
    idle = idle.group_by("name", maintain_order=True).agg(pl.col("time_s", "energy_j").sum(), _mean_error())
    half = sum(((s.energy.high_j[-1] - s.energy.low_j[-1]) / 2.0) ** 2 for s in cut.sides) ** 0.5
    each = [pl.col(c) / units for c in (*_SUMS, "calls")]
    return WorkClasses(
        cut,
        units,
        work.with_columns(each),
        waiting.with_columns(each[:3]),
        idle.with_columns(each[1:3]),
        float(cut.recorded.totals[0]["clock_mhz"]),
        recorded_clock(cut.run) is not None,
        float(half) / units,
    )


def steps_of(cut: CutRun) -> float:
    """Return how many steps a run names, 0 where it names none."""
    return float(count_steps(cut.run.table("ranges")))


def _modules(cut: CutRun) -> pl.Series:
    try:
        return activity_names(cut.run, cut.run.kernels, "module")
    except BadInput:
        return pl.Series("module", [""] * cut.kernels.height, dtype=pl.String)


def _relative(energy: GroupEnergy) -> Floats:
    half = (energy.high_j - energy.low_j) / (2.0 * Z90)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(half / np.abs(energy.energy_j), nan=0.0, posinf=0.0)


def _errors(side: Side) -> pl.DataFrame:
    rows = side.activities()
    return rows.with_columns(pl.Series("sd", _relative(side.energy)[rows["pair"].to_numpy()]))


def _idle(side: Side) -> pl.DataFrame:
    sd = np.zeros(len(NAMES))
    sd[side.idle_places] = _relative(side.energy)[len(side.pairs) : -1]
    rows = side.idle()
    place = rows["cause"].to_numpy()
    return rows.select(
        pl.Series("name", list(NAMES), dtype=pl.String).gather(place),
        "time_s",
        "energy_j",
        pl.Series("sd", sd[place]),
    )


def _mean_error() -> pl.Expr:
    """Return the error of a sum whose parts err together, relative to it."""
    error_j, total_j = (pl.col("sd") * pl.col("energy_j")).sum(), pl.col("energy_j").sum()
    return pl.when(total_j > 0).then(error_j / total_j).otherwise(0.0).alias("sd")


def _per_launch(cut: CutRun, reference: CutRun | None) -> pl.DataFrame:
    """Return identity, family, operations, bytes and roofline time of one launch of each signature."""
    recorded = cut.recorded
    assert recorded.replays is not None
    table = cut.run.signatures.sort("signature")
    frame = recorded.signatures.sort("signature")
    dims = [
        pl.col(c).cast(pl.String).fill_null("")
        for c in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "bytes")
    ]
    countable = (pl.col("predicted_from") == FROM[0]) & (pl.col("flops") > 0) & (pl.col("dram_bytes") > 0)
    dtype = pl.Series("dtype", recorded.replays.rows.text("dtype").astype(str))
    roofs = []
    for name, one in (("roof_s", cut), ("roof_there_s", reference or cut)):
        gpu, mhz = load_gpu(one.recorded.gpu), float(one.recorded.totals[0]["clock_mhz"])
        roofs.append(
            pl.max_horizontal(
                pl.col("flops") / peak_of(dtype, gpu, mhz),
                pl.col("dram_bytes") / float(gpu.dram_bytes_per_s),
            ).alias(name)  # infinite for a format that the GPU is without
        )
    identity = table.select(
        pl.col("signature").cast(pl.Int64),
        pl.col("operator_name").fill_null("").alias("operator"),
        shape_texts(table),
        pl.col("name").fill_null(""),
        pl.concat_str(dims, separator=",").alias("geometry"),
    )
    counts = frame.select(
        pl.col("signature").cast(pl.Int64),
        "family",
        *(
            pl.when(countable).then(value).alias(name)
            for name, value in (
                ("flops", pl.col("flops")),
                ("dram_bytes", pl.col("dram_bytes")),
                ("roof_s", roofs[0]),
                ("roof_there_s", roofs[1]),
            )
        ),
    )
    return identity.join(counts, on="signature", how="left", maintain_order="left")
