"""The ``changes`` table: both sides by family, operator, range and matched kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.compare.idle_groups import idle_changes
from tracetool.compare.matched import CAUSES, pair_half_width
from tracetool.compare.readings_error import readings_error
from tracetool.compare.scopes import FIGURES, LEAST_SHARE
from tracetool.compare.sides import Side
from tracetool.compare.significance import (
    Criteria,
    chances,
    effects_of,
    figures_together,
    judge,
    with_joint_intervals,
)
from tracetool.compare.steps import step_sums, within
from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.families.names import UNKNOWN
from tracetool.tables.schema import load_schema

_NONE: Final = {
    "operator": "(no operator)",
    "range": "(no range)",
    "group": "(no group)",
    "family": UNKNOWN,
}
_SUMS: Final = ("launches", "time_s", "energy_j")


def change_table(
    parts: pl.DataFrame,
    pairs: pl.DataFrame,
    sides: tuple[Side, Side],
    criteria: Criteria,
) -> pl.DataFrame:
    """Return the ``changes`` table: total, gap, then each level's rows, largest change in joules first.

    Parameters
    ----------
    parts : DataFrame
        As :func:`tracetool.compare.pairing.pair_sides` returns.
    pairs : DataFrame
        As :func:`tracetool.compare.matched.matched_pairs` returns.
    sides : (Side, Side)
        Base and head.
    criteria : Criteria
        Basis of the energies, spread and threshold.
    """
    base, head = sides
    rows = [_total(sides, pairs), _gap(sides)]
    rows += [
        _grouped(level, sides, pairs, criteria)
        for level in ("family", "operator", "range", "group")
        if level == "family" or any((s.classes[level] != "").any() for s in sides)
    ]
    if (idle := idle_changes(sides)) is not None:
        rows.append(idle)
    rows.append(_kernels(parts, pairs, sides, criteria))
    all_rows = pl.concat(rows, how="diagonal_relaxed")
    totals = [float(sum(s.gap_j)) / len(s.runs) + float(s.classes["energy_j"].sum()) for s in (base, head)]
    shares = [
        (100.0 * pl.col(f"energy_{s}_j") / t if t > 0 else pl.lit(None, dtype=pl.Float64)).alias(
            f"share_{s}_pct"
        )
        for s, t in zip(("base", "head"), totals, strict=True)
    ]
    changes = all_rows.with_columns(
        (pl.col("energy_head_j") - pl.col("energy_base_j")).alias("energy_change_j"),
        _change("time_base_ms", "time_head_ms").alias("time_change_pct"),
        pl.coalesce("energy_change_pct", _change("energy_base_j", "energy_head_j")).alias(
            "energy_change_pct"
        ),
        *(
            pl.when(pl.col(f"time_{s}_ms") > 0)
            .then(pl.col(f"energy_{s}_j") / pl.col(f"time_{s}_ms") * 1e3)
            .alias(f"power_{s}_w")
            for s in ("base", "head")
        ),
        *shares,
    ).with_columns(_change("power_base_w", "power_head_w").alias("power_change_pct"))
    return load_schema("changes").conform(changes)


def _change(base: str, head: str) -> pl.Expr:
    return pl.when(pl.col(base) > 0).then(100.0 * (pl.col(head) / pl.col(base) - 1.0))


def _total(sides: tuple[Side, Side], pairs: pl.DataFrame) -> pl.DataFrame:
    gaps = [float(np.mean(s.gap_j)) for s in sides]
    row: dict[str, Any] = {"level": "total", "name": "(whole run)"}
    for name, side, gap in zip(("base", "head"), sides, gaps, strict=True):
        row[f"launches_{name}"] = float(side.classes["launches"].sum())
        row[f"time_{name}_ms"] = float(np.mean(side.span_s)) * 1e3
        row[f"energy_{name}_j"] = float(side.classes["energy_j"].sum()) + gap
    row |= {c: float(pairs[c].sum()) for c in CAUSES} | {"gaps_j": gaps[1] - gaps[0]}
    return pl.DataFrame([row])


def _gap(sides: tuple[Side, Side]) -> pl.DataFrame:
    row: dict[str, Any] = {"level": "gap", "name": "(gap)"}
    for name, side in zip(("base", "head"), sides, strict=True):
        row[f"launches_{name}"] = 0.0
        row[f"time_{name}_ms"] = float(np.mean(side.gap_s)) * 1e3
        row[f"energy_{name}_j"] = float(np.mean(side.gap_j))
    row["gaps_j"] = row["energy_head_j"] - row["energy_base_j"]
    return pl.DataFrame([row])


def _grouped(level: str, sides: tuple[Side, Side], pairs: pl.DataFrame, criteria: Criteria) -> pl.DataFrame:
    """Rows of a level whose names are the same on both sides."""
    label = (
        pl.when(pl.col(level) == "")
        .then(pl.lit(_NONE[level]))
        .otherwise(pl.col(level))
        .fill_null(_NONE[level])
    )
    per_run = [s.by_run(label) for s in sides]
    names = sorted({n for rows in per_run for n in rows["label"].to_list()})
    table = pl.DataFrame(
        {"level": [level] * len(names), "name": names}, schema={"level": pl.String, "name": pl.String}
    )
    figures = [_per_run(rows, names, len(s.runs)) for rows, s in zip(per_run, sides, strict=True)]
    causes = pairs.group_by(pl.col(level).fill_null(_NONE[level]).alias("name"), maintain_order=True).agg(
        *(pl.col(c).sum() for c in CAUSES), (pair_half_width() ** 2).sum().sqrt().alias("error_j")
    )
    table = table.join(causes, on="name", how="left", maintain_order="left")
    if level == "family":
        table = table.with_columns(pl.col("name").alias("family"))
    places = _places(names, pl.String)
    members = [
        s.classes.select("class", label.alias("label")).join(places, on="label").select("class", "at")
        for s in sides
    ]
    noise = within(step_sums(sides, members, len(names)), FIGURES["energy"], len(names))
    open_j = readings_error(sides, members, len(names))
    return _with_verdicts(_with_means(table, figures), figures, replace(criteria, within=noise), open_j)


def _kernels(
    parts: pl.DataFrame,
    pairs: pl.DataFrame,
    sides: tuple[Side, Side],
    criteria: Criteria,
) -> pl.DataFrame:
    table = pairs.select(
        pl.lit("kernel").alias("level"),
        pl.coalesce("name_base", "name_head").alias("name"),
        pl.when(pl.col("name_base") != pl.col("name_head")).then("name_head").alias("head_name"),
        "family",
        "operator",
        "range",
        "relation",
        *CAUSES,
        pair_half_width().alias("error_j"),
    )
    numbers = pairs["pair"].to_list()
    places = _places(numbers, pairs.schema["pair"])
    figures, members = [], []
    for name, side in zip(("base", "head"), sides, strict=True):
        side_parts = parts.filter(pl.col("side") == name).join(
            side.classes.select("class", pl.col("launches").alias("all")), on="class", how="left"
        )
        class_shares = side_parts.select(
            "class", pl.col("pair").alias("label"), (pl.col("launches") / pl.col("all")).alias("share")
        )
        members.append(class_shares.join(places, on="label").select("class", "at", "share"))
        rows = (
            side.per_run.join(class_shares, on="class", how="inner")
            .group_by("run", "label", maintain_order=True)
            .agg((pl.col(c) * pl.col("share")).sum().alias(c) for c in _SUMS)
        )
        figures.append(_per_run(rows, numbers, len(side.runs)))
    noise = within(step_sums(sides, members, len(numbers)), FIGURES["energy"], len(numbers))
    open_j = readings_error(sides, members, len(numbers))
    return _with_verdicts(_with_means(table, figures), figures, replace(criteria, within=noise), open_j)


def _places(labels: Sequence[Any], kind: Any) -> pl.DataFrame:
    """Return the place of each label among them."""
    at = pl.Series(range(len(labels)), dtype=pl.Int64)
    return pl.DataFrame({"label": pl.Series(labels, dtype=kind), "at": at})


def _per_run(rows: pl.DataFrame, labels: Sequence[Any], runs: int) -> dict[str, Floats]:
    """Return figures per run and label, shape (runs, labels) each; absent ones are zero."""
    placed = rows.join(_places(labels, rows.schema["label"]), on="label", how="inner")
    figures = {}
    for column in _SUMS:
        filled = np.zeros((runs, len(labels)))
        filled[placed["run"].to_numpy(), placed["at"].to_numpy()] = placed[column].to_numpy()
        figures[column] = filled
    return figures


def _with_means(rows: pl.DataFrame, figures: list[dict[str, Floats]]) -> pl.DataFrame:
    return rows.with_columns(
        pl.Series(target.format(side), side_figures[column].mean(axis=0) * factor)
        for side, side_figures in zip(("base", "head"), figures, strict=True)
        for column, target, factor in (
            ("launches", "launches_{}", 1.0),
            ("time_s", "time_{}_ms", 1e3),
            ("energy_j", "energy_{}_j", 1.0),
        )
    )


def _with_verdicts(
    rows: pl.DataFrame, figures: list[dict[str, Floats]], criteria: Criteria, open_j: Floats | None = None
) -> pl.DataFrame:
    """Return rows with changes and verdicts; ``open_j`` is the error of measured energies. [J]"""
    if not rows.height:
        return rows
    base, head = figures[0]["energy_j"], figures[1]["energy_j"]
    error_j = open_j
    if criteria.basis != "measured":
        error_j = rows["error_j"].fill_null(0.0).to_numpy() / Z90
    base_means = base.mean(axis=0)
    error = None
    if error_j is not None:
        error = np.divide(error_j, base_means, out=np.zeros_like(base_means), where=base_means > 0)
    means = base.mean(axis=0), head.mean(axis=0)
    heavy = np.any([m >= LEAST_SHARE * m.sum() for m in means], axis=0)
    effects = with_joint_intervals(effects_of(base, head, criteria, error), figures_together(heavy))
    on_both_sides = np.isfinite(effects.change)
    verdicts = judge(effects, criteria.limit) if criteria.comparable else ["inconclusive"] * rows.height
    table = rows.with_columns(
        pl.Series("energy_change_pct", 100.0 * effects.change).fill_nan(None),
        pl.Series("energy_change_low_pct", 100.0 * effects.low).fill_nan(None),
        pl.Series("energy_change_high_pct", 100.0 * effects.high).fill_nan(None),
        pl.Series("p_value", chances(effects)).fill_nan(None),
        pl.Series("verdict", verdicts, dtype=pl.String).set(pl.Series(~on_both_sides), None),
    )
    size = (pl.col("energy_head_j") - pl.col("energy_base_j")).abs()
    return table.sort(size, descending=True, maintain_order=True).drop("error_j", strict=False)
