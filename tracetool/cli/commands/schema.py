"""``tracetool schema``: the tables on disk, column by column."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, LIST_OUT_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="The tables a run holds, column by column.", epilog="Example: tracetool schema kernels"
)
def schema(
    table: str | None = typer.Argument(None, help="Table to show; all names when left out."),
    out: Path | None = LIST_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Show the tables a run holds: every column with its type, unit and meaning."""
    from tracetool.api.schema import schema as schema_of
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    listed = schema_of(table)
    save(listed, out)
    emit(listed, as_json=as_json, quiet=quiet)
