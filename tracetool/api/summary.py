"""Summary: the time budget of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.core.paths import PathLike, paths_of
from tracetool.replay.energy_source import stated_measured
from tracetool.replay.time_budget import TimeBudget, time_budget
from tracetool.tables.schema import load_schema
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View


@dataclass(frozen=True)
class Summary(Charted):
    """What a run's time and energy were spent on.

    Attributes
    ----------
    parts : DataFrame
        One row per part of all GPUs together, ``run`` last: energy [J] with its 90 % interval, measured or
        predicted, time [ms] and shares.
    devices : DataFrame
        The same of each GPU.
    gpus : DataFrame
        One row per GPU: its energy, energy at equal work against the others, and what it waited for other
        ranks or made them wait. [J]
    hosts : DataFrame
        Energy of CPU packages, host memory, modules and nodes, and of the node without its GPUs, with its
        90 % interval [J]; no rows where the run has no such meters.
    notes : tuple of str
        What the figures rest on.
    """

    budget: TimeBudget = field(repr=False)
    by_gpu: bool = False
    tariff: Tariff = NO_TARIFF

    @property
    def parts(self) -> pl.DataFrame:
        """Parts of all GPUs together."""
        return self.tariff.priced(self.budget.together())

    @property
    def devices(self) -> pl.DataFrame:
        """Parts of each GPU."""
        return self.tariff.priced(self.budget.frame).filter(pl.col("device").is_not_null())

    @property
    def gpus(self) -> pl.DataFrame:
        """The GPUs against each other."""
        return self.tariff.priced(self.budget.gpus)

    @property
    def hosts(self) -> pl.DataFrame:
        """Scopes around the GPUs."""
        return pl.DataFrame(list(self.budget.hosts))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.budget.notes

    def _document(self) -> dict[str, Any]:
        budget = self.budget
        return {
            **self.tariff.factors(),
            "span_ms": budget.span_ms,
            "gpus": budget.devices,
            "measured_j": stated_measured(budget.measured_j, budget.source),
            "gpu_work": self.gpus.to_dicts(),
            "parts": self.parts.drop("device").to_dicts(),
            "devices": self.devices.to_dicts(),
            "throttled": list(budget.throttled),
            "hosts": [dict(row) for row in budget.hosts],
            "notes": list(self.notes),
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        if self.by_gpu:
            return View("GPUs against each other", self.gpus, load_schema("gpu_work"))
        return View("Time budget", self.tariff.priced(self.budget.frame), load_schema("time_budget"))

    def _chart(self) -> Chart:
        from tracetool.report.pictures.time_budget import budget_chart

        return budget_chart(self.budget)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the parts and what they rest on."""
        from tracetool.report.terminal.time_budget import print_budget

        print_budget(self.budget, written, self.tariff)


@public
def summary(
    run: PathLike,
    *,
    gpu: str | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    by_gpu: bool = False,
    tariff: Tariff = NO_TARIFF,
) -> Summary:
    """Return what a run's time and energy were spent on, as ``tracetool summary``.

    Parameters
    ----------
    run : run or path
        The run.
    gpu : str, optional
        The GPU, where the trace does not name it.
    power : path or sequence of path
        Power logs in place of the run's.
    tz : str, optional
        Zone of those logs, e.g. ``+02:00``.
    by_gpu : bool
        Whether its table, as written to files, has a row per GPU instead of one per part.
    tariff : Tariff, optional
        Adds cost and CO2 to every energy.

    Raises
    ------
    BadInput
        If the run holds no activity, or a log cannot be used.

    Examples
    --------
    >>> import tracetool as tt
    >>> parts = tt.summary(run).parts
    >>> abs(parts["time_share"][:-1].sum() - 1.0) < 1e-9, parts["source"][-1]
    (True, 'predicted')
    """
    from tracetool.api.run import open_run

    return Summary(time_budget(open_run(run), gpu=gpu, power=paths_of(power), tz=tz), by_gpu, tariff)
