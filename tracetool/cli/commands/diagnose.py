"""``tracetool diagnose``: where a run's joules go; why those of measured runs differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

if TYPE_CHECKING:
    from tracetool.api.result import Result

app = typer.Typer()


@app.command(
    short_help="Where a run's joules go; why those of measured runs differ.",
    epilog="Example: tracetool diagnose run.tracetool",
)
def diagnose(
    source: Path = typer.Argument(
        ..., metavar="RUN | TABLE", help="A run; or measured runs, one row per configuration."
    ),
    gpu: str | None = typer.Option(None, "--gpu", help="GPU of a run, where it does not state its own."),
    power: list[Path] = typer.Option([], "--power", help="Power log in place of the run's."),
    tz: str | None = typer.Option(None, "--tz", help="Zone of a log in local time, e.g. +02:00."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write: .html (of a table with pictures) .json .csv .parquet .md"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Cut a run's energy into causes that sum to it, and replay the run without the costliest.

    Of a table of measured runs: what batch, GPUs, task, precision and model do to the energy.
    """
    from tracetool.api.diagnose import diagnose as diagnose_run
    from tracetool.api.diagnose_table import diagnose_table
    from tracetool.cli.output import check_out, emit, save
    from tracetool.core.errors import BadInput

    check_out(out)
    if not source.is_dir() and (gpu or power or tz):
        raise BadInput(f"{source} is no run: --gpu, --power and --tz are of runs", "leave them out")
    diagnosed: Result = (
        diagnose_run(source, gpu=gpu, power=power, tz=tz) if source.is_dir() else diagnose_table(source)
    )
    save(diagnosed, out)
    emit(diagnosed, as_json=as_json, quiet=quiet, written=[out])
