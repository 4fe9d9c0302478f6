"""``tracetool diff``: predicted against measured, or two runs against each other."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(epilog="Example: tracetool diff run.tracetool --fail-on energy=10% -o diff.md")
def diff(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="A run folder."),
    gpu: str | None = typer.Option(None, help="GPU model, where the run does not say."),
    clock: float | None = typer.Option(None, metavar="MHZ", help="Core clock the run was recorded at."),
    power: list[Path] = typer.Option([], help="Power log beside those in the run."),
    tz: str | None = typer.Option(None, help="Zone of --power logs, e.g. +02:00."),
    fail_on: list[str] = typer.Option(
        [], "--fail-on", metavar="METRIC=LIMIT%", help="Exit 1 beyond this: energy=10%, gemm:time=5%."
    ),
    out: list[Path] = typer.Option([], "-o", "--out", help="Write a file: .md .json .csv .parquet .html."),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Show where prediction and measurement of a run part: energy, power and time, worst first."""
    from tracetool.cli.output import console, print_json
    from tracetool.compare.thresholds import parse_thresholds
    from tracetool.report.accuracy import accuracy_view
    from tracetool.report.console import show_view
    from tracetool.report.save import check_output, save_view
    from tracetool.vocabulary.errors import BadInput, CheckFailed
    from tracetool.workflows.diff import diff_run

    thresholds = parse_thresholds(fail_on)
    for path in out:
        check_output(path)
    if len(runs) > 1:
        raise BadInput("give one run")
    found = diff_run(runs[0], gpu=gpu, clock_mhz=clock, power=power, tz=tz, thresholds=thresholds)
    view = accuracy_view(found)
    for path in out:
        save_view(view, path)
    if as_json:
        print_json(view.document)
    elif not quiet:
        show_view(view, console())
    if found.breaches:
        more = f" (and {len(found.breaches) - 1} more)" if len(found.breaches) > 1 else ""
        raise CheckFailed(found.breaches[0] + more)
