"""A run opened for reading, with the functions that take it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike
from tracetool.tables.run import Run as StoredRun
from tracetool.tables.windows import is_large

if TYPE_CHECKING:
    import polars as pl

    from tracetool.api.attribute import Attribution
    from tracetool.api.check_power import PowerCheck
    from tracetool.api.classify import Classification
    from tracetool.api.diff import AccuracyDiff, RunsDiff
    from tracetool.api.predict import Prediction
    from tracetool.api.profile import Profile
    from tracetool.api.report import Report
    from tracetool.api.sweep import Sweep
    from tracetool.report.view import View


class Run(StoredRun, Result):
    """A run: its tables as polars frames, and the jobs that start from it.

    It stands for its folder wherever a path is asked. The tables are ``kernels``, ``signatures``,
    ``devices``, ``telemetry`` and, by name, :meth:`table`; ``tracetool schema`` lists their columns
    with units.

    Examples
    --------
    >>> import tracetool as tt
    >>> trace = "sample_traces/mi300x_kernel_trace.csv"
    >>> run = tt.ingest(trace, gpu="mi300x", out=folder / "mi300x.tracetool")
    >>> run.kernels.height > 100, run.devices["gpu"].to_list()
    (True, ['mi300x'])
    """

    def __str__(self) -> str:
        """Return the run's folder, as commands take it."""
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def operators(self) -> pl.DataFrame:
        """The framework operators that launched the kernels; empty where the trace names none."""
        return self.table("operators")

    @property
    def ranges(self) -> pl.DataFrame:
        """The named ranges (NVTX, ROCTX, ``record_function``); empty where the trace names none."""
        return self.table("ranges")

    def predict(self, **options: Any) -> Prediction:
        """Return time, power and energy at other clocks; options as :func:`tracetool.predict`."""
        from tracetool.api.predict import predict

        return predict(self, **options)

    def sweep(self, **options: Any) -> Sweep:
        """Return the clock or power cap of least energy; options as :func:`tracetool.sweep`."""
        from tracetool.api.sweep import sweep

        return sweep(self, **options)

    def attribute(self, **options: Any) -> Attribution:
        """Return the measured energy of every kernel; options as :func:`tracetool.attribute`."""
        from tracetool.api.attribute import attribute

        return attribute(self, **options)

    def check_power(self, **options: Any) -> PowerCheck:
        """Return whether the power log can be trusted; options as :func:`tracetool.check_power`."""
        from tracetool.api.check_power import check_power

        return check_power(self, **options)

    def classify(self) -> Classification:
        """Return the family of every launch and what its name states."""
        from tracetool.api.classify import classify

        return classify(self)

    def profile(self, **options: Any) -> Profile:
        """Return the power profile of one kernel; options as :func:`tracetool.profile`."""
        from tracetool.api.profile import profile

        return profile(self, **options)

    def diff(
        self, head: PathLike | Sequence[PathLike] | None = None, **options: Any
    ) -> AccuracyDiff | RunsDiff:
        """Return the prediction against the measurement, or this run against ``head``.

        Options as :func:`tracetool.diff`.
        """
        from tracetool.api.diff import diff

        return diff(self, head, **options)

    def report(self, path: PathLike = "report.html", **options: Any) -> Report:
        """Write the run on one page; options as :func:`tracetool.report`."""
        from tracetool.api.report import report

        return report(self, path, **options)

    def _document(self) -> dict[str, Any]:
        return {"run": str(self.path), **self.info}

    def _view(self) -> View:
        from tracetool.report.view import View
        from tracetool.tables.schema import load_schema

        return View(self.path.name, self.kernels, load_schema("kernels"))

    def _notebook(self) -> View:
        from tracetool.report.view import Grid, Line, View

        blocks = (Line(self.summary()), Grid(self.devices), Grid(self.signatures, "Distinct work", 10))
        return View(self.path.name, self.kernels, blocks=blocks)

    def summary(self) -> str:
        """Return a sentence on the content of the run."""
        from tracetool.core.number_text import counted

        kernels = self.signatures.filter(self.signatures["kind"] == "kernel")
        busy = int(kernels["duration_ns"].sum()) / 1e6
        elsewhere = self.table("telemetry").height - self.telemetry.height
        other_scopes = f" of GPUs, {elsewhere:,} of other scopes" if elsewhere else ""
        return (
            f"{self.path}: {counted(int(kernels['launches'].sum()), 'kernel')} ({busy:,.3f} ms),"
            f" {counted(kernels.height, 'signature')}, {counted(self.devices.height, 'GPU')},"
            f" {counted(self.telemetry.height, 'reading')}{other_scopes};"
            f" clock {self.info['clock']['domain']}"
        )

    def replacements(self) -> list[str]:
        """Return the notes on files that were read in place of those named, such as an export of a report."""
        replaced = [str(s["path"]) for s in self.info["sources"] if "read_from" in s.get("details", {})]
        notes = [str(line) for line in self.info["warnings"]]
        return [n for n in notes if any(n.startswith(f"{Path(p).name}: read from ") for p in replaced)]

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print what the run holds, its warnings on standard error."""
        from tracetool.report.terminal.runs import show_run

        lines = [self.summary()]
        if not is_large(self) and self.telemetry.height:
            with contextlib.suppress(BadInput):  # a log of clocks or temperatures alone
                lines.append(self.check_power().checked.sentence())
        show_run(lines, [str(line) for line in self.info["warnings"]])


@public
def open_run(path: PathLike) -> Run:
    """Open a run that ``tracetool ingest`` or ``tracetool record`` wrote.

    Parameters
    ----------
    path : path
        The run's folder.

    Raises
    ------
    BadInput
        If it is not a run, is from a newer version, or a table is missing or changed.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.open(run.path).devices["gpu"].to_list()
    ['mi300x']
    """
    if isinstance(path, Run):
        return path
    opened: Run = Run.open(path)  # type: ignore[assignment]
    return opened
