"""Results of jobs: tables, the JSON document a command prints, and their display."""

from __future__ import annotations

import html
import importlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetool.core.errors import MissingPart
from tracetool.core.one_process import stay_in_process

if TYPE_CHECKING:
    import polars as pl

    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View

#: Place a chart takes in a notebook: its own height and that of heading and legend. [px]
_HEIGHT_PX = 560


@dataclass(frozen=True)
class Picture:
    """A chart: shown by a notebook, written by ``save``; ``model`` is the Bokeh object.

    Examples
    --------
    >>> run.sweep(clock="900:2100:300").plot().title
    'Energy and time over clocks'
    """

    chart: Chart

    @property
    def title(self) -> str:
        """Heading of the result."""
        return self.chart.title

    @property
    def model(self) -> Any:
        """The Bokeh object, to change or to put into a layout."""
        return self.chart.model

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as a page that opens by itself, offline: ``.html``.

        Raises
        ------
        BadInput
            If the name does not end in ``.html`` or the file cannot be written.
        """
        from tracetool.report.page import save_chart

        return save_chart(self.chart, path)

    def _repr_html_(self) -> str:
        from tracetool.report.page import chart_page

        # a page of its own inside the notebook: its scripts and styles reach nothing else
        page = html.escape(chart_page(self.chart), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{_HEIGHT_PX}px;border:0"></iframe>'


#: Rows of a table that a notebook shows.
_NOTEBOOK_ROWS = 20


class Result(ABC):
    """The result of a job.

    Its tables are polars frames. ``to_dict`` and ``to_json`` give the document that the command prints with
    ``--json``; in a notebook it shows itself as a table, ``show`` prints it as the command does.
    """

    @abstractmethod
    def _document(self) -> Any:
        """Return the document, whose numbers may still be NaN."""

    @abstractmethod
    def _view(self) -> View:
        """Return the view shown in a notebook and written to files."""

    @abstractmethod
    def show(self, written: Sequence[str | os.PathLike[str]] = ()) -> None:
        """Print it as its command does.

        Parameters
        ----------
        written : sequence of path
            Files it was written to, named at the end.
        """

    @property
    def frame(self) -> pl.DataFrame:
        """The main table: what ``save`` writes and ``to_pandas`` converts."""
        stay_in_process()
        return self._view().table

    def to_json(self) -> str:
        """Return the document of the command's ``--json``; NaN and infinities are null."""
        from tracetool.report.json_values import plain

        stay_in_process()
        return json.dumps(plain(self._document()), ensure_ascii=False, default=str)

    def to_dict(self) -> Any:
        """Return the document of the command's ``--json`` as dictionaries and lists."""
        return json.loads(self.to_json())

    def to_pandas(self) -> Any:
        """Return the main table as a pandas data frame.

        Raises
        ------
        MissingPart
            If pandas is not installed.
        """
        try:
            importlib.import_module("pandas")  # only whether it is there
        except ImportError:
            raise MissingPart("to_pandas() needs the package pandas", "pip install pandas") from None
        return self.frame.to_pandas()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the main table by the extension of ``path`` and return the path.

        Raises
        ------
        BadInput
            If the extension is not known or the folder cannot be written.
        """
        from tracetool.report.save import save_view

        return save_view(self._view(), path)

    def _repr_html_(self) -> str:
        from tracetool.report.page import fragment_text

        return fragment_text(self._notebook())

    def _notebook(self) -> View:
        """Return the display of a notebook: what was reported, or the head of the table."""
        from tracetool.report.view import Grid, Line, View

        view = self._view()
        if view.blocks:
            return view
        blocks = (Line(view.title, "headline"), Grid(view.table, limit=_NOTEBOOK_ROWS))
        return View(view.title, view.table, view.schema, blocks)


class Charted(Result):
    """A result with a chart."""

    @abstractmethod
    def _chart(self) -> Chart:
        """Return the chart."""

    def plot(self) -> Picture:
        """Return the chart: a notebook draws it, ``save`` writes it as a page.

        Raises
        ------
        MissingPart
            If the chart library is not installed.
        """
        from tracetool.api.result import Picture
        from tracetool.report.pictures.charts import need_bokeh

        need_bokeh()
        return Picture(self._chart())
