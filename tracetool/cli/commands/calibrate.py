"""``tracetool calibrate``: power and time coefficients of a GPU from measurements."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


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
    part: str | None = typer.Option(
        None, "--part", help="power, time or both; by default power where a source states any."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the calibration: a .toml file."),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Fit power or time coefficients, state their uncertainty and their error on rows they have not seen."""
    from tracetool.api.calibrate import calibrate as fit
    from tracetool.cli.output import emit, save
    from tracetool.cli.progress import shown_progress
    from tracetool.core.errors import BadInput

    if out is not None and out.suffix != ".toml":
        raise BadInput(f"{out}: a calibration is a .toml file", "name it mine.power.toml")
    with shown_progress(quiet=quiet) as progress:
        fitted = fit(sources, gpu, part=part, progress=progress)
    save(fitted, out)
    emit(fitted, as_json=as_json, quiet=quiet, written=[out])
