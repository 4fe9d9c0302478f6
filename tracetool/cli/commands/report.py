"""``tracetool report``: a run on one page."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import DEPTH_OPTION, JSON_OPTION, QUIET_OPTION, TZ_OPTION

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
    tz: str | None = TZ_OPTION,
    by: str | None = typer.Option(
        None,
        "--by",
        help="Groups to show: signature, family, operator, module, range, iteration, gpu, gap or several "
        "(gpu,module); by default modules.",
    ),
    depth: int | None = DEPTH_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Write one self-contained page: where the joules go, power over time, other clocks, every kernel."""
    from tracetool.api.report import report as report_run
    from tracetool.cli.output import emit
    from tracetool.cli.progress import shown_progress

    with shown_progress(quiet=quiet) as progress:
        written = report_run(
            run,
            out,
            base=base,
            gpu=gpu,
            clock=clock,
            power=power,
            tz=tz,
            by=by,
            depth=depth,
            progress=progress,
        )
    emit(written, as_json=as_json, quiet=quiet)
