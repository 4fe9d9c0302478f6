"""``tracetool sweep``: the best clock."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.numbers import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="The clock or power cap of least energy.",
    epilog="Example: tracetool sweep run.tracetool --slowdown 0.05 --chart front.html",
)
def sweep(
    source: Path = typer.Argument(..., metavar="RUN|TABLE", help="A run, or an operator or kernel table."),
    gpu: str = typer.Option("", "--gpu", help="GPU, e.g. a100-sxm; a run states its own."),
    clock: str = typer.Option("", "--clock", help="Clocks: 900,1200 or 600:1410:15. [MHz]"),
    power_cap: str = typer.Option(
        "", "--power-cap", help="Power caps to try at the highest clock: 150,200 or 150:300:25. [W]"
    ),
    mem_clock: float | None = typer.Option(
        None, "--mem-clock", min=1.0, max=1e5, callback=finite, help="Memory clock. [MHz]"
    ),
    launch: str = typer.Option("", "--launch", help="eager or graph; a run: as recorded."),
    anchor: str = typer.Option(
        "", "--anchor", help="measured (scale what was recorded: anchored) or none (unanchored)."
    ),
    calibration: list[Path] = typer.Option(
        [], "--calibration", help="Coefficients tracetool calibrate wrote: a .toml file; may repeat."
    ),
    temperature: float | None = typer.Option(
        None, "--temperature", callback=finite, help="Chip temperature, held. [C]"
    ),
    ambient: float | None = typer.Option(
        None, "--ambient", callback=finite, help="Air at the GPU: the chip settles above it by its power. [C]"
    ),
    slowdown: float = typer.Option(
        0.05, "--slowdown", min=0.0, max=10.0, callback=finite, help="Allowed slowdown: 0.05 is 5 %."
    ),
    against: float | None = typer.Option(
        None,
        "--against",
        metavar="MHZ",
        min=1.0,
        max=1e5,
        callback=finite,
        help="Clock that savings are stated against; by default the recorded one, else the boost clock.",
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write all points: .parquet .csv .json .md"),
    chart: Path | None = typer.Option(None, "--chart", help="Write energy against time as a chart: .html"),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Find the clock or power cap of least energy, least energy x time, or least energy within a slowdown."""
    from tracetool.cli.output import print_json
    from tracetool.cli.swept import print_swept
    from tracetool.replay.assumptions import Assumptions
    from tracetool.replay.clocks import parse_clocks
    from tracetool.replay.sweep import sweep as run_sweep
    from tracetool.report.page import check_chart, save_chart
    from tracetool.report.pictures.pareto import swept_chart
    from tracetool.report.save import check_output, save_table

    if out is not None:
        check_output(out)
    if chart is not None:
        check_chart(chart)
    made = run_sweep(
        source,
        gpu or None,
        parse_clocks(clock),
        parse_clocks(power_cap, option="--power-cap", unit="W") or (),
        mem_clock_mhz=mem_clock,
        launch=launch,
        anchor=anchor,
        slowdown=slowdown,
        against_mhz=against,
        assumed=Assumptions.read(calibration, temperature, ambient),
    )
    if out is not None:
        save_table(made.points, out, title=f"Operating points on {made.gpu}")
    if chart is not None:
        save_chart(swept_chart(made), chart)
    if as_json:
        tables = {"points": made.points, "best": made.best, "families": made.families}
        print_json(
            {
                "gpu": made.gpu,
                **made.info,
                **{k: t.to_dicts() for k, t in tables.items()},
                "notes": list(made.notes),
            }
        )
    elif not quiet:
        print_swept(made, [p for p in (out, chart) if p is not None])
