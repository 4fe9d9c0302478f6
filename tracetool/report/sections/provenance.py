"""Where the figures come from, and what to mistrust."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracetool.core import escape
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, line_html, table_html


def provenance(page: RunPage) -> Section:
    """Return warnings, sources with their checksums, clocks and notes."""
    html = [line_html(w, "warning") for w in page.warnings]
    sources = page.info.get("sources")
    if isinstance(sources, list) and sources:
        rows = pl.DataFrame(
            [{k: _recorded_text(v) for k, v in s.items()} for s in sources if isinstance(s, dict)]
        )
        keep = [c for c in ("path", "name", "format", "kind", "sha256", "bytes") if c in rows.columns]
        html.append(table_html(rows.select(keep or rows.columns), "Sources"))
    facts = {
        "tool version": page.info.get("tool_version"),
        "clock of the times": _recorded_text((page.info.get("clock") or {}).get("domain")),
        "GPU": page.accuracy.gpu,
        "core clock": f"{page.recorded_mhz:g} MHz",
    }
    items = "".join(
        f"<dt>{escape.html(k)}</dt><dd>{escape.html(_recorded_text(v))}</dd>" for k, v in facts.items()
    )
    html.append(f"<dl>{items}</dl>")
    if page.notes:
        listed = "".join(f"<li>{escape.html(n)}</li>" for n in page.notes)
        html.append(f"<details open><summary>Notes</summary><ul>{listed}</ul></details>")
    intro = (
        "Intervals are 90 %. Measured joules come from the power log through the sensor's model; predicted"
        " ones from counts of work times energy per count."
    )
    return Section("provenance", "Provenance and warnings", intro, "".join(html))


def _recorded_text(value: Any) -> str:
    if value is None:
        return "not recorded"
    return value if isinstance(value, str) else str(value)
