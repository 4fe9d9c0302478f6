"""``tracetool ingest``: traces and power logs into one run."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

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
    tz: str = typer.Option("", "--tz", help="Zone of logs in local time: +02:00 or Europe/Berlin."),
    gpu: str = typer.Option("", "--gpu", help="GPU model, where the trace does not name it."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="The run to write; default: beside the first trace."
    ),
    nsys: Path | None = typer.Option(None, "--nsys", help="The nsys program, if it is not on PATH."),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Read traces and power logs of any known format and write one run."""
    from tracetool.api.ingest import ingest as work
    from tracetool.cli.output import console, print_json
    from tracetool.cli.progress import shown_progress
    from tracetool.tables.run import Run

    with shown_progress(quiet=quiet or as_json) as progress:
        path = work(traces, power, tz=tz or None, gpu=gpu or None, out=out, nsys=nsys, progress=progress)
    run = Run.open(path)
    if as_json or quiet:  # what was read in place of the file that was named is said in any case
        swapped = [str(s["path"]) for s in run.info["sources"] if "read_from" in s.get("details", {})]
        for line in run.info["warnings"]:
            if any(line.startswith(f"{Path(p).name}: read from ") for p in swapped):
                print(f"note: {line}", file=sys.stderr)
    if as_json:
        print_json({"run": str(path), **run.info})
        return
    if quiet:
        return
    from rich.markup import escape

    from tracetool.core.figures import counted

    for warning in run.info["warnings"]:
        console(stderr=True).print(f"note: {escape(warning)}", soft_wrap=True)
    kernels = run.kernels.filter(run.kernels["kind"] == "kernel")
    busy = int(kernels["duration_ns"].sum()) / 1e6
    console().print(
        f"{escape(str(path))}: {counted(kernels.height, 'kernel')} ({busy:,.3f} ms),"
        f" {counted(run.signatures.height, 'signature')}, {counted(run.devices.height, 'GPU')},"
        f" {counted(run.telemetry.height, 'reading')}; clock {run.info['clock']['domain']}",
        soft_wrap=True,
    )
