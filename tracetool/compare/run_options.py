"""What a comparison asks of every run: which energies, at which operating point, grouped by what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracetool.core.errors import BadInput
from tracetool.replay.groups import check_depth, parse_keys

#: Basis of a run's energies: ``measured`` from its power log, ``anchored`` modeled from its measured times,
#: ``predicted`` with times and energies both from the model.
Basis = Literal["measured", "anchored", "predicted"]


@dataclass(frozen=True)
class RunOptions:
    """Options by which the runs of a comparison are loaded."""

    basis: Basis | Literal["auto"] = "auto"
    gpu: str | None = None
    clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    power_cap_w: float | None = None
    by: tuple[str, ...] = ()  # keys of groups compared besides families and kernels
    depth: int | None = None  # levels of nested modules kept apart; None for all


def compared_by(text: str | None, depth: int | None = None) -> tuple[str, ...]:
    """Return the keys that ``--by`` asks a comparison for; none where it does not.

    Raises
    ------
    BadInput
        If a key is not known, or the depth does not apply.
    """
    keys = parse_keys(text) if text else ()
    check_depth(keys, depth)
    return keys


def basis_named(text: str) -> Basis | Literal["auto"]:
    """Return the basis called ``text``.

    Raises
    ------
    BadInput
        If there is none of that name.
    """
    for basis in ("auto", "measured", "anchored", "predicted"):
        if text == basis:
            return basis
    raise BadInput(f"no energies called {text!r}", "measured, anchored, predicted or auto")
