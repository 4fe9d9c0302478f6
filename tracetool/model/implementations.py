"""Coefficients of the implementation that ran a row, or of those that may have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import (
    implementations,
    transfer_bands,
)
from tracetool.families.law import Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu
from tracetool.model.candidates import is_known
from tracetool.model.dispatched import dispatched, tells
from tracetool.model.fitted_to import may_have_run
from tracetool.model.members import ANOTHER_KERNEL, in_other_library, members, of_stand_in
from tracetool.model.mixtures import Member, member_pieces
from tracetool.model.time_calibration import TimeCalibration, spread_key
from tracetool.model.traced import beside_band, in_trace, start_band, trace_band, traced
from tracetool.model.unmeasured_libraries import (
    told_by_source,
    without_hosts,
)


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
        parts += _unmeasured_apart(law, part, gpu, every, Priced(places, pieces, low, high, basis))
    return parts


def _unmeasured_apart(
    law: Law, rows: OperatorColumns, gpu: Gpu, every: tuple[Member, ...], known: Priced
) -> list[Priced]:
    """Return rows priced alike with those whose kernel nobody measured apart, which have wider bounds."""
    if law.unmeasured is None or len(every) != 1:
        return [known]
    told = law.unmeasured(rows, gpu, law.every_value(every[0].coefficients))
    if not told.any():
        return [known]
    low, high = of_stand_in(law.name, known.low[told], known.high[told])
    basis = known.basis if ANOTHER_KERNEL in known.basis else f"{known.basis}, {ANOTHER_KERNEL}"
    at = np.flatnonzero(told)
    parts = [Priced(known.places[at], known.pieces.take(at), low, high, basis)]
    if not told.all():
        rest = np.flatnonzero(~told)
        low, high = known.low[rest], known.high[rest]
        parts.append(Priced(known.places[rest], known.pieces.take(rest), low, high, known.basis))
    return parts


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
