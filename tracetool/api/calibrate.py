"""Calibrate: power and time coefficients of a GPU from measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.calibrate.calibrate import CalibrationResult
from tracetool.calibrate.calibrate import calibrate as fit
from tracetool.core.paths import PathLike, paths_of
from tracetool.core.progress import Progress
from tracetool.tables.write import aside_file

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Calibration(Result):
    """Fitted coefficients.

    Attributes
    ----------
    gpu : str
        The GPU.
    coefficients : DataFrame
        One row per coefficient: value, spread and whether the data or the prior determined it.
    errors : DataFrame
        One row per kind of table: error of the fit and on rows left out [%], beside plain baselines.
    rejected : DataFrame
        Rows that no fit used, with the reason.
    toml : str
        The calibration file; ``save("mine.power.toml")`` writes it.
    """

    fitted: CalibrationResult = field(repr=False)

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return self.fitted.gpu

    @property
    def coefficients(self) -> pl.DataFrame:
        """One row per coefficient."""
        return self.fitted.coefficients

    @property
    def errors(self) -> pl.DataFrame:
        """One row per kind of table."""
        return self.fitted.errors

    @property
    def rejected(self) -> pl.DataFrame:
        """Rows no fit used."""
        return self.fitted.rejected

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the coefficients rest on."""
        return self.fitted.notes

    @property
    def toml(self) -> str:
        """The calibration file's text."""
        return self.fitted.toml

    def save(self, path: PathLike) -> Path:
        """Write the calibration (``.toml``), or the table of coefficients by its extension."""
        if Path(path).suffix != ".toml":
            return super().save(path)
        with aside_file(path) as aside:
            aside.write_text(self.toml, "utf-8")
        return Path(path)

    def _document(self) -> dict[str, Any]:
        return {
            "gpu": self.gpu,
            "coefficients": self.coefficients.to_dicts(),
            "errors": self.errors.to_dicts(),
            "rejected": self.rejected.height,
            "second_clock": None if self.fitted.second_clock is None else asdict(self.fitted.second_clock),
            "notes": list(self.notes),
            "toml": self.toml,
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Coefficients of {self.gpu}", self.coefficients)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print coefficients and errors."""
        from tracetool.report.terminal.calibration import print_calibrated

        print_calibrated(self.fitted, written)


@public
def calibrate(
    sources: PathLike | Sequence[PathLike],
    gpu: str,
    *,
    part: str | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Fit power or time coefficients and state their error on rows they have not seen.

    Parameters
    ----------
    sources : run, path or sequence of them
        Runs with a power log, idle curves, sweeps, measured kernels, operators or programs.
    gpu : str
        The GPU they were measured on.
    part : {"power", "time", "both"}, optional
        Which coefficients; by default those of power where a source states any, else of time.
    progress : Progress, optional
        Receives each step.

    Raises
    ------
    BadInput
        If a source cannot be used, or no coefficient can be identified.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.calibrate([], "a100-sxm")
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: calibrate needs at least one run or table
    """
    return Calibration(fit(paths_of(sources), gpu, part=part, progress=progress))
