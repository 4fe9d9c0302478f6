"""``tracetool families``: the taxonomy of kernels."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, LIST_OUT_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(short_help="The families kernels fall into.", epilog="Example: tracetool families")
def families(
    out: Path | None = LIST_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """List the families kernels fall into, with one line and one example each."""
    from tracetool.api.families import families as all_families
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    listed = all_families()
    save(listed, out)
    emit(listed, as_json=as_json, quiet=quiet)
