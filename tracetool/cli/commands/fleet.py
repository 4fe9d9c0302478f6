"""``tracetool fleet``: many traces as one data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, SLOWDOWN_OPTION, TZ_OPTION

if TYPE_CHECKING:
    from tracetool.fleet.results import FleetJobs

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Many traces as one data set: read, attribute, ask."
)
_DST = typer.Argument(..., metavar="DST", help="The data set: folder, s3://, gs:// or abfs:// address.")
_ENGINE = typer.Option("local", "--engine", help="local (processes of this machine) or ray.")
_WORKERS = typer.Option(0, "--workers", min=0, max=10_000, help="Tasks at a time; 0: one a processor.")
_MEMORY = typer.Option(
    None, "--memory", metavar="GIB", min=0.25, max=1e6, callback=finite, help="Most memory of a task."
)
_RETRIES = typer.Option(3, "--retries", min=0, max=100, help="Further tries where network or worker failed.")
_OUT = typer.Option(None, "--out", "-o", help="Write: .parquet .csv .json .md .html .xml")
_STRICT = typer.Option(False, "--strict", help="Exit 1 if any job failed.")


@app.command(
    epilog="Example: tracetool fleet ingest 's3://traces/2026-11/' -o fleet --labels '{team}/{model}'"
)
def ingest(
    sources: list[str] = typer.Argument(..., metavar="SRC...", help="Folders, globs, addresses of buckets."),
    out: str = typer.Option(..., "--out", "-o", metavar="DST", help="The data set: folder or address."),
    labels: str = typer.Option("", help="What folders below SRC are, e.g. {team}/{model}."),
    each: bool = typer.Option(False, "--each", help="Every trace is a job of its own, ranks too."),
    tz: str | None = TZ_OPTION,
    gpu: str | None = typer.Option(None, "--gpu", help="GPU of traces that do not name theirs."),
    engine: str = _ENGINE,
    workers: int = _WORKERS,
    memory: float | None = _MEMORY,
    retries: int = _RETRIES,
    strict: bool = _STRICT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Read every new or changed trace under SRC."""
    from tracetool.fleet.fleet import fleet_ingest

    read = partial(fleet_ingest, sources, out, labels=labels, each=each, tz=tz, gpu=gpu)
    _run_and_print(read, (engine, workers, memory, retries), None, strict, as_json, quiet)


@app.command(epilog="Example: tracetool fleet attribute fleet --workers 8")
def attribute(
    data_set: str = _DST,
    gpu: str | None = typer.Option(None, "--gpu", help="GPU of runs that do not name theirs."),
    engine: str = _ENGINE,
    workers: int = _WORKERS,
    memory: float | None = _MEMORY,
    retries: int = _RETRIES,
    out: Path | None = _OUT,
    strict: bool = _STRICT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Energy of every job's kernels, measured or predicted."""
    options = {"gpu": gpu} if gpu else {}
    _task("attribute", data_set, options, (engine, workers, memory, retries), out, strict, as_json, quiet)


@app.command(epilog="Example: tracetool fleet classify fleet")
def classify(
    data_set: str = _DST,
    engine: str = _ENGINE,
    workers: int = _WORKERS,
    memory: float | None = _MEMORY,
    retries: int = _RETRIES,
    out: Path | None = _OUT,
    strict: bool = _STRICT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Families of every job's kernels, with launches and time."""
    _task("classify", data_set, {}, (engine, workers, memory, retries), out, strict, as_json, quiet)


@app.command(epilog="Example: tracetool fleet predict fleet --clock 900:1800:150")
def predict(
    data_set: str = _DST,
    clock: str | None = typer.Option(None, "--clock", help="Clocks [MHz]: 1200 or 900,1200 or 900:1800:150."),
    gpu: str | None = typer.Option(None, "--gpu", help="GPU of runs that do not name theirs."),
    power_cap: float | None = typer.Option(
        None, "--power-cap", min=1.0, max=1e5, callback=finite, help="[W]"
    ),
    engine: str = _ENGINE,
    workers: int = _WORKERS,
    memory: float | None = _MEMORY,
    retries: int = _RETRIES,
    out: Path | None = _OUT,
    strict: bool = _STRICT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Time and energy of every job at clocks."""
    chosen = {"clock": clock, "gpu": gpu, "power_cap": power_cap}
    options = {name: value for name, value in chosen.items() if value is not None}
    _task("predict", data_set, options, (engine, workers, memory, retries), out, strict, as_json, quiet)


def _task(
    task: str,
    data_set: str,
    options: Mapping[str, object],
    where: tuple[str, int, float | None, int],
    out: Path | None,
    strict: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from tracetool.fleet.fleet import fleet_run

    _run_and_print(
        partial(fleet_run, task, data_set, options=dict(options)), where, out, strict, as_json, quiet
    )


def _run_and_print(
    task: Callable[..., FleetJobs],
    where: tuple[str, int, float | None, int],
    out: Path | None,
    strict: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a task over jobs, write and print what became of them; exit 1 where asked to if one failed."""
    from tracetool.cli.output import check_out, emit, save
    from tracetool.cli.progress import shown_progress

    check_out(out)
    engine, workers, memory, retries = where
    with shown_progress(quiet=quiet) as progress:
        jobs = task(engine=engine, workers=workers, memory_gib=memory, retries=retries, progress=progress)
    save(jobs, out)
    emit(jobs, as_json=as_json, quiet=quiet, written=[out])
    if strict and jobs.failed:
        raise typer.Exit(1)


def _ask(question: str, data_set: str, out: Path | None, as_json: bool, quiet: bool, **more: object) -> None:
    from tracetool.cli.output import check_out, emit, save
    from tracetool.fleet.fleet import fleet_ask

    check_out(out)
    answer = fleet_ask(question, data_set, **more)  # type: ignore[arg-type]
    save(answer, out)
    emit(answer, as_json=as_json, quiet=quiet, written=[out])


@app.command(epilog="Example: tracetool fleet jobs fleet")
def jobs(
    data_set: str = _DST,
    out: Path | None = _OUT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """The jobs of a data set: when, on what, by which label."""
    _ask("jobs", data_set, out, as_json, quiet)


@app.command(epilog="Example: tracetool fleet energy fleet --by team")
def energy(
    data_set: str = _DST,
    by: str = typer.Option("job", "--by", help="job, gpu, family, kernel, uuid, rank, month or a label."),
    out: Path | None = _OUT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Joules by kernel, team, model, GPU or month, the most first."""
    _ask("energy", data_set, out, as_json, quiet, by=by)


@app.command(epilog="Example: tracetool fleet outliers fleet")
def outliers(
    data_set: str = _DST,
    out: Path | None = _OUT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """GPUs that take more energy for the same kernels."""
    _ask("outliers", data_set, out, as_json, quiet)


@app.command(epilog="Example: tracetool fleet savings fleet --slowdown 3%")
def savings(
    data_set: str = _DST,
    slowdown: str = SLOWDOWN_OPTION,
    out: Path | None = _OUT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Energy that each job's best clock would save."""
    _ask("savings", data_set, out, as_json, quiet, slowdown=slowdown)


@app.command(epilog="Example: tracetool fleet diff fleet-october fleet-november --by kernel")
def diff(
    data_set: str = _DST,
    head: str = typer.Argument(..., metavar="HEAD", help="The data set to compare with it."),
    by: str = typer.Option("job", "--by", help="job, gpu, family, kernel, signature, rank or a label."),
    out: Path | None = _OUT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """What takes more or less energy in another data set."""
    _ask("diff", data_set, out, as_json, quiet, by=by, head=head)


@app.command(epilog="Example: tracetool fleet report fleet -o fleet.html")
def report(
    data_set: str = _DST,
    out: Path | None = _OUT,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """One page with the answers and their pictures."""
    _ask("report", data_set, out, as_json, quiet)
