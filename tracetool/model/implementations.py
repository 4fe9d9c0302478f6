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
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.gpu import Gpu
from tracetool.model.cache_formats import cache_widths, measured_with
from tracetool.model.calibration_scope import may_match_fitted
from tracetool.model.candidates import is_known
from tracetool.model.eligible_implementations import (
    ANOTHER_FORMAT,
    ANOTHER_KERNEL,
    carried_over,
    in_other_library,
    members,
    widened_by_stand_in,
)
from tracetool.model.library_dispatch import dispatched, has_rule
from tracetool.model.mixtures import Member, member_pieces, mixture_bounds
from tracetool.model.profiler_overhead import beside_band, in_trace, start_band, trace_band, traced
from tracetool.model.time_calibration import TimeCalibration, spread_key
from tracetool.model.unmeasured_libraries import (
    known_by_source,
    without_hosts,
)


@dataclass(frozen=True)
class Priced:
    """Rows of a law priced together: their places, parts, the ln of their 90 % bounds, and the basis."""

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
    """Return a calibration whose coefficients of a law are without the host it was measured under."""
    (kernels_alone,) = without_hosts(law, (own_member(law, gpu, calibration, 1.0),))
    coefficients = {**calibration.coefficients, law.name: kernels_alone.coefficients}
    return replace(calibration, coefficients=coefficients)


def _priced(
    law: Law, rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration, *, host_apart: bool
) -> list[Priced]:
    users, of_users = law.name not in calibration.delivered, calibration.fitted_to.get(law.name, {""})
    if (users and "" in of_users) or not implementations(law.name) or traced(rows).any():
        return [_calibrated(law, rows, gpu, calibration, np.arange(len(rows)))]
    priced_groups = []
    for stack, name, width, places in _rows_by_kernel(law, rows, gpu):
        group_rows = rows if len(places) == len(rows) else rows.take(places)
        if users and may_match_fitted(stack, name, of_users):
            priced_groups.append(_calibrated(law, group_rows, gpu, calibration, places))
            continue
        candidates, known = measured_with(law, gpu, members(law, gpu, stack, name), width)
        candidates = without_hosts(law, candidates) if host_apart else candidates
        if not candidates:  # another vendor's kernels are none of these
            priced_groups.append(_calibrated(law, group_rows, gpu, calibration, places))
            continue
        basis = (
            candidates[0].basis if len(candidates) == 1 else f"one of {', '.join(m.name for m in candidates)}"
        )
        first = None
        if not stack and not name and calibration.law_basis.get(law.name) == "calibrated":
            calibrated = _calibrated(law, group_rows, gpu, calibration, places)
            first, basis = calibrated.pieces, calibrated.basis
            weight = float(np.mean([member.weight for member in candidates]))
            candidates = (*candidates, own_member(law, gpu, calibration, weight))
        was_fitted = is_known(law.name, stack)
        pieces, low, high = member_pieces(law, group_rows, gpu, candidates, first, one_ran=was_fitted)
        if not was_fitted and not known_by_source(candidates) and (bands := transfer_bands(law.name)):
            low, high = (in_other_library(side, bands.other_library) for side in (low, high))
        group = Priced(places, pieces, low, high, basis)
        if known:
            priced_groups += _split_unmeasured(law, group_rows, gpu, candidates, group)
        else:
            priced_groups.append(_in_another_format(law, gpu, group))
    return priced_groups


def _in_another_format(law: Law, gpu: Gpu, group: Priced) -> Priced:
    """Return rows whose keys no candidate was measured with: as those of a kernel that was not measured."""
    low, high = widened_by_stand_in(law.name, group.low, group.high)
    of = f"transferred from {gpu.name}" if group.basis == "calibrated" else carried_over(group.basis)
    return replace(group, low=low, high=high, basis=f"{of}, {ANOTHER_FORMAT}")


def _split_unmeasured(
    law: Law, rows: OperatorColumns, gpu: Gpu, candidates: tuple[Member, ...], priced_rows: Priced
) -> list[Priced]:
    """Return rows priced together, split where their kernel was not measured: those have wider bounds."""
    if law.unmeasured is None or len(candidates) != 1:
        return [priced_rows]
    unmeasured = law.unmeasured(rows, gpu, law.every_value(candidates[0].coefficients))
    if not unmeasured.any():
        return [priced_rows]
    low, high = widened_by_stand_in(law.name, priced_rows.low[unmeasured], priced_rows.high[unmeasured])
    basis = (
        priced_rows.basis if ANOTHER_KERNEL in priced_rows.basis else f"{priced_rows.basis}, {ANOTHER_KERNEL}"
    )
    unmeasured_places = np.flatnonzero(unmeasured)
    groups = [
        Priced(
            priced_rows.places[unmeasured_places],
            priced_rows.pieces.take(unmeasured_places),
            low,
            high,
            basis,
        )
    ]
    if not unmeasured.all():
        measured_places = np.flatnonzero(~unmeasured)
        low, high = priced_rows.low[measured_places], priced_rows.high[measured_places]
        groups.append(
            Priced(
                priced_rows.places[measured_places],
                priced_rows.pieces.take(measured_places),
                low,
                high,
                priced_rows.basis,
            )
        )
    return groups


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
    if law.libraries is not None and law.name in calibration.delivered:
        low, high = _of_any_library(law, rows, gpu, calibration, (pieces, low, high))
    if law.name not in calibration.from_traces:
        low, high = start_band(low, high, rows, law, pieces, gpu)
    low, high = beside_band(low, high, rows, law, pieces, gpu)
    return Priced(places, pieces, low, high, calibration.law_basis.get(law.name, calibration.basis))


def _of_any_library(
    law: Law,
    rows: OperatorColumns,
    gpu: Gpu,
    calibration: TimeCalibration,
    known: tuple[Pieces, Floats, Floats],
) -> tuple[Floats, Floats]:
    """Return the ln of bounds: where a table states no library, of what any takes for the row. Shape (n,)."""
    pieces, low, high = known
    assert law.libraries is not None
    places = np.flatnonzero(~traced(rows) & (law.kind(rows) == len(law.kinds) - 1))
    possible = law.libraries(rows.take(places)) if places.size else ()
    if not possible:
        return low, high
    hertz = np.full((places.size, 1), gpu.clock_boost_mhz * 1e6)
    coefficients = calibration.coefficients.get(law.name, {})
    times = [duration_s(law.pieces(named, gpu, coefficients), hertz)[:, 0] for named, _ in possible]
    bands = [np.stack(_band(law, named, calibration), axis=1) for named, _ in possible]
    base = np.log(duration_s(pieces.take(places), hertz)[:, 0])
    low, high = low.copy(), high.copy()
    low[places], high[places] = mixture_bounds(
        np.log(np.stack(times)), np.stack(bands), np.stack([weight for _, weight in possible]), base
    )
    return low, high


def _band(law: Law, rows: OperatorColumns, calibration: TimeCalibration) -> tuple[Floats, Floats]:
    """Return the 90 % band of ln(measured / predicted) of each row, by its kind where the kind has one."""
    calibrated = law.name in calibration.spread
    law_band = calibration.spread.get(law.name, law.spread)
    bands = np.array(
        [calibration.spread.get(spread_key(law.name, kind), law_band) for kind in law.kinds] or [law_band]
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


def _rows_by_kernel(law: Law, rows: OperatorColumns, gpu: Gpu) -> list[tuple[str, str, float, Ints]]:
    """Return the groups of :func:`split_by_implementation`, split by the kernels a library dispatches.

    And by the bytes of a key's number [B], 0 where a law's kernels have no keys.
    """
    groups: list[tuple[str, str, Ints]] = []
    for stack, name, places in split_by_implementation(rows):
        if name or not stack or not has_rule(law):
            groups.append((stack, name, places))
            continue
        groups += [
            (stack, kernel, places[at]) for kernel, at in dispatched(law, rows.take(places), gpu, stack)
        ]
    widths = cache_widths(law, rows)
    if widths is None:
        return [(stack, name, 0.0, places) for stack, name, places in groups]
    return [
        (stack, name, float(width), places[widths[places] == width])
        for stack, name, places in groups
        for width in np.unique(widths[places])
    ]
