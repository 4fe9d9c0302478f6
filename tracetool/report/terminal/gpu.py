"""How one GPU looks on the console."""

from __future__ import annotations

import polars as pl

from tracetool.core.number_text import number
from tracetool.report.console import show_table
from tracetool.report.gpu_sheet import GpuSheet
from tracetool.report.layout import Table
from tracetool.report.sentences import open_console, say

#: Longest bar of a curve, and the columns of the figures beside both bars.
_BAR = 24
_FIGURES = 40


def print_gpu(sheet: GpuSheet) -> None:
    """Print a GPU's numbers with their sources, and voltage and idle power over its clocks."""
    from rich.markup import escape

    page = open_console()
    architecture = f"{sheet.architecture.name} ({', '.join(sheet.architecture.targets)})"
    page.print(f"[bold]{escape(sheet.gpu.title)}[/bold]  {escape(sheet.gpu.name)}  {architecture}")
    if sheet.gpu.note:
        say(page, sheet.gpu.note)
    figures = pl.Series("value", [_figure(v) for v in sheet.numbers["value"]], dtype=pl.String)
    show_table(sheet.numbers.select("number", figures, "unit", "kind", "source"), limit=None)
    if sheet.curves.height:
        grid = Table()
        for heading in ("clock [MHz]", "V(f) [V]", "", "idle(f) [W]", ""):
            grid.add_column(heading, justify="right" if heading else "left")
        volt, watt = sheet.curves["voltage_v"].max(), sheet.curves["idle_w"].max()
        width = max(min(_BAR, (page.width - _FIGURES) // 2), 4)
        for clock, v, w in sheet.curves.iter_rows():
            grid.add_row(f"{clock:.0f}", f"{v:.3f}", _bar(v, volt, width), f"{w:.1f}", _bar(w, watt, width))
        page.print(grid)
    for note in sheet.notes:
        say(page, note)


def _figure(value: float) -> str:
    """A figure of any unit: whole ones without decimals."""
    return f"{value:,.0f}" if value == round(value) else number(value)


def _bar(value: float, most: object, width: int) -> str:
    """A bar to scale from zero."""
    top = float(most) if isinstance(most, float) and most > 0 else 1.0
    return "█" * max(1, round(width * value / top))
