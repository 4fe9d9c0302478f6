"""One side of a comparison: what its runs did, class by class, and in which order."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from tracetool.compare.readings_error import ReadingsError
from tracetool.compare.steps import Steps, instance_free, run_steps
from tracetool.core.interval import ENDS
from tracetool.tables.list_columns import shape_texts

#: What makes two launches the same piece of work, from the most telling on.
IDENTITY: Final = ("range", "operator", "shapes", "name", "geometry")
#: What the runs are grouped by, where that was asked for; the same in all classes where not.
GROUP: Final = "group"
FIGURES: Final = ("launches", "time_s", "energy_j", "energy_low_j", "energy_high_j")
_STEP: Final = r"(?i)(?:^|[^a-z])(?:profilerstep|step|iteration|iter|batch)[^a-z0-9]*[0-9]+$"
_APART = "\x1f"


#: Clocks closer than this are one clock. [1] A prior: less than a step of any driver.
_SAME_CLOCK: Final = 0.005


def same_clock(base_mhz: float, head_mhz: float) -> bool:
    """Whether the clocks of two sides agree, or one of them is not known.

    >>> same_clock(1200.0, 1205.0), same_clock(1200.0, 1215.0)
    (True, False)
    """
    return not abs(head_mhz / base_mhz - 1.0) > _SAME_CLOCK


@dataclass(frozen=True)
class RunClasses:
    """One run of a side.

    Parameters
    ----------
    label : str
        Name of the run, for the reader.
    classes : DataFrame
        ``IDENTITY`` columns, ``group`` where it was asked for, ``family``, ``kind``, ``launches``,
        ``time_s``, ``energy_j`` with its interval; one row per class, sums over the run.
    sequence : DataFrame
        ``device``, ``row`` of the class and ``call`` (the operator call that launched it, or null),
        launch by launch in order of start.
    gap_s, gap_j : float
        Time and energy of the gaps between activities.
    span_s : float
        From the first start to the last end.
    steps : int
        Steps the run names; 0 where it names none.
    keys : mapping
        What must agree for two runs to be comparable: GPU, clock mode, power cap.
    clock_mhz : float
        Core clock.
    steps_taken : Steps, optional
        What each step took, where the run names steps.
    idle : DataFrame, optional
        ``name``, and shares of the gaps' time and energy, where runs are compared by gap.
    open_energy : ReadingsError, optional
        What the power log leaves open of the energies, where they are measured.
    """

    label: str
    classes: pl.DataFrame
    sequence: pl.DataFrame
    gap_s: float
    gap_j: float
    span_s: float
    steps: int
    keys: Mapping[str, str]
    clock_mhz: float
    steps_taken: Steps | None = None
    idle: pl.DataFrame | None = None
    open_energy: ReadingsError | None = None

    def scaled(self, units: float) -> pl.DataFrame:
        """Return the classes with their sums divided by ``units``."""
        return self.classes.with_columns(*(pl.col(c) / units for c in FIGURES))


@dataclass(frozen=True)
class Side:
    """All runs of a side, brought to one unit (a step where every run names steps, else the run).

    ``classes`` holds means over runs, with a ``class`` number; ``per_run`` the figures of each run.
    """

    runs: tuple[RunClasses, ...]
    unit: str
    classes: pl.DataFrame
    per_run: pl.DataFrame  # run, class, launches, time_s, energy_j
    by_step: pl.DataFrame  # run, step, class, time_s, energy_j: not scaled to the unit
    sequence: pl.DataFrame  # device, class, call: of the first run
    gap_s: tuple[float, ...]
    gap_j: tuple[float, ...]
    span_s: tuple[float, ...]
    units: float  # of the first run, whose sequence it is
    placed: tuple[pl.Series, ...]  # the class of each row of each run's classes

    @property
    def first_run_classes(self) -> pl.Series:
        """The class of each row of the first run's classes."""
        return self.placed[0]

    @property
    def keys(self) -> Mapping[str, str]:
        """Conditions that must agree between the sides; runs of one side that differ are named together."""
        names = dict.fromkeys(k for r in self.runs for k in r.keys)
        return {k: " and ".join(dict.fromkeys(r.keys.get(k, "") for r in self.runs)) for k in names}

    def by_run(self, label: pl.Expr) -> pl.DataFrame:
        """Return launches, time and energy of each run by a label of the classes: ``run``, ``label``."""
        labels = self.classes.select("class", label.alias("label"))
        return (
            self.per_run.join(labels, on="class", how="left")
            .group_by("run", "label", maintain_order=True)
            .agg(*(pl.col(c).sum() for c in ("launches", "time_s", "energy_j")))
        )

    @property
    def clock_mhz(self) -> float:
        """Mean core clock of the runs. [MHz]"""
        return sum(r.clock_mhz for r in self.runs) / len(self.runs)


def count_steps(ranges: pl.DataFrame) -> int:
    """Return how many steps the ranges name: the most frequent numbered step name, each number once."""
    named = ranges.filter(pl.col("name").str.contains(_STEP)).select("name").unique()
    if not named.height:
        return 0
    stems = named.select(pl.col("name").str.replace(r"[0-9]+$", "").alias("stem"))
    return int(stems["stem"].value_counts(sort=True)["count"][0])


def run_classes(
    kernels: pl.DataFrame,
    signatures: pl.DataFrame,
    ranges: pl.DataFrame,
    each: pl.DataFrame,
    group: pl.Series | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a run's classes, each with its ``signature``, and its launch sequence.

    Parameters
    ----------
    kernels, signatures, ranges : DataFrame
        The run's tables.
    each : DataFrame
        Per ``signature``: ``family`` and the energy of one launch with its interval, ``each_j``,
        ``each_low_j``, ``each_high_j`` (null where not known), and ``each_s``, its time where a model
        gives it, else null: then the recorded times count.
    group : Series of str, shape (n,), optional
        Group of each activity, by which classes are kept apart.
    """
    named = ranges.select("range", instance_free("name").alias("range_name"))
    of_group = pl.lit("") if group is None else group
    launches = (
        kernels.with_columns(of_group.alias(GROUP))
        .sort("device", "start_ns")
        .select("device", "signature", "range", "duration_ns", GROUP, pl.col("operator").alias("call"))
        .join(named, on="range", how="left", maintain_order="left")
        .with_columns(pl.col("range_name").fill_null(""))
    )
    grouped = launches.group_by("range_name", GROUP, "signature", maintain_order=True).agg(
        pl.len().cast(pl.Float64).alias("launches"), (pl.col("duration_ns").sum() / 1e9).alias("recorded_s")
    )
    dims = [pl.col(c).cast(pl.String).fill_null("") for c in ("grid_x", "grid_y", "grid_z")]
    blocks = [pl.col(c).cast(pl.String).fill_null("") for c in ("block_x", "block_y", "block_z")]
    attributes = signatures.select(
        "signature",
        "kind",
        pl.col("name"),
        pl.col("operator_name").fill_null("").alias("operator"),
        shape_texts(signatures),
        pl.concat_str(
            pl.concat_str(dims, separator=","), pl.concat_str(blocks, separator=","),
            pl.col("bytes").cast(pl.String).fill_null(""), separator=" ",
        ).alias("geometry"),
    )  # fmt: skip
    rows = grouped.join(attributes, on="signature", how="left", maintain_order="left").join(
        each, on="signature", how="left", maintain_order="left"
    )
    rows = rows.rename({"range_name": "range"}).with_columns(
        pl.coalesce(pl.col("each_s") * pl.col("launches"), "recorded_s").alias("time_s"),
        *((pl.col(f"each{e}_j").fill_null(0.0) * pl.col("launches")).alias(f"energy{e}_j") for e in ENDS),
        pl.coalesce("family", "kind").alias("family"),
    )
    rows = rows.with_row_index("row")
    sequence = launches.join(
        rows.select("row", pl.col("range").alias("range_name"), GROUP, "signature"),
        on=["range_name", GROUP, "signature"],
        how="left",
        maintain_order="left",
    ).select("device", pl.col("row").cast(pl.Int64), "call")
    return rows.select(*IDENTITY, GROUP, "family", "kind", *FIGURES, "signature"), sequence


def without(classes: pl.DataFrame, patterns: Sequence[str]) -> pl.DataFrame:
    """Return the classes less those of the families, or with names that match the patterns, given."""
    names = [
        n for n in classes["name"].unique().to_list() if any(fnmatch.fnmatchcase(n, p) for p in patterns)
    ]
    return classes.filter(~(pl.col("family").is_in(list(patterns)) | pl.col("name").is_in(names)))


def make_side(runs: Sequence[RunClasses], *, per_step: bool, ignore: Sequence[str] = ()) -> Side:
    """Return a side: classes of all its runs united, figures per step or per run.

    Parameters
    ----------
    runs : sequence of RunClasses
        At least one.
    per_step : bool
        Divide by the steps each run names.
    ignore : sequence of str
        Families and name patterns to leave out.
    """
    unit = "step" if per_step else "run"
    run_rows = []
    for number, run in enumerate(runs):
        units = float(run.steps) if per_step else 1.0
        scaled = run.scaled(units)
        if GROUP not in scaled.columns:  # a table, or a baseline
            scaled = scaled.with_columns(pl.lit("").alias(GROUP))
        key = pl.concat_str(*IDENTITY, GROUP, separator=_APART)
        run_rows.append(scaled.with_columns(pl.lit(number).alias("run"), key.alias("key")))
    united = pl.concat(run_rows, how="diagonal")
    n = len(runs)
    classes = (
        united.group_by("key", maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in (*IDENTITY, GROUP, "family", "kind")),
            *((pl.col(c).sum() / n).alias(c) for c in FIGURES),
        )
        .with_row_index("class")
        .with_columns(pl.col("class").cast(pl.Int64))
    )
    numbers = classes.select("key", "class")
    per_run = (
        united.join(numbers, on="key", how="left")
        .group_by("run", "class", maintain_order=True)
        .agg(*(pl.col(c).sum() for c in ("launches", "time_s", "energy_j")))
    )
    placed = [rows.join(numbers, on="key", how="left", maintain_order="left")["class"] for rows in run_rows]
    by_step = pl.concat([run_steps(i, r, of) for i, (r, of) in enumerate(zip(runs, placed, strict=True))])
    if ignore:
        classes = without(classes, ignore)
        per_run, by_step = (
            t.join(classes.select("class"), on="class", how="semi") for t in (per_run, by_step)
        )
    sequence = runs[0].sequence.select(
        "device", placed[0].gather(runs[0].sequence["row"]).alias("class"), "call"
    )
    divide = [float(r.steps) if per_step else 1.0 for r in runs]
    if ignore:
        sequence = sequence.join(classes.select("class"), on="class", how="semi", maintain_order="left")
    return Side(
        tuple(runs),
        unit,
        classes.drop("key"),
        per_run,
        by_step,
        sequence,
        tuple(r.gap_s / u for r, u in zip(runs, divide, strict=True)),
        tuple(r.gap_j / u for r, u in zip(runs, divide, strict=True)),
        tuple(r.span_s / u for r, u in zip(runs, divide, strict=True)),
        divide[0],
        tuple(placed),
    )
