"""``tracetool report``: a run on one page."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.numbers import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="One page with pictures.", epilog="Example: tracetool report run.tracetool -o report.html"
)
def report(
    run: Path = typer.Argument(..., metavar="RUN", help="A run folder."),
    base: Path | None = typer.Argument(None, metavar="[BASE]", help="A run to set it against."),
    out: Path = typer.Option(Path("report.html"), "-o", "--out", help="The page to write, .html."),
    gpu: str | None = typer.Option(None, help="GPU model, where the run does not say."),
    clock: float | None = typer.Option(
        None, metavar="MHZ", min=1.0, max=1e5, callback=finite, help="Core clock the run was recorded at."
    ),
    power: list[Path] = typer.Option([], help="Power log beside those in the run."),
    tz: str | None = typer.Option(None, help="Zone of --power logs, e.g. +02:00."),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Write one self-contained page: where the joules go, power over time, other clocks, every kernel."""
    from dataclasses import asdict

    from tracetool.cli.output import print_json
    from tracetool.core.errors import BadInput
    from tracetool.report.pictures.charts import need_bokeh
    from tracetool.report.run_html import run_html
    from tracetool.report.run_report import report_run
    from tracetool.report.save import check_output
    from tracetool.tables.write import aside_file

    need_bokeh()
    check_output(out)
    if out.suffix.lower() != ".html":
        raise BadInput.in_file(out, "a report is a page", "name it report.html, or use: tracetool diff -o")
    page = report_run(run, base, gpu=gpu, clock_mhz=clock, power=power, tz=tz)
    with aside_file(out) as temporary:
        temporary.write_text(run_html(page), "utf-8")
    if as_json:
        facts = [asdict(fact) for fact in page.facts]
        print_json(
            {
                "schema": "report/1",
                "path": str(out),
                "facts": facts,
                "totals": [page.total],
                "best": page.best,
                "coverage": page.accuracy.coverage,
                "warnings": page.warnings,
            }
        )
    elif not quiet:
        print(out)
