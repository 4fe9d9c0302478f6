"""Why the energy of measured runs differs: the diagnosis of a table of configurations."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracetool.compare.run_tables.batch_curve import BatchCurves, batch_curves, context_growth
from tracetool.compare.run_tables.columns import RunTable, read_runs
from tracetool.compare.run_tables.contrasts import Contrast, contrasts
from tracetool.compare.run_tables.findings import Statement, contrast_summary, statements
from tracetool.compare.run_tables.latent import latent_factors
from tracetool.compare.run_tables.shared_fit import rank_left_out


@dataclass(frozen=True)
class TableDiagnosis:
    """Diagnosis of a table of runs.

    Attributes
    ----------
    table : RunTable
        The configurations.
    latent : DataFrame
        They with their latent factors (:func:`tracetool.compare.run_tables.latent.latent_factors`).
    contrasts : tuple of Contrast
        Pairs that differ in one thing, their difference split exactly.
    curves : BatchCurves
        Energy against batch.
    growth : DataFrame
        What longer outputs add.
    ranked : DataFrame
        Models left out.
    statements : tuple of Statement
        Sentences, the largest difference first.
    """

    table: RunTable
    latent: pl.DataFrame
    contrasts: tuple[Contrast, ...]
    curves: BatchCurves
    growth: pl.DataFrame
    ranked: pl.DataFrame
    statements: tuple[Statement, ...]

    def summaries(self) -> pl.DataFrame:
        """Return one row per contrast: ratio of energies, pairs, how often less, what explains most."""
        return pl.DataFrame([contrast_summary(c) for c in self.contrasts])


def diagnose_runs(frame: pl.DataFrame, name: str = "table") -> TableDiagnosis:
    """Return the diagnosis of a table of measured runs.

    Parameters
    ----------
    frame : DataFrame
        One row per configuration, as ML.ENERGY publishes them or ``forecast -o`` writes them.
    name : str
        What errors call it.

    Raises
    ------
    BadInput
        If it is no such table.
    """
    table = read_runs(frame, name)
    latent, compared = latent_factors(table), contrasts(table.frame)
    curves, growth = batch_curves(table.frame), context_growth(table.frame)
    ranked = rank_left_out(table.frame)
    sentences = statements(table.frame, latent, compared, curves, growth, ranked)
    return TableDiagnosis(table, latent, compared, curves, growth, ranked, sentences)
