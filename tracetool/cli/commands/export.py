"""``tracetool export``: the timeline with power and energy, for other tools."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, SENSOR_OPTION, TZ_OPTION

app = typer.Typer()


@app.command(
    short_help="The timeline with power and energy for Perfetto, Chrome JSON or OpenMetrics.",
    epilog="Example: tracetool export run.tracetool -o run.pftrace --clock 1200",
)
def export(
    run: Path = typer.Argument(..., metavar="RUN", help="A run folder."),
    out: Path = typer.Option(
        ...,
        "-o",
        "--out",
        help="What to write: .pftrace (Perfetto) or .json (Chrome trace events), also .gz; .txt .prom"
        " (OpenMetrics).",
    ),
    gpu: str | None = typer.Option(None, help="GPU model, where the run does not say."),
    clock: float | None = typer.Option(
        None,
        metavar="MHZ",
        min=1.0,
        max=1e5,
        callback=finite,
        help="Also write the replay at this core clock, as a second process.",
    ),
    power: list[Path] = typer.Option([], help="Power log in place of those in the run."),
    tz: str | None = TZ_OPTION,
    sensor: Path | None = SENSOR_OPTION,
    redact: bool = typer.Option(
        False, "--redact", help="Hashes in place of names: ranges, modules, kernels of no public library."
    ),
    work: str | None = typer.Option(
        None,
        help="Work of the run for OpenMetrics, e.g. tokens=4096: J per unit; by default as its steps state.",
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Write the recorded timeline with measured and predicted power and every kernel's energy."""
    from tracetool.api.energy_by import parse_work
    from tracetool.api.export import export as export_run
    from tracetool.cli.output import emit

    emit(
        export_run(
            run,
            out,
            gpu=gpu,
            clock=clock,
            power=power,
            tz=tz,
            sensor=sensor,
            redact=redact,
            work=parse_work(work),
        ),
        as_json=as_json,
        quiet=quiet,
    )
