"""Check: the comparison that a project's settings ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracetool.api.diff import RunsDiff
from tracetool.api.public import public
from tracetool.compare.check import checked
from tracetool.compare.settings import find_settings, read_settings
from tracetool.core.paths import PathLike, paths_of
from tracetool.report.save import check_output


@public
def check(
    runs: PathLike | Sequence[PathLike] = (),
    *,
    base: PathLike | Sequence[PathLike] = (),
    config: PathLike | None = None,
    baseline: str | None = None,
    branch: str | None = None,
    by: str | None = None,
    depth: int | None = None,
) -> RunsDiff:
    """Compare head runs with the base or the kept baselines by the project's limits, as ``tracetool check``.

    Parameters
    ----------
    runs, base : run, path or sequence of them
        Head and base runs; by default those of the settings.
    config : path, optional
        The settings; by default the nearest ``tracetool.toml`` or ``pyproject.toml`` with
        ``[tool.tracetool]``.
    baseline, branch : str, optional
        Store and branch of baselines, in place of the settings'.
    by : str, optional
        Groups to compare beside families, as for :func:`tracetool.diff`, in place of the settings'.
    depth : int, optional
        Levels of nested modules kept apart.

    Returns
    -------
    RunsDiff
        ``failed`` says whether a limit is broken, ``outputs`` which files the settings ask for.

    Raises
    ------
    BadInput
        If the settings cannot be used, or nothing is named to compare.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.check(run, base=run).failed
    False
    """
    settings = read_settings(Path(config) if config is not None else find_settings(Path.cwd()))
    outputs = tuple(map(Path, settings.out))
    for path in outputs:
        check_output(path)
    compared = checked(
        settings,
        head=paths_of(runs),
        base=paths_of(base),
        baseline=baseline,
        branch=branch,
        by=by,
        depth=depth,
    )
    return RunsDiff(compared, settings.strict, outputs, _in_repository(settings.file))


def _in_repository(file: Path | None) -> str:
    """Return a file's path from the root of its repository, or from here: readers in CI know no other."""
    if file is None:
        return ""
    absolute = file.absolute()
    for root in (*(p for p in absolute.parents if (p / ".git").exists()), Path.cwd()):
        if absolute.is_relative_to(root):
            return absolute.relative_to(root).as_posix()
    return str(file)
