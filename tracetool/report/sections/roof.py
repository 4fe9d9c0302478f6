"""The roofline section."""

from __future__ import annotations

import polars as pl

from tracetool.report.pictures.charts import chart_html
from tracetool.report.pictures.roofline import roofline
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html

_MOST_DOTS = 400
_LISTED = 40


def roof(page: RunPage) -> Section | None:
    """Return the roofline, where operations and bytes could be counted."""
    rows = page.rows.filter((pl.col("flops") > 0) & (pl.col("dram_bytes") > 0) & (pl.col("time_ms") > 0))
    if not rows.height or not page.ceilings.bytes_per_s:
        return None
    total = page.energy_j() or 1.0
    rows = rows.head(_MOST_DOTS).with_columns(
        (pl.col("flops") / pl.col("dram_bytes")).alias("intensity"),
        (pl.col("flops") * pl.col("launches") / (pl.col("time_ms") / 1e3)).alias("rate"),
        (pl.col("energy_j") / total).alias("share"),
    )
    chart = roofline(
        rows["intensity"].to_numpy(),
        rows["rate"].to_numpy(),
        rows["power_w"].cast(pl.Float64).to_numpy(),
        rows["share"].cast(pl.Float64).to_numpy(),
        rows["name"].to_list(),
        peaks_flops_per_s=page.ceilings.flops_per_s,
        bytes_per_s=page.ceilings.bytes_per_s,
    )
    return Section(
        "roofline",
        "Roofline",
        "Rates are counted operations over measured times; bytes are the model's counts. Size is energy,"
        f" color is power. Ceilings at {page.recorded_mhz:.0f} MHz.",
        chart_html(chart, "roofline")
        + f"<details><summary>Figures</summary>{table_html(_listed(rows), 'Most energy first')}</details>",
    )


def _listed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.head(_LISTED).select(
        pl.col("name").alias("kernel"),
        pl.col("intensity").alias("FLOP per byte"),
        (pl.col("rate") / 1e12).alias("TFLOP/s"),
        "power_w",
        (100.0 * pl.col("share")).alias("share_pct"),
    )
