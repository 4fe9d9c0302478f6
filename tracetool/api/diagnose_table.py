"""Diagnose tables of measured runs: why the energy of their configurations differs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.compare.run_tables.diagnosis import TableDiagnosis, diagnose_runs
from tracetool.core.paths import PathLike
from tracetool.replay.operator_tables import load_table

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class RunTableDiagnosis(Result):
    """Why the energy of measured configurations differs.

    Attributes
    ----------
    configurations : DataFrame
        One row per configuration: energy of a unit and of a request [J], power per GPU [W], shares of idle
        power and of the GPU's floating-point and memory peaks [%], least energy first within a task.
    comparisons : DataFrame
        One row per thing that pairs of configurations differ in: median ratio of energies, its range, how
        often it is less, and the latent factor that explains most.
    curves : DataFrame
        One row per curve of energy over the batch: what a step, a part of the batch and each unit take [J],
        and the error on batches left out [%].
    findings : tuple of str
        Sentences, the largest difference first.
    """

    source: TableDiagnosis = field(repr=False)

    @property
    def configurations(self) -> pl.DataFrame:
        """The configurations with their latent factors."""
        return self.source.latent

    @property
    def comparisons(self) -> pl.DataFrame:
        """What pairs of configurations differ in."""
        return self.source.summaries()

    @property
    def curves(self) -> pl.DataFrame:
        """Energy over the batch."""
        return self.source.curves.frame

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences, the largest difference first."""
        return tuple(s.text for s in self.source.statements)

    def _document(self) -> dict[str, Any]:
        from tracetool.report.run_table_page import document

        return document(self.source)

    def _view(self) -> View:
        from tracetool.report.run_table_page import table_view

        return table_view(self.source)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the largest differences and the comparisons."""
        from tracetool.report.terminal.run_table_diagnosis import print_table_diagnosis

        print_table_diagnosis(self.source, written)


@public
def diagnose_table(table: PathLike | pl.DataFrame) -> RunTableDiagnosis:
    """Return why the energy of measured runs differs, as ``tracetool diagnose TABLE``.

    Parameters
    ----------
    table : path or DataFrame
        One row per configuration, as ML.ENERGY publishes its runs or as ``forecast -o`` writes its cases.

    Raises
    ------
    BadInput
        If it cannot be read, or is no table of runs.

    Examples
    --------
    >>> import tracetool as tt
    >>> runs = pl.DataFrame(
    ...     {
    ...         "model": "m",
    ...         "gpu": "h100-sxm",
    ...         "batch": [1, 2, 4, 8],
    ...         "power_w": 500.0,
    ...         "energy_per_token_j": [4.0, 2.1, 1.2, 0.7],
    ...     }
    ... )
    >>> round(tt.diagnose_table(runs).curves["fold"].item(), 2)
    5.71
    """
    if isinstance(table, pl.DataFrame):
        return RunTableDiagnosis(diagnose_runs(table))
    return RunTableDiagnosis(diagnose_runs(load_table(Path(table)), os.fspath(table)))
