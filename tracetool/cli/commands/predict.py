"""``tracetool predict``: time, power and energy at other clocks."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.numbers import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Time, power and energy at other clocks.",
    epilog="Example: tracetool predict run.tracetool --clock 900,1200 -o predicted.parquet",
)
def predict(
    source: Path = typer.Argument(..., metavar="RUN|TABLE", help="A run, or an operator or kernel table."),
    gpu: str = typer.Option("", "--gpu", help="GPU to predict, e.g. h100-sxm; a run states its own."),
    clock: str = typer.Option("", "--clock", help="Core clock: 1200, 900,1200 or 600:1410:15. [MHz]"),
    mem_clock: float | None = typer.Option(
        None, "--mem-clock", min=1.0, max=1e5, callback=finite, help="Memory clock. [MHz]"
    ),
    power_cap: float | None = typer.Option(
        None,
        "--power-cap",
        min=0.0,
        max=1e5,
        callback=finite,
        help="Power cap; by default the GPU's limit. [W]",
    ),
    launch: str = typer.Option(
        "", "--launch", help="eager (one call a kernel) or graph (one call in all); a run: as recorded."
    ),
    anchor: str = typer.Option(
        "", "--anchor", help="measured (scale what was recorded: anchored) or none (unanchored)."
    ),
    attention: str = typer.Option(
        "", "--attention", help="fused or unfused: how totals of a table price prefill attention."
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
    scale: list[str] = typer.Option(
        [], "--scale", metavar="FAMILY=FACTOR", help="What if a family's kernels took FACTOR of their time."
    ),
    drop: list[str] = typer.Option([], "--drop", metavar="RANGE", help="What if a range were left out."),
    by: str = typer.Option(
        "",
        "--by",
        help="Rows of a run to write or show: signature, family, range, operator, iteration, gap, power.",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write every row: .parquet .csv .json .md .html"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Predict time, utilization, power and energy at each clock: of kernels, copies, gaps and the run."""
    from tracetool.cli.output import print_json
    from tracetool.cli.predicted import print_rows, print_totals
    from tracetool.replay.predict import parse_request, rows_by
    from tracetool.report.save import check_output, save_table

    if out is not None:
        check_output(out)
    made = parse_request(
        source,
        gpu,
        clock,
        mem_clock_mhz=mem_clock,
        power_cap_w=power_cap,
        launch=launch,
        anchor=anchor,
        scale=scale,
        drop=drop,
        attention=attention,
        calibration=calibration,
        temperature_c=temperature,
        ambient_c=ambient,
    )
    table = rows_by(made, by) if by or out is not None else None
    if out is not None and table is not None:
        save_table(table, out, title=f"Predictions on {made.gpu}")
    if as_json:
        rows = {"rows": table.to_dicts()} if by and table is not None else {}
        print_json({"gpu": made.gpu, **made.info, "totals": made.totals, **rows, "notes": list(made.notes)})
    elif not quiet:
        print_totals(made, made.info.get("coverage", {}), out)
        if by and table is not None:
            print_rows(table)
