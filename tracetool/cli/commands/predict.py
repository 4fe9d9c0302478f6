"""``tracetool predict``: time, power and energy at other clocks."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(epilog="Example: tracetool predict run.tracetool --clock 900,1200 -o predicted.parquet")
def predict(
    source: Path = typer.Argument(..., metavar="RUN|TABLE", help="A run, or an operator or kernel table."),
    gpu: str = typer.Option("", "--gpu", help="GPU to predict, e.g. h100-sxm; a run knows its own."),
    clock: str = typer.Option("", "--clock", help="Core clock: 1200, 900,1200 or 600:1410:15. [MHz]"),
    mem_clock: float = typer.Option(0.0, "--mem-clock", min=0.0, help="Memory clock. [MHz]"),
    power_cap: float = typer.Option(
        0.0, "--power-cap", min=0.0, help="Power cap; by default the GPU's limit. [W]"
    ),
    launch: str = typer.Option(
        "", "--launch", help="eager (one call a kernel) or graph (one call in all); a run: as recorded."
    ),
    anchor: str = typer.Option("", "--anchor", help="measured (scale what was recorded) or none."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write every row: .parquet .csv .json .md .html"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Predict time, utilisation, power and energy at each clock, per kernel and for the whole timeline."""
    from tracetool.cli.output import print_json
    from tracetool.cli.predicted import print_totals
    from tracetool.report.save import check_output, save_table
    from tracetool.workflows.clocks import parse_clocks
    from tracetool.workflows.predict import PredictedTable, predict

    if out is not None:
        check_output(out)
    made = predict(
        source,
        gpu or None,
        parse_clocks(clock),
        mem_clock_mhz=mem_clock or None,
        power_cap_w=power_cap or None,
        launch=launch,
        anchor=anchor,
    )
    table = made.frame if isinstance(made, PredictedTable) else made.signatures
    if out is not None:
        save_table(table, out, title=f"Predictions on {made.gpu}")
    if as_json:
        print_json({"gpu": made.gpu, **made.info, "totals": made.totals, "notes": list(made.notes)})
    elif not quiet:
        print_totals(made, out)
