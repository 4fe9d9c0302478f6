"""``tracetool baseline``: runs kept to compare later ones with."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import JSON_OPTION, QUIET_OPTION

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keep, list and prune baselines.")


@app.command(epilog="Example: tracetool baseline add .baselines run.tracetool --branch main")
def add(
    store: str = typer.Argument(..., metavar="DIR", help="Folder, or s3:// or gs:// bucket."),
    runs: list[Path] = typer.Argument(..., metavar="RUN...", help="Run folders, or folders of runs."),
    branch: str = typer.Option("main", help="Branch the runs were made of."),
    commit: str | None = typer.Option(None, help="Commit; by default the one the CI states."),
    reason: str | None = typer.Option(None, help="Why a higher level is accepted."),
    energy: str = typer.Option(
        "auto", help="Energies: measured, anchored (on measured times), predicted (unanchored), auto."
    ),
    gpu: str | None = typer.Option(None, help="GPU model, where the run does not say."),
    clock: float | None = typer.Option(
        None, metavar="MHZ", min=1.0, max=1e5, callback=finite, help="Core clock of predicted energies."
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Store runs as baselines."""
    from tracetool.api.baseline import add_baseline
    from tracetool.cli.output import emit

    added = add_baseline(
        store, runs, branch=branch, commit=commit, reason=reason, energy=energy, gpu=gpu, clock=clock
    )
    emit(added, as_json=as_json, quiet=quiet)


@app.command("list", epilog="Example: tracetool baseline list .baselines --branch main")
def list_(
    store: str = typer.Argument(..., metavar="DIR", help="Folder, or s3:// or gs:// bucket."),
    gpu: str | None = typer.Option(None, help="Only of this GPU."),
    branch: str | None = typer.Option(
        None, help="Only of this branch (needs --gpu in large stores to be quick)."
    ),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="Write the table: .parquet .csv .json .md .html .xml."
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """List baselines, oldest first, with drifts and steps."""
    from tracetool.api.baseline import list_baselines
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    baselines = list_baselines(store, gpu=gpu, branch=branch)
    save(baselines, out)
    emit(baselines, as_json=as_json, quiet=quiet)


@app.command(epilog="Example: tracetool baseline prune .baselines --keep 30")
def prune(
    store: str = typer.Argument(..., metavar="DIR", help="Folder, or s3:// or gs:// bucket."),
    keep: int = typer.Option(
        30, min=0, max=1_000_000, help="Newest baselines to keep of every GPU and branch, 1 or more."
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Delete the oldest baselines."""
    from tracetool.api.baseline import prune_baselines
    from tracetool.cli.output import emit

    emit(prune_baselines(store, keep), as_json=as_json, quiet=quiet)
