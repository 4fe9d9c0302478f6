"""A chart that a notebook draws by itself."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracetool.report.page import chart_page, save_chart
from tracetool.report.pictures.charts import Chart

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
        """Its heading."""
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
        return save_chart(self.chart, path)

    def _repr_html_(self) -> str:
        # a page of its own inside the notebook: its scripts and styles reach nothing else
        page = html.escape(chart_page(self.chart), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{_HEIGHT_PX}px;border:0"></iframe>'
