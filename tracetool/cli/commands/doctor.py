"""``tracetool doctor``: what this machine is missing for recording, each with its fix."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION

app = typer.Typer()


@app.command(
    short_help="What this machine can record, and what is missing.", epilog="Example: tracetool doctor"
)
def doctor(
    folder: Path = typer.Argument(
        Path(), metavar="[FOLDER]", help="Where recordings would go; here by default."
    ),
    require: bool = typer.Option(False, "--require", help="Exit 3 if this machine cannot record a GPU."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Look at drivers, profilers, permissions and sensors of this machine; nothing is changed."""
    from dataclasses import asdict

    from rich.markup import escape

    from tracetool.api.doctor import examine
    from tracetool.cli.output import console, print_json
    from tracetool.core.errors import BadInput, MissingPart
    from tracetool.report.layout import Table
    from tracetool.report.sentences import say

    if not folder.is_dir():
        raise BadInput.in_file(folder, "no such folder")
    checks, able = examine(folder)
    if as_json:
        print_json({"can_record": able, "checks": [asdict(c) for c in checks]})
    else:
        grid = Table("state", "what", all_with="--json")
        grid.add_column("found", prose=True)
        grid.add_column("fix", prose=True)
        for check in checks:
            grid.add_row(*(escape(text) for text in (check.state, check.subject, check.found, check.fix)))
        shown = console()
        shown.print(grid)
        shown.print()
        say(
            shown,
            "This machine can record."
            if able
            else "This machine reads, predicts and compares; it cannot record a GPU.",
        )
    if require and not able:
        missing = next((c for c in checks if c.state == "missing"), None)
        raise MissingPart("this machine cannot record a GPU", missing.fix if missing else "")
