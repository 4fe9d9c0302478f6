"""``tracetool attribute``: measured energy per kernel and window."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tracetool.cli.arguments import refuse_given, tariff_of
from tracetool.cli.options import (
    DEPTH_OPTION,
    GCO2_OPTION,
    JSON_OPTION,
    PRICE_OPTION,
    PUE_OPTION,
    QUIET_OPTION,
    SENSOR_OPTION,
    TZ_OPTION,
)

if TYPE_CHECKING:
    from tracetool.api.result import Result

app = typer.Typer()


@app.command(
    short_help="Measured energy of every kernel, from a power log.",
    epilog="Example: tracetool attribute run.tracetool -o energy.parquet",
)
def attribute(
    source: Path = typer.Argument(
        ...,
        metavar="RUN|ACTIVITY.csv",
        help="A run, or a table of name, start_us, end_us (UTC), or requests of AIPerf or InferenceX.",
    ),
    power: list[Path] = typer.Option([], "--power", help="Power log; a run has its own."),
    tz: str | None = TZ_OPTION,
    windows: Path | None = typer.Option(
        None, "--windows", help="Windows to integrate: start_us, end_us (UTC), or srt-slurm's."
    ),
    gpu: str | None = typer.Option(
        None, "--gpu", help="GPU, e.g. a100-sxm: selects the sensor. A run states its own."
    ),
    device: int | None = typer.Option(
        None, "--device", min=0, max=1_000_000, help="Which GPU of the log; by default the first."
    ),
    sensor: Path | None = SENSOR_OPTION,
    prior: str | None = typer.Option(
        None,
        "--prior",
        metavar="PREDICTED|model",
        help="Tie powers to a table of predictions (signature or name, power_w), or to the model.",
    ),
    by: str | None = typer.Option(
        None,
        "--by",
        help="Energy of a run by signature, family, operator, module, range, iteration, phase, gpu, gap "
        "or several (gpu,module).",
    ),
    depth: int | None = DEPTH_OPTION,
    work: str | None = typer.Option(
        None,
        "--work",
        metavar="UNIT[=N]",
        help="Work of the run with --by, e.g. tokens=4096: J per unit. tokens, requests, steps alone: as its "
        "steps are named (vLLM, SGLang).",
    ),
    identify: bool = typer.Option(
        False, "--identify-sensor", hidden=True, help="Now: tracetool sensor identify."
    ),
    meter: Path | None = typer.Option(
        None, "--meter", hidden=True, help="Now: tracetool sensor identify --meter."
    ),
    picture: Path | None = typer.Option(
        None, "--picture", help="Draw the log against what explains it: .html"
    ),
    bars: Path | None = typer.Option(None, "--bars", help="Draw energy per class with intervals: .html"),
    price: float | None = PRICE_OPTION,
    gco2_per_kwh: float | None = GCO2_OPTION,
    pue: float | None = PUE_OPTION,
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        help="Write the windows if asked, else the classes: .parquet .csv .json .md .html .xml",
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Recover the energy of each kernel and window from a sampled power log, with intervals.

    The sensor's window, update period and lag are undone; classes the log cannot identify say so
    and give the energy of their group. Without --prior the measurement is independent of the model.
    """
    from tracetool.api.attribute import Attribution
    from tracetool.api.attribute import attribute as attribute_source
    from tracetool.cli.output import check_out, emit, save
    from tracetool.core.errors import BadInput

    if identify or meter is not None:
        raise BadInput(
            "identifying a sensor is a command of its own", "tracetool sensor identify, with the same options"
        )
    check_out(out)
    tariff = tariff_of(price, gco2_per_kwh, pue)
    subject = _subject(
        source,
        by,
        of_groups={"--work": work, "--depth": depth},
        of_classes={
            "--windows": windows,
            "--device": device,
            "--prior": prior,
            "--picture": picture,
            "--bars": bars,
        },
        of_activities={
            "--sensor": sensor,
            "--price": price,
            "--gco2-per-kwh": gco2_per_kwh,
            "--pue": pue,
        },
    )
    result: Result
    if subject == "groups":
        from tracetool.api.energy_by import energy_by, parse_work

        result = energy_by(
            source,
            (by or "").split(","),
            power=power,
            tz=tz,
            gpu=gpu,
            sensor=sensor,
            work=parse_work(work),
            depth=depth,
            tariff=tariff,
        )
    elif subject == "requests":
        from tracetool.api.request_energy import request_energy

        result = request_energy(source, power=power, tz=tz, gpu=gpu)
    else:
        result = attribute_source(
            source,
            power=power,
            tz=tz,
            windows=windows,
            gpu=gpu,
            device=device,
            sensor=sensor,
            prior=prior,
            tariff=tariff,
        )
    save(result, out)
    if isinstance(result, Attribution):
        if picture is not None:
            result.plot_log().save(picture)
        if bars is not None:
            result.plot().save(bars)
    emit(result, as_json=as_json, quiet=quiet, written=[out])


def _subject(
    source: Path,
    by: str | None,
    *,
    of_groups: Mapping[str, object],
    of_classes: Mapping[str, object],
    of_activities: Mapping[str, object],
) -> Literal["groups", "requests", "classes"]:
    """Return the kind of the source, and refuse options of other kinds."""
    from tracetool.sources.request_log import is_request_log

    if by is not None:
        refuse_given(of_classes, "is of a log's classes, not of the groups of --by")
        return "groups"
    refuse_given(of_groups, "is of the groups of --by, which is not given", "e.g. --by range")
    if is_request_log(source):
        refuse_given({**of_classes, **of_activities}, "is of a run or a table of activities, not of requests")
        return "requests"
    return "classes"
