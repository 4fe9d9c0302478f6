"""``tracetool roofline``: achieved rates of operators and shapes."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, TZ_OPTION

app = typer.Typer()


@app.command(
    short_help="Achieved rates and efficiency of every operator and shape.",
    epilog="Example: tracetool roofline run.tracetool --gemm -o gemms.csv",
)
def roofline(
    run: Path = typer.Argument(..., metavar="RUN", help="A run."),
    gpu: str | None = typer.Option(None, "--gpu", help="GPU, e.g. a100-sxm; a run states its own."),
    power: list[Path] = typer.Option([], "--power", help="Power log in place of the run's."),
    tz: str | None = TZ_OPTION,
    gemm: bool = typer.Option(False, "--gemm", help="Matrix products alone, with M, N, K and layout."),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write: .parquet .csv .json .md .html .xml"),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """TFLOP/s, TB/s, FLOP/byte, share of the roofline and GFLOP/J of every operator and shape of a run."""
    from tracetool.api.roofline import roofline as achieved
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    rates = achieved(run, gpu=gpu, power=power, tz=tz, gemm=gemm)
    save(rates, out)
    emit(rates, as_json=as_json, quiet=quiet, written=[out])
