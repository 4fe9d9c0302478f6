"""Profile: power over the time of one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.measure.fingrav.campaign import Profiled, profile_runs, profile_tables, summary
from tracetool.measure.fingrav.run_trends import samples_of_interest
from tracetool.tables.activity_table import holds_activity
from tracetool.tables.run_folder import is_run_path
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View


@dataclass(frozen=True)
class Profile(Charted):
    """A fine-grain power profile of one kernel.

    Attributes
    ----------
    kernel : str
        Its name.
    curves : DataFrame
        Power [W] over the phase of one execution, and over that of a run, per kind and component, with 90 %
        bands.
    samples : DataFrame
        The samples of interest behind each curve: time of interest [us] since the execution's begin, or the
        run's, and power [W].
    summary : DataFrame
        Mean power [W] and energy [J] of each curve.
    """

    profiled: Profiled = field(repr=False)

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.profiled.kernel

    @property
    def curves(self) -> pl.DataFrame:
        """Power over one execution."""
        return self.profiled.frame

    @property
    def samples(self) -> pl.DataFrame:
        """One row per sample of interest."""
        return samples_of_interest(self.profiled.profile)

    @property
    def summary(self) -> pl.DataFrame:
        """One row per curve."""
        return summary(self.profiled)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.profiled.notes

    def _document(self) -> dict[str, Any]:
        return self.profiled.document()

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Power profile of {self.kernel}", self.curves, load_schema("profile"))

    def _notebook(self) -> View:
        from tracetool.report.view import Grid, Line, View

        title = f"Power profile of {self.kernel}"
        notes = tuple(Line(note, "note") for note in self.notes)
        return View(title, self.summary, None, (Line(title, "headline"), Grid(self.summary), *notes))

    def _chart(self) -> Chart:
        from tracetool.report.pictures.power_profile import power_profile

        return power_profile(self.kernel, self.profiled.profile, self.profiled.among)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print what the profile rests on and the power of each curve."""
        from tracetool.report.terminal.power_profile import print_profiled

        print_profiled(self.profiled, written)


@public
def profile(
    sources: PathLike | Sequence[PathLike],
    *,
    kernel: str | None = None,
    gpu: str | None = None,
    power: PathLike | None = None,
    sync: PathLike | None = None,
    window: float | None = None,
    margin: float | None = None,
) -> Profile:
    """Stitch repeated executions into a power profile of one kernel (FinGraV), as ``tracetool profile``.

    Parameters
    ----------
    sources : run, path or sequence of them
        Runs with power logs, or one table of executions (``start_us``, ``end_us``).
    kernel : str, optional
        Part of the kernel's name; by default the one with most time.
    gpu : str, optional
        The GPU, whose file states the sensor; a run knows its own.
    power, sync : path, optional
        Samples of a table of executions, and its sync points.
    window : float, optional
        Averaging window of those samples; by default they are instantaneous. [ms]
    margin : float, optional
        Binning margin, e.g. 0.05; by default as FinGraV guides. [1]

    Raises
    ------
    BadInput
        If no kernel is called so, a run has no readings, a table of executions comes without ``power``, or no
        sample overlaps an execution.

    Examples
    --------
    >>> import tracetool as tt
    >>> run.profile()
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: ...
    """
    paths = check_sources(sources, power, sync, window)
    if power is None:
        return Profile(profile_runs(paths, kernel=kernel, gpu=gpu, margin=margin))
    window_s = 0.0 if window is None else window * 1e-3
    return Profile(
        profile_tables(paths[0], power, sync=sync, window_s=window_s, margin=margin, kernel=kernel)
    )


def check_sources(
    sources: PathLike | Sequence[PathLike],
    power: PathLike | None,
    sync: PathLike | None,
    window: float | None,
) -> Sequence[PathLike]:
    """Return the runs to profile, or the one table of executions that goes with samples.

    Raises
    ------
    BadInput
        If options are of the other kind, or a table of executions comes without ``power``.
    """
    paths = paths_of(sources)
    if power is not None:
        if len(paths) != 1:
            raise BadInput("one table of executions goes with --power", "profile runs without --power")
        return paths
    if sync is not None or window is not None:
        raise BadInput(
            "--sync and --window are of samples beside a table of executions", "give --power SAMPLES.csv"
        )
    for path in paths:
        if not is_run_path(path) and holds_activity(path):
            raise BadInput.in_file(
                path, "is a table of executions, without samples of power", "give --power SAMPLES.csv"
            )
    return paths
