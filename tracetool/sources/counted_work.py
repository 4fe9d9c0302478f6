"""Counters of launches joined to a run's kernels, by name, geometry and the order of launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from tracetool.core.figures import counted
from tracetool.sources.clocks import Source

_GEOMETRY: Final = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")
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
    case only where one kernel of the run has it.
    """
    parts = [s.trace.counted.with_columns(source=pl.lit(s.path.name)) for s in sources]
    launches = pl.concat(parts, how="diagonal_relaxed").with_row_index("row")
    signatures = tables["signatures"].filter(pl.col("kind") == "kernel")
    kernels = tables["kernels"].filter(pl.col("kind").cast(pl.String) == "kernel")
    ran = kernels.select("start_ns", pl.col("signature").cast(pl.Int64)).join(
        signatures.select("signature", "name", *_GEOMETRY), on="signature"
    )
    joined = []
    rest = launches
    for spelling in _SPELLINGS:
        matched = _matched(rest, ran, spelling)
        joined.append(matched)
        rest = rest.join(matched, on="row", how="anti")
    whole = pl.concat([*joined, rest], how="diagonal_relaxed").sort("row")
    notes = []
    if rest.height:
        names = rest["name"].unique(maintain_order=True)
        shown = ", ".join(n[:60] for n in names.head(3))
        notes.append(
            f"{counted(rest.height, 'launch', 'launches')} of {launches.height} that were counted are of no"
            f" kernel of the run: {shown}{' and others' if len(names) > 3 else ''}"
        )
    return whole.drop("row"), notes


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
    keys = ["#key", *geometry]
    typed = [pl.col(c).cast(pl.Int64) for c in geometry]
    run_rows = ran.with_columns(key, *typed).sort("start_ns", "signature")
    if spelling == "bare":
        single = run_rows.group_by(keys).agg(pl.col("name").n_unique().alias("#names"))
        run_rows = run_rows.join(single.filter(pl.col("#names") == 1), on=keys, how="semi", nulls_equal=True)
    nth = pl.int_range(pl.len()).over(keys).alias("#nth")
    run_rows = run_rows.with_columns(nth, pl.int_range(pl.len()).over("signature").alias("launch"))
    rows = launches.with_columns(key, *typed).with_columns(nth)
    exact = run_rows.select(*keys, "#nth", "signature", "launch", "start_ns")
    found = rows.join(exact, on=[*keys, "#nth"], how="left", nulls_equal=True)
    # More launches counted than the run has: of what they are is known where only one signature fits.
    only = run_rows.group_by(keys).agg(
        pl.col("signature").first().alias("#only"), pl.col("signature").n_unique().alias("#kinds")
    )
    found = found.join(only.filter(pl.col("#kinds") == 1), on=keys, how="left", nulls_equal=True)
    found = found.with_columns(signature=pl.coalesce("signature", "#only"))
    return found.drop("#key", "#nth", "#only", "#kinds").drop_nulls("signature")
