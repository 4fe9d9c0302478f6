"""Which implementations may have run rows of a law on a GPU, each with its coefficients and bounds there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.library_versions import version_number
from tracetool.families.implementations import (
    FittedLaw,
    Implementation,
    TransferBands,
    architecture_distance,
    library_of,
    transfer_bands,
    words_of,
)
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.candidates import candidates, is_known, other_version
from tracetool.model.chip_scaling import paced, unhidden, widening
from tracetool.model.mixtures import Member
from tracetool.model.other_formats import beside_parent, with_parents
from tracetool.model.other_versions import (
    choices_of_version,
    may_run_others,
    measured_rows_of,
    others_of_library,
)
from tracetool.model.stand_ins import stands_in
from tracetool.model.unmeasured_libraries import (
    habits_of,
    habits_of_name,
    host_of,
    in_library,
    of_project,
    of_unknown,
)

#: How far coefficients on an architecture that was not measured lie from the nearest's towards the mean. [1]
_TOWARDS_CENTER = prior_number("implementations.towards_center")
#: The same for laws where leaving out GPUs showed another value. [1]
_TOWARDS_CENTER_OF = prior_table("implementations.towards_center_of")

#: How the basis of a row says that its kernel was not measured. By definition.
ANOTHER_KERNEL = "another kernel"
#: The same of keys and values in a format that its kernel was not measured with. By definition.
ANOTHER_FORMAT = "another format"
#: What an unmeasured library adds to the ln of the bounds at most. [1]
_MOST_OF_LIBRARY = prior_number("implementations.other_library_most")


def members(
    law: Law,
    gpu: Gpu,
    stack: str,
    implementation: str,
    available: tuple[Implementation, ...] | None = None,
    bands: TransferBands | None = None,
) -> tuple[Member, ...]:
    """Return the ways rows of a law may have been run on a GPU; none where no implementation was fitted.

    Parameters
    ----------
    stack, implementation : str
        What the rows state, "" where nothing.
    available, bands : optional
        Implementations to choose from and bands elsewhere, by default those delivered.
    """
    bands = transfer_bands(law.name) if bands is None else bands
    called = words_of(implementation)
    available = with_parents(law, stack, called, available)
    if by_source := of_project(law, gpu.architecture, stack, called, available):
        return by_source
    library = library_of(stack)
    chosen = candidates(law.name, gpu.architecture, stack, implementation, available)
    if not implementation:  # where some ran in this version, it was one of them
        ran_there = [one for one in chosen if not other_version(one.laws[law.name], stack, gpu.architecture)]
        chosen = tuple(ran_there) or chosen
    share = bands.swapped if bands is not None else 0.0
    if chosen and not is_known(law.name, stack, available):  # no version of another library is meant
        # kernels that only their library has, as its source states, say nothing of others'
        anyones = tuple(one for one in chosen if not habits_of(law, one.stack, gpu.architecture)) or chosen
        ran = tuple(_member(law, gpu, one, bands, "", library) for one in anyones)
        return of_unknown(law, ran, gpu.architecture, stack, called, share, available)
    ran = tuple(
        _standing_for(called, law, gpu, one, _member(law, gpu, one, bands, stack), bands) for one in chosen
    )
    if library and chosen and all(one.stack not in {library, ""} for one in chosen):
        ran = in_library(law, ran, gpu.architecture, stack, called, available)
        pairs = zip(chosen, ran, strict=True)
        ran = tuple(_from_elsewhere(law, one, called, member, bands) for one, member in pairs)
    if not share or not may_run_others(law.name, gpu.architecture, stack, implementation, chosen):
        return ran
    other_kernels = others_of_library(law.name, gpu.architecture, stack, chosen, available)
    # of a stack without a version the newest measured is taken, and others widen its bounds
    of_any = not version_number(stack)
    swapped = tuple(
        replace(_member(law, gpu, one, bands, stack), bounds_only=of_any) for one in other_kernels
    )
    shares = ((chosen, ran, 1.0 - share if other_kernels else 1.0), (other_kernels, swapped, share))
    return tuple(
        replace(member, weight=pool_share * measured_rows_of(one) / sum(map(measured_rows_of, pool)))
        for pool, of_pool, pool_share in shares
        for one, member in zip(pool, of_pool, strict=True)
    )


def _standing_for(
    called: str, law: Law, gpu: Gpu, one: Implementation, member: Member, bands: TransferBands | None
) -> Member:
    """Return a member with the coefficients that a name states for its kernel.

    Where the name refers to another kernel than the member's, the bounds are those of stand-ins.
    """
    if not called or called in one.names:
        return member
    if habits := habits_of_name(law, called, gpu.architecture):
        member = replace(member, coefficients={**member.coefficients, **habits})
    if not stands_in(one, called):
        return member
    low, high = bands.stand_in if bands is not None else (0.0, 0.0)
    band = (min(member.band[0], low), max(member.band[1], high))
    return replace(member, band=band, basis=f"{carried_over(member.basis)}, {ANOTHER_KERNEL}")


def _from_elsewhere(
    law: Law, one: Implementation, called: str, member: Member, bands: TransferBands | None
) -> Member:
    """Return a kernel measured in another library, with the bounds of a left-out library."""
    if bands is None or stands_in(one, called):
        return member
    fitted = one.laws[law.name]
    measured = np.array([fitted.band, *fitted.band_by_architecture.values()])
    widest = (measured[:, 0].min(), measured[:, 1].max())
    low, high = (
        float(in_other_library(np.array(side), bands.other_library, abs(own)))
        for side, own in zip(member.band, widest, strict=True)
    )
    return replace(member, band=(low, high), basis=carried_over(member.basis))


def carried_over(basis: str) -> str:
    """Return the basis of coefficients that were fitted on the GPU to another kernel or library."""
    return basis.replace("calibrated:", "transferred from")


def coefficients_on(
    law: Law,
    fitted: FittedLaw,
    architecture: str,
    stack: str = "",
    nearest_alone: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Return an implementation's coefficients on GPUs of an architecture.

    On an architecture that was not measured each coefficient lies, in its logarithm, a fixed share of the
    way from the nearest architecture's value to the implementation's mean: neighbors share a part of what
    an architecture changes. Sizes and choices, which have no value in between, are the nearest's. Where
    neighbors of a law share nothing, all are the implementation's. ``nearest_alone`` are terms that only the
    nearest architecture has; they are taken off first.
    """
    values = fitted.on(architecture, stack)
    if architecture in fitted.architectures:
        return values
    towards = _TOWARDS_CENTER_OF.get(law.name, _TOWARDS_CENTER)
    if towards >= 1.0:
        return dict(fitted.values)
    for name, measured in values.items():
        prior = law.priors.get(name)
        center = fitted.values.get(name, prior.value if prior else measured)
        near = max(measured - nearest_alone.get(name, 0.0), min(measured, center))
        if prior is not None and prior.fitted and min(near, center) > 0.0:
            values[name] = near ** (1.0 - towards) * center**towards
    return values


def _source_coefficients(
    law: Law, values: Mapping[str, float], one: Implementation, architecture: str, measured: str, library: str
) -> dict[str, float]:
    """Return the coefficients that public source states for an implementation on an architecture.

    Sizes and habits take the place of those measured; of other coefficients what source states is in them
    already, but for what differs from the architecture ``measured``. What its own library's host code adds
    where it was not measured is none of another ``library`` that calls the kernel.
    """
    called = max(one.names, default="")
    target, reference = (
        host_of(law, one.stack, called, place, elsewhere=True) for place in (architecture, measured)
    )
    if library not in {one.stack, ""}:
        added = _added_by_own_host(law, one, architecture)
        target = {name: entry for name, entry in target.items() if name not in added}
    stated = {}
    for name, (factor, more) in target.items():
        prior = law.priors[name]
        if not factor and (prior.choices or reference.get(name) != (factor, more)):
            stated[name] = more
        elif factor == 1.0 and reference.get(name) != (factor, more):
            of_measured, already = reference.get(name, (1.0, 0.0))
            if (
                of_measured
            ):  # a form that is stated where it was measured holds none of what is added elsewhere
                stated[name] = values.get(name, prior.value) + more - already
    return stated


def _added_by_own_host(law: Law, one: Implementation, architecture: str) -> dict[str, float]:
    """Return the terms by which the host code of a kernel's own library alone is longer on an architecture.

    They are those that source states of the library's own calls where these were not measured.
    """
    called = max(one.names, default="")
    calls, kernels = (host_of(law, one.stack, called, architecture, elsewhere=own) for own in (True, False))
    return {
        name: more for name, (factor, more) in calls.items() if factor and kernels.get(name) != (factor, more)
    }


def _terms_of_measured_alone(
    law: Law, one: Implementation, architecture: str, measured: str
) -> dict[str, float]:
    """Return the coefficients that source states for the architecture ``measured`` and not for another."""
    called = max(one.names, default="")
    target, reference = (host_of(law, one.stack, called, place) for place in (architecture, measured))
    return {name: more for name, (factor, more) in reference.items() if factor == 1.0 and name not in target}


def _untold_by_fits(law: Law, one: Implementation, architecture: str) -> dict[str, float]:
    """Return the choices of an implementation that source alone tells, as no fit does."""
    if not law.source_tells:
        return {}
    host = host_of(law, one.stack, max(one.names, default=""), architecture)
    return {name: more for name, (factor, more) in host.items() if name in law.source_tells and not factor}


def _of_parent(law: Law, fitted: FittedLaw, gpu: Gpu) -> dict[str, float]:
    """Return the coefficients of another format on a GPU, in step with it where it was not measured there."""
    values = coefficients_on(law, fitted, gpu.architecture)
    if gpu.architecture in fitted.architectures:
        return values
    measured = [load_gpu(name) for name in fitted.gpus]
    near = min(architecture_distance(one.architecture, gpu.architecture) for one in measured)
    nearest = [one for one in measured if architecture_distance(one.architecture, gpu.architecture) <= near]
    return paced(law, values, gpu, measured, nearest)


def _member(
    law: Law, gpu: Gpu, one: Implementation, bands: TransferBands | None, stack: str, caller: str = ""
) -> Member:
    """Return an implementation on a GPU, called by a stack or by a library without measurements."""
    fitted = one.laws[law.name]
    wider = (
        bands.other_version if bands is not None and other_version(fitted, stack, gpu.architecture) else 1.0
    )
    low, high = (side * wider for side in fitted.band_on(gpu.architecture, stack))
    rows = fitted.gpus
    alike = [name for name in rows if load_gpu(name).architecture == gpu.architecture]
    near = min(
        (architecture_distance(load_gpu(name).architecture, gpu.architecture) for name in rows),
        default=(False, 0.0),
    )
    donors = [
        name for name in rows if architecture_distance(load_gpu(name).architecture, gpu.architecture) <= near
    ]
    measured, nearest = ([load_gpu(name) for name in names] for names in (rows, donors))
    there_alone = (
        _terms_of_measured_alone(law, one, gpu.architecture, nearest[0].architecture) if not alike else {}
    )
    values = coefficients_on(law, fitted, gpu.architecture, stack, there_alone)
    values = {**_untold_by_fits(law, one, gpu.architecture), **values}
    values |= choices_of_version(law, one, stack)
    caller = caller or library_of(stack)
    if caller not in {one.stack, ""}:
        added = _added_by_own_host(law, one, gpu.architecture if alike else nearest[0].architecture)
        for name, more in added.items():
            prior = law.priors[name]
            values[name] = max(values.get(name, prior.value) - more, prior.low)
    weight = float(sum(rows[name] for name in donors))
    if gpu.name in rows and not fitted.lent_by:
        return Member(one.name, values, (low, high), f"calibrated: {one.name}", weight, library=one.stack)
    if alike:
        values = unhidden(law, values, gpu, measured)
    else:
        stated = _source_coefficients(law, values, one, gpu.architecture, nearest[0].architecture, caller)
        one_program = "triton" in one.name
        values = paced(law, values | stated, gpu, measured, nearest, one_program=one_program) | stated
        values = beside_parent(
            law, values, one, gpu.architecture, lambda parent, of, _: _of_parent(parent, of, gpu)
        )
        values |= choices_of_version(law, one, stack)
    if bands is not None:
        own, apart = (low, high), not alike or bool(fitted.lent_by)
        low, high = bands.apart(own, widening(gpu, measured)) if apart else bands.on_architecture(own)
    basis = f"transferred from {', '.join([fitted.lent_by] * bool(fitted.lent_by) + donors)}: {one.name}"
    return Member(one.name, values, (low, high), basis, weight, library=one.stack)


def in_other_library(bound: Floats, factor: float, measured: float = np.inf) -> Floats:
    r"""Return the ln of one side's bounds of rows run by a library that was not measured.

    The factor was fitted where implementations were measured on the very GPU and lie close together. Where
    bounds are wide already, as on an unmeasured GPU, another library adds what it adds there at most:

    .. math:: b' = \operatorname{sgn}(b) \sqrt{b^2 + \min((f^2 - 1) \min(|b|, b_0)^2, m^2)}

    with :math:`b_0` the widest bound of the kernel on the GPUs it was measured on, ``measured``.
    """
    least = np.minimum(np.abs(bound), measured)
    more = np.minimum(np.sqrt(max(factor * factor - 1.0, 0.0)) * least, _MOST_OF_LIBRARY)
    return np.asarray(np.copysign(np.hypot(bound, more), bound), np.float64)


def widened_by_stand_in(law: str, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the ln of bounds of rows whose kernel was not measured, widened by a stand-in's, in squares."""
    bands = transfer_bands(law)
    below, above = bands.stand_in if bands is not None else (0.0, 0.0)
    return np.asarray(-np.hypot(low, below)), np.asarray(np.hypot(high, above))
