"""``tracetool record``: profile a program and log its power together."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.numbers import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Run a program with its trace and power log.",
    epilog="Example: tracetool record -o train.tracetool -- python train.py --steps 50",
    context_settings={"ignore_unknown_options": False},
)
def record(
    program: list[str] = typer.Argument(None, metavar="-- CMD...", help="The program and its arguments."),
    out: Path = typer.Option(Path("recorded.tracetool"), "--out", "-o", help="The run to write."),
    profiler: str = typer.Option("", help="nsys, torch, rocprof or none; by default the GPU vendor's own."),
    vendor: str = typer.Option("", help="nvidia or amd; by default whichever answers."),
    devices: str = typer.Option(
        "", metavar="N,..", help="GPUs to log, as the driver numbers them; all by default."
    ),
    interval: float = typer.Option(
        0.0,
        metavar="MS",
        min=0.0,
        max=60_000.0,
        callback=finite,
        help="Time between readings; found by default. [ms]",
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
        False, "--sensor-check", help="Identify the power sensor with a square wave; -o FILE.toml keeps it."
    ),
    seconds: float = typer.Option(
        20.0, metavar="S", min=0.0, max=3600.0, callback=finite, help="Length of that wave. [s]"
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

    from tracetool.api.record import RecordPlan, finish_recording
    from tracetool.api.record import record as record_program
    from tracetool.cli.output import print_json
    from tracetool.cli.record_text import (
        check_and_show,
        chosen_devices,
        chosen_vendor,
        recorded_lines,
        say_on_stderr,
    )
    from tracetool.core.errors import BadInput, Interrupted

    say = say_on_stderr if not quiet else (lambda _: None)
    if finish is not None:
        runs = finish_recording(finish, nsys=nsys, say=say)
        if as_json:
            print_json({"runs": [str(r) for r in runs]})
        elif not quiet:
            print("\n".join(str(r) for r in runs))
        return
    if sensor_check:
        check_and_show(
            vendor,
            chosen_devices(devices),
            seconds,
            program,
            out if out.suffix == ".toml" else None,
            say,
            as_json,
        )
        return
    if not program:
        raise BadInput("no program to record", "write it after --, e.g. tracetool record -- python train.py")
    plan = RecordPlan(
        program,
        out,
        profiler or None,
        chosen_vendor(vendor),
        chosen_devices(devices),
        interval or None,
        idle,
        cool_down,
        warm_up,
        repeat,
        slowdown,
        option,
        nsys,
        sys.stderr if as_json else None,  # standard output holds the document alone
    )
    made = record_program(plan, say)
    if as_json:
        print_json({**made.facts, "runs": [str(r) for r in made.runs], "recording": str(made.folder),
                    "exit_code": made.exit_code, "warnings": made.warnings})  # fmt: skip
    elif not quiet:
        print("\n".join(recorded_lines(made)))
    if made.interrupted:
        how = "terminated" if made.stop_signal == signal.SIGTERM else "interrupted"
        raise Interrupted(
            f"{how}; what was recorded until then is in {made.folder}", signal_number=made.stop_signal
        )
    if made.exit_code:
        raise typer.Exit(made.exit_code)
    if made.fault is not None and plan.profiler != "none":
        raise made.fault
