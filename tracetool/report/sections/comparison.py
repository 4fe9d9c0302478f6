"""A run beside a base."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tracetool.compare.outcome import RunDiff
from tracetool.core.number_text import number
from tracetool.report.changes import cause_in_words, headline
from tracetool.report.changes import why as why_of
from tracetool.report.pictures.charts import INK, MEASURED, MODEL, SOFT, Chart, blank, chart_html, hover
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
    why = line_html(why_of(diff), "plain")
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


def waterfall(base: float, factors: Mapping[str, float], head: float, *, unit: str) -> Chart:
    """Return the chart: bars from the base's energy over each cause to the head's."""
    factors = {cause_in_words(cause, change): change for cause, change in factors.items()}
    steps = [("base", 0.0, base), *_steps(base, factors), ("head", 0.0, head)]
    ends = np.array([v for _, a, b in steps[1:-1] for v in (a, b)] + [base, head])
    reach = max(float(ends.max() - ends.min()), 1e-3 * max(abs(base), abs(head), 1e-12))
    low = 0.0 if ends.min() < 4 * reach else float(ends.min()) - 0.4 * reach
    sentence = "; ".join(f"{k} {number(v, 3)}" for k, v in factors.items())
    names = [name for name, _, _ in steps]
    cut = f"\nbase and head cut off below {number(low, 3)}" if low > 0.0 else ""
    chart = blank(
        (low, float(ends.max()) + 0.35 * reach),
        names[::-1],
        (f"{unit}{cut}", ""),
        height=60 + 34 * len(steps),
        width=720,
    )
    start, end = (np.maximum([step[i] for step in steps], low) for i in (1, 2))
    is_total = np.array([n in ("base", "head") for n in names])
    change = np.array([b - a for _, a, b in steps])
    shown = [number(c, 3) if w else f"{c:+.3g}" for c, w in zip(change, is_total, strict=True)]
    source = {
        "name": names,
        "left": np.minimum(start, end),
        "right": np.maximum(start, end),
        "fill": np.where(is_total, SOFT, np.where(change > 0, MEASURED, MODEL)),
        "said": shown,
    }
    for color in (SOFT, MEASURED, MODEL):
        rows = np.flatnonzero(source["fill"] == color)
        of_color = {k: np.asarray(v)[rows] for k, v in source.items() if k != "fill"}
        bars = chart.hbar(y="name", left="left", right="right", height=0.7, fill_color=color, line_color=None,
                         source=of_color)  # fmt: skip
        hover(chart, [("", "name"), ("", "said")], [bars])
        chart.text(x="right", y="name", text="said", source=of_color, x_offset=6, text_baseline="middle",
                  text_color=INK, text_font_size="12px")  # fmt: skip
    chart.ygrid.grid_line_color = None
    return Chart(
        "Why the energy changed", f"From {number(base)} to {number(head)} {unit}: {sentence}.", chart
    )


def _steps(base: float, factors: Mapping[str, float]) -> list[tuple[str, float, float]]:
    steps, at = [], base
    for name, change in factors.items():
        steps.append((name, at, at + change))
        at += change
    return steps
