"""``tracetool diff``: predicted against measured, or two runs against each other."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.options import (
    ANNOTATE_OPTION,
    BY_OPTION,
    DEPTH_OPTION,
    EXIT_ZERO_OPTION,
    JSON_OPTION,
    QUIET_OPTION,
    TZ_OPTION,
    VERDICT_OUT_OPTION,
)

app = typer.Typer()


@app.command(
    short_help="Predicted against measured, or two runs compared.",
    epilog="Example: tracetool diff base.tracetool head.tracetool --fail-on energy=2% -o diff.md",
)
def diff(
    runs: list[Path] = typer.Argument(
        None, metavar="RUN | BASE HEAD", help="One run: predicted against measured. Two: base against head."
    ),
    base: list[Path] = typer.Option(
        [], "--base", metavar="RUN", help="One more base run, or a folder of runs."
    ),
    head: list[Path] = typer.Option(
        [], "--head", metavar="RUN", help="One more head run, or a folder of runs."
    ),
    baseline: str | None = typer.Option(
        None, "--baseline", metavar="DIR", help="Compare with the newest baselines kept there."
    ),
    branch: str = typer.Option("main", help="Branch of the baselines."),
    energy: str = typer.Option(
        "auto", help="Energies: measured, anchored (on measured times), predicted (unanchored), auto."
    ),
    gpu: str | None = typer.Option(None, help="GPU model, where the run does not say."),
    clock: float | None = typer.Option(
        None,
        metavar="MHZ",
        min=1.0,
        max=1e5,
        callback=finite,
        help="Core clock of the run or the prediction.",
    ),
    power: list[Path] = typer.Option([], help="Power log beside those in the run (one run only)."),
    tz: str | None = TZ_OPTION,
    fail_on: list[str] = typer.Option(
        [],
        "--fail-on",
        metavar="METRIC=LIMIT%",
        help="Exit 1 beyond this: energy=2%, gemm:time=5%, *:energy=3%.",
    ),
    ignore: list[str] = typer.Option([], metavar="NAME", help="Leave out a family or kernel name pattern."),
    by: str | None = BY_OPTION,
    depth: int | None = DEPTH_OPTION,
    strict: bool = typer.Option(False, "--strict", help="Exit 1 also where a limit cannot be judged."),
    exit_zero: bool = EXIT_ZERO_OPTION,
    annotate: bool = ANNOTATE_OPTION,
    out: list[Path] = VERDICT_OUT_OPTION,
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Show what changed between runs, with what confidence and why; of one run, where the model errs."""
    from tracetool.api.diff import diff as diff_runs
    from tracetool.cli.output import check_out, emit, print_annotations

    for path in out:
        check_out(path, judged=True)
    base_runs, right = sides(list(runs or []), base, head, baseline is not None)
    compared = diff_runs(
        base_runs,
        right,
        baseline=baseline,
        branch=branch,
        energy=energy,
        gpu=gpu,
        clock=clock,
        power=power,
        tz=tz,
        fail_on=fail_on,
        ignore=ignore,
        by=by,
        depth=depth,
    )
    for path in out:
        compared.save(path)
    emit(compared, as_json=as_json, quiet=quiet)
    if annotate and not as_json:
        print_annotations(compared)
    if not exit_zero:
        compared.raise_if_failed(strict=strict)


def sides(
    given: list[Path], base: list[Path], head: list[Path], stored: bool
) -> tuple[list[Path], list[Path] | None]:
    """Return the base and head runs of a command line; of one run, and of heads with baselines, one side."""
    from tracetool.core.errors import BadInput

    if len(given) > 2:
        raise BadInput(
            f"{len(given)} runs given: which are base, which head?",
            "give BASE HEAD, and each further run with --base RUN or --head RUN",
        )
    if stored:
        if len(given) == 2 or base:
            raise BadInput(
                "--baseline takes the place of the base runs", "give only the head: tracetool diff HEAD"
            )
        return [*given, *head], None
    if len(given) == 2:
        return [given[0], *base], [given[1], *head]
    if len(given) == 1 and not head:
        return ([*base], given) if base else (given, None)
    if given:
        raise BadInput("one run and --head: is it the base?", "give it as --base RUN")
    if not base or not head:
        raise BadInput("no runs to compare", "give RUN, or BASE HEAD, or --base and --head")
    return base, head
