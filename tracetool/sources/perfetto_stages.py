"""GPU render stages of a Perfetto trace, which its readers count and leave out."""

from __future__ import annotations

from tracetool.core.number_text import counted


def stages_left_out(count: int) -> list[str]:
    """Return the warning on render stages beside slices: they state no kernel's arguments, grid or operator.

    >>> stages_left_out(2)
    ['2 GPU render stages left out: they state neither grid nor operator of what ran']
    """
    if not count:
        return []
    return [
        f"{counted(count, 'GPU render stage')} left out: they state neither grid nor operator of what ran"
    ]
