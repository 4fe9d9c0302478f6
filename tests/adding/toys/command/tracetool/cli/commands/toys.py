"""``tracetool toys``: what toys there are."""

from __future__ import annotations

import typer

from tracetool.cli.output import JSON_OPTION

app = typer.Typer()


@app.command(short_help="The toys there are.", epilog="Example: tracetool toys --json")
def toys(as_json: bool = JSON_OPTION) -> None:
    """List the toys there are."""
    from tracetool.api.toys import toys as all_toys
    from tracetool.cli.output import emit

    emit(all_toys(), as_json=as_json)
