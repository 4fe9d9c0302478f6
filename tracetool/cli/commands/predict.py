"""``tracetool predict``: time, power and energy at other clocks."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite, tariff_of
from tracetool.cli.options import (
    AMBIENT_OPTION,
    ANCHOR_OPTION,
    CALIBRATION_OPTION,
    DEPTH_OPTION,
    GCO2_OPTION,
    JSON_OPTION,
    MEM_CLOCK_OPTION,
    OPERANDS_OPTION,
    PRICE_OPTION,
    PUE_OPTION,
    QUIET_OPTION,
    STACK_OPTION,
    TEMPERATURE_OPTION,
)

app = typer.Typer()


@app.command(
    short_help="Time, power and energy at other clocks.",
    epilog="Example: tracetool predict run.tracetool --clock 900,1200 -o predicted.parquet",
)
def predict(
    source: Path = typer.Argument(..., metavar="RUN|TABLE", help="A run, or an operator or kernel table."),
    gpu: str | None = typer.Option(
        None, "--gpu", help="GPU to predict, e.g. h100-sxm; a run states its own."
    ),
    clock: str | None = typer.Option(
        None, "--clock", help="Core clock: 1200, 900,1200 or 600:1410:15. [MHz]"
    ),
    mem_clock: float | None = MEM_CLOCK_OPTION,
    power_cap: float | None = typer.Option(
        None,
        "--power-cap",
        min=0.0,
        max=1e5,
        callback=finite,
        help="Power cap; by default the GPU's limit. [W]",
    ),
    launch: str | None = typer.Option(
        None, "--launch", help="eager (one call a kernel) or graph (one call in all); a run: as recorded."
    ),
    anchor: str | None = ANCHOR_OPTION,
    attention: str | None = typer.Option(
        None, "--attention", help="fused or unfused: how totals of a table price prefill attention."
    ),
    stack: str | None = STACK_OPTION,
    operands: str | None = OPERANDS_OPTION,
    calibration: list[Path] = CALIBRATION_OPTION,
    temperature: float | None = TEMPERATURE_OPTION,
    ambient: float | None = AMBIENT_OPTION,
    scale: list[str] = typer.Option(
        [], "--scale", metavar="FAMILY=FACTOR", help="What if a family's kernels took FACTOR of their time."
    ),
    drop: list[str] = typer.Option([], "--drop", metavar="RANGE", help="What if a range were left out."),
    by: str | None = typer.Option(
        None,
        "--by",
        help="Rows of a run to write or show: signature, family, range, operator, module, iteration, "
        "phase, gpu, gap or several (gpu,module); power.",
    ),
    depth: int | None = DEPTH_OPTION,
    power_over_time: Path | None = typer.Option(
        None,
        "--power-over-time",
        metavar="FILE",
        help="Write a run's power step by step, and show its peaks, ramps and spectrum (0.1 to 20 Hz).",
    ),
    price: float | None = PRICE_OPTION,
    gco2_per_kwh: float | None = GCO2_OPTION,
    pue: float | None = PUE_OPTION,
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write every row: .parquet .csv .json .md .html .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Predict time, utilization, power and energy at each clock: of kernels, copies, gaps and the run."""
    from tracetool.api.predict import predict as predict_source
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    tariff = tariff_of(price, gco2_per_kwh, pue)
    check_out(power_over_time)
    predicted = predict_source(
        source,
        gpu=gpu,
        clock=clock,
        mem_clock=mem_clock,
        power_cap=power_cap,
        launch=launch,
        anchor=anchor,
        attention=attention,
        stack=stack,
        operands=operands,
        calibration=calibration,
        temperature=temperature,
        ambient=ambient,
        scale=scale,
        drop=drop,
        by=by,
        depth=depth,
        power_over_time=power_over_time is not None,
        tariff=tariff,
    )
    save(predicted, out)
    if power_over_time is not None:
        predicted.save_power_over_time(power_over_time)
    emit(predicted, as_json=as_json, quiet=quiet, written=[out, power_over_time])
