"""Coefficients of the implementation that ran a row, or of those that may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import (
    FittedLaw,
    Implementation,
    TransferBands,
    apart,
    implementations,
    library_of,
    transfer_bands,
    words_of,
)
from tracetool.families.law import Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.candidates import candidates, is_known, other_version
from tracetool.model.dispatched import dispatched, tells
from tracetool.model.fitted_to import may_have_run
from tracetool.model.mixtures import Member, member_pieces
from tracetool.model.other_formats import beside_parent, with_parents
from tracetool.model.other_versions import may_run_others, others_of_library, told_by_version, use
from tracetool.model.paced import paced, unhidden
from tracetool.model.time_calibration import TimeCalibration, spread_key
from tracetool.model.traced import beside_band, in_trace, start_band, trace_band, traced
from tracetool.model.unmeasured_libraries import (
    habits_of,
    host_of,
    in_library,
    of_project,
    of_unknown,
    told_by_source,
    without_hosts,
)

#: How far coefficients on an architecture nobody measured are from the nearest's towards the center. [1]
_TOWARDS_CENTER = prior_number("implementations.towards_center")
#: The same of laws where leaving out GPUs told another. [1]
_TOWARDS_CENTER_OF = prior_table("implementations.towards_center_of")

#: What a library nobody measured adds to the ln of the bounds at most. [1]
_MOST_OF_LIBRARY = prior_number("implementations.other_library_most")


@dataclass(frozen=True)
class Priced:
    """Rows of a law priced alike: their places, parts, the ln of their 90 % bounds, and the basis."""

    places: Ints
    pieces: Pieces
    low: Floats
    high: Floats
    basis: str


def priced(law: Law, rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration) -> list[Priced]:
    """Return the parts of rows of a law with their bounds, by the implementation that ran them.

    Kernels of traces, laws no implementation was fitted for, and rows of what a user's own calibration was
    fitted to take the calibration's coefficients. Rows that state neither a library nor an implementation do
    too, where the GPU was calibrated; their bounds then hold 90 % of the mixture of all implementations that
    run there. Rows whose host's time is counted by itself (``host_apart``) wait for none that kernels were
    measured under.
    """
    if bool((rows.number("host_apart", 0.0) > 0.0).any()):
        calibration = _without_host(law, gpu, calibration)
        return _priced(law, rows, gpu, calibration, host_apart=True)
    return _priced(law, rows, gpu, calibration, host_apart=False)


def _without_host(law: Law, gpu: Gpu, calibration: TimeCalibration) -> TimeCalibration:
    """Return a calibration whose coefficients of a law hold nothing of the host it was measured under."""
    (own,) = without_hosts(law, (own_member(law, gpu, calibration, 1.0),))
    coefficients = {**calibration.coefficients, law.name: own.coefficients}
    return replace(calibration, coefficients=coefficients)


def _priced(
    law: Law, rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration, *, host_apart: bool
) -> list[Priced]:
    users, of_users = law.name not in calibration.delivered, calibration.fitted_to.get(law.name, {""})
    if (users and "" in of_users) or not implementations(law.name) or traced(rows).any():
        return [_calibrated(law, rows, gpu, calibration, np.arange(len(rows)))]
    parts = []
    for stack, name, places in _told_apart(law, rows, gpu):
        part = rows if len(places) == len(rows) else rows.take(places)
        if users and may_have_run(stack, name, of_users):
            parts.append(_calibrated(law, part, gpu, calibration, places))
            continue
        every = members(law, gpu, stack, name)
        every = without_hosts(law, every) if host_apart else every
        if not every:  # another vendor's kernels are none of these
            parts.append(_calibrated(law, part, gpu, calibration, places))
            continue
        basis = every[0].basis if len(every) == 1 else f"one of {', '.join(m.name for m in every)}"
        first = None
        if not stack and not name and calibration.law_basis.get(law.name) == "calibrated":
            own = _calibrated(law, part, gpu, calibration, places)
            first, basis = own.pieces, own.basis
            weight = float(np.mean([member.weight for member in every]))
            every = (*every, own_member(law, gpu, calibration, weight))
        known = is_known(law.name, stack)
        pieces, low, high = member_pieces(law, part, gpu, every, first, one_ran=known)
        if not known and not told_by_source(every) and (bands := transfer_bands(law.name)):
            low, high = (in_other_library(side, bands.other_library) for side in (low, high))
        parts.append(Priced(places, pieces, low, high, basis))
    return parts


def in_other_library(bound: Floats, factor: float) -> Floats:
    r"""Return the ln of one side's bounds of rows that a library nobody measured ran.

    The factor was told where implementations were measured on the very GPU and lie close together. Where
    bounds are wide already, as on a GPU nobody measured, another library adds what it adds there at most:

    .. math:: b' = \operatorname{sgn}(b) \sqrt{b^2 + \min((f^2 - 1) b^2, m^2)}
    """
    more = np.minimum(np.sqrt(max(factor * factor - 1.0, 0.0)) * np.abs(bound), _MOST_OF_LIBRARY)
    return np.asarray(np.copysign(np.hypot(bound, more), bound), np.float64)


def own_member(law: Law, gpu: Gpu, calibration: TimeCalibration, weight: float) -> Member:
    """Return the GPU's own calibration as one of the ways a row may have been run."""
    band = calibration.spread.get(law.name, law.spread)
    return Member(gpu.name, calibration.coefficients.get(law.name, {}), band, "calibrated", weight)


def _calibrated(
    law: Law, rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration, places: Ints
) -> Priced:
    pieces = law.pieces(rows, gpu, calibration.coefficients.get(law.name, {}))
    pieces = in_trace(pieces, rows, law, gpu)
    low, high = _band(law, rows, calibration)
    if law.name not in calibration.from_traces:
        low, high = start_band(low, high, rows, law, pieces, gpu)
    low, high = beside_band(low, high, rows, law, pieces, gpu)
    return Priced(places, pieces, low, high, calibration.law_basis.get(law.name, calibration.basis))


def _band(law: Law, rows: OperatorColumns, calibration: TimeCalibration) -> tuple[Floats, Floats]:
    """Return the 90 % band of ln(measured / predicted) of each row, by its kind where the kind has one."""
    calibrated = law.name in calibration.spread
    every = calibration.spread.get(law.name, law.spread)
    bands = np.array(
        [calibration.spread.get(spread_key(law.name, kind), every) for kind in law.kinds] or [every]
    )
    low, high = bands[law.kind(rows)].T
    if law.name in calibration.from_traces:
        return low, high
    carried = calibration.law_basis.get(law.name, calibration.basis) != "calibrated"
    return trace_band(low, high, rows, law, calibrated=calibrated, carried=carried)


def split_by_implementation(rows: OperatorColumns) -> list[tuple[str, str, Ints]]:
    """Return each pair of stack and implementation that rows state, "" where none, with their places."""
    if "stack" not in rows.columns and "implementation" not in rows.columns:
        return [("", "", np.arange(len(rows)))]
    (stacks, stack), (names, name) = (rows.distinct(column) for column in ("stack", "implementation"))
    pairs, number = np.unique(stack * len(names) + name, return_inverse=True)
    return [
        (stacks[pair // len(names)], names[pair % len(names)], np.flatnonzero(number == place))
        for place, pair in enumerate(pairs.tolist())
    ]


def _told_apart(law: Law, rows: OperatorColumns, gpu: Gpu) -> list[tuple[str, str, Ints]]:
    """Return what rows state, as :func:`split_by_implementation`, with kernels that source tells beside."""
    told: list[tuple[str, str, Ints]] = []
    for stack, name, places in split_by_implementation(rows):
        if name or not stack or not tells(law):
            told.append((stack, name, places))
            continue
        told += [(stack, kernel, places[at]) for kernel, at in dispatched(law, rows.take(places), gpu, stack)]
    return told


def members(
    law: Law,
    gpu: Gpu,
    stack: str,
    implementation: str,
    every: tuple[Implementation, ...] | None = None,
    bands: TransferBands | None = None,
) -> tuple[Member, ...]:
    """Return the ways rows of a law may have been run on a GPU; none where no implementation was fitted.

    Parameters
    ----------
    stack, implementation : str
        What the rows state, "" where nothing.
    every, bands : optional
        Implementations to choose from and bands elsewhere, by default those delivered.
    """
    bands = transfer_bands(law.name) if bands is None else bands
    every = with_parents(law, stack, words_of(implementation), every)
    if by_source := of_project(law, gpu.architecture, stack, words_of(implementation), every):
        return by_source
    chosen, library = candidates(law.name, gpu.architecture, stack, implementation, every), library_of(stack)
    if not implementation:  # where some ran in this version, it was one of them
        ran_there = [one for one in chosen if not other_version(one.laws[law.name], stack, gpu.architecture)]
        chosen = tuple(ran_there) or chosen
    share = bands.swapped if bands is not None else 0.0
    if chosen and not is_known(law.name, stack, every):  # no version of another library is meant
        # kernels that only their library has, as its source tells, tell nothing of others'
        anyones = tuple(one for one in chosen if not habits_of(law, one.stack, gpu.architecture)) or chosen
        ran = tuple(_member(law, gpu, one, bands, "") for one in anyones)
        return of_unknown(law, ran, gpu.architecture, stack, words_of(implementation), share, every)
    if not share or not may_run_others(law.name, gpu.architecture, stack, implementation, chosen):
        called = words_of(implementation)
        ran = tuple(_standing_for(called, law, one, _member(law, gpu, one, bands, stack)) for one in chosen)
        elsewhere = library and all(one.stack not in {library, ""} for one in chosen)
        return in_library(law, ran, gpu.architecture, stack, called, every) if elsewhere else ran
    others = others_of_library(law.name, gpu.vendor, stack, chosen, every)
    shares = ((chosen, 1.0 - share if others else 1.0), (others, share))
    return tuple(
        replace(_member(law, gpu, one, bands, stack), weight=part * use(one) / sum(map(use, pool)))
        for pool, part in shares
        for one in pool
    )


def _standing_for(called: str, law: Law, one: Implementation, member: Member) -> Member:
    """Return a member with what a name says of its kernel, where another's coefficients stand for it."""
    if not called or called in one.names:
        return member
    word = max((word for word in law.name_habits if word in called), key=len, default="")
    told = law.name_habits.get(word)
    return replace(member, coefficients={**member.coefficients, **told}) if told else member


def coefficients_on(
    law: Law,
    fitted: FittedLaw,
    architecture: str,
    stack: str = "",
    nearest_alone: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Return an implementation's coefficients on GPUs of an architecture.

    On one not measured each is halfway, of its logarithm, from the nearest's to the implementation's:
    neighbors share a part of what architectures change. Sizes and habits, which have no value in between, are
    the nearest's. Of a law whose neighbors share nothing all are the implementation's. ``nearest_alone`` is
    what the nearest have beside what any other has.
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


def _told_there(
    law: Law, values: Mapping[str, float], one: Implementation, architecture: str, measured: str
) -> dict[str, float]:
    """Return the coefficients that source tells of an implementation on an architecture.

    Sizes and habits take the place of those measured; of other coefficients what source tells is in them
    already, but for what differs from the architecture ``measured``.
    """
    called = max(one.names, default="")
    there, here = (
        host_of(law, one.stack, called, place, elsewhere=True) for place in (architecture, measured)
    )
    told = {}
    for name, (factor, more) in there.items():
        prior = law.priors[name]
        if not factor and (prior.choices or here.get(name) != (factor, more)):
            told[name] = more
        elif factor == 1.0 and here.get(name) != (factor, more):
            told[name] = values.get(name, prior.value) + more - here.get(name, (1.0, 0.0))[1]
    return told


def _there_alone(law: Law, one: Implementation, architecture: str, measured: str) -> dict[str, float]:
    """Return what source adds to coefficients on the architecture ``measured`` and not on another."""
    called = max(one.names, default="")
    there, here = (host_of(law, one.stack, called, place) for place in (architecture, measured))
    return {name: more for name, (factor, more) in here.items() if factor == 1.0 and name not in there}


def _of_parent(law: Law, fitted: FittedLaw, gpu: Gpu) -> dict[str, float]:
    """Return the coefficients of another format on a GPU, in step with it where it was not measured there."""
    values = coefficients_on(law, fitted, gpu.architecture)
    if gpu.architecture in fitted.architectures:
        return values
    measured = [load_gpu(name) for name in fitted.gpus]
    near = min(apart(one.architecture, gpu.architecture) for one in measured)
    nearest = [one for one in measured if apart(one.architecture, gpu.architecture) <= near]
    return paced(law, values, gpu, measured, nearest)


def _member(law: Law, gpu: Gpu, one: Implementation, bands: TransferBands | None, stack: str) -> Member:
    fitted = one.laws[law.name]
    wider = (
        bands.other_version if bands is not None and other_version(fitted, stack, gpu.architecture) else 1.0
    )
    low, high = (side * wider for side in fitted.band_on(gpu.architecture, stack))
    rows = fitted.gpus
    alike = [name for name in rows if load_gpu(name).architecture == gpu.architecture]
    near = min((apart(load_gpu(name).architecture, gpu.architecture) for name in rows), default=(False, 0.0))
    donors = [name for name in rows if apart(load_gpu(name).architecture, gpu.architecture) <= near]
    measured, nearest = ([load_gpu(name) for name in names] for names in (rows, donors))
    there_alone = _there_alone(law, one, gpu.architecture, nearest[0].architecture) if not alike else {}
    values = coefficients_on(law, fitted, gpu.architecture, stack, there_alone)
    values |= told_by_version(law, one, stack)
    weight = float(sum(rows[name] for name in donors))
    if gpu.name in rows and not fitted.lent_by:
        return Member(one.name, values, (low, high), f"calibrated: {one.name}", weight, library=one.stack)
    if alike:
        values = unhidden(law, values, gpu, measured)
    else:
        told = _told_there(law, values, one, gpu.architecture, nearest[0].architecture)
        one_program = "triton" in one.name
        values = paced(law, values | told, gpu, measured, nearest, one_program=one_program) | told
        values = beside_parent(
            law, values, one, gpu.architecture, lambda parent, of, _: _of_parent(parent, of, gpu)
        )
    if bands is not None:
        away = bands.same_architecture if alike and not fitted.lent_by else bands.other_architecture
        low, high = min(low, away[0]), max(high, away[1])
    basis = f"transferred from {', '.join([fitted.lent_by] * bool(fitted.lent_by) + donors)}: {one.name}"
    return Member(one.name, values, (low, high), basis, weight, library=one.stack)
