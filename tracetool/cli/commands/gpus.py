"""``tracetool gpus``: the GPUs the model knows, and one of them with its curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

if TYPE_CHECKING:
    from tracetool.api.gpus import GpuSheet

app = typer.Typer()
#: Longest bar of a curve, and the columns of the figures beside both bars.
_BAR = 24
_FIGURES = 40


@app.command(
    short_help="The GPUs that can be predicted.", epilog="Example: tracetool gpus --show a100-pcie-40gb"
)
def gpus(
    show: str = typer.Option("", "--show", metavar="NAME", help="One GPU: numbers, sources, V(f), idle(f)."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the table: .parquet .csv .json .md .html"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """List the GPUs that can be predicted, or show one with voltage and idle power over its clocks."""
    from tracetool.api.gpus import list_gpus, show_gpu
    from tracetool.cli.output import print_json
    from tracetool.report.console import show_table
    from tracetool.report.save import check_output, save_table

    if out is not None:
        check_output(out)
    if not show:
        listed = list_gpus()
        if out is not None:
            save_table(listed, out, title="GPUs")
        if as_json:
            print_json({"gpus": listed.to_dicts()})
        elif not quiet:
            columns = ["name", "title", "sm_count", "clock_max_mhz", "power_limit_w", "power"]
            show_table(listed.select(columns), limit=None)
        return
    sheet = show_gpu(show)
    if out is not None:
        save_table(sheet.numbers, out, title=sheet.gpu.title)
    if as_json:
        print_json(_document(sheet))
    elif not quiet:
        _print(sheet)


def _document(sheet: GpuSheet) -> dict[str, object]:
    from tracetool.api.gpus import peaks

    known = sheet.power is not None
    return {
        "name": sheet.gpu.name,
        "title": sheet.gpu.title,
        "aliases": list(sheet.gpu.aliases),
        "architecture": sheet.gpu.architecture,
        "targets": list(sheet.architecture.targets),
        "numbers": sheet.numbers.to_dicts(),
        "peaks": peaks(sheet.gpu).to_dicts() if known else [],
        "curves": sheet.curves.to_dicts(),
        "notes": list(sheet.notes),
    }


def _print(sheet: GpuSheet) -> None:
    import polars as pl
    from rich.markup import escape

    from tracetool.cli.output import console
    from tracetool.report.console import show_table
    from tracetool.report.layout import Table
    from tracetool.report.sentences import say

    page = console()
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
    from tracetool.core.figures import number

    return f"{value:,.0f}" if value == round(value) else number(value)


def _bar(value: float, most: object, width: int) -> str:
    """A bar to scale from zero."""
    top = float(most) if isinstance(most, float) and most > 0 else 1.0
    return "█" * max(1, round(width * value / top))
