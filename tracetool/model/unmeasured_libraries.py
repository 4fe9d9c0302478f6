"""Kernels of an unmeasured library: others' without their host code, or those of its public source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import (
    Implementation,
    architecture_distance,
    implementations,
    library_of,
    words_of,
)
from tracetool.families.law import SCALED_WARPS, TENSOR_MEMORY, WARPS, Law
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.kernel_projects import project_of
from tracetool.model.mixtures import Member

#: 90 % band of ln(measured / predicted) of a kernel that source code states, unmeasured. [1]
_BY_SOURCE = (-prior_number("implementations.by_source"), prior_number("implementations.by_source"))
#: Times the least floor of any host from which a host counts as issuing kernels one by one. [1]
_WAITING_HOST = prior_number("implementations.waiting_host")

#: What is shorter than the time such a host takes: the rows where it counts do not determine it.
_HIDDEN = frozenset({"launch_us", "tile_clk", "block_clk", "combine_clk"})


def of_unknown(
    law: Law,
    ran: tuple[Member, ...],
    architecture: str,
    stack: str,
    called: str,
    share: float,
    available: tuple[Implementation, ...] | None,
) -> tuple[Member, ...]:
    """Return the kernels an unmeasured library may have run; ``share`` of the weight is on unmeasured ones.

    Its kernel is that of its public source, whose band holds what may differ, or else one of the others' with
    the host code of its source about it.
    """
    library = library_of(stack)
    if source_values := habits_of(law, library, architecture):
        title = f"{law.name} of {library} by its source"
        by_source = Member(title, source_values, _BY_SOURCE, "prior", 1.0, library=library)
        return in_library(law, (by_source,), architecture, stack, called, available)
    ran = in_library(law, ran, architecture, stack, called, available)
    if not share:
        return ran
    unmeasured_kernels = _by_habit(law, share / (1.0 - share) * sum(one.weight for one in ran))
    host = host_of(law, library, called, architecture)
    return (*ran, *(_with_host(law, one, architecture, host, called) for one in unmeasured_kernels))


def of_project(
    law: Law, architecture: str, stack: str, called: str, available: Iterable[Implementation]
) -> tuple[Member, ...]:
    """Return a project's kernel with values of its public source, where it was made for few architectures.

    Kernels of other projects say little about such a one. Empty where the name refers to no such project, or
    a kernel of the project was measured.
    """
    project = project_of(called) if called else None
    if project is None or architecture not in project.only or any(map(project.includes, available)):
        return ()
    source_values = dict(law.project_habits.get(project.title, {}))
    for key, more in law.project_habits.items():
        title, _, word = key.partition("/")
        source_values |= more if title == project.title and word and word in called else {}
    title = f"{law.name} of {project.title} by their source"
    library = library_of(stack)
    return (Member(title, source_values, _BY_SOURCE, "prior", 1.0, library=library),) if source_values else ()


def habits_of(law: Law, library: str, architecture: str) -> Mapping[str, float]:
    """Return the values that public source states for a library's own kernels, for an architecture if any."""
    habits = law.library_habits
    return habits.get(f"{library}/{architecture}", habits.get(library, {}))


def known_by_source(candidates: Iterable[Member]) -> bool:
    """Return whether a candidate is a kernel known from its library's source alone, by its band."""
    return any(one.band == _BY_SOURCE and not one.bounds_only for one in candidates)


def in_library(
    law: Law,
    ran: tuple[Member, ...],
    architecture: str,
    stack: str,
    called: str,
    available: tuple[Implementation, ...] | None = None,
) -> tuple[Member, ...]:
    """Return kernels measured in other libraries with this library's host code.

    It is as its source states it, but for what the library's own kernels tell.
    """
    library = library_of(stack)
    host = host_of(law, library, called, architecture)
    if library in law.library_host:
        ran = tuple(_with_host(law, one, architecture, host, called) for one in ran)
    if measured := _measured_host(law, library, architecture, available):
        ran = tuple(replace(one, coefficients={**one.coefficients, **measured}) for one in ran)
    return without_hosts(law, ran, available, host)


def _measured_host(
    law: Law, library: str, architecture: str, available: tuple[Implementation, ...] | None
) -> dict[str, float]:
    """Return the host code that a library's own kernels tell: that with most rows on the nearest GPU."""
    every = (available or implementations(law.name)) if law.host_tells else ()
    nearest = [
        (architecture_distance(load_gpu(name).architecture, architecture), -rows, one.name, one, name)
        for one in every
        if one.stack == library and law.name in one.laws
        for name, rows in one.laws[law.name].gpus.items()
    ]
    if not nearest:
        return {}
    *_, one, name = min(nearest, key=lambda found: found[:3])
    values = law.every_value(one.laws[law.name].on(load_gpu(name).architecture))
    return {coefficient: values[coefficient] for coefficient in sorted(law.host_tells)}


def host_of(
    law: Law, library: str, called: str, architecture: str, *, elsewhere: bool = False
) -> Mapping[str, tuple[float, float]]:
    """Return a library's host code as public source states it, by coefficient: (factor, addend).

    General entries come first; those of an architecture, of a word in ``called``, or of both override them.
    With ``elsewhere`` also the entries of the library's own kernels where none was measured.
    """
    host = dict(law.library_host.get(library, {}))
    places = _places(architecture)
    more = law.elsewhere.items() if elsewhere else ()
    for key, stated in (*law.library_host.items(), *more):
        of, *which = key.split("/")
        if of == library and which and all(one in places or one in called for one in which):
            host |= stated
    return host


def habits_of_name(law: Law, called: str, architecture: str) -> Mapping[str, float]:
    """Return what the longest word of a name, and beside it the architecture, states of a kernel."""
    places, told = _places(architecture), []
    for key, habits in law.name_habits.items():
        word, *where = key.split("/")
        if word in called and all(place in places for place in where):
            told.append((len(word), len(where), habits))
    return max(told, key=lambda one: one[:2])[2] if told else {}


@cache
def _places(name: str) -> frozenset[str]:
    """Return the keys by which source is stated: the architecture and its kinds of matrix instructions."""
    architecture = load_architecture(name)
    kinds = {
        WARPS: not architecture.has_warpgroups,
        SCALED_WARPS: architecture.scales_in_warps,
        TENSOR_MEMORY: architecture.has_tensor_memory,
    }
    return frozenset({name, *(kind for kind, holds in kinds.items() if holds)})


def without_hosts(
    law: Law,
    ran: tuple[Member, ...],
    available: tuple[Implementation, ...] | None = None,
    host: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> tuple[Member, ...]:
    """Return kernels with the least floor of any host they were measured under, or with that of this host.

    A floor is a host that issues kernels one by one, slower than they run: a library's, or that of the loop
    it was measured in. Another library's host is neither, and launches recorded once wait for none; what such
    a host takes to launch is no more the kernels' than the floor is, nor is what the floor hides.
    """
    fitted = [
        one.laws[law.name].values for one in available or implementations(law.name) if law.name in one.laws
    ]
    least = {
        name: min(values.get(name, prior.value) for values in fitted)
        for name, prior in law.priors.items()
        if name.startswith("floor") and fitted
    }
    stated_floors = {name for name, (factor, _) in host.items() if factor == 0.0}
    adjusted = []
    for one in ran:
        waits = any(
            name not in stated_floors and one.coefficients.get(name, 0.0) > _WAITING_HOST * floor
            for name, floor in least.items()
        )
        hidden = {
            name: min(one.coefficients.get(name, prior.value), prior.value)
            for name, prior in law.priors.items()
            if name in _HIDDEN and waits
        }
        floors = {name: floor for name, floor in least.items() if name not in stated_floors}
        adjusted.append(replace(one, coefficients={**one.coefficients, **floors, **hidden}))
    return tuple(adjusted)


def without_waits(rows: OperatorColumns) -> OperatorColumns:
    """Return rows that wait for no host: launches are recorded once, or their time is counted by itself."""
    return OperatorColumns(rows.family, {**rows.columns, "host_apart": np.ones(len(rows))})


def _with_host(
    law: Law, one: Member, architecture: str, host: Mapping[str, tuple[float, float]], called: str
) -> Member:
    """Return a kernel without the host code of the library it was measured in, and with that of another.

    What takes the place of a value, its factor 0, is the form of a library's own kernels: one ``called`` by
    the name of the library it was measured in keeps that one's, but for what source states of this name.
    """
    values = dict(one.coefficients)
    for name, (factor, more) in host_of(law, one.library, words_of(one.name), architecture).items():
        if factor > 0.0:
            least = law.priors[name].low
            values[name] = max((values.get(name, law.priors[name].value) - more) / factor, least)
    borrowed = bool(one.library) and one.library in called
    of_name = {
        name
        for key, stated in law.library_host.items()
        if any(one.library in word and word in called for word in key.split("/")[1:])
        for name in stated
    }
    for name, (factor, more) in host.items():
        if factor > 0.0 or not borrowed or name in of_name:
            values[name] = values.get(name, law.priors[name].value) * factor + more
    return replace(one, coefficients=values)


def _by_habit(law: Law, weight: float) -> tuple[Member, ...]:
    """Return kernels not measured: the law's priors under each of its habits, of this weight together.

    Priors of several habits, or fitted to the implementations themselves, only widen the bounds.
    """
    habits: tuple[Mapping[str, float], ...] = ({}, *law.habits)
    title, each = f"{law.name} by its priors", weight / len(habits)
    no_news = bool(law.habits) or any(one.kind == "fitted" for one in law.priors.values())
    return tuple(Member(title, habit, law.spread, "prior", each, no_news) for habit in habits)
