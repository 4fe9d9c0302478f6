"""``tracetool diagnose``: why the joules differ."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Why the energy of measured runs differs.",
    epilog="Example: tracetool diagnose runs.parquet -o why.html",
)
def diagnose(
    table: Path = typer.Argument(..., metavar="TABLE", help="Measured runs, one row per configuration."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write: .html (pictures) .json .csv .parquet .md"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """What batch, GPUs, task, precision and model do to the energy of measured runs, and through what."""
    from tracetool.api.diagnose_table import diagnose_table
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    diagnosis = diagnose_table(table)
    save(diagnosis, out)
    emit(diagnosis, as_json=as_json, quiet=quiet, written=[out])
