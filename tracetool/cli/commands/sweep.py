"""``tracetool sweep``: the best clock."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import (
    AMBIENT_OPTION,
    ANCHOR_OPTION,
    CALIBRATION_OPTION,
    JSON_OPTION,
    MEM_CLOCK_OPTION,
    OPERANDS_OPTION,
    QUIET_OPTION,
    SLOWDOWN_OPTION,
    STACK_OPTION,
    TEMPERATURE_OPTION,
)

app = typer.Typer()


@app.command(
    short_help="The clock or power cap of least energy.",
    epilog="Example: tracetool sweep run.tracetool --slowdown 3% --chart front.html",
)
def sweep(
    source: Path = typer.Argument(..., metavar="RUN|TABLE", help="A run, or an operator or kernel table."),
    gpu: str | None = typer.Option(None, "--gpu", help="GPU, e.g. a100-sxm; a run states its own."),
    clock: str | None = typer.Option(None, "--clock", help="Clocks: 900,1200 or 600:1410:15. [MHz]"),
    power_cap: str | None = typer.Option(
        None, "--power-cap", help="Power caps to try at the highest clock: 150,200 or 150:300:25. [W]"
    ),
    mem_clock: float | None = MEM_CLOCK_OPTION,
    launch: str | None = typer.Option(None, "--launch", help="eager or graph; a run: as recorded."),
    anchor: str | None = ANCHOR_OPTION,
    stack: str | None = STACK_OPTION,
    operands: str | None = OPERANDS_OPTION,
    calibration: list[Path] = CALIBRATION_OPTION,
    temperature: float | None = TEMPERATURE_OPTION,
    ambient: float | None = AMBIENT_OPTION,
    slowdown: str = SLOWDOWN_OPTION,
    against: float | None = typer.Option(
        None,
        "--against",
        metavar="MHZ",
        min=1.0,
        max=1e5,
        callback=finite,
        help="Clock that savings are stated against; by default the recorded one, else the boost clock.",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write all points: .parquet .csv .json .md .html .xml"
    ),
    chart: Path | None = typer.Option(None, "--chart", help="Write energy against time as a chart: .html"),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Find the clock or power cap of least energy, least energy x time, or least energy within a slowdown."""
    from tracetool.api.sweep import sweep as sweep_source
    from tracetool.cli.output import check_out, emit, save
    from tracetool.report.page import check_chart

    check_out(out)
    if chart is not None:
        check_chart(chart)
    swept = sweep_source(
        source,
        gpu=gpu,
        clock=clock,
        power_cap=power_cap,
        mem_clock=mem_clock,
        launch=launch,
        anchor=anchor,
        stack=stack,
        operands=operands,
        calibration=calibration,
        temperature=temperature,
        ambient=ambient,
        slowdown=slowdown,
        against=against,
    )
    save(swept, out)
    if chart is not None:
        swept.plot().save(chart)
    emit(swept, as_json=as_json, quiet=quiet, written=[out, chart])
