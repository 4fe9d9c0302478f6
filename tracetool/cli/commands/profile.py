"""``tracetool profile``: power profile of one kernel, or of several side by side."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Power profile of one kernel, or of several.",
    epilog="Example: tracetool profile campaign.tracetool --kernel gemm --picture profile.html",
)
def profile(
    sources: list[Path] = typer.Argument(
        ..., metavar="RUN...|EXECUTIONS.csv", help="Runs with power logs, or one table of executions."
    ),
    kernel: list[str] = typer.Option(
        [], "--kernel", help="Part of the kernel's name; else the one with most time. Several are compared."
    ),
    top: int | None = typer.Option(
        None,
        "--top",
        metavar="N",
        min=1,
        max=100,
        help="Compare N kernels: the named ones, then those with most time.",
    ),
    gpu: str | None = typer.Option(
        None, "--gpu", help="GPU, e.g. mi300x: selects the sensor. A run states its own."
    ),
    power: Path | None = typer.Option(None, "--power", help="Samples of a table of executions."),
    sync: Path | None = typer.Option(None, "--sync", help="Sync points: host_us, gpu_us, delay_us."),
    window: float | None = typer.Option(
        None,
        "--window",
        min=0.0,
        max=60_000.0,
        callback=finite,
        help="Averaging window of the samples; by default instantaneous. [ms]",
    ),
    margin: float | None = typer.Option(
        None, "--margin", min=0.0, max=1.0, callback=finite, help="Binning margin, e.g. 0.05; else as guided."
    ),
    picture: Path | None = typer.Option(
        None, "--picture", help="Draw the stitched profile, or the comparison: .html"
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the curves, or the comparison: .parquet .csv .json .md .html .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Stitch repeated executions into a fine-grain power profile of one kernel (FinGraV).

    Golden runs are kept by execution-time binning; steady execution (SSE) and steady power (SSP)
    profiles come with 90 % bands, per component where the log tells them. Where other kernels ran in
    between, power is also told by what ran before, with the share of its power that lingers. Several
    kernels are set side by side: which component each stresses, and which are unlike.
    """
    from tracetool.api.profile import Profile
    from tracetool.api.profile import profile as profile_kernel
    from tracetool.api.profile_kernels import KernelProfiles, profile_kernels
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    profiled: Profile | KernelProfiles
    if max(len(kernel), top or 1) > 1:
        profiled = profile_kernels(
            sources, kernels=kernel, top=top, gpu=gpu, power=power, sync=sync, window=window, margin=margin
        )
    else:
        profiled = profile_kernel(
            sources,
            kernel=kernel[0] if kernel else None,
            gpu=gpu,
            power=power,
            sync=sync,
            window=window,
            margin=margin,
        )
    save(profiled, out)
    if picture is not None:
        profiled.plot().save(picture)
    emit(profiled, as_json=as_json, quiet=quiet, written=[out, picture])
