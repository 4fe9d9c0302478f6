"""GPUs: those that can be predicted, and one of them with its curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.arguments import text
from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.paths import PathLike
from tracetool.report.gpu_sheet import GpuSheet as Sheet
from tracetool.report.gpu_sheet import list_gpus, peaks, show_gpu

if TYPE_CHECKING:
    from tracetool.report.view import View

_SHOWN = ("name", "title", "sm_count", "clock_max_mhz", "power_limit_w", "power")


@dataclass(frozen=True)
class Gpus(Result):
    """The GPUs that can be predicted.

    Attributes
    ----------
    frame : DataFrame
        One row per GPU: SMs, clocks [MHz], memory bandwidth [GB/s], power limit [W], and what its power
        figures rest on.
    """

    @cached_property
    def _rows(self) -> pl.DataFrame:
        return list_gpus()

    def _document(self) -> dict[str, Any]:
        return {"gpus": self._rows.to_dicts()}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("GPUs", self._rows)

    def _notebook(self) -> View:
        from tracetool.report.view import Grid, View

        return View("GPUs", self._rows, None, (Grid(self._rows.select(_SHOWN)),))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the list."""
        from tracetool.report.console import show_table

        show_table(self._rows.select(_SHOWN), limit=None)


@dataclass(frozen=True)
class GpuSheet(Result):
    """One GPU.

    Attributes
    ----------
    numbers : DataFrame
        Every number with unit, interval, kind (datasheet, measured, fitted, derived, prior) and source.
    curves : DataFrame
        Voltage [V] and idle power [W] over the supported clocks [MHz].
    peaks : DataFrame
        Peak rate of every pipe at the rated boost clock. [TFLOP/s]
    """

    sheet: Sheet = field(repr=False)

    @property
    def name(self) -> str:
        """Name of the GPU in tracetool, e.g. ``h100-sxm``."""
        return self.sheet.gpu.name

    @property
    def numbers(self) -> pl.DataFrame:
        """Every number with its source."""
        return self.sheet.numbers

    @property
    def curves(self) -> pl.DataFrame:
        """Voltage and idle power over clocks."""
        return self.sheet.curves

    @property
    def peaks(self) -> pl.DataFrame:
        """Peak rates; empty where only the sensor is known."""
        return peaks(self.sheet.gpu) if self.sheet.power is not None else pl.DataFrame()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the basis of its power figures."""
        return self.sheet.notes

    def _document(self) -> dict[str, Any]:
        gpu = self.sheet.gpu
        return {
            "name": gpu.name,
            "title": gpu.title,
            "aliases": list(gpu.aliases),
            "architecture": gpu.architecture,
            "targets": list(self.sheet.architecture.targets),
            "numbers": self.numbers.to_dicts(),
            "peaks": self.peaks.to_dicts(),
            "curves": self.curves.to_dicts(),
            "notes": list(self.notes),
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(self.sheet.gpu.title, self.numbers)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print its numbers and curves."""
        from tracetool.report.terminal.gpu import print_gpu

        print_gpu(self.sheet)


def gpus() -> Gpus:
    """Return the GPUs that can be predicted, as ``tracetool gpus``.

    Examples
    --------
    >>> import tracetool as tt
    >>> "h100-sxm" in tt.gpus().frame["name"]
    True
    """
    return Gpus()


@public
def gpu(name: str) -> GpuSheet:
    """Return one GPU with its sources and curves, as ``tracetool gpus --show NAME``.

    Raises
    ------
    BadInput
        If no GPU is called so.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.gpu("h100-sxm").curves["voltage_v"].is_sorted()
    True
    """
    return GpuSheet(show_gpu(text("name", name) or ""))
