"""``tracetool check-power``: whether a power log can be trusted."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, TZ_OPTION

app = typer.Typer()


@app.command(
    short_help="Check whether a power log can be trusted.",
    epilog="Example: tracetool check-power run.tracetool --strict",
)
def check_power(
    source: Path = typer.Argument(
        ..., metavar="RUN|LOG|TABLE", help="A run, a power log, or a table of name, start_us, end_us (UTC)."
    ),
    power: list[Path] = typer.Option([], "--power", help="Power log; a run has its own."),
    tz: str | None = TZ_OPTION,
    gpu: str | None = typer.Option(
        None, "--gpu", help="GPU, e.g. a100-sxm: selects sensor and limit. A run states its own."
    ),
    device: int | None = typer.Option(
        None, "--device", min=0, max=1_000_000, help="Which GPU of the log; by default the first."
    ),
    strict: bool = typer.Option(False, "--strict", help="Exit 1 unless the verdict is good."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the checks: .parquet .csv .json .md .html .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Check coverage, gaps, GPUs, clocks, sensor, values, idle baseline and throttling of a power log.

    The verdict is good, usable (energies hold, something is to be looked at) or unusable.
    """
    from tracetool.api.check_power import check_power as check_source
    from tracetool.cli.output import check_out, emit, save

    check_out(out, judged=True)
    checked = check_source(source, power=power, tz=tz, gpu=gpu, device=device)
    save(checked, out)
    emit(checked, as_json=as_json, quiet=quiet, written=[out])
    if strict:
        checked.raise_unless_good()
