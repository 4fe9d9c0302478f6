"""``tracetool calibrate``: power and time coefficients of a GPU from measurements."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()

#: Headings of errors in a terminal, short enough for all of them to fit.
_SHORT = {
    "fit_percent": "fit %",
    "held_out_percent": "left out %",
    "constant power": "constant %",
    "constant + FLOP/s + bytes/s": "const+FLOP/s+B/s %",
}


@app.command(
    short_help="Fit power and time coefficients of a GPU.",
    epilog="Example: tracetool calibrate idle.csv kernels.parquet --gpu a100-sxm -o mine.power.toml",
)
def calibrate(
    sources: list[Path] = typer.Argument(
        ...,
        metavar="RUN|TABLE...",
        help="Runs with a power log, idle curves, sweeps, measured kernels, operators or programs.",
    ),
    gpu: str = typer.Option(..., "--gpu", help="The GPU they were measured on, e.g. a100-sxm."),
    part: str = typer.Option("power", "--part", help="power, time or both."),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the calibration: a .toml file."),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Fit power or time coefficients, state their uncertainty and their error on rows they have not seen."""
    from tracetool.calibrate.calibrate import calibrate as fit
    from tracetool.cli.output import console, print_json
    from tracetool.core.errors import BadInput
    from tracetool.report.console import show_table
    from tracetool.report.sentences import say
    from tracetool.tables.write import aside_file

    if out is not None and out.suffix != ".toml":
        raise BadInput(f"{out}: a calibration is a .toml file", "name it mine.power.toml")
    made = fit(sources, gpu, part=part)
    if out is not None:
        with aside_file(out) as path:
            path.write_text(made.toml, "utf-8")
    if as_json:
        print_json(
            {
                "gpu": made.gpu,
                "coefficients": made.coefficients.to_dicts(),
                "errors": made.errors.to_dicts(),
                "rejected": made.rejected.height,
                "notes": list(made.notes),
                "toml": made.toml,
            }
        )
    elif not quiet:
        show_table(made.coefficients, all_with="--json")
        errors = made.errors.rename({k: v for k, v in _SHORT.items() if k in made.errors.columns})
        show_table(errors, all_with="--json")
        if made.rejected.height:
            show_table(made.rejected["reason"].value_counts(sort=True), all_with="--json")
        page = console()
        for note in made.notes:
            say(page, note)
        if out is not None:
            say(page, f"wrote {out}")
            say(page, f"use it: tracetool predict RUN --calibration {out}")
