"""The runs of a comparison as they are named, and the energies that all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tracetool.compare.run_options import Basis
from tracetool.core.errors import BadInput
from tracetool.measure.power_log import telemetry_devices
from tracetool.replay.measured_energy import why_unusable
from tracetool.tables.run import RUN_FILE, Run
from tracetool.tables.run_folder import clean_up, is_run_path
from tracetool.tables.scratch import Scratch


def expand(paths: Sequence[Path | str]) -> list[Path]:
    """Return the runs and tables named by paths, patterns and folders of runs, each once.

    A run that is named twice counts once: as a repeated run it would narrow intervals without new data.

    Raises
    ------
    BadInput
        If one names nothing.
    """
    run_paths: list[Path] = []
    for pattern in paths:
        path = Path(pattern)
        if is_run_path(path) and not (path / RUN_FILE).is_file():
            clean_up(path)
            inside = sorted(p for p in path.iterdir() if (p / RUN_FILE).is_file() and not Scratch.of(p))
            if not inside:
                raise BadInput.in_file(
                    path, "is neither a run nor a folder of runs", "make one with: tracetool ingest TRACE"
                )
            run_paths += inside
        elif path.exists():
            run_paths.append(path)
        elif matches := sorted(
            Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path))
        ):
            run_paths += expand(matches)
        else:
            raise BadInput.in_file(
                path, "no such run or table", "make one with: tracetool ingest TRACE -o RUN"
            )
    once: dict[Path, Path] = {}
    for path in run_paths:
        once.setdefault(path.resolve(), path)
    return list(once.values())


def chosen_basis(
    paths: Sequence[Path], requested: Basis | Literal["auto"], opened: dict[Path, Run] | None = None
) -> Basis:
    """Return the basis of the energies to compare: measured where every run has usable power readings.

    Parameters
    ----------
    paths : sequence of path
        Runs, or one table.
    requested : str
        What was asked for.
    opened : dict of path to Run, optional
        Runs that are open, to which those opened here are added: tables and the verdict on a power log are
        then read once.

    Raises
    ------
    BadInput
        If measured energies were asked for and a run has none.
    """
    tables = [p for p in paths if p.is_file()]
    if tables:
        if requested not in ("auto", "predicted"):
            raise BadInput.in_file(tables[0], f"a table holds no {requested} energies", "leave --energy out")
        return "predicted"
    if requested in ("predicted", "anchored"):
        return requested
    for path in paths:
        run = opened_run(path, opened)
        fault = why_unusable(run) if telemetry_devices(run.telemetry) else "holds no power readings"
        if fault and requested == "measured":
            raise BadInput.in_file(path, fault, "ingest it again with --power LOG")
        if fault:
            return "anchored"
    return "measured"


def opened_run(path: Path, opened: dict[Path, Run] | None = None) -> Run:
    """Return a run, from ``opened`` where it is there; otherwise it is opened and added."""
    if opened is None:
        return Run.open(path)
    if path not in opened:
        opened[path] = Run.open(path)
    return opened[path]
