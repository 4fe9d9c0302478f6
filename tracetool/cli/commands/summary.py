"""``tracetool summary``: the time and energy budget of a run."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import tariff_of
from tracetool.cli.options import GCO2_OPTION, JSON_OPTION, PRICE_OPTION, PUE_OPTION, QUIET_OPTION, TZ_OPTION

app = typer.Typer()


@app.command(
    short_help="What the time and energy of a run were spent on.",
    epilog="Example: tracetool summary run.tracetool",
)
def summary(
    run: Path = typer.Argument(..., metavar="RUN", help="A run."),
    gpu: str | None = typer.Option(None, "--gpu", help="GPU, e.g. a100-sxm; a run states its own."),
    power: list[Path] = typer.Option([], "--power", help="Power log in place of the run's."),
    tz: str | None = TZ_OPTION,
    by_gpu: bool = typer.Option(
        False, "--by-gpu", help="Write a row per GPU: energy at equal work, waits caused and suffered."
    ),
    picture: Path | None = typer.Option(None, "--picture", help="Draw the budget: .html"),
    price: float | None = PRICE_OPTION,
    gco2_per_kwh: float | None = GCO2_OPTION,
    pue: float | None = PUE_OPTION,
    out: Path | None = typer.Option(None, "--out", "-o", help="Write: .parquet .csv .json .md .html .xml"),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Cut a run's time into computing, communication, waiting for other ranks, copies and idle by cause.

    Each part in joules, per cent and milliseconds; parts sum to the run. Of several GPUs also energy at equal
    work and joules spent waiting.
    """
    from tracetool.api.summary import summary as summarize
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    tariff = tariff_of(price, gco2_per_kwh, pue)
    summed = summarize(run, gpu=gpu, power=power, tz=tz, by_gpu=by_gpu, tariff=tariff)
    save(summed, out)
    if picture is not None:
        summed.plot().save(picture)
    emit(summed, as_json=as_json, quiet=quiet, written=[out])
