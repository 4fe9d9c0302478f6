"""A run beside a base."""

from __future__ import annotations

import polars as pl

from tracetool.compare.outcome import RunDiff
from tracetool.core.figures import number
from tracetool.report.changes import causes, headline
from tracetool.report.pictures.causes import waterfall
from tracetool.report.pictures.charts import chart_html
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, line_html, table_html

_MOST = 25


def against(page: RunPage) -> Section | None:
    """Return the changes since a base: verdict, causes, families and kernels."""
    diff = page.against
    if diff is None:
        return None
    energy = diff.metrics[0]
    picture = chart_html(
        waterfall(energy.base, diff.factors, energy.head, unit=f"J per {diff.unit}"), "causes"
    )
    warnings = "".join(line_html(w, "warning") for w in (*diff.warnings, *_incomparable(diff)))
    why = line_html(f"Why (sums to {number(energy.head - energy.base, 3)} J): {causes(diff)}", "plain")
    families = _rows(diff.level("family"), "family")
    kernels = _rows(diff.level("kernel").filter(pl.col("energy_change_j") != 0).head(_MOST), "kernel")
    return Section(
        "against",
        f"Against {', '.join(diff.base)}",
        headline(diff) + f". {diff.setting}.",
        warnings + why + picture + table_html(families, "Families, largest change first")
        + table_html(kernels, "Kernels, largest change first"),
    )  # fmt: skip


def _incomparable(diff: RunDiff) -> list[str]:
    return [f"not comparable: {k} is {a} in the base and {b} here" for k, (a, b) in diff.keys.items()]


def _rows(rows: pl.DataFrame, heading: str) -> pl.DataFrame:
    named = pl.when(pl.col("head_name").is_null()).then("name").otherwise(
        pl.concat_str("name", pl.lit(" → "), "head_name")
    )  # fmt: skip
    keep = ["energy_base_j", "energy_head_j", "energy_change_j", "energy_change_pct", "verdict",
            "launches_base", "launches_head", "time_base_ms", "time_head_ms"]  # fmt: skip
    return rows.select(named.alias(heading), *(["relation"] if heading == "kernel" else []), *keep)
