"""Diagnose two runs: why a unit of work takes other joules in one than in the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracetool.api.cause_results import OfCauses
from tracetool.api.energy_by import unit_and_amounts
from tracetool.api.public import public
from tracetool.compare.energy_difference.difference import EnergyDifference, energy_difference
from tracetool.compare.energy_difference.sentences import CauseOfChange, causes_of_change, headline
from tracetool.core.paths import PathLike
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class PairDiagnosis(OfCauses):
    """Why a unit of work takes other joules in one run than in another.

    Attributes
    ----------
    causes : DataFrame
        One row per cause, largest first, ``difference`` last: change per unit of work [J] with its 90 %
        interval.
    rows : DataFrame
        One row per matched piece of work, idle cause and wait; changes sum to the whole. [J]
    findings : tuple of CauseOfChange
        The largest causes in sentences, with the rows that show them.
    notes : tuple of str
        What the figures rest on.
    """

    source: EnergyDifference = field(repr=False)

    @property
    def findings(self) -> tuple[CauseOfChange, ...]:
        """The largest causes."""
        return tuple(causes_of_change(self.source))

    def _document(self) -> dict[str, Any]:
        sides = {
            name: {
                "run": str(side.cut.run.path),
                "gpu": side.gpu,
                "clock_mhz": side.clock_mhz,
                "units": side.units,
                "energy_j": side.energy_j,
                "source": side.cut.source,
            }
            for name, side in (("base", self.source.base), ("head", self.source.head))
        }
        return {
            "schema": "energy_difference/1",
            **sides,
            "unit": self.source.unit,
            "headline": headline(self.source),
            "causes": self.causes.to_dicts(),
            "findings": [one.record() for one in self.findings],
            "rows": self.rows.to_dicts(),
            "notes": list(self.notes),
        }

    def _view(self) -> View:
        from tracetool.report.diagnosis_page import difference_blocks
        from tracetool.report.view import View

        schema = load_schema("energy_difference")
        return View("Energy difference", self.rows, schema, difference_blocks(self.source))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the change by cause, the causes in sentences and what they rest on."""
        from tracetool.report.terminal.energy_difference import print_energy_difference

        print_energy_difference(self.source, written)


def parse_pair_work(text: str | None) -> dict[str, tuple[float, float] | None]:
    """Return the work of ``tokens=4096,8192`` (base, head), or None for ``tokens`` alone.

    Raises
    ------
    BadInput
        If it is not of that form.

    Examples
    --------
    >>> parse_pair_work("tokens=4096,8192"), parse_pair_work("steps")
    ({'tokens': (4096.0, 8192.0)}, {'steps': None})
    """
    if text is None:
        return {}
    unit, amounts = unit_and_amounts(text, "UNIT=N,M", "tokens=4096,8192")
    return {unit: (amounts[0], amounts[-1]) if amounts else None}


@public
def diagnose_pair(
    base: PathLike,
    head: PathLike,
    *,
    gpu: str | None = None,
    work: Mapping[str, tuple[float, float] | None] | None = None,
) -> PairDiagnosis:
    """Return why a unit of work takes other joules in one run than in another, as ``tracetool diagnose A B``.

    Parameters
    ----------
    base, head : run or path
        The two runs.
    gpu : str, optional
        The GPU of those that do not name theirs.
    work : mapping of str to (float, float), optional
        Unit of work and how many each run did, None where the step annotations state them; by default a step
        where each run names steps, else the run.

    Raises
    ------
    BadInput
        If a run holds no activity, its GPU is not known, or it states no such work.

    Examples
    --------
    >>> import tracetool as tt
    >>> pair = tt.diagnose_pair(run, run)
    >>> float(pair.causes["change_j"][-1])
    0.0
    """
    from tracetool.api.run import open_run

    return PairDiagnosis(energy_difference(open_run(base), open_run(head), gpu, work))
