"""Rows that state their library alone, by the kernel its public source runs them with (dispatch.toml)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import tomli

from tracetool.core.arrays import Bools, Ints
from tracetool.core.library_versions import version_number
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import implementations, library_of, release_of
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu


@dataclass(frozen=True)
class Dispatch:
    """Kernel that a library runs some rows of a law with."""

    law: str
    library: str
    kernel: str  # words that identify the implementation
    column: str  # it is for rows whose number there, by default 1, lies within bounds, or whose text is one
    low: float = 1.0
    high: float = float("inf")
    no_multiple: float = 0.0  # of those numbers the ones that are no multiple of it; 0: all
    text: str = ""
    architecture: str = ""  # "" where of any
    since: str = ""  # the first version; "" where any


def has_rule(law: Law) -> bool:
    """Return whether a rule of a library's source covers a law."""
    return any(rule.law == law.name for rule in _rules())


@cache
def _rules() -> tuple[Dispatch, ...]:
    text = resources.files(__package__).joinpath("dispatch.toml").read_text("utf-8")
    return tuple(Dispatch(**entry) for entry in tomli.loads(text).values())


def dispatched(law: Law, rows: OperatorColumns, gpu: Gpu, stack: str) -> list[tuple[str, Ints]]:
    """Return the words of the kernels that run rows of a stack, "" where no rule applies, with places.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of a law that state this stack and no implementation.
    """
    undecided = np.ones(len(rows), dtype=np.bool_)
    kernels: list[tuple[str, Ints]] = []
    for rule in _rules():
        if not _applies(rule, law, gpu, stack):
            continue
        chosen = undecided & _rows_of(rule, rows)
        if chosen.any():
            kernels.append((rule.kernel, np.flatnonzero(chosen)))
            undecided &= ~chosen
    return [*kernels, ("", np.flatnonzero(undecided))] if undecided.any() else kernels


def _applies(rule: Dispatch, law: Law, gpu: Gpu, stack: str) -> bool:
    """Return whether a rule is of this library, version and architecture, and its kernel was measured."""
    version = release_of(stack)[1]
    early = bool(version) and bool(rule.since) and version < version_number(rule.since)
    measured = any(
        one.stack == rule.library and one.words and all(word in rule.kernel for word in one.words)
        for one in implementations(law.name)
    )
    is_of_architecture = rule.architecture in {"", gpu.architecture}
    return (
        (law.name, library_of(stack)) == (rule.law, rule.library)
        and is_of_architecture
        and measured
        and not early
    )


def _rows_of(rule: Dispatch, rows: OperatorColumns) -> Bools:
    """Return which rows a rule is for. Shape (n,)."""
    if rule.text:
        return np.asarray(rows.text(rule.column, "") == rule.text, dtype=np.bool_)
    numbers = rows.number(rule.column, 1.0)
    chosen = (numbers >= rule.low) & (numbers <= rule.high)
    if rule.no_multiple:
        chosen &= numbers % rule.no_multiple > 0
    return np.asarray(chosen, dtype=np.bool_)
