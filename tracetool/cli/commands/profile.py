"""``tracetool profile``: power profile of one kernel."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.numbers import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


@app.command(
    short_help="Power profile of one kernel.",
    epilog="Example: tracetool profile campaign.tracetool --kernel gemm --picture profile.html",
)
def profile(
    sources: list[Path] = typer.Argument(
        ..., metavar="RUN...|EXECUTIONS.csv", help="Runs with power logs, or one table of executions."
    ),
    kernel: str = typer.Option(
        "", "--kernel", help="Part of the kernel's name; else the one with most time."
    ),
    gpu: str = typer.Option("", "--gpu", help="GPU, e.g. mi300x: selects the sensor. A run states its own."),
    power: Path | None = typer.Option(None, "--power", help="Samples of a table of executions."),
    sync: Path | None = typer.Option(None, "--sync", help="Sync points: host_us, gpu_us, delay_us."),
    window: float = typer.Option(
        0.0,
        "--window",
        min=0.0,
        max=60_000.0,
        callback=finite,
        help="Averaging window of the samples; 0: instantaneous. [ms]",
    ),
    margin: float = typer.Option(
        0.0, "--margin", min=0.0, max=1.0, callback=finite, help="Binning margin, e.g. 0.05; else as guided."
    ),
    picture: Path | None = typer.Option(None, "--picture", help="Draw the stitched profile: .html"),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the curves: .parquet .csv .json .md .html"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Stitch repeated executions into a fine-grain power profile of one kernel (FinGraV).

    Golden runs are kept by execution-time binning; steady execution (SSE) and steady power (SSP)
    profiles come with 90 % bands, per component where the log tells them. Where other kernels ran in
    between, power is also told by what ran before, with the share of its power that lingers.
    """
    from tracetool.cli.output import console, print_json
    from tracetool.core.errors import BadInput
    from tracetool.measure.fingrav.campaign import context_table, profile_runs, profile_tables, summary
    from tracetool.report.console import show_table
    from tracetool.report.save import check_output, save_table
    from tracetool.report.sentences import say
    from tracetool.tables.schema import load_schema

    if out is not None:
        check_output(out)
    told = margin or None
    if power is not None:
        if len(sources) != 1:
            raise BadInput("one table of executions goes with --power", "profile runs without --power")
        made = profile_tables(
            sources[0], power, sync=sync, window_s=window * 1e-3, margin=told, kernel=kernel
        )
    else:
        made = profile_runs(sources, kernel=kernel, gpu=gpu or None, margin=told)
    if out is not None:
        save_table(made.frame, out, title=f"Power profile of {made.kernel}", schema=load_schema("profile"))
    if picture is not None:
        from tracetool.report.page import save_chart
        from tracetool.report.pictures.power_profile import power_profile

        save_chart(power_profile(made.kernel, made.profile, made.among), picture)
    if as_json:
        print_json(made.document())
        return
    if quiet:
        return
    found, shown = made.profile, console()
    golden = int(found.golden.sum())
    say(
        shown,
        f"{made.kernel}: {found.duration_s * 1e6:.1f} us, {golden} of {found.runs} runs golden"
        f" (margin {found.guide.margin:.0%}); steady from execution {found.sse + 1} (time) and"
        f" {found.ssp + 1} (power)",
    )
    for note in made.notes:
        say(shown, note)
    show_table(summary(made), console=shown)
    among = context_table(made)
    if among is not None:
        show_table(among, title="by what ran before", console=shown)
    for path in (out, picture):
        if path is not None:
            say(shown, f"wrote {path}")
