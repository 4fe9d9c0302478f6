"""What a law is: from rows and coefficients to the parts of their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tracetool.hardware.gpu import Gpu
from tracetool.model.pieces import Pieces
from tracetool.vocabulary.operators import OperatorColumns

Coefficients = Mapping[str, float]


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a law: its prior value and the bounds of a fit."""

    value: float
    low: float
    high: float
    meaning: str


@dataclass(frozen=True)
class Law:
    """Time of one kind of kernel.

    Parameters
    ----------
    name : str
        Section of a calibration.
    parts : callable
        Pieces of rows on a GPU with every coefficient given.
    priors : mapping of str to Coefficient
        The coefficients.
    spread : (float, float)
        5 % and 95 % quantile of ln(measured / predicted) without a calibration.
    """

    name: str
    parts: Callable[[OperatorColumns, Gpu, Coefficients], Pieces]
    priors: Mapping[str, Coefficient]
    spread: tuple[float, float] = (-0.5, 0.5)

    def pieces(self, rows: OperatorColumns, gpu: Gpu, given: Coefficients) -> Pieces:
        """Return the parts of rows; a coefficient not given is its prior."""
        return self.parts(rows, gpu, {k: given.get(k, c.value) for k, c in self.priors.items()})
