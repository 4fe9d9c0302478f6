"""Attribute: the measured energy of kernels and windows from a power log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.arguments import refuse_device
from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.measure.attribute import attribute_activity, attribute_run
from tracetool.measure.attribution import Attribution as Measured
from tracetool.measure.prior_sources import ExpectedPower
from tracetool.tables.benchmark_windows import holds_windows
from tracetool.tables.run import Run as StoredRun
from tracetool.tables.run_folder import is_run_path
from tracetool.tables.schema import load_schema
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.api.result import Picture
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View


@dataclass(frozen=True)
class Attribution(Charted):
    """Measured energy.

    Attributes
    ----------
    energy : DataFrame, shape (classes, columns)
        One row per GPU and class of kernels: energy [J] and power [W] with 90 % intervals, and whether the
        log separates the class from others.
    windows : DataFrame or None
        One row per window that was asked for.
    scopes : mapping
        Kernels, copies, gaps and the whole run.
    notes : tuple of str
        What the figures rest on.
    """

    measured: Measured = field(repr=False)
    tariff: Tariff = NO_TARIFF

    @property
    def energy(self) -> pl.DataFrame:
        """One row per GPU and class."""
        return self.tariff.priced(self.measured.energy)

    @property
    def windows(self) -> pl.DataFrame | None:
        """One row per window asked for."""
        windows = self.measured.windows
        return None if windows is None else self.tariff.priced(windows)

    @property
    def scopes(self) -> Mapping[str, Mapping[str, Any]]:
        """Kernels, copies, gaps and the whole run."""
        scopes = self.measured.scopes
        return dict(zip(scopes, self.tariff.priced_records(list(scopes.values())), strict=True))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.measured.notes

    def _document(self) -> dict[str, Any]:
        measured = self.measured
        return {
            **self.tariff.factors(),
            "scopes": self.scopes,
            "throttled": {str(device): record for device, record in measured.throttled.items()},
            "energy": self.energy.to_dicts(),
            "windows": None if self.windows is None else self.windows.to_dicts(),
            "alignment": measured.alignment,
            "sensor": measured.sensor,
            "controls": measured.controls(),
            "notes": list(measured.notes),
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        if self.windows is not None:
            return View("Measured energy per window", self.windows, load_schema("windows"))
        return View("Measured energy per class", self.energy, load_schema("energy"))

    def _chart(self) -> Chart:
        from tracetool.report.pictures.measured import attributed_bars

        return attributed_bars(self.energy)

    def plot_log(self) -> Picture:
        """Return the first GPU's log against the power that explains it, as a chart over time.

        Raises
        ------
        MissingPart
            If the chart library is not installed.
        """
        from tracetool.api.result import Picture
        from tracetool.report.pictures.measured import attributed_log

        return Picture(attributed_log(self.measured))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the notes and the classes that ran, the largest energy first."""
        from tracetool.report.terminal.attribution import print_attributed

        print_attributed(self.measured, written, self.tariff)


def _model_power(run: StoredRun, gpu: str | None) -> ExpectedPower:
    from tracetool.replay.expected_power import model_power  # the model: not for a measurement alone

    return model_power(run, gpu)


@public
def attribute(
    source: PathLike,
    *,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    windows: PathLike | None = None,
    gpu: str | None = None,
    device: int | None = None,
    sensor: PathLike | None = None,
    prior: PathLike | Mapping[int | str, float] | None = None,
    tariff: Tariff = NO_TARIFF,
) -> Attribution:
    r"""Recover the energy of each kernel and window from a sampled power log, as ``tracetool attribute``.

    Parameters
    ----------
    source : run or path
        A run, or a table of ``name``, ``start_us``, ``end_us`` (UTC).
    power : path or sequence of path
        Power logs; a run has its own.
    tz : str, optional
        Zone of logs in local time, e.g. ``+02:00``.
    windows : path, optional
        Table of windows to integrate: ``start_us``, ``end_us`` (UTC).
    gpu : str, optional
        The GPU, whose file states the sensor; a run knows its own.
    device : int, optional
        Which GPU of the log a table of activities ran on; by default the first.
    sensor : path, optional
        Calibration of this GPU's own sensor (TOML).
    prior : "model", path or mapping, optional
        Tie powers to the model's, to a table of predictions, or to powers by signature or name. [W] By
        default what is measured is independent of the model.
    tariff : Tariff, optional
        Adds cost and CO2 to every energy.

    Raises
    ------
    BadInput
        If a file cannot be used, or log and activity do not overlap.

    Examples
    --------
    >>> import tracetool as tt
    >>> activity, log = folder / "activity.csv", folder / "power.csv"
    >>> _ = activity.write_text("name,start_us,end_us\nload,1000000,2000000\n")
    >>> tt.attribute(activity)
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: ...is a table of activities without a power log
    """
    logs = paths_of(power)
    common: dict[str, Any] = {
        "tz": tz,
        "gpu": gpu,
        "windows": windows,
        "sensor_file": sensor,
        "prior": _model_power if prior == "model" else prior,
    }
    holds_run = is_run_path(source) and not holds_windows(Path(source))
    if not Path(source).exists():
        raise BadInput.in_file(source, "no such run or file", "make a run: tracetool ingest TRACE -o RUN")
    if holds_run:
        refuse_device(source, device)
        return Attribution(attribute_run(source, power=logs, **common), tariff)
    return Attribution(attribute_activity(source, power=logs, device=device, **common), tariff)
