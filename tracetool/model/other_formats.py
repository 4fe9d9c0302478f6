"""Kernels of a library in a format, on all architectures or on one, without measurements.

A Triton kernel is one program for all formats and all GPUs: where a name states it, its law of another format
says more than another kernel's law of the same format. The law that lends is the format's ``parent``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tracetool.families.implementations import (
    FittedLaw,
    Implementation,
    has_warpgroups,
    implementations,
    library_of,
)
from tracetool.families.law import Law
from tracetool.families.pricing import laws
from tracetool.hardware.priors import prior_number

#: Share of the kernel's coefficients in the parent's format, in ln, beside those of the format elsewhere. [1]
_FROM_PARENT = prior_number("implementations.from_parent")
#: Fewer measured rows do not support another law. [rows] A prior.
_LEAST_ROWS = 120


def formats_of(law: str) -> frozenset[str]:
    """Return the laws of one kernel in several formats: a law, its parent, and others of that parent.

    >>> sorted(formats_of("moe_fp8"))[:2], formats_of("decode") == {"decode"}
    (['moe', 'moe_fp4'], True)
    """
    law_of_name = laws().get(law)
    root = (law_of_name.parent if law_of_name else "") or law
    return frozenset(name for name, one in laws().items() if root in {name, one.parent}) | {law}


def architectures_of(one: Implementation, law: str) -> frozenset[str]:
    """Return the architectures a kernel ran on in any format."""
    return frozenset(a for name in formats_of(law) & one.laws.keys() for a in one.laws[name].architectures)


def with_parents(
    law: Law, stack: str, called: str, available: tuple[Implementation, ...] | None = None
) -> tuple[Implementation, ...]:
    """Return the implementations of a law, and the one in a name with coefficients of the law's parent.

    Parameters
    ----------
    stack, called : str
        The library, and what it calls the implementation, in words.
    available : tuple of Implementation, optional
        Those to choose from, of any law; by default the delivered ones.
    """
    of_law = tuple(
        one for one in (implementations(law.name) if available is None else available) if law.name in one.laws
    )
    library = library_of(stack)
    if not called or not library or not law.parent or _named(of_law, library, called):
        return of_law
    pool = implementations(law.parent) if available is None else available
    of_parent = tuple(one for one in _named(pool, library, called) if _may_lend(one.laws.get(law.parent)))
    return (
        *of_law,
        *(replace(one, laws={**one.laws, law.name: _as_parent(law, one)}) for one in of_parent),
    )


def _may_lend(fitted: FittedLaw | None) -> bool:
    """Return whether a fit has enough rows to be used for another law: few fit their own shapes alone."""
    return fitted is not None and sum(fitted.gpus.values()) >= _LEAST_ROWS


def _named(pool: tuple[Implementation, ...], library: str, called: str) -> tuple[Implementation, ...]:
    """Return a library's implementations that a name matches."""
    return tuple(
        one
        for one in pool
        if one.stack == library
        and (called in one.names or (one.words and all(word in called for word in one.words)))
    )


def _as_parent(law: Law, one: Implementation) -> FittedLaw:
    """Return the parent's fit as one of ``law``; choices, such as tables of tiles, stay the law's own."""
    fitted = one.laws[law.parent]

    def kept(values: Mapping[str, float]) -> dict[str, float]:
        return {k: v for k, v in law.lent(values).items() if k in law.priors and _may_be(law, k, v)}

    by_architecture = {a: kept(values) for a, values in fitted.by_architecture.items()}
    return replace(fitted, values=kept(fitted.values), by_architecture=by_architecture, lent_by=law.parent)


def _may_be(law: Law, name: str, value: float) -> bool:
    prior = law.priors[name]
    return prior.fitted or not prior.choices or value in prior.choices


def _closer(parent: FittedLaw, fitted_law: FittedLaw, architecture: str) -> bool:
    """Return whether the parent's format was measured on an architecture, or alone on one of like kernels."""
    alike = [
        any(has_warpgroups(a) == has_warpgroups(architecture) for a in fitted.architectures)
        for fitted in (parent, fitted_law)
    ]
    return architecture in parent.architectures or alike == [True, False]


def beside_parent(
    law: Law,
    values: dict[str, float],
    one: Implementation,
    architecture: str,
    on: Callable[[Law, FittedLaw, str], dict[str, float]],
) -> dict[str, float]:
    """Return coefficients from another architecture, halfway to those of a parent measured nearer.

    It does where it was measured on this one; and where it was on one whose kernels multiply by as many warps
    and the law was not. ``on`` returns the coefficients of a law on an architecture.
    """
    fitted = one.laws.get(law.parent)
    if fitted is None or not _closer(fitted, one.laws[law.name], architecture):
        return values
    of_parent = law.lent(on(laws()[law.parent], fitted, architecture))
    mixed = dict(values)
    for name, prior in law.priors.items():
        value, parent_value = (coefficients.get(name, prior.value) for coefficients in (values, of_parent))
        if prior.fitted and min(value, parent_value) > 0.0:
            mixed[name] = value ** (1.0 - _FROM_PARENT) * parent_value**_FROM_PARENT
    return mixed
