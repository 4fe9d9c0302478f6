"""Classify: the families of kernels, and what their names state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.paths import PathLike
from tracetool.kernels.classification import (
    classify_source,
    classify_windows,
    family_shares,
    opened_run,
    shares_of,
)
from tracetool.kernels.classify import explain_name
from tracetool.tables.run import Run as StoredRun
from tracetool.tables.windows import is_large

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Classification(Result):
    """Kernels with their families.

    Attributes
    ----------
    kernels : DataFrame
        Of a run one row per launch, else one per name: family, library and every attribute the name states.
    families : DataFrame
        Names, launches and time [ms] per family, the largest first.
    """

    source: str
    kernels: pl.DataFrame = field(repr=False)

    @cached_property
    def families(self) -> pl.DataFrame:
        """One row per family."""
        return family_shares(self.kernels)

    def _document(self) -> dict[str, Any]:
        return {"source": self.source, "rows": self.kernels.height, "families": self.families.to_dicts()}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Kernels of {self.source}", self.kernels)

    def _notebook(self) -> View:
        from tracetool.report.view import Grid, View

        return View(f"Kernels of {self.source}", self.families, None, (Grid(self.families),))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the families with their shares."""
        from tracetool.report.terminal.classification import print_families

        print_families(self.families, written)


@dataclass(frozen=True)
class Explanation(Result):
    """One kernel name split into its tokens.

    Attributes
    ----------
    name : str
        The name.
    attributes : DataFrame
        What it states: attribute, value and meaning.
    """

    name: str
    explained: dict[str, Any] = field(repr=False)

    @cached_property
    def attributes(self) -> pl.DataFrame:
        """One row per attribute."""
        rows = [{key: str(value) for key, value in fact.items()} for fact in self.explained["attributes"]]
        return pl.DataFrame(rows)

    def _document(self) -> dict[str, Any]:
        return self.explained

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(self.name, self.attributes)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the tokens and what follows from them."""
        from tracetool.report.terminal.classification import print_explained

        print_explained(self.explained, written)


@dataclass(frozen=True)
class LargeClassification(Classification):
    """Kernels of a run larger than memory: families at once, launches only on the way to a file."""

    run: StoredRun | None = field(default=None, repr=False)

    @cached_property
    def families(self) -> pl.DataFrame:
        """One row per family."""
        assert self.run is not None
        return shares_of(self.run)

    def _document(self) -> dict[str, Any]:
        rows = int(self.families["rows"].sum())
        return {"source": self.source, "rows": rows, "families": self.families.to_dicts()}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write every launch, window by window: ``.parquet`` or ``.csv``.

        Raises
        ------
        BadInput
            If the extension is another or the folder cannot be written.
        """
        from tracetool.report.save import check_output
        from tracetool.report.stream import save_stream

        assert self.run is not None
        return save_stream(classify_windows(self.run), check_output(path))


@public
def classify(source: PathLike) -> Classification:
    """Return the family of kernels and every attribute their names state, as ``tracetool classify``.

    Parameters
    ----------
    source : run or path
        A run, or kernel names: a table with a column ``name``, or a text file with one a line.

    Raises
    ------
    BadInput
        If the source cannot be read or holds no names.

    Examples
    --------
    >>> import tracetool as tt
    >>> run.classify().families["names"].sum() > 0
    True
    """
    if (run := opened_run(source)) is not None and is_large(run):
        return LargeClassification(os.fspath(source), pl.DataFrame(), run)
    return Classification(os.fspath(source), classify_source(source if run is None else run))


@public
def explain(name: str) -> Explanation:
    """Take one kernel name apart, as ``tracetool classify --explain``.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.explain("ampere_sgemm_128x64_nn").to_dict()["attributes"][0]["value"]
    'gemm'
    """
    return Explanation(name, explain_name(name))
