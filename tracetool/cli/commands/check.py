"""``tracetool check``: the comparison a project's settings ask for."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

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
    baseline: str = typer.Option("", "--baseline", metavar="DIR", help="Store, in place of the settings'."),
    branch: str = typer.Option("", help="Branch of the baselines, in place of the settings'."),
    annotate: bool = typer.Option(False, "--annotate", help="Print workflow annotations (GitHub Actions)."),
    exit_zero: bool = typer.Option(False, "--exit-zero", help="Report only: never exit 1."),
    out: list[Path] = typer.Option(
        [], "-o", "--out", help="Write: .md .json .csv .parquet .html .xml .sarif."
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Compare head runs with the base or the kept baselines by the project's limits."""
    from tracetool.cli.verdict import finish
    from tracetool.compare.check import checked
    from tracetool.compare.settings import find_settings, read_settings
    from tracetool.core.errors import CheckFailed
    from tracetool.report.changes import changes_view
    from tracetool.report.save import check_output

    settings = read_settings(config or find_settings(Path.cwd()))
    targets = [*out, *map(Path, settings.out)]
    for path in targets:
        check_output(path)
    found = checked(settings, head=runs or [], base=base, baseline=baseline, branch=branch)
    finish(
        changes_view(found, str(settings.file or "")),
        targets,
        as_json=as_json,
        quiet=quiet,
        annotate=annotate,
    )
    if not exit_zero and (found.failed or (settings.strict and found.undecided)):
        more = f" (and {len(found.reasons) - 1} more)" if len(found.reasons) > 1 else ""
        raise CheckFailed((found.reasons[0] if found.reasons else "a limit could not be judged") + more)
