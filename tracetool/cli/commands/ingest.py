"""``tracetool ingest``: traces and power logs into one run."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, TZ_OPTION

app = typer.Typer()


@app.command(
    short_help="Read traces and power logs into one run.",
    epilog="Example: tracetool ingest run.nsys-rep --power power.csv --tz +02:00 -o run.tracetool",
)
def ingest(
    traces: list[Path] = typer.Argument(
        ..., metavar="TRACE...", help="Profiler files; power logs may be among them."
    ),
    power: list[Path] = typer.Option([], "--power", help="A power or clock log; may be repeated."),
    tz: str | None = TZ_OPTION,
    gpu: str | None = typer.Option(None, "--gpu", help="GPU model, where the trace does not name it."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="The run to write; default: beside the first trace."
    ),
    nsys: Path | None = typer.Option(None, "--nsys", help="The nsys program, if it is not on PATH."),
    redact: bool = typer.Option(
        False,
        "--redact",
        help="Hashes in place of names: files, ranges, modules, kernels of no public library.",
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Read traces and power logs of any known format and write one run."""
    from tracetool.api.ingest import ingest as read
    from tracetool.cli.output import emit
    from tracetool.cli.progress import shown_progress

    with shown_progress(quiet=quiet or as_json) as progress:
        run = read(traces, power, tz=tz, gpu=gpu, out=out, nsys=nsys, redact=redact, progress=progress)
    if as_json or quiet:  # that another file was read than the one named is said in any case
        for line in run.replacements():
            print(f"note: {line}", file=sys.stderr)
    emit(run, as_json=as_json, quiet=quiet)
