"""``tracetool schema``: the tables on disk, column by column."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command(
    short_help="The tables a run holds, column by column.", epilog="Example: tracetool schema kernels"
)
def schema(
    table: str | None = typer.Argument(None, help="Table to show; all names when left out."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Show the tables a run holds: every column with its type, unit and meaning."""
    from tracetool.api.schema import schema as schema_of
    from tracetool.cli.output import emit

    emit(schema_of(table), as_json=as_json)
