"""``tracetool schema``: the tables on disk, column by column."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command(
    short_help="The tables a run holds, column by column.", epilog="Example: tracetool schema kernels"
)
def schema(
    table: str = typer.Argument("", help="Table to show; all names when left out."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Show the tables a run holds: every column with its type, unit and meaning."""
    from dataclasses import asdict

    from rich.markup import escape

    from tracetool.cli.output import console, print_json
    from tracetool.core.errors import BadInput
    from tracetool.report.layout import Table
    from tracetool.tables.schema import load_schema, schema_names

    names = schema_names()
    if table and table not in names:
        raise BadInput(f"no table called {table!r}", f"known: {', '.join(names)}")
    if as_json:
        print_json([asdict(load_schema(n)) for n in ([table] if table else names)])
        return
    if not table:
        grid = Table("table", all_with="--json")
        grid.add_column("columns", justify="right")
        grid.add_column("what it holds", prose=True)
        for name in names:
            found = load_schema(name)
            grid.add_row(found.tag, str(len(found.columns)), escape(found.comment))
        console().print(grid)
        return
    grid = Table("column", "type", "unit", "null", all_with="--json")
    grid.add_column("meaning", prose=True)
    for c in load_schema(table).columns:
        grid.add_row(c.name, c.type, c.unit, "yes" if c.nullable else "", escape(c.comment))
    console().print(grid)
