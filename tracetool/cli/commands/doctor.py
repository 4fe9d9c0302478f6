"""``tracetool doctor``: what this machine is missing for recording, each with its fix."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, LIST_OUT_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="What this machine can record, and what is missing.", epilog="Example: tracetool doctor"
)
def doctor(
    folder: Path = typer.Argument(
        Path(), metavar="[FOLDER]", help="Where recordings would go; here by default."
    ),
    require: bool = typer.Option(False, "--require", help="Exit 3 if this machine cannot record a GPU."),
    out: Path | None = LIST_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Look at drivers, profilers, permissions and sensors of this machine; nothing is changed."""
    from tracetool.api.doctor import doctor as examine
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    examined = examine(folder)
    save(examined, out)
    emit(examined, as_json=as_json, quiet=quiet)
    if require:
        examined.raise_if_unable()
