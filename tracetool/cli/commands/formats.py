"""``tracetool formats``: what can be read, and the command that makes each."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, LIST_OUT_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="The files that can be read, and how to make them.", epilog="Example: tracetool formats --json"
)
def formats(
    out: Path | None = LIST_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """List the trace and telemetry formats, the versions tried and the command that makes each."""
    from tracetool.api.formats import formats as all_formats
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    listed = all_formats()
    save(listed, out)
    emit(listed, as_json=as_json, quiet=quiet)
