"""What a family must say of itself: the work in its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.work import Work


@dataclass(frozen=True)
class Family:
    """One family of kernels.

    Parameters
    ----------
    count : callable
        Work of rows of known shape. Rows lacking a needed column are not given to it.
    needs : tuple of tuple of str
        Sets of columns; a row's work is known when every column of one set is.
    shares : tuple of float
        Where the time of a kernel of unknown shape goes as a rule: core clock, memory clock, neither.
        They sum to 1. A prior.
    pipe : str
        Unit the core share of such a kernel is mostly spent on: ``tensor``, ``fp32`` or ``latency``.
    """

    count: Callable[[OperatorColumns, Gpu], Work]
    needs: tuple[tuple[str, ...], ...]
    shares: tuple[float, float, float] = (0.5, 0.4, 0.1)
    pipe: str = "fp32"
