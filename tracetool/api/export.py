"""Export: a run's timeline with its energy, for Perfetto and other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.paths import PathLike, paths_of
from tracetool.report.export.write import Exported, export_run

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Export(Result):
    """A file that was exported.

    Attributes
    ----------
    path : Path
        The file.
    families : DataFrame
        Launches, time [ns] and energy [J] by GPU and family, with the intervals of
        ``tracetool attribute --by gpu,family``.
    notes : tuple of str
        What the figures rest on.
    """

    exported: Exported = field(repr=False)

    @property
    def path(self) -> Path:
        """The file."""
        return self.exported.path

    @property
    def families(self) -> pl.DataFrame:
        """One row per GPU and family."""
        return self.exported.families

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.exported.notes

    def _document(self) -> dict[str, Any]:
        exported = self.exported
        return {
            "schema": "export/1",
            "path": str(exported.path),
            "format": exported.format,
            "slices": exported.slices,
            "counter_tracks": exported.counters,
            "families": exported.families.to_dicts(),
            "notes": list(exported.notes),
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Energy by family in {self.path.name}", self.families)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the notes and where the file is."""
        from tracetool.report.sentences import open_console, say, write_line

        screen = open_console()
        for note in self.notes:
            say(screen, f"note: {note}", "dim")
        write_line(str(self.path))


@public
def export(
    run: PathLike,
    path: PathLike,
    *,
    gpu: str | None = None,
    clock: float | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    sensor: PathLike | None = None,
    redact: bool = False,
    work: Mapping[str, float | None] | None = None,
) -> Export:
    """Write a run's timeline with power and energy for other tools, as ``tracetool export``.

    Parameters
    ----------
    run : run or path
        The run.
    path : path
        What to write: ``.pftrace`` for Perfetto, ``.json`` for viewers of Chrome trace events (each also
        ``.gz``), ``.txt`` or ``.prom`` for sums as OpenMetrics text.
    gpu : str, optional
        The GPU, where the run does not say.
    clock : float, optional
        Also write the replay at this clock, as a second process. [MHz]
    power : path or sequence of path
        Power logs in place of those in the run.
    tz : str, optional
        Zone of those logs.
    sensor : path, optional
        Calibration of this GPU's own sensor (TOML).
    redact : bool, default False
        Write hashes in place of names of ranges, modules, and kernels of no public library.
    work : mapping of str to float, optional
        For ``.txt`` and ``.prom``: work of the whole run, e.g. ``{"tokens": 4096}``; None for an amount that
        the names of its steps state. By default all that they state.

    Raises
    ------
    BadInput
        If the run holds no activity, a clock or log cannot be used, or the file cannot be written.

    Examples
    --------
    >>> import tracetool as tt
    >>> written = tt.export(run, folder / "run.pftrace", clock=1200)
    >>> written.path.name, written.families["launches"].sum() == run.kernels.height
    ('run.pftrace', True)
    """
    from tracetool.api.run import open_run

    opened, logs = open_run(run), paths_of(power)
    with ExitStack() as until_written:
        if redact:
            from tracetool.kernels.redact import redacted_run
            from tracetool.tables.scratch import temporary_folder

            folder = until_written.enter_context(temporary_folder())
            opened = open_run(redacted_run(opened, folder / "redacted.tracetool").path)
        exported = export_run(
            opened, path, gpu=gpu, clock_mhz=clock, power=logs, tz=tz, sensor_file=sensor, work=work
        )
        if redact:
            _ = exported.families  # of a run that is about to go
        return Export(exported)
