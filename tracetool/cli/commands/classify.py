"""``tracetool classify``: what kernel names say."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Families of kernels, and what their names state.",
    epilog="Examples: tracetool classify run.tracetool -o kernels.csv | tracetool classify --explain NAME",
)
def classify(
    source: Path | None = typer.Argument(
        None, metavar="RUN|NAMES.csv|NAMES.txt", help="A run, or kernel names: a table or one per line."
    ),
    explain: str | None = typer.Option(
        None, "--explain", metavar="NAME", help="Explain one name token by token."
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write every row: .parquet .csv .json .md .html .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Tell the family of kernels and every attribute their names state: tiles, formats, stages, layouts."""
    from tracetool.api.classify import classify as classify_source
    from tracetool.api.classify import explain as explain_name
    from tracetool.cli.output import check_out, emit, save
    from tracetool.core.errors import BadInput

    if explain:
        emit(explain_name(explain), as_json=as_json)
        return
    if source is None:
        raise BadInput("nothing to classify", "name a run or a file of kernel names, or use --explain NAME")
    check_out(out)
    classified = classify_source(source)
    save(classified, out)
    emit(classified, as_json=as_json, quiet=quiet, written=[out])
