"""Numbers on the command line: what every option refuses before any work."""

from __future__ import annotations

import math

import typer


def finite(value: float | None) -> float | None:
    """Return the number of an option, None where it was not given; refuse what is none.

    A callback of :func:`typer.Option`. ``nan`` passes every bound, as it is neither below nor above it.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value:g} is not a finite number")
    return value
