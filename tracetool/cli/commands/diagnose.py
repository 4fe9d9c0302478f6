"""``tracetool diagnose``: where a run's joules go; why those of two runs, or of measured runs, differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION, TZ_OPTION

if TYPE_CHECKING:
    from tracetool.api.result import Result

app = typer.Typer()


@app.command(
    short_help="Where a run's joules go; why those of measured runs differ.",
    epilog="Example: tracetool diagnose run.tracetool --clock 1200 --overlap comm",
)
def diagnose(
    sources: list[Path] = typer.Argument(
        ...,
        metavar="RUN | BASE HEAD | TABLE",
        help="A run; two runs; or measured runs, one row per configuration.",
    ),
    gpu: str | None = typer.Option(None, "--gpu", help="GPU of a run, where it does not state its own."),
    power: list[Path] = typer.Option([], "--power", help="Power log in place of the run's."),
    tz: str | None = TZ_OPTION,
    by: str | None = typer.Option(
        None, "--by", help="Latent factors of each kernel, range, iteration, module or gpu of a run."
    ),
    scale: list[str] = typer.Option(
        [], "--scale", metavar="FAMILY=FACTOR", help="What if a family's kernels took FACTOR of their time."
    ),
    drop: list[str] = typer.Option([], "--drop", metavar="RANGE", help="What if a range were left out."),
    clock: float | None = typer.Option(
        None, "--clock", min=1.0, max=1e5, callback=finite, help="What if the core clock were this. [MHz]"
    ),
    power_cap: float | None = typer.Option(
        None, "--power-cap", min=0.0, max=1e5, callback=finite, help="What if the power cap were this. [W]"
    ),
    precision: str | None = typer.Option(
        None, "--precision", metavar="FORMAT", help="What if matrix products ran in this: fp8, bf16."
    ),
    batch: float | None = typer.Option(
        None, "--batch", metavar="FACTOR", callback=finite, help="What if a step had FACTOR times its rows."
    ),
    fuse: list[str] = typer.Option(
        [], "--fuse", metavar="A,B", help="What if kernels B ran within the A before them: norm,elementwise."
    ),
    overlap: str | None = typer.Option(
        None, "--overlap", metavar="comm", help="What if communication ran beside computation."
    ),
    without: list[str] = typer.Option(
        [],
        "--without",
        metavar="CAUSE",
        help="What if causes were removed, as findings name them: 'idle GPU' or 'idle GPU,tail'.",
    ),
    work: str | None = typer.Option(
        None,
        "--work",
        metavar="UNIT[=N,M]",
        help="Unit of work of two runs: tokens=N,M of base and head; tokens, requests or steps alone: as "
        "their steps are named.",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write: .parquet .csv .json .md .html (of a table: pictures) .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Cut a run's energy into causes that sum to it, and replay the run without the costliest.

    What-ifs compose: each alone, then all together. Of two runs: why a unit of work takes other joules, as
    work, traffic, efficiency, power, clock, idle time and waiting that sum to the change. Of a table of
    measured runs: what batch, GPUs, task, precision and model do to the energy.
    """
    from tracetool.api.diagnose import diagnose as diagnose_run
    from tracetool.api.diagnose_pair import diagnose_pair, parse_pair_work
    from tracetool.api.diagnose_table import diagnose_table
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    of_run: dict[str, object] = {
        "--power": power, "--tz": tz, "--by": by, "--scale": scale, "--drop": drop, "--clock": clock,
        "--power-cap": power_cap, "--precision": precision, "--batch": batch, "--fuse": fuse,
        "--overlap": overlap, "--without": without,
    }  # fmt: skip
    subject = _subject(sources, of_run, work=work, gpu=gpu)
    result: Result
    if subject == "two runs":
        result = diagnose_pair(sources[0], sources[1], gpu=gpu, work=parse_pair_work(work))
    elif subject == "run":
        result = diagnose_run(
            sources[0],
            gpu=gpu,
            power=power,
            tz=tz,
            by=by,
            scale=scale,
            drop=drop,
            clock=clock,
            power_cap=power_cap,
            precision=precision,
            batch=batch,
            fuse=fuse,
            overlap=overlap,
            without=without,
        )
    else:
        result = diagnose_table(sources[0])
    save(result, out)
    emit(result, as_json=as_json, quiet=quiet, written=[out])


def _subject(
    sources: Sequence[Path], of_run: Mapping[str, object], *, work: str | None, gpu: str | None
) -> Literal["run", "two runs", "table"]:
    """Return what is diagnosed, and refuse the options of anything else."""
    from tracetool.core.errors import BadInput

    run_options = [name for name, value in of_run.items() if value]
    if len(sources) > 2:
        raise BadInput(f"{len(sources)} runs given: which are base, which head?", "give BASE HEAD")
    runs = [source for source in sources if source.is_dir()]
    if len(sources) == 2 and run_options:
        raise BadInput(f"{run_options[0]} is of one run, two are given", "leave it out, or give one run")
    if len(sources) == 1 and work is not None:
        raise BadInput("--work is of two runs", "of one: tracetool attribute RUN --by family --work tokens=N")
    if not runs and len(sources) == 1 and (run_options or gpu):
        raise BadInput(f"{sources[0]} is no run: {(run_options or ['--gpu'])[0]} is of runs", "leave it out")
    if len(sources) == 2:
        return "two runs"
    return "run" if runs else "table"
