"""Where the joules go."""

from __future__ import annotations

import polars as pl

from tracetool.core import escape
from tracetool.report.pictures.colors import OTHER, family_colors
from tracetool.report.pictures.treemap import Part, treemap
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, legend_html, picture_html, table_html

_MOST_GROUPS = 30
_MOST_PARTS = 250
_SAID = {"family": "family", "operator": "operator", "range": "range"}


def where(page: RunPage) -> Section | None:
    """Return the treemaps by family, operator and range."""
    if not any(p.height for p in page.parts.values()):
        return None
    colors = family_colors(page.families)
    tabs = []
    for i, (key, rows) in enumerate(page.parts.items()):
        parts = _largest(rows)
        if not parts:
            continue
        checked = " checked" if i == 0 else ""
        tabs.append(
            f'<input type="radio" name="where" id="where-{key}"{checked}>'
            f'<label for="where-{key}">by {escape.html(_SAID[key])}</label>'
            f'<div class="tab">{picture_html(treemap(parts, colors, _SAID[key]), f"Energy by {key}")}'
            f"{table_html(_groups(rows, key), f'Energy by {_SAID[key]}, largest first')}</div>"
        )
    shown = [(f, c) for f, c in colors.items() if c != OTHER]
    if len(shown) < len(colors):
        shown.append(("other families", OTHER))
    share = 100 * page.energy_j(pl.col("source") == "measured") / (page.energy_j() or 1.0)
    return Section(
        "where",
        "Where the joules go",
        f"Areas are joules; idle gaps are not shown. {share:.0f} % of this energy was measured,"
        " the rest is predicted.",
        f'<div class="tabs">{"".join(tabs)}</div>{legend_html(shown)}',
    )


def _largest(rows: pl.DataFrame) -> list[Part]:
    sums = rows.group_by("group").agg(pl.col("energy_j").sum().alias("sum_j")).sort("sum_j", descending=True)
    largest = sums.head(_MOST_GROUPS)["group"].to_list()
    named = rows.with_columns(
        pl.when(pl.col("group").is_in(largest)).then("group").otherwise(pl.lit("(others)")).alias("group")
    )
    merged = named.group_by("group", "name", "family").agg(pl.col("energy_j").sum())
    ordered = merged.sort("energy_j", "name", descending=[True, False])
    head, tail = ordered.head(_MOST_PARTS), ordered.slice(_MOST_PARTS)
    rest = (
        tail.group_by("group", "family")
        .agg(pl.col("energy_j").sum(), pl.len().alias("count"))
        .select("group", pl.format("{} more kernels", "count").alias("name"), "family", "energy_j")
    )
    both = pl.concat([head.select("group", "name", "family", "energy_j"), rest])
    return [Part(*row) for row in both.iter_rows()]


def _groups(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    total = rows["energy_j"].sum() or 1.0
    return (
        rows.group_by("group")
        .agg(pl.col("energy_j").sum(), pl.col("name").n_unique().alias("kernels"))
        .sort("energy_j", "group", descending=[True, False])
        .head(15)
        .with_columns((100.0 * pl.col("energy_j") / total).round(1).alias("share_pct"))
        .select(pl.col("group").alias(key), "energy_j", "share_pct", "kernels")
    )
