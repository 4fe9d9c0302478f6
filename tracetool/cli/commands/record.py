"""``tracetool record``: profile a program and log its power together."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Run a program with its trace and power log.",
    epilog="Example: tracetool record -o train.tracetool -- python train.py --steps 50",
    context_settings={"ignore_unknown_options": False},
)
def record(
    program: list[str] = typer.Argument(None, metavar="-- CMD...", help="The program and its arguments."),
    out: Path = typer.Option(Path("recorded.tracetool"), "--out", "-o", help="The run to write."),
    profiler: str | None = typer.Option(
        None, help="nsys, torch, rocprof or none; by default the GPU vendor's own."
    ),
    vendor: str | None = typer.Option(None, help="nvidia or amd; by default whichever answers."),
    devices: str | None = typer.Option(
        None, metavar="N,..", help="GPUs to log, as the driver numbers them; all by default."
    ),
    interval: float | None = typer.Option(
        None,
        metavar="MS",
        min=0.0,
        max=60_000.0,
        callback=finite,
        help="Time between readings; by default a fifth of the sensor's update period. [ms]",
    ),
    idle: float = typer.Option(
        2.0,
        metavar="S",
        min=0.0,
        max=3600.0,
        callback=finite,
        help="Idle baseline logged before the program. [s]",
    ),
    cool_down: float = typer.Option(
        5.0, metavar="S", min=0.0, max=3600.0, callback=finite, help="Logged after the program. [s]"
    ),
    warm_up: int = typer.Option(
        0, metavar="N", min=0, max=100_000, help="Runs of the program before the recorded one."
    ),
    repeat: int = typer.Option(
        1, metavar="N", min=1, max=100_000, help="Recorded runs, for fine-grain power profiles."
    ),
    slowdown: bool = typer.Option(
        False, "--slowdown", help="Run once unprofiled first and compare the time."
    ),
    option: list[str] = typer.Option(
        [], "--option", "-P", help="Further option for the profiler; repeatable."
    ),
    nsys: Path | None = typer.Option(None, help="The nsys program or its folder."),
    finish: Path | None = typer.Option(
        None, metavar="FOLDER", help="Make runs of a recording that was cut short."
    ),
    sensor_check: bool = typer.Option(
        False, "--sensor-check", hidden=True, help="Now: tracetool sensor check."
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Run a program under its profiler with the power log beside it; one run comes out.

    The exit code is the program's own. The raw trace and log stay in RUN's sibling ending in .recording,
    whole up to the last reading even when this command is killed; --finish makes a run of such a folder.
    """
    import signal
    import sys

    from tracetool.api.record import finish_recording
    from tracetool.api.record import record as record_program
    from tracetool.cli.arguments import chosen_devices, chosen_vendor
    from tracetool.cli.output import emit
    from tracetool.cli.progress import say_nothing, say_on_stderr
    from tracetool.core.errors import BadInput, Interrupted

    say = say_nothing if quiet else say_on_stderr
    if sensor_check:
        raise BadInput("checking the sensor is a command of its own", "tracetool sensor check")
    if finish is not None:
        emit(finish_recording(finish, nsys=nsys, say=say), as_json=as_json, quiet=quiet)
        return
    recording = record_program(
        program or [],
        out=out,
        profiler=profiler,
        vendor=chosen_vendor(vendor),
        devices=chosen_devices(devices),
        interval=interval,
        idle=idle,
        cool_down=cool_down,
        warm_up=warm_up,
        repeat=repeat,
        slowdown=slowdown,
        option=option,
        nsys=nsys,
        output=sys.stderr if as_json else None,  # standard output holds the document alone
        say=say,
    )
    emit(recording, as_json=as_json, quiet=quiet)
    recording.raise_if_stopped()
    if recording.exit_code == 128 + signal.SIGINT:  # typer would take the code for an interrupt of ours
        raise Interrupted(f"the program was interrupted; what was recorded is in {recording.folder}")
    if recording.exit_code:
        raise typer.Exit(recording.exit_code)
    recording.raise_if_no_run()
