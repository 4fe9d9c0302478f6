"""Questions to a data set of many jobs: each reads the columns it needs, of the files it needs.

The same files answer SQL: ``SELECT kernel, sum(energy_j) FROM read_parquet('DST/energy/*/*/*.parquet',
hive_partitioning=true) GROUP BY kernel``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.fleet.manifest import Manifest
from tracetool.fleet.storage import Place
from tracetool.hardware.priors import prior_table
from tracetool.tables.library_output import muted_panics
from tracetool.tables.table_file import FAULTS, fault_of

_Options = ParamSpec("_Options")
_Question = Callable[Concatenate[Place, _Options], pl.DataFrame]
#: What makes the tables of a kind: the task and its command.
_MADE_BY: Final = {
    "energy": ("attribute", "tracetool fleet attribute DST"),
    "predictions": ("predict", "tracetool fleet predict DST --clock 900:1800:150"),
}
#: Columns of jobs that are no labels.
OF_JOBS: Final = ("job", "start", "month", "kernels", "gpus")
#: Columns of jobs that energy can be summed by, beside labels.
_OF_ROWS: Final = ("job", "gpu", "family", "kernel", "signature", "uuid", "rank")
#: Launches on a GPU without which its energy at equal work says nothing.
_LAUNCHES: Final = 10
#: What makes executions on GPUs of a model equal work.
_SAME_WORK: Final = ("gpu", "kernel", "launch")
#: Share of its energy within which a sum over a job's kernels is the job. [1] Rounding.
_ALL: Final = 1e-6
#: GPUs that ran a kernel without which there is no comparison.
_GPUS: Final = 3
#: How much longer a job may take for savings where nobody states it. [1] Prior: that of ``sweep``.
SLOWDOWN: Final = 0.05


def _asks(kind: str) -> Callable[[_Question[_Options]], _Question[_Options]]:
    """Let a question end in one line where a table of the kind is damaged, and name it."""

    def decorate(question: _Question[_Options]) -> _Question[_Options]:
        @wraps(question)
        def asked(place: Place, /, *args: _Options.args, **options: _Options.kwargs) -> pl.DataFrame:
            try:
                with muted_panics():
                    return question(place, *args, **options)
            except (pa.ArrowException, *FAULTS) as error:
                task, command = _MADE_BY[kind]
                fix = f"remove {place.name}/manifest/{task}, then: {command}"
                fault = f"is a broken table: {fault_of(error)}"
                raise BadInput.in_file(_broken(place, kind), fault, fix) from error

        return asked

    return decorate


def _broken(place: Place, kind: str) -> str:
    """Return the first table of a kind that cannot be read, the data set where each can alone."""
    for item in place.items(kind):
        try:
            pq.read_table(item.path, filesystem=place.files)
        except (pa.ArrowException, *FAULTS):
            return item.path
    return place.name


def _scan(place: Place, kind: str) -> pl.LazyFrame:
    """Return the table of a kind over all jobs, its partitions as columns."""
    place.require()
    if not place.items(kind):
        raise BadInput.in_file(place.name, f"holds no {kind}", _MADE_BY[kind][1])
    partitions = pads.partitioning(flavor="hive")
    partitioned = pads.dataset(
        place.path(kind), filesystem=place.files, format="parquet", partitioning=partitions
    )
    return pl.scan_pyarrow_dataset(partitioned)


def jobs(place: Place) -> pl.DataFrame:
    """Return the jobs that were read: when (UTC), kernels, GPUs and a column per label."""
    place.require()
    entries = [e for e in Manifest(place, "ingest").entries().values() if e["state"] == "done"]
    if not entries:
        raise BadInput.in_file(place.name, "holds no jobs", "make them: tracetool fleet ingest SRC -o DST")
    labels = sorted({name for e in entries for name in e.get("labels", {})})
    rows = [
        [e["job"], e.get("start_ns"), e.get("kernels"), ", ".join(sorted(set(e.get("gpus", [])))),
         *(e.get("labels", {}).get(name) for name in labels)]
        for e in entries
    ]  # fmt: skip
    schema = {"job": pl.String, "start": pl.Int64, "kernels": pl.Int64, "gpus": pl.String}
    frame = pl.DataFrame(rows, schema={**schema, **dict.fromkeys(labels, pl.String)}, orient="row")
    frame = frame.with_columns(pl.col("start").cast(pl.Datetime("ns", "UTC")))
    month = pl.col("start").dt.strftime("%Y-%m").fill_null("no clock").alias("month")
    return frame.select("job", "start", month, pl.exclude("job", "start"))


@_asks("energy")
def energy(place: Place, by: str) -> pl.DataFrame:
    """Return energy summed by job, GPU model, family, kernel, rank, month or a label, the most first.

    ``energy_j`` with ``energy_low_j`` and ``energy_high_j``: errors of kernels of one job go together (one
    log, one model), those of different jobs apart, so half widths add within a job and as squares between
    jobs. A job as a whole has an interval of its own, without the error of how its kernels are separated.
    ``measured_pct`` is the share of the energy that logs determine.

    Raises
    ------
    BadInput
        If nothing was attributed, or there is no such column or label.
    """
    rows = _scan(place, "energy")
    job_table = jobs(place)
    labels = [c for c in job_table.columns if c not in OF_JOBS]
    if by not in (*_OF_ROWS, "month", *labels):
        names = ", ".join((*_OF_ROWS, "month", *labels))
        raise BadInput(f"nothing is known by {by!r}", f"known: {names}")
    if by == "signature":
        rows = rows.with_columns(signature=pl.format("{} {}", "kernel", "launch"))
    if by in ("month", *labels):
        rows = rows.join(job_table.lazy().select("job", by), on="job", how="left")
    measured = pl.when(pl.col("source") == "measured").then(pl.col("energy_j")).otherwise(0.0)
    if "measured_j" in rows.collect_schema():  # rows of an earlier version say it by their source
        measured = pl.coalesce("measured_j", measured)
    per_job = rows.group_by(*dict.fromkeys((by, "job"))).agg(
        # a job of no known energy is none of the sum, not a job of no energy
        pl.when(pl.col("energy_j").count() > 0).then(pl.col("energy_j").sum()).alias("energy_j"),
        (pl.col("energy_j") - pl.col("energy_low_j")).sum().alias("down_j"),
        (pl.col("energy_high_j") - pl.col("energy_j")).sum().alias("up_j"),
        measured.sum().alias("measured_j"),
        (pl.col("time_ms") + pl.col("idle_ms")).sum().alias("time_ms"),
        pl.col("launches").sum(),
    )
    all_of_it = (pl.col("energy_j") - pl.col("whole_j")).abs() <= _ALL * pl.col("whole_j")
    per_job = per_job.join(_wholes(place), on="job", how="left").with_columns(
        pl.when(all_of_it).then(f"whole_{side}").otherwise(side).alias(side) for side in ("down_j", "up_j")
    )
    summed = per_job.group_by(by).agg(
        pl.when(pl.col("energy_j").count() > 0).then(pl.col("energy_j").sum()).alias("energy_j"),
        (pl.col("down_j", "up_j") ** 2).sum().sqrt(),
        pl.col("measured_j", "time_ms", "launches").sum(),
        pl.len().alias("jobs"),
        pl.col("energy_j").null_count().alias("jobs_without_energy"),
    )
    energy_j = pl.col("energy_j")
    return (
        summed.sort("energy_j", by, descending=[True, False], nulls_last=True)
        .select(
            pl.col(by).cast(pl.String).alias("name"),
            "energy_j",
            (energy_j - pl.col("down_j")).clip(0.0).alias("energy_low_j"),
            (energy_j + pl.col("up_j")).alias("energy_high_j"),
            (energy_j / energy_j.sum()).alias("share"),
            "time_ms",
            "launches",
            "jobs",
            (100.0 * pl.col("measured_j") / energy_j).alias("measured_pct"),
            "jobs_without_energy",
        )
        .collect()
    )


def _wholes(place: Place) -> pl.LazyFrame:
    """Return the energy of each job as a whole with the half widths below and above it."""
    rows = [
        (job, e.get("energy_j"), e.get("energy_low_j"), e.get("energy_high_j"))
        for job, e in Manifest(place, "attribute").entries().items()
        if e["state"] == "done"
    ]
    schema = {"job": pl.String, "whole_j": pl.Float64, "low_j": pl.Float64, "high_j": pl.Float64}
    frame = pl.LazyFrame(rows, schema=schema, orient="row")
    down, up = pl.col("whole_j") - pl.col("low_j"), pl.col("high_j") - pl.col("whole_j")
    return frame.select("job", "whole_j", down.alias("whole_down_j"), up.alias("whole_up_j"))


@_asks("energy")
def outliers(place: Place) -> pl.DataFrame:
    """Return each GPU's energy at equal work against the other GPUs of its model, the most first.

    Of every kernel and launch (grid, block, shapes) that at least three GPUs of a model ran ten times, the
    energy of one execution over the median of the GPUs; of a GPU their mean, weighted by energy. The interval
    of ``energy_more_pct`` holds the spread between its kernels and, together for all of them, the half width
    of the GPU's measured energies: the gain of its sensor may be what stands out.
    """
    rows = _scan(place, "energy")
    half = 0.5 * (pl.col("energy_high_j") - pl.col("energy_low_j"))
    unit = pl.coalesce(pl.col("uuid"), pl.format("{} rank {}", "job", "rank"))
    per_gpu = (
        rows.filter((pl.col("launches") >= _LAUNCHES) & (pl.col("source") == "measured"))
        .group_by(unit.alias("uuid"), *_SAME_WORK)
        .agg(pl.col("energy_j", "launches").sum(), half_j=half.sum())
        .with_columns(each=pl.col("energy_j") / pl.col("launches"))
        .with_columns(
            middle=pl.col("each").median().over(_SAME_WORK),
            units=pl.col("uuid").n_unique().over(_SAME_WORK),
        )
        .filter(pl.col("units") >= _GPUS)
        .with_columns(ratio=pl.col("each") / pl.col("middle"))
    )
    weight = pl.col("energy_j")
    mean = (weight * pl.col("ratio")).sum() / weight.sum()
    spread = (((weight * (pl.col("ratio") - mean)) ** 2).sum()).sqrt() / weight.sum()
    sensor = pl.col("half_j").sum() / weight.sum()
    reach = ((Z90 * spread) ** 2 + (mean * sensor) ** 2).sqrt()
    return (
        per_gpu.group_by("uuid", "gpu")
        .agg(
            (100.0 * (mean - 1.0)).alias("energy_more_pct"),
            (100.0 * (mean - 1.0 - reach)).alias("energy_more_low_pct"),
            (100.0 * (mean - 1.0 + reach)).alias("energy_more_high_pct"),
            pl.col("energy_j").sum(), pl.len().alias("kernels"),
        )
        .sort("energy_more_pct", "uuid", descending=[True, False])
        .rename({"uuid": "name"})
        .collect()
    )  # fmt: skip


@_asks("predictions")
def savings(place: Place, slowdown: float) -> pl.DataFrame:
    """Return the savings by clocks: per job its clock of least energy within a slowdown, and the sum.

    Parameters
    ----------
    place : Place
        The data set.
    slowdown : float
        How much longer than at its highest clock predicted a job may take, a fraction: 0.05 is 5 %. [1]

    Raises
    ------
    BadInput
        If nothing was predicted, or at one clock only.

    Notes
    -----
    Against the highest clock predicted for each job. The interval holds that of the energies themselves,
    which scales both clocks alike, and what the model's ratio of two clocks is uncertain by: the spreads per
    octave of power and of time that clock sweeps showed (``anchor`` in ``hardware/priors.toml``). Jobs
    rest on one model: half widths add.
    """
    ranks = _scan(place, "predictions")
    energies = pl.col("energy_j", "energy_low_j", "energy_high_j").sum()  # the makespan is the job's
    totals = ranks.group_by("job", "clock_mhz").agg(energies, pl.col("makespan_ms").max()).collect()
    top = pl.col("clock_mhz").max().over("job")
    base = totals.filter(pl.col("clock_mhz") == top)
    if (totals.group_by("job").len()["len"] < 2).all():
        raise BadInput.in_file(
            place.name, "holds predictions at one clock a job", "fleet predict --clock LO:HI:STEP"
        )
    limit = base.select("job", "makespan_ms").rename({"makespan_ms": "_limit"})
    allowed = totals.join(limit, on="job").filter(
        pl.col("makespan_ms") <= (1.0 + slowdown) * pl.col("_limit")
    )
    best = allowed.sort("job", "energy_j", "clock_mhz").group_by("job", maintain_order=True).first()
    joined = best.join(base, on="job", suffix="_top")
    saved = pl.col("energy_j_top") - pl.col("energy_j")
    scale = 0.5 * (pl.col("energy_high_j_top") - pl.col("energy_low_j_top")) / pl.col("energy_j_top")
    octaves = (pl.col("clock_mhz_top") / pl.col("clock_mhz")).log(2.0)
    watts, time = prior_table("anchor.power_per_octave"), prior_table("anchor.sd_per_octave")
    straight = watts["kernel"] ** 2 + time["core"] ** 2
    between = Z90 * (straight * octaves**2 + watts["unread"] ** 2 * octaves.abs()).sqrt()
    half = ((scale * saved) ** 2 + (between * pl.col("energy_j")) ** 2).sqrt()
    rows = joined.select(
        pl.col("job").alias("name"), saved.alias("saved_energy_j"),
        (saved - half).alias("saved_energy_low_j"),
        (saved + half).alias("saved_energy_high_j"),
        (100.0 * saved / pl.col("energy_j_top")).alias("saved_pct"),
        (100.0 * (pl.col("makespan_ms") / pl.col("makespan_ms_top") - 1.0)).alias("longer_pct"), "clock_mhz",
        pl.col("clock_mhz_top").alias("from_clock_mhz"), pl.col("energy_j_top").alias("energy_j"),
    ).sort("saved_energy_j", "name", descending=[True, False])  # fmt: skip
    all_jobs = rows.select(
        pl.lit("all jobs").alias("name"),
        pl.col("saved_energy_j", "saved_energy_low_j", "saved_energy_high_j").sum(),
        (100.0 * pl.col("saved_energy_j").sum() / pl.col("energy_j").sum()).alias("saved_pct"),
        pl.lit(None, pl.Float64).alias("longer_pct"), pl.lit(None, pl.Float64).alias("clock_mhz"),
        pl.lit(None, pl.Float64).alias("from_clock_mhz"), pl.col("energy_j").sum(),
    )  # fmt: skip
    return pl.concat([rows, all_jobs])
