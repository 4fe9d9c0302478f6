"""Counters of launches joined to a run's kernels, by name, geometry and the order of launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from tracetool.core.number_text import counted
from tracetool.sources.clocks import Source

_GEOMETRY: Final = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")
#: Work-items of a launch and of a block of it, which is all that some profilers write of its geometry.
ITEMS: Final = ("items", "block_items")
#: How two tools may spell one kernel, the closest spelling first.
_SPELLINGS: Final = ("exact", "plain", "bare")


def join_counters(
    tables: Mapping[str, pl.DataFrame], sources: Sequence[Source]
) -> tuple[pl.DataFrame, list[str]]:
    """Return the ``measured_work`` table, and what is to be known of it.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables of the run: ``kernels`` with ``signature``, and ``signatures``.
    sources : sequence of Source
        Files of counters, one after another in the order of launches.

    Notes
    -----
    The n-th launch of a name and geometry that was counted is the n-th in the run. Names are compared as
    they are, else without casts, spaces and parameters, else by the bare name of the function, and in that
    case only where one kernel of the run has it. Passes of one program (``pass_of_program``) count each
    launch again: those of each file are numbered from the run's first.
    """
    counted_tables = [
        s.trace.counted.with_columns(
            source=pl.lit(s.path.name),
            numbered=pl.lit(i if s.trace.details.get("pass_of_program") else -1),
        )
        for i, s in enumerate(sources)
    ]
    launches = pl.concat(counted_tables, how="diagonal_relaxed").with_row_index("row")
    absent = [pl.lit(None, dtype=pl.Int64).alias(c) for c in ITEMS if c not in launches.columns]
    launches = launches.with_columns(absent)
    signatures = tables["signatures"].filter(pl.col("kind") == "kernel")
    kernels = tables["kernels"].filter(pl.col("kind").cast(pl.String) == "kernel")
    ran = kernels.select("start_ns", pl.col("signature").cast(pl.Int64)).join(
        signatures.select("signature", "name", *_GEOMETRY), on="signature"
    )
    joined = []
    missed = launches
    for spelling in _SPELLINGS:
        matched = _matched(missed, ran, spelling)
        joined.append(matched)
        missed = missed.join(matched, on="row", how="anti")
    with_signatures = pl.concat([*joined, missed], how="diagonal_relaxed").sort("row")
    notes = []
    if missed.height:
        names = missed["name"].unique(maintain_order=True)
        shown = ", ".join(n[:60] for n in names.head(3))
        notes.append(
            f"{counted(missed.height, 'launch', 'launches')} of {launches.height} that were counted are of no"
            f" kernel of the run: {shown}{' and others' if len(names) > 3 else ''}"
        )
    return with_signatures.drop("row", "numbered", *ITEMS), notes


def _spelled(names: pl.Expr, spelling: str) -> pl.Expr:
    """Return names as one of the spellings has them."""
    if spelling == "exact":
        return names.str.replace_all(r"\s+", "")
    plain = (
        names.str.replace_all(r"\((?:unsigned )?(?:int|bool|char|long|short|[A-Za-z_][\w:]*)\)(\d|-)", "${1}")
        .str.replace_all(r"\b(\d+)(?:ul|u|l)+\b", "${1}")
        .str.replace(r"^(?:void|bool|int|float)\s+", "")
        .str.replace(r"(>|\w)\s*\([^<>]*\)\s*(?:const)?\s*$", "${1}")
        .str.replace_all(r"\s+", "")
    )
    if spelling == "plain":
        return plain
    return plain.str.replace(r"[<(].*$", "").str.replace(r"^.*::", "")


def _matched(launches: pl.DataFrame, ran: pl.DataFrame, spelling: str) -> pl.DataFrame:
    """Return the counted launches that the run has, with ``signature``, ``launch`` and ``start_ns``."""
    key = _spelled(pl.col("name"), spelling).alias("#key")
    geometry = [c for c in _GEOMETRY if launches[c].null_count() < launches.height and ran[c].count()]
    block = pl.col("block_x").cast(pl.Int64) * pl.col("block_y") * pl.col("block_z")
    grid = pl.col("grid_x").cast(pl.Int64) * pl.col("grid_y") * pl.col("grid_z")
    ran = ran.with_columns(items=grid * block, block_items=block)
    geometry += [c for c in ITEMS if launches[c].null_count() < launches.height and ran[c].count()]
    keys = ["#key", *geometry]
    typed = [pl.col(c).cast(pl.Int64) for c in geometry]
    run_rows = ran.with_columns(key, *typed).sort("start_ns", "signature")
    if spelling == "bare":
        single = run_rows.group_by(keys).agg(pl.col("name").n_unique().alias("#names"))
        run_rows = run_rows.join(single.filter(pl.col("#names") == 1), on=keys, how="semi", nulls_equal=True)
    nth = pl.int_range(pl.len()).over(keys).alias("#nth")
    run_rows = run_rows.with_columns(nth, pl.int_range(pl.len()).over("signature").alias("launch"))
    counted_nth = pl.int_range(pl.len()).over(*keys, "numbered").alias("#nth")
    rows = launches.with_columns(key, *typed).with_columns(counted_nth)
    exact = run_rows.select(*keys, "#nth", "signature", "launch", "start_ns")
    matched = rows.join(exact, on=[*keys, "#nth"], how="left", nulls_equal=True)
    # More launches counted than the run has: of what they are is known where only one signature fits.
    only = run_rows.group_by(keys).agg(
        pl.col("signature").first().alias("#only"), pl.col("signature").n_unique().alias("#kinds")
    )
    matched = matched.join(only.filter(pl.col("#kinds") == 1), on=keys, how="left", nulls_equal=True)
    matched = matched.with_columns(signature=pl.coalesce("signature", "#only"))
    return matched.drop("#key", "#nth", "#only", "#kinds").drop_nulls("signature")
