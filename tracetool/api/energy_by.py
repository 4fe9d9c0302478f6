"""Energy of a run by what people name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.replay.energy_by import EnergyBy
from tracetool.replay.energy_by import energy_by as by_groups
from tracetool.tables.schema import load_schema
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class GroupedEnergy(Result):
    """Energy of a run by groups: ``groups`` has a row each, ``run`` last; ``notes`` what they rest on."""

    source: EnergyBy = field(repr=False)
    tariff: Tariff = NO_TARIFF

    @property
    def groups(self) -> pl.DataFrame:
        """One row per group."""
        return self.tariff.priced(self.source.frame)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.source.notes

    def _document(self) -> dict[str, Any]:
        source = self.source
        rows = self.groups.to_dicts()
        contents = {"work": source.work, "groups": rows, "notes": list(self.notes)}
        return {"by": list(source.keys), **self.tariff.factors(), **contents}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Energy by {', '.join(self.source.keys)}", self.groups, load_schema("energy_by"))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the groups with most energy, the run and the notes."""
        from tracetool.report.terminal.time_budget import print_groups

        print_groups(self.source, written, self.tariff)


def parse_work(text: str | None) -> dict[str, float | None]:
    """Return the work of ``tokens=4096``; None for ``tokens`` alone, whose amount the run's steps state.

    Raises
    ------
    BadInput
        If it is not of that form.

    Examples
    --------
    >>> parse_work("tokens=4096")
    {'tokens': 4096.0}
    """
    if text is None:
        return {}
    unit, amounts = unit_and_amounts(text, "UNIT=N", "tokens=4096")
    return {unit: amounts[0] if amounts else None}


def unit_and_amounts(text: str, form: str, example: str) -> tuple[str, tuple[float, ...]]:
    """Return the unit of ``--work`` and its amounts, as many as the form has; none of a unit alone.

    Raises
    ------
    BadInput
        If it is not of that form.

    Examples
    --------
    >>> unit_and_amounts("tokens=4096,8192", "UNIT=N,M", "tokens=1,2")
    ('tokens', (4096.0, 8192.0))
    """
    unit, equals, stated = text.partition("=")
    most = form.count(",") + 1
    try:
        amounts = tuple(float(n) for n in stated.split(",")) if equals else ()
    except ValueError:
        amounts = (math.nan,)
    positive = all(math.isfinite(n) and n > 0 for n in amounts)
    if not (unit.isidentifier() and positive and len(amounts) <= most):
        raise BadInput(f"--work {text!r} is not {form}", f"e.g. --work {example}")
    return unit, amounts


@public
def energy_by(
    run: PathLike,
    by: str | Sequence[str],
    *,
    gpu: str | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    sensor: PathLike | None = None,
    work: Mapping[str, float | None] | None = None,
    depth: int | None = None,
    tariff: Tariff = NO_TARIFF,
) -> GroupedEnergy:
    """Return the energy of a run by what it names, as ``tracetool attribute RUN --by``.

    Parameters
    ----------
    run : run or path
        The run.
    by : str or sequence of str
        One or several of signature, family, operator, module, range, iteration, phase, gpu, gap: a list, or
        as on the command line ``"gpu,module"``.
    gpu, power, tz, sensor : optional
        As for :func:`tracetool.attribute`.
    work : mapping of str to float, optional
        Work of the whole run, e.g. ``{"tokens": 4096}``; None for an amount (tokens, requests, steps) that
        the names of its steps state, as vLLM and SGLang write them: by iteration and phase each group's own.
    depth : int, optional
        Levels of nested modules kept apart, all by default.
    tariff : Tariff, optional
        Adds cost and CO2 to every energy.

    Raises
    ------
    BadInput
        If a key is not known or a file cannot be used.

    Examples
    --------
    >>> import tracetool as tt
    >>> groups = tt.energy_by(run, ["family"]).groups
    >>> abs(groups["energy_j"][:-1].sum() / groups["energy_j"][-1] - 1.0) < 1e-9
    True
    """
    from tracetool.api.run import open_run

    logs = paths_of(power)
    keys = by.split(",") if isinstance(by, str) else by
    grouped = by_groups(
        open_run(run), keys, gpu=gpu, power=logs, tz=tz, sensor_file=sensor, work=work, depth=depth
    )
    return GroupedEnergy(grouped, tariff)
