"""``tracetool formats``: what can be read, and the command that makes each."""

from __future__ import annotations

import typer

from tracetool.cli.output import JSON_OPTION

app = typer.Typer()


@app.command(
    short_help="The files that can be read, and how to make them.", epilog="Example: tracetool formats --json"
)
def formats(as_json: bool = JSON_OPTION) -> None:
    """List the trace and telemetry formats, the versions tried and the command that makes each."""
    from tracetool.api.formats import formats as all_formats
    from tracetool.cli.output import emit

    emit(all_formats(), as_json=as_json)
