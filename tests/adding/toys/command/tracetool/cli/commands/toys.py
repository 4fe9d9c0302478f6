"""``tracetool toys``: what toys there are."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, LIST_OUT_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(short_help="The toys there are.", epilog="Example: tracetool toys --json")
def toys(
    out: Path | None = LIST_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """List the toys there are."""
    from tracetool.api.toys import toys as all_toys
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    listed = all_toys()
    save(listed, out)
    emit(listed, as_json=as_json, quiet=quiet)
