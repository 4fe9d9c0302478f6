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
    found = page.against
    if found is None:
        return None
    energy = found.metrics[0]
    picture = chart_html(
        waterfall(energy.base, found.factors, energy.head, unit=f"J per {found.unit}"), "causes"
    )
    warnings = "".join(line_html(w, "warning") for w in (*found.warnings, *_incomparable(found)))
    why = line_html(f"Why (sums to {number(energy.head - energy.base, 3)} J): {causes(found)}", "plain")
    families = _rows(found.level("family"), "family")
    kernels = _rows(found.level("kernel").filter(pl.col("energy_change_j") != 0).head(_MOST), "kernel")
    return Section(
        "against",
        f"Against {', '.join(found.base)}",
        headline(found) + f". {found.setting}.",
        warnings + why + picture + table_html(families, "Families, largest change first")
        + table_html(kernels, "Kernels, largest change first"),
    )  # fmt: skip


def _incomparable(found: RunDiff) -> list[str]:
    return [f"not comparable: {k} is {a} in the base and {b} here" for k, (a, b) in found.keys.items()]


def _rows(rows: pl.DataFrame, heading: str) -> pl.DataFrame:
    named = pl.when(pl.col("head_name").is_null()).then("name").otherwise(
        pl.concat_str("name", pl.lit(" → "), "head_name")
    )  # fmt: skip
    keep = ["energy_base_j", "energy_head_j", "energy_change_j", "energy_change_pct", "verdict",
            "launches_base", "launches_head", "time_base_ms", "time_head_ms"]  # fmt: skip
    return rows.select(named.alias(heading), *(["relation"] if heading == "kernel" else []), *keep)
