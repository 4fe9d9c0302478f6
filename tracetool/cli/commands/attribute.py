"""``tracetool attribute``: measured energy per kernel and window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

if TYPE_CHECKING:
    from tracetool.measure.attribute import Attribution

app = typer.Typer()


@app.command(
    short_help="Measured energy of every kernel, from a power log.",
    epilog="Example: tracetool attribute run.tracetool -o energy.parquet",
)
def attribute(
    source: Path = typer.Argument(
        ..., metavar="RUN|ACTIVITY.csv", help="A run, or a table of name, start_us, end_us (UTC)."
    ),
    power: list[Path] = typer.Option([], "--power", help="Power log; a run has its own."),
    tz: str = typer.Option("", "--tz", help="Zone of a log in local time, e.g. +02:00."),
    windows: Path | None = typer.Option(
        None, "--windows", help="Windows to integrate: start_us, end_us (UTC)."
    ),
    gpu: str = typer.Option(
        "", "--gpu", help="GPU, e.g. a100-sxm: selects the sensor. A run states its own."
    ),
    device: int | None = typer.Option(
        None, "--device", min=0, max=1_000_000, help="Which GPU of the log; by default the first."
    ),
    sensor: Path | None = typer.Option(None, "--sensor", help="Calibration of this GPU's sensor (TOML)."),
    prior: str = typer.Option(
        "",
        "--prior",
        metavar="PREDICTED|model",
        help="Tie powers to a table of predictions (signature or name, power_w), or to the model.",
    ),
    identify: bool = typer.Option(
        False, "--identify-sensor", help="Identify the sensor from the log, print it, and stop."
    ),
    meter: Path | None = typer.Option(
        None, "--meter", help="With --identify-sensor: reference meter for the gain: time_us (UTC), power_w."
    ),
    picture: Path | None = typer.Option(
        None, "--picture", help="Draw the log against what explains it: .html"
    ),
    bars: Path | None = typer.Option(None, "--bars", help="Draw energy per class with intervals: .html"),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        help="Write the windows if asked, else the classes: .parquet .csv .json .md .html; with"
        " --identify-sensor a calibration: .toml",
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Recover the energy of each kernel and window from a sampled power log, with intervals.

    The sensor's window, update period and lag are undone; classes the log cannot identify say so
    and give the energy of their group. Without --prior the measurement is independent of the model.
    """
    import polars as pl

    from tracetool.cli.output import console, print_json
    from tracetool.core.errors import BadInput
    from tracetool.measure.attribute import attribute_activity, attribute_run
    from tracetool.measure.measured_scopes import scopes_line
    from tracetool.replay.expected_power import model_power
    from tracetool.report.console import show_table
    from tracetool.report.save import check_output, save_table
    from tracetool.report.sentences import say
    from tracetool.tables.run_folder import is_run_path
    from tracetool.tables.schema import load_schema

    if identify:
        _identify(source, power, tz, gpu, device, meter=meter, out=out, as_json=as_json)
        return
    if meter is not None:
        raise BadInput("a meter tells a sensor's gain", "add --identify-sensor")
    if out is not None:
        check_output(out)
    common = {
        "tz": tz or None,
        "gpu": gpu or None,
        "windows": windows,
        "sensor_file": sensor,
        "prior": model_power if prior == "model" else prior or None,
    }
    holds_run = is_run_path(source)
    if not source.exists():
        raise BadInput.in_file(source, "no such run or file", "make a run: tracetool ingest TRACE -o RUN")
    if holds_run:
        found = attribute_run(source, power=power, **common)  # type: ignore[arg-type]
    else:
        found = attribute_activity(
            source,
            power=power,
            device=device,
            **common,  # type: ignore[arg-type]
        )
    if out is not None:
        if found.windows is not None:
            save_table(found.windows, out, title="Measured energy per window", schema=load_schema("windows"))
        else:
            save_table(found.energy, out, title="Measured energy per class", schema=load_schema("energy"))
    _draw(found, picture, bars)
    if as_json:
        print_json(
            {
                "scopes": found.scopes,
                "energy": found.energy.to_dicts(),
                "windows": None if found.windows is None else found.windows.to_dicts(),
                "alignment": found.alignment,
                "sensor": found.sensor,
                "controls": found.controls(),
                "notes": list(found.notes),
            }
        )
        return
    if quiet:
        return
    shown = console()
    for note in found.notes:
        say(shown, note)
    if whole := scopes_line(found.scopes):
        say(shown, whole)
    ran = found.energy.filter(pl.col("duration_ns") > 0).sort("energy_j", descending=True, nulls_last=True)
    columns = ["class", "energy_j", "energy_low_j", "energy_high_j", "identified", "duration_ns", "launches"]
    show_table(ran.select(*columns, "power_w", "coverage", "prior_share"), console=shown)
    if found.windows is not None:
        show_table(found.windows, title="windows", limit=10, console=shown)
    if out is not None:
        say(shown, f"wrote {out}")


def _identify(
    source: Path,
    power: list[Path],
    tz: str,
    gpu: str,
    device: int | None,
    *,
    meter: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print the sensor behind each field of a log; write the calibration of the one attribution uses."""
    import polars as pl

    from tracetool.cli.output import console, print_json
    from tracetool.core.errors import BadInput
    from tracetool.measure.identify_sensor import identify_sensor, save_sensor
    from tracetool.report.console import show_table
    from tracetool.report.sentences import say

    if out is not None and out.suffix.lower() != ".toml":
        raise BadInput.in_file(out, "a calibration is a TOML file", "name it e.g. my-gpu.toml")
    found = identify_sensor(source, power=power, tz=tz or None, gpu=gpu or None, device=device, meter=meter)
    if out is not None:
        save_sensor(found[0], out)
    rows = [one.row() for one in found]
    if as_json:
        print_json({"sensors": rows})
        return
    shown = console()
    told = {one.field: list(one.in_words().values()) for one in found}
    show_table(pl.DataFrame({"": list(found[0].in_words()), **told}), console=shown, all_with="--json")
    for row in rows:
        if row["note"]:
            say(shown, f"{row['field']}: {row['note']}")
    say(
        shown,
        "in brackets: the 90 % interval"
        + (
            ""
            if meter
            else "; the gain is that of other GPUs: a meter identifies this one's (--meter METER.csv)"
        ),
    )
    if out is not None:
        say(shown, f"wrote {out}: use it with --sensor")


def _draw(found: Attribution, picture: Path | None, bars: Path | None) -> None:
    """Write the pictures asked for."""
    if picture is None and bars is None:
        return
    import numpy as np
    import polars as pl

    from tracetool.report.page import save_chart
    from tracetool.report.pictures.measured import energy_bars, log_picture

    if picture is not None:
        device, seen = next(iter(found.observations.items()))
        explained = found.classes[device].fitted_w
        times, shown = seen.readings.time_s, seen.readings.power_w
        save_chart(
            log_picture(times, shown, explained, f"Power log, {seen.field}", found.power_profile(device)),
            picture,
        )
    if bars is not None:
        rows = found.energy.filter(pl.col("energy_j") > 0).sort("energy_j", descending=True).head(25)
        ends = [rows[c].fill_null(np.nan).to_numpy() for c in ("energy_j", "energy_low_j", "energy_high_j")]
        known = rows["identified"].to_list()
        save_chart(energy_bars(rows["class"].to_list(), ends[0], ends[1], ends[2], known), bars)
