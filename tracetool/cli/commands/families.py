"""``tracetool families``: the taxonomy of kernels."""

from __future__ import annotations

import typer

from tracetool.cli.output import JSON_OPTION

app = typer.Typer()


@app.command(short_help="The families kernels fall into.", epilog="Example: tracetool families")
def families(as_json: bool = JSON_OPTION) -> None:
    """List the families kernels fall into, with one line and one example each."""
    from rich.markup import escape

    from tracetool.cli.output import console, print_json
    from tracetool.kernels.classify import FAMILIES
    from tracetool.report.layout import Table

    if as_json:
        print_json([{"family": f.name, "meaning": f.meaning, "example": f.example} for f in FAMILIES])
        return
    grid = Table("family", all_with="--json")
    grid.add_column("what it does", prose=True)
    grid.add_column("example")
    for family in FAMILIES:
        grid.add_row(family.name, escape(family.meaning), escape(family.example))
    console().print(grid)
