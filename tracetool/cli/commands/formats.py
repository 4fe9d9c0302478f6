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
    from rich.markup import escape

    from tracetool.cli.output import console, print_json
    from tracetool.report.layout import Table
    from tracetool.sources.detect import all_formats

    found = sorted(all_formats().items(), key=lambda f: (f[1].holds != "trace", f[1].title))
    if as_json:
        print_json(
            [
                {"format": n, "title": f.title, "holds": f.holds, "made_by": f.made_by, "tried": f.tried,
                 "endings": list(f.suffixes), "extra": f.extra or None}
                for n, f in found
            ]
        )  # fmt: skip
        return
    grid = Table("format", "holds", all_with="--json")
    grid.add_column("made by", prose=True)
    grid.add_column("tried on", prose=True)
    for _, f in found:
        grid.add_row(escape(f.title), f.holds, escape(f.made_by), escape(f.tried))
    console().print(grid)
