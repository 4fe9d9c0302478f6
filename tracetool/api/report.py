"""Report: a run on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.core.progress import Progress
from tracetool.report.run_page import RunPage
from tracetool.report.run_report import report_run
from tracetool.report.save import check_output

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Report(Result):
    """A run's page, written.

    Attributes
    ----------
    path : Path
        The page.
    facts : DataFrame
        Its headline figures.
    kernels : DataFrame
        Its kernels, the largest energy first.
    """

    path: Path
    page: RunPage = field(repr=False)

    @property
    def facts(self) -> pl.DataFrame:
        """The headline figures."""
        return pl.DataFrame([asdict(fact) for fact in self.page.facts])

    @property
    def kernels(self) -> pl.DataFrame:
        """One row per distinct kernel, copy and set."""
        return self.page.rows

    def _document(self) -> dict[str, Any]:
        page = self.page
        return {
            "schema": "report/1",
            "path": str(self.path),
            "facts": [asdict(fact) for fact in page.facts],
            "totals": [page.total],
            "best": page.best,
            "coverage": page.accuracy.coverage,
            "warnings": page.warnings,
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(self.page.title, self.kernels)

    def _notebook(self) -> View:
        from tracetool.report.view import Grid, Line, View

        blocks = (Line(f"{self.page.title}: {self.path}", "headline"), Grid(self.facts))
        return View(self.page.title, self.facts, None, blocks)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print where the page is."""
        from tracetool.report.sentences import write_line

        write_line(str(self.path))


@public
def report(
    run: PathLike,
    path: PathLike = "report.html",
    *,
    base: PathLike | None = None,
    gpu: str | None = None,
    clock: float | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    by: str | None = None,
    depth: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write one self-contained page: where the joules go, power over time, other clocks, every kernel.

    Parameters
    ----------
    run : run or path
        The run.
    path : path
        The page to write, ``.html``.
    base : run or path, optional
        A run to set it against.
    gpu : str, optional
        The GPU, where the run does not say.
    clock : float, optional
        Core clock the run was recorded at. [MHz]
    power : path or sequence of path
        Power logs beside those in the run.
    tz : str, optional
        Zone of those logs.
    by : str, optional
        Groups to show, as for :func:`tracetool.energy_by`; by default modules where the run names any.
    depth : int, optional
        Levels of nested modules kept apart.
    progress : Progress, optional
        Receives each step.

    Raises
    ------
    BadInput
        If the run holds no kernels or the page cannot be written.
    MissingPart
        If the chart library is not installed.

    Examples
    --------
    >>> import tracetool as tt
    >>> page = tt.report(run, folder / "page.html")
    >>> page.path.name, "Clock of least energy" in page.facts["label"].to_list()
    ('page.html', True)
    """
    from tracetool.report.pictures.charts import need_bokeh
    from tracetool.report.run_html import run_html
    from tracetool.tables.write import aside_file

    need_bokeh()
    if Path(path).suffix.lower() != ".html":
        raise BadInput.in_file(path, "a report is a page", "name it report.html, or use: tracetool diff -o")
    target = check_output(path)
    page = report_run(
        run,
        base,
        gpu=gpu,
        clock_mhz=clock,
        power=paths_of(power),
        tz=tz,
        by=by,
        depth=depth,
        progress=progress,
    )
    with aside_file(target) as aside:
        aside.write_text(run_html(page), "utf-8")
    return Report(target, page)
