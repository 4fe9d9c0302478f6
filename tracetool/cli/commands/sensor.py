"""``tracetool sensor``: the power sensor behind a log, and that of this machine's GPU."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, TZ_OPTION

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Identify and check power sensors.")


@app.command(epilog="Example: tracetool sensor identify activity.csv --power smi.csv --tz +01:00")
def identify(
    source: Path = typer.Argument(
        ..., metavar="RUN|ACTIVITY.csv", help="A run, or a table of name, start_us, end_us (UTC)."
    ),
    power: list[Path] = typer.Option([], "--power", help="Power log; a run has its own."),
    tz: str | None = TZ_OPTION,
    gpu: str | None = typer.Option(
        None, "--gpu", help="GPU, e.g. a100-sxm: where its update period is looked for first."
    ),
    device: int | None = typer.Option(
        None, "--device", min=0, max=1_000_000, help="Which GPU of the log; by default the first."
    ),
    meter: Path | None = typer.Option(
        None, "--meter", help="A reference meter's time_us (UTC), power_w: it identifies gain and offset."
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the calibration that attribution uses: .toml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Identify the sensor behind each power field of a log.

    Window, lag, update period and delay; with a reference meter, the gain.
    """
    from tracetool.api.sensor import check_calibration_name, identify_sensor
    from tracetool.cli.output import emit, save

    if out is not None:
        check_calibration_name(out)
    identified = identify_sensor(source, power=power, tz=tz, gpu=gpu, device=device, meter=meter)
    save(identified, out)
    emit(identified, as_json=as_json, quiet=quiet, written=[out])


@app.command(epilog="Example: tracetool sensor check -o my-gpu.toml -- /path/to/python-with-torch")
def check(
    python: list[str] = typer.Argument(
        None, metavar="[-- PYTHON]", help="A Python with PyTorch, CuPy or Numba; by default this one."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the calibration: .toml"),
    vendor: str | None = typer.Option(None, help="nvidia or amd; by default whichever answers."),
    device: int = typer.Option(0, min=0, max=1_000_000, help="The GPU, as the driver numbers it."),
    seconds: float = typer.Option(
        20.0, metavar="S", min=0.0, max=3600.0, callback=finite, help="Length of the wave. [s]"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Identify the sensor of this machine's GPU by a square wave."""
    from tracetool.api.sensor import check_calibration_name, check_sensor
    from tracetool.cli.arguments import chosen_vendor
    from tracetool.cli.output import emit, save
    from tracetool.cli.progress import say_nothing, say_on_stderr

    if out is not None:
        check_calibration_name(out)
    say = say_nothing if quiet else say_on_stderr
    checked = check_sensor(
        vendor=chosen_vendor(vendor),
        device=device,
        seconds=seconds,
        python=python[0] if python else None,
        say=say,
    )
    emit(checked, as_json=as_json, quiet=quiet)
    save(checked, out)
    if out is not None:
        say(f"wrote {out}; use it with: tracetool attribute RUN --sensor {out}")
