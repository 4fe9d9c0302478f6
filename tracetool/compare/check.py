"""Check: the comparison a project's settings ask for, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tracetool.compare.baseline import baseline_sides
from tracetool.compare.diff import diff_sides, load_sides
from tracetool.compare.outcome import RunDiff
from tracetool.compare.requested_runs import chosen_basis, expand
from tracetool.compare.run_options import RunOptions, compared_by
from tracetool.compare.run_side import load_run
from tracetool.compare.settings import Settings
from tracetool.compare.spread import Spread
from tracetool.compare.thresholds import Threshold
from tracetool.core.errors import BadInput
from tracetool.tables.run import Run


def compare_with(
    sides: tuple[Sequence[Path], Sequence[Path]],
    *,
    baseline: str | None = None,
    branch: str = "main",
    options: RunOptions | None = None,
    thresholds: Sequence[Threshold] = (),
    ignore: Sequence[str] = (),
    spreads: Mapping[str, Spread] | None = None,
    last: int = 10,
) -> RunDiff:
    """Compare head runs with base runs, or with the newest baselines of a store.

    Parameters
    ----------
    sides : (sequence of path, sequence of path)
        Base and head runs; the base may be empty where a store is named.
    baseline : str, optional
        Folder or bucket of baselines.
    branch : str
        Branch of the baselines.
    options : RunOptions, optional
        Energies, GPU, clocks.
    thresholds : sequence of Threshold
        Limits.
    ignore : sequence of str
        Families and name patterns left out.
    spreads : mapping of str to Spread, optional
        Run-to-run spread known beforehand; see :func:`tracetool.compare.diff.diff_runs`.
    last : int
        Baselines to compare with at most, the newest first.

    Raises
    ------
    BadInput
        If a run cannot be read, or no baseline fits.
    """
    options = options or RunOptions()
    base, head = sides
    if baseline is None:
        base_runs, head_runs = load_sides(list(base), list(head), options)
        return diff_sides(
            base_runs, head_runs, thresholds=thresholds, spreads=spreads, ignore=ignore, by=options.by
        )
    if options.by:
        raise BadInput("--by compares runs; a baseline keeps no groups", "give the base runs: --base RUN")
    if not head:
        raise BadInput("no run to check against the baseline", "give tracetool diff HEAD --baseline DIR")
    paths = expand(list(head))
    opened: dict[Path, Run] = {}
    basis = chosen_basis(paths, options.basis, opened)
    head_runs = [load_run(p, basis, options, opened) for p in paths]
    gpu = head_runs[0].classes.keys.get("GPU", "unknown")
    stored = baseline_sides(baseline, gpu=gpu, branch=branch, basis=basis, last=last)
    return diff_sides(stored, head_runs, thresholds=thresholds, spreads=spreads, ignore=ignore)


def checked(
    settings: Settings,
    *,
    head: Sequence[Path] = (),
    base: Sequence[Path] = (),
    baseline: str | None = None,
    branch: str | None = None,
    by: str | None = None,
    depth: int | None = None,
) -> RunDiff:
    """Compare the runs that the settings name; arguments override the settings.

    Raises
    ------
    BadInput
        If neither names head runs, or there is nothing to compare them with.
    """
    heads = [Path(p) for p in head] or [Path(p) for p in settings.head]
    bases = [Path(p) for p in base] or ([] if baseline else [Path(p) for p in settings.base])
    store = baseline or (None if bases else settings.baseline)
    if not heads:
        raise BadInput("no run to check", "name it: tracetool check RUN, or head = [...] in the settings")
    if not bases and not store:
        where = f"in {settings.file}" if settings.file else "in tracetool.toml or pyproject.toml"
        raise BadInput("nothing to compare with", f'give --base RUN, or baseline = "DIR" {where}')
    options = settings.options
    if by or depth:
        options = replace(options, by=compared_by(by, depth), depth=depth)
    return compare_with(
        (bases, heads),
        baseline=store,
        branch=branch or settings.branch,
        options=options,
        thresholds=settings.thresholds,
        ignore=settings.ignore,
        spreads=settings.spreads,
        last=settings.last,
    )
