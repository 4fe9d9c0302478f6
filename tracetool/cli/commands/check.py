"""``tracetool check``: the comparison a project's settings ask for."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import (
    ANNOTATE_OPTION,
    BY_OPTION,
    DEPTH_OPTION,
    EXIT_ZERO_OPTION,
    JSON_OPTION,
    QUIET_OPTION,
    VERDICT_OUT_OPTION,
)

app = typer.Typer()


@app.command(
    short_help="Compare runs by a project's own limits, for CI.",
    epilog="Example: tracetool check head.tracetool (with [tool.tracetool] in pyproject.toml)",
)
def check(
    runs: list[Path] = typer.Argument(
        None, metavar="[RUN...]", help="Head runs; by default those of the settings."
    ),
    base: list[Path] = typer.Option(
        [], "--base", metavar="RUN", help="Base runs, in place of the settings'."
    ),
    config: Path | None = typer.Option(None, "--config", help="Settings file; by default the nearest."),
    baseline: str | None = typer.Option(
        None, "--baseline", metavar="DIR", help="Store, in place of the settings'."
    ),
    branch: str | None = typer.Option(None, help="Branch of the baselines, in place of the settings'."),
    by: str | None = BY_OPTION,
    depth: int | None = DEPTH_OPTION,
    strict: bool = typer.Option(
        False, "--strict", help="Exit 1 also where a limit cannot be judged, as strict of the settings."
    ),
    annotate: bool = ANNOTATE_OPTION,
    exit_zero: bool = EXIT_ZERO_OPTION,
    out: list[Path] = VERDICT_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Compare head runs with the base or the kept baselines by the project's limits."""
    from tracetool.api.check import check as check_runs
    from tracetool.cli.output import check_out, emit, print_annotations

    for path in out:
        check_out(path, judged=True)
    compared = check_runs(
        runs or [], base=base, config=config, baseline=baseline, branch=branch, by=by, depth=depth
    )
    for path in (*out, *compared.outputs):
        compared.save(path)
    emit(compared, as_json=as_json, quiet=quiet)
    if annotate and not as_json:
        print_annotations(compared)
    if not exit_zero:
        compared.raise_if_failed(strict=strict or compared.strict)
