"""How an energy is known: measured by a log, predicted, or partly each; the same words in every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracetool.core.number_text import number

#: How an energy is known.
MEASURED: Final = "measured"
PREDICTED: Final = "predicted"
EXTRAPOLATED: Final = "extrapolated"
#: What rounding makes of a whole. [1] A prior.
ROUNDING: Final = 1e-9


def source_of(energy_j: float, measured_j: float, beyond: str = PREDICTED) -> str:
    """Return how an energy is known of which so much was measured, and the rest as ``beyond`` says. [J]

    >>> source_of(5.0, 5.0), source_of(5.0, 3.0), source_of(5.0, 0.0)
    ('measured', 'measured, predicted', 'predicted')
    """
    if abs(energy_j - measured_j) <= ROUNDING * abs(energy_j):
        return MEASURED
    return f"{MEASURED}, {beyond}" if measured_j > 0 else beyond


def joined_sources(sources: Sequence[str | None]) -> str | None:
    """Return how a sum is known whose parts are known so; None where one is not known.

    >>> joined_sources(["predicted", "measured"]), joined_sources(["measured", None])
    ('measured, predicted', None)
    """
    known = [source for source in sources if source is not None]
    if len(known) < len(sources):
        return None
    words = {word for source in known for word in source.split(", ")}
    return ", ".join(word for word in (MEASURED, EXTRAPOLATED, PREDICTED) if word in words)


def stated_measured(measured_j: float, source: str | None) -> float | None:
    """Return what logs measured of an energy, None where none of it was: not 0 J. [J]

    >>> stated_measured(5.0, "measured, predicted"), stated_measured(0.0, "predicted")
    (5.0, None)
    """
    return measured_j if measured_j > 0 or MEASURED in (source or "").split(", ") else None


def joules_by_source(energy_j: float, source: str | None, measured_j: float) -> str:
    """Return an energy and how it is known, in words: the same in every command. [J]

    >>> joules_by_source(5098.0, "measured", 5098.0)
    '5,098 J measured'
    >>> joules_by_source(5138.0, "measured, predicted", 2620.0)
    '5,138 J, 51 % measured, the rest predicted'
    """
    *_, rest = (source or PREDICTED).split(", ")
    if source in (MEASURED, PREDICTED, None) or energy_j <= 0.0:
        return f"{number(energy_j)} J {source or PREDICTED}"
    return f"{number(energy_j)} J, {100.0 * measured_j / energy_j:.0f} % measured, the rest {rest}"
