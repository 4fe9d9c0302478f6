"""Every kernel, sortable and searchable."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import polars as pl

from tracetool.core import escape
from tracetool.core.number_text import number
from tracetool.report.pictures.svg import family_colors
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section

#: Most signatures listed one by one; the rest is in the data outputs.
MOST_ROWS: Final = 4000
_FIRST = 40
_NAME = 240
#: Column, heading, digits (None: text).
COLUMNS: Final = (
    ("name", "kernel", None), ("energy_j", "energy [J]", 4), ("energy_low_j", "low", 3),
    ("energy_high_j", "high", 3), ("share_pct", "of run [%]", 3), ("time_ms", "time [ms]", 4),
    ("launches", "launches", 0), ("power_w", "power [W]", 3), ("family", "family", None),
    ("operator", "operator", None), ("energy_error_pct", "energy error [%]", 3),
    ("time_error_pct", "time error [%]", 3), ("bound", "bound by", None), ("source", "energy is", None),
    ("predicted_from", "predicted from", None),
)  # fmt: skip


def kernel_rows(page: RunPage) -> pl.DataFrame:
    """Return the rows the page lists."""
    total = page.run_energy_j() or 1.0
    shown = page.rows.head(MOST_ROWS).with_columns(
        (100.0 * pl.col("energy_j") / total).alias("share_pct"),
        *(
            escape.map_distinct(page.rows.head(MOST_ROWS)[c], lambda t: escape.name(t, _NAME))
            for c in ("name", "operator")
        ),
    )
    return shown.select(name for name, _, _ in COLUMNS)


def kernels(page: RunPage) -> Section:
    """Return the search field and the table's frame; the page's script fills it from the data."""
    head = "".join(
        f'<th scope="col" aria-sort="{"descending" if name == "energy_j" else "none"}"'
        f'{"" if digits is None else " class=n"}><button type="button" data-column="{i}">{escape.html(title)}'
        '<span class="arrow" aria-hidden="true"></span></button></th>'
        for i, (name, title, digits) in enumerate(COLUMNS)
    )
    rows = kernel_rows(page)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape.html(_text(v))}</td>" if d is None else f'<td class="n">{_number(v, d)}</td>'
            for v, (_, _, d) in zip(row, COLUMNS, strict=True)
        )
        + "</tr>"
        for row in rows.head(_FIRST).iter_rows()
    )
    more = page.rows.height - rows.height
    total_j = page.run_energy_j() or 1.0
    left_j = float(page.rows.slice(MOST_ROWS)["energy_j"].sum())
    tail = (
        f" The {more:,} smallest ({100 * left_j / total_j:.2g} % of the run) are in the data outputs only."
        if more > 0
        else ""
    )
    return Section(
        "kernels",
        "Kernels",
        f"{page.rows.height:,} distinct kernels and copies (one per name, launch geometry and shapes).{tail}",
        '<div class="search"><label for="find">Find</label><input id="find" type="search"'
        ' placeholder="name, family or operator" autocomplete="off" spellcheck="false">'
        '<span id="found" role="status" aria-live="polite"></span></div>'
        '<div class="wide" role="region" tabindex="0" aria-label="Table of kernels">'
        '<table id="kernel-table"><caption class="hidden">Kernels, sortable by each column</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        '<button type="button" id="more" hidden>Show more</button>',
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any, digits: int) -> str:
    if value is None:
        return ""
    return f"{int(value):,}" if digits == 0 else number(float(value), digits)


def page_data(page: RunPage) -> str:
    """Return the data of the page's script: table, timeline, colors, as JSON safe inside a script element."""
    rows = kernel_rows(page)
    columns: dict[str, list[Any]] = {}
    for name, _, digits in COLUMNS:
        column = rows[name]
        columns[name] = (
            column.to_list()
            if digits is None or column.dtype.is_integer()
            else [None if v is None or not math.isfinite(v) else float(f"{v:.6g}") for v in column.to_list()]
        )
    families = page.families
    colors = family_colors(families)
    lookup = {f: i for i, f in enumerate(families)}
    document = {
        "columns": [{"key": n, "title": t, "digits": d} for n, t, d in COLUMNS],
        "table": columns,
        "timeline": None if page.timeline is None else page.timeline.packed,
        "families": families,
        "colors": [colors[f] for f in families],
        "family": [lookup[str(f)] for f in page.rows["family"].head(MOST_ROWS)],
        "power": [None if v is None else round(v, 1) for v in page.rows["power_w"].head(MOST_ROWS)],
        "idle_w": round(page.idle_w, 1),
    }
    return escape.script(json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
