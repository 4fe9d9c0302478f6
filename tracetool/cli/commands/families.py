"""``tracetool families``: the taxonomy of kernels."""

from __future__ import annotations

import typer

from tracetool.cli.output import JSON_OPTION

app = typer.Typer()


@app.command(short_help="The families kernels fall into.", epilog="Example: tracetool families")
def families(as_json: bool = JSON_OPTION) -> None:
    """List the families kernels fall into, with one line and one example each."""
    from tracetool.api.families import families as all_families
    from tracetool.cli.output import emit

    emit(all_families(), as_json=as_json)
