"""``tracetool baseline``: runs kept to compare later ones with."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.numbers import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keep, list and prune baselines.")


@app.command(epilog="Example: tracetool baseline add .baselines run.tracetool --branch main")
def add(
    store: str = typer.Argument(..., metavar="DIR", help="Folder, or s3:// or gs:// bucket."),
    runs: list[Path] = typer.Argument(..., metavar="RUN...", help="Run folders, or folders of runs."),
    branch: str = typer.Option("main", help="Branch the runs were made of."),
    commit: str = typer.Option("", help="Commit; by default the one the CI states."),
    reason: str = typer.Option("", help="Why a higher level is accepted."),
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
    from tracetool.cli.output import print_json
    from tracetool.compare.baseline import add_baseline
    from tracetool.compare.run_side import Reading, basis_named

    reading = Reading(basis_named(energy), gpu, clock)
    files = add_baseline(store, runs, branch=branch, commit=commit, reason=reason, reading=reading)
    if as_json:
        print_json({"schema": "baseline-added/1", "files": files})
    elif not quiet:
        for file in files:
            print(file)


@app.command("list", epilog="Example: tracetool baseline list .baselines --branch main")
def list_(
    store: str = typer.Argument(..., metavar="DIR", help="Folder, or s3:// or gs:// bucket."),
    gpu: str = typer.Option("", help="Only of this GPU."),
    branch: str = typer.Option("", help="Only of this branch (needs --gpu in large stores to be quick)."),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="Write the table: .parquet .csv .json .md .html."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """List baselines, oldest first, with drifts and steps."""
    from tracetool.cli.output import console, print_json
    from tracetool.compare.baseline import listed, trends
    from tracetool.compare.baseline_store import Store
    from tracetool.core.escape import terminal
    from tracetool.report.console import show_table
    from tracetool.report.save import check_output, save_table

    if out is not None:
        check_output(out)
    kept = Store(store)
    kept.require()
    entries = [e for e in kept.entries(gpu or None) if not branch or e.branch == branch]
    table = listed(entries)
    told = {" ".join(key): trend.sentence() for key, trend in trends(entries).items() if trend.sentence()}
    if out is not None:
        save_table(table, out, title="Baselines")
    if as_json:
        print_json({"schema": "baseline-list/1", "baselines": table.to_dicts(), "trends": told})
        return
    if not entries:
        print("no baselines of this GPU and branch" if gpu or branch else "no baselines in this folder")
        return
    show_table(table, limit=None, console=console())
    for key, text in told.items():
        print(terminal(f"{key}: {text}"))


@app.command(epilog="Example: tracetool baseline prune .baselines --keep 30")
def prune(
    store: str = typer.Argument(..., metavar="DIR", help="Folder, or s3:// or gs:// bucket."),
    keep: int = typer.Option(
        30, min=0, max=1_000_000, help="Newest baselines to keep of every GPU and branch."
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Delete the oldest baselines."""
    from tracetool.cli.output import print_json
    from tracetool.compare.baseline import prune as prune_store
    from tracetool.core.figures import counted

    deleted = prune_store(store, keep)
    if as_json:
        print_json({"schema": "baseline-pruned/1", "deleted": [e.path for e in deleted]})
    elif not quiet:
        print(f"deleted {counted(len(deleted), 'baseline')}")
