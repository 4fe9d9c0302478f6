"""Kernels that a library's unmeasured versions may run.

A library swaps kernels between versions. Where a table states a version that was not measured, and names no
implementation, each kernel of the library may have run: those measured on the nearest GPUs most likely, and
among them those most likely that the library uses most, over all GPUs and formats.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracetool.core.library_versions import version_number
from tracetool.families.implementations import (
    Implementation,
    implementations,
    library_of,
    release_of,
    words_of,
)
from tracetool.families.law import Law
from tracetool.model.candidates import other_version, runs_there
from tracetool.model.stand_ins import same_kernels


def may_run_others(
    law: str, architecture: str, stack: str, name: str, chosen: tuple[Implementation, ...]
) -> bool:
    """Return whether a stack may be of a version none of some implementations was measured in, and unnamed.

    A word that stands for their kernels is a name as well: ``triton``.
    """
    called = words_of(name)
    named = any(called in one.names or same_kernels(one, called) for one in chosen)
    return (
        bool(chosen)
        and not named
        and all(other_version(one.laws[law], stack, architecture) for one in chosen)
    )


def others_of_library(
    law: str,
    architecture: str,
    stack: str,
    chosen: tuple[Implementation, ...],
    available: tuple[Implementation, ...] | None = None,
) -> tuple[Implementation, ...]:
    """Return a library's other implementations of a law that may run on an architecture, wherever they ran.

    By source some are made for few architectures.
    """
    library = library_of(stack)
    return tuple(
        one
        for one in (implementations(law) if available is None else available)
        if one.stack == library and one not in chosen and runs_there(one, law, architecture)
    )


def choices_of_version(law: Law, one: Implementation, stack: str) -> Mapping[str, float]:
    """Return the choices that public source states for an implementation in the version a stack names."""
    library, version = release_of(stack)
    choices: Mapping[str, float] = {}
    for key, by_first in law.by_version.items():
        of, word = key.split("/")
        if version and of == library == one.stack and word in one.name:
            since = {version_number(first): values for first, values in by_first.items()}
            reached = [first for first in since if first <= version]
            choices = {**choices, **(since[max(reached)] if reached else {})}
    return choices


def measured_rows_of(one: Implementation) -> float:
    """Return the measured rows of an implementation over all laws and GPUs: how much its library uses it."""
    return float(sum(sum(fitted.gpus.values()) for fitted in one.laws.values()))
