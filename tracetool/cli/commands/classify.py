"""``tracetool classify``: what kernel names say."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Families of kernels, and what their names state.",
    epilog="Examples: tracetool classify run.tracetool -o kernels.csv | tracetool classify --explain NAME",
)
def classify(
    source: Path | None = typer.Argument(
        None, metavar="RUN|NAMES.csv|NAMES.txt", help="A run, or kernel names: a table or one per line."
    ),
    explain: str = typer.Option("", "--explain", metavar="NAME", help="Explain one name token by token."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write every row: .parquet .csv .json .md .html"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Tell the family of kernels and every attribute their names state: tiles, formats, stages, layouts."""
    from tracetool.core.errors import BadInput

    if explain:
        _explain(explain, as_json=as_json)
        return
    if source is None:
        raise BadInput("nothing to classify", "name a run or a file of kernel names, or use --explain NAME")
    from rich.markup import escape

    from tracetool.api.classify import classify_source, family_shares
    from tracetool.cli.output import console, print_json
    from tracetool.report.layout import Table
    from tracetool.report.save import check_output, save_table
    from tracetool.report.sentences import say

    if out is not None:
        check_output(out)
    found = classify_source(source)
    shares = family_shares(found)
    if out is not None:
        save_table(found, out, title=f"Kernels of {source}")
    if as_json:
        print_json({"source": str(source), "rows": found.height, "families": shares.to_dicts()})
        return
    if quiet:
        return
    timed = "time_ms" in shares.columns
    total = float(shares["time_ms"].sum()) if timed else float(shares["rows"].sum())
    grid = Table("family")
    for heading in ("share", *(["time ms"] if timed else []), "launches" if timed else "rows", "names"):
        grid.add_column(heading, justify="right")
    for row in shares.iter_rows(named=True):
        part = (row["time_ms"] if timed else row["rows"]) / total if total else 0.0
        times = [f"{row['time_ms']:,.3f}"] if timed else []
        grid.add_row(escape(row["family"]), f"{part:.1%}", *times, f"{row['rows']:,}", f"{row['names']:,}")
    console().print(grid)
    if out is not None:
        say(console(), f"wrote {out}")


def _explain(name: str, *, as_json: bool) -> None:
    from rich.markup import escape

    from tracetool.cli.output import console, print_json
    from tracetool.kernels.classify import explain_name
    from tracetool.report.layout import Table
    from tracetool.report.sentences import say

    found = explain_name(name)
    if as_json:
        print_json(found)
        return
    show = console()
    say(show, f"library  {found['title']}")
    say(show, f"source   {found['source']}")
    grid = Table("token", all_with="--json")
    grid.add_column("means", prose=True)
    for token, meaning in found["tokens"]:
        grid.add_row(escape(token), escape(meaning))
    show.print(grid)
    facts = Table("attribute", "value", all_with="--json")
    facts.add_column("what it is", prose=True)
    for fact in found["attributes"]:
        facts.add_row(escape(fact["attribute"]), escape(str(fact["value"])), escape(fact["meaning"]))
    show.print(facts)
