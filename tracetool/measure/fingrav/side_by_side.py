"""Several kernels side by side: power by component, and by what ran before, of each.

FinGraV's comparisons (its figures 8 to 10): which component a kernel stresses, what steady execution (SSE)
and steady power (SSP) differ by, and what neighbors do to kernels that draw little.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import number
from tracetool.measure.fingrav.campaign import (
    Profiled,
    context_table,
    kernel_times,
    profile_runs,
    profile_tables,
    summary,
)
from tracetool.measure.fingrav.campaign_tables import table_kernel_times
from tracetool.measure.fingrav.kernel_choice import chosen_kernels
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Kind of the sentences: steady power, as in the figures of FinGraV.
_KIND: Final = "ssp"
#: Shares of components that differ by less in sum are called alike. [1] A prior.
_ALIKE: Final = 0.05


@dataclass(frozen=True)
class SideBySide:
    """Profiles of several kernels and what sets them apart.

    Parameters
    ----------
    profiles : tuple of Profiled
        One per kernel, in the order asked for.
    frame : DataFrame
        The ``kernel_power`` table.
    contexts : DataFrame or None
        Mean power of each kernel by what ran before, and its ratio to that of the isolated kernel; None where
        none ran among others.
    sentences : tuple of str
        Which kernel draws most and least, in total and in each component.
    """

    profiles: tuple[Profiled, ...] = field(repr=False)
    frame: pl.DataFrame
    contexts: pl.DataFrame | None
    sentences: tuple[str, ...]

    @property
    def components(self) -> list[str]:
        """Components that every kernel has, the total first."""
        each = [self.frame.filter(pl.col("kernel") == p.kernel)["component"].to_list() for p in self.profiles]
        return [c for c in dict.fromkeys(each[0]) if all(c in of for of in each)]

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON document."""
        return {
            "kernels": [p.document() for p in self.profiles],
            "comparison": self.frame.to_dicts(),
            "contexts": [] if self.contexts is None else self.contexts.to_dicts(),
            "findings": list(self.sentences),
            "notes": [f"{p.kernel}: {note}" for p in self.profiles for note in p.notes],
        }


def compare_runs(
    runs: Sequence[Run | str | os.PathLike[str]],
    *,
    kernels: Sequence[str] = (),
    top: int | None = None,
    gpu: str | None = None,
    margin: float | None = None,
) -> SideBySide:
    """Return profiles of several kernels over runs, each over those runs that hold it.

    Parameters
    ----------
    runs : sequence of Run or path
        Ingested runs with power logs.
    kernels : sequence of str
        Parts of the kernels' names.
    top : int, optional
        In place of names, how many kernels: those with most time.
    gpu, margin : optional
        As for :func:`tracetool.measure.fingrav.campaign.profile_runs`.

    Raises
    ------
    BadInput
        If two names mean one kernel, no kernel is called so, or one cannot be profiled.
    """
    opened = [r if isinstance(r, Run) else Run.open(r) for r in runs]
    if not opened:
        raise BadInput("no run to profile", "give one or more: tracetool profile RUN...")
    names = chosen_kernels(kernel_times(opened), kernels, top)
    held = [set(run.signatures.filter(pl.col("kind") == "kernel")["name"].to_list()) for run in opened]
    return side_by_side(
        [
            profile_runs(
                [run for run, names_held in zip(opened, held, strict=True) if name in names_held],
                kernel=name,
                gpu=gpu,
                margin=margin,
            )
            for name in names
        ]
    )


def compare_tables(
    executions: str | os.PathLike[str],
    samples: str | os.PathLike[str],
    *,
    kernels: Sequence[str] = (),
    top: int | None = None,
    sync: str | os.PathLike[str] | None = None,
    window_s: float = 0.0,
    margin: float | None = None,
) -> SideBySide:
    """Return profiles of several kernels of one campaign kept in plain tables.

    Parameters
    ----------
    executions, samples, sync, window_s, margin
        As for :func:`tracetool.measure.fingrav.campaign.profile_tables`.
    kernels, top
        As for :func:`compare_runs`.

    Raises
    ------
    BadInput
        As for :func:`compare_runs`.
    """
    names = chosen_kernels(table_kernel_times(executions), kernels, top)
    return side_by_side(
        [
            profile_tables(executions, samples, sync=sync, window_s=window_s, margin=margin, kernel=name)
            for name in names
        ]
    )


def side_by_side(profiles: Sequence[Profiled]) -> SideBySide:
    """Return the comparison of several kernels' profiles.

    Raises
    ------
    BadInput
        If there are fewer than two.
    """
    if len(profiles) < 2:
        raise BadInput("one kernel is nothing to compare", "name several, or more than one: --top 4")
    frame = pl.concat([_rows(one) for one in profiles])
    frame = frame.with_columns(
        (pl.col("mean_w") / pl.col("mean_w").max().over("kind", "component")).alias("of_highest")
    )
    frame = load_schema("kernel_power").conform(frame)
    return SideBySide(tuple(profiles), frame, _contexts(profiles), tuple(_sentences(frame)))


def _rows(one: Profiled) -> pl.DataFrame:
    """Return the rows of one kernel: mean power of each component, and its share of the total."""
    rows = summary(one).filter(pl.col("kind").is_in(("sse", "ssp")))
    total = pl.col("mean_w").filter(pl.col("component") == "total").first().over("kind")
    return rows.select(
        pl.lit(one.kernel).alias("kernel"),
        "kind",
        "component",
        pl.lit(one.profile.duration_s * 1e6).alias("duration_us"),
        "mean_w",
        "mean_low_w",
        "mean_high_w",
        (pl.col("mean_w") / total).alias("of_total"),
        "energy_mj",
        "samples",
    )


def _contexts(profiles: Sequence[Profiled]) -> pl.DataFrame | None:
    """Return power by what ran before, of every kernel that ran among others; None where none did."""
    tables = [(one.kernel, table) for one in profiles if (table := context_table(one)) is not None]
    if not tables:
        return None
    isolated = pl.col("mean_w").filter(pl.col("context") == "isolated").first()
    return pl.concat(
        [
            table.select(
                pl.lit(kernel).alias("kernel"),
                "context",
                "executions",
                "samples",
                *(pl.col(c).cast(pl.Float64) for c in ("mean_w", "mean_low_w", "mean_high_w")),
                (pl.col("mean_w").cast(pl.Float64) / isolated).alias("of_isolated"),
            )
            for kernel, table in tables
        ]
    )


def _sentences(frame: pl.DataFrame) -> list[str]:
    """Return which kernel draws most and least of each component, and which two differ most in that."""
    steady = frame.filter(pl.col("kind") == _KIND)
    out = []
    for component in steady["component"].unique(maintain_order=True):
        rows = steady.filter(pl.col("component") == component).sort("mean_w", descending=True).to_dicts()
        if len(rows) < 2:
            continue
        high, low = rows[0], rows[-1]
        if high["mean_low_w"] <= low["mean_high_w"]:
            out.append(f"{component}: alike, {number(low['mean_w'])} to {number(high['mean_w'])} W")
            continue
        part = "" if component == "total" else " ({:.0%} of its power)"
        ends = [f"{r['kernel']} {number(r['mean_w'])} W{part.format(r['of_total'])}" for r in (high, low)]
        out.append(f"{component}: most {ends[0]}, least {ends[1]}")
    return [*out, *_complementary(steady)]


def _complementary(steady: pl.DataFrame) -> list[str]:
    """Return the two kernels whose components' shares differ most: they could run beside each other best."""
    parts = steady.filter(pl.col("component") != "total")
    shares = {
        kernel: dict(rows.select("component", "of_total").iter_rows())
        for (kernel,), rows in parts.group_by("kernel", maintain_order=True)
    }
    pairs: list[tuple[float, str, str]] = []
    for one, other in combinations(shares, 2):
        common = {c: shares[other][c] - shares[one][c] for c in shares[one] if c in shares[other]}
        pairs.append((sum(map(abs, common.values())), one, other))
    apart, one, other = max(pairs, default=(0.0, "", ""))
    if apart < _ALIKE:
        return []
    both = [c for c in shares[one] if c in shares[other]]
    moved = sorted(both, key=lambda c: shares[one][c] - shares[other][c])
    more, less = moved[-1], moved[0]
    said = f"most unlike: {one} puts {shares[one][more]:.0%} of its power into {more} and"
    said += f" {shares[one][less]:.0%} into {less}"
    return [f"{said}, {other} {shares[other][more]:.0%} and {shares[other][less]:.0%}"]
