"""Coefficients of the implementation that ran a row, or of those that may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Band
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import (
    Implementation,
    TransferBands,
    apart,
    candidates,
    implementations,
    is_known,
    library_of,
    other_version,
    transfer_bands,
)
from tracetool.families.law import Law
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.other_versions import may_run_others, others_of_library, use
from tracetool.model.time_calibration import TimeCalibration, spread_key
from tracetool.model.traced import beside_band, in_trace, start_band, trace_band, traced

#: Steps that halve the bracket of a mixture's quantile. [1] By definition: 2^-16 of its width is left.
_HALVINGS = 16
#: Rows of a mixture whose bounds are told one by one; of more, these tell the bounds of all. [rows] A prior.
_MOST_ROWS = 4_000
#: The quantile of those rows' bounds that all rows get. [1]
_OUTER = prior_number("implementations.outer_quantile")


#: 90 % band of ln(measured / predicted) of a kernel that source code states, unmeasured. [1]
_BY_SOURCE = (-prior_number("implementations.by_source"), prior_number("implementations.by_source"))


@dataclass(frozen=True)
class Member:
    """One way a row may have been run: coefficients, the band of ln(measured / predicted), and the basis."""

    name: str
    coefficients: Mapping[str, float]
    band: Band
    basis: str
    weight: float  # how likely, relative to the others
    bounds_only: bool = False  # whether its time is never the one stated


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

    Kernels of traces, laws no implementation was fitted for, and laws of a user's own calibration take the
    calibration's coefficients. Rows that state neither a library nor an implementation do too, where the GPU
    was calibrated; their bounds then hold 90 % of the mixture of all implementations that run there.
    """
    if law.name not in calibration.delivered or not implementations(law.name) or traced(rows).any():
        return [_calibrated(law, rows, gpu, calibration, np.arange(len(rows)))]
    parts = []
    for stack, name, places in split_by_implementation(rows):
        part = rows if len(places) == len(rows) else rows.take(places)
        every = members(law, gpu, stack, name)
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
        pieces, low, high = member_pieces(law, part, gpu, every, first)
        if not is_known(law.name, stack) and (bands := transfer_bands(law.name)):
            low, high = low * bands.other_library, high * bands.other_library
        parts.append(Priced(places, pieces, low, high, basis))
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
    chosen = candidates(law.name, gpu.architecture, stack, implementation, every)
    if not implementation:  # where some ran in this version, it was one of them
        ran_there = [one for one in chosen if not other_version(one.laws[law.name], stack, gpu.architecture)]
        chosen = tuple(ran_there) or chosen
    share = bands.swapped if bands is not None else 0.0
    told = law.library_habits.get(library_of(stack))
    if told is not None and chosen and not is_known(law.name, stack, every):
        source = Member(
            f"{law.name} of {library_of(stack)} by its source", told, _BY_SOURCE, "prior", 1.0 - share
        )
        return (source, *_by_habit(law, share)) if share else (source,)
    if share and chosen and not is_known(law.name, stack, every):
        ran = tuple(_member(law, gpu, one, bands, stack) for one in chosen)
        return (*ran, *_by_habit(law, share / (1.0 - share) * sum(member.weight for member in ran)))
    if not share or not may_run_others(law.name, gpu.architecture, stack, implementation, chosen):
        return tuple(_member(law, gpu, one, bands, stack) for one in chosen)
    others = others_of_library(law.name, gpu.vendor, stack, chosen, every)
    shares = ((chosen, 1.0 - share if others else 1.0), (others, share))
    return tuple(
        replace(_member(law, gpu, one, bands, stack), weight=part * use(one) / sum(map(use, pool)))
        for pool, part in shares
        for one in pool
    )


def _by_habit(law: Law, weight: float) -> tuple[Member, ...]:
    """Return kernels not measured: the law's priors under each of its habits, of this weight together.

    Priors of several habits, or fitted to the implementations themselves, only widen the bounds.
    """
    habits: tuple[Mapping[str, float], ...] = ({}, *law.habits)
    title, each = f"{law.name} by its priors", weight / len(habits)
    no_news = bool(law.habits) or any(one.kind == "fitted" for one in law.priors.values())
    return tuple(Member(title, habit, law.spread, "prior", each, no_news) for habit in habits)


def _member(law: Law, gpu: Gpu, one: Implementation, bands: TransferBands | None, stack: str) -> Member:
    fitted = one.laws[law.name]
    wider = (
        bands.other_version if bands is not None and other_version(fitted, stack, gpu.architecture) else 1.0
    )
    low, high = (side * wider for side in fitted.band_on(gpu.architecture, stack))
    values, rows = fitted.on(gpu.architecture, stack), fitted.gpus
    alike = [name for name in rows if load_gpu(name).architecture == gpu.architecture]
    near = min((apart(load_gpu(name).architecture, gpu.architecture) for name in rows), default=(False, 0.0))
    donors = [name for name in rows if apart(load_gpu(name).architecture, gpu.architecture) <= near]
    weight = float(sum(rows[name] for name in donors))
    if gpu.name in rows:
        return Member(one.name, values, (low, high), f"calibrated: {one.name}", weight)
    if bands is not None:
        away = bands.same_architecture if alike else bands.other_architecture
        low, high = min(low, away[0]), max(high, away[1])
    return Member(one.name, values, (low, high), f"transferred from {', '.join(donors)}: {one.name}", weight)


def member_pieces(
    law: Law, rows: OperatorColumns, gpu: Gpu, every: tuple[Member, ...], first: Pieces | None = None
) -> tuple[Pieces, Floats, Floats]:
    """Return the parts of rows that any of several implementations may have run.

    Parameters
    ----------
    every : tuple of Member
        The candidates, as likely as their weights.
    first : Pieces, optional
        Parts to state in place of the middle candidate's: those of the GPU's own calibration.

    Returns
    -------
    pieces : Pieces
        Parts of each row as the candidate of middle time has them, or ``first``.
    low, high : array, shape (n,)
        ln of the bounds that hold 90 % of the mixture, over the time of ``pieces``.
    """
    if len(every) == 1:
        low, high = np.broadcast_to(np.array(every[0].band)[:, None], (2, len(rows)))
        return law.pieces(rows, gpu, every[0].coefficients), low, high
    few = len(rows) <= _MOST_ROWS
    places = np.arange(len(rows)) if few else np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(np.int64)
    some = rows if few else rows.take(places)
    hertz = np.full((len(some), 1), gpu.clock_boost_mhz * 1e6)
    tried = [law.pieces(some, gpu, member.coefficients) for member in every]
    times = np.log(np.stack([duration_s(one, hertz)[:, 0] for one in tried]))
    weight = np.array([member.weight for member in every])
    weight = weight / weight.sum()
    if first is not None:
        pieces = first
    else:
        stated = weight * np.array([not member.bounds_only for member in every])
        middle = _weighted_middle(times, stated / stated.sum())
        if few:
            pieces = tried[0]
            for number in range(1, len(every)):
                pieces = pieces.where(middle == number, tried[number])
        else:  # of many rows, all as the candidate has them that is in the middle most often
            pieces = law.pieces(rows, gpu, every[int(np.bincount(middle).argmax())].coefficients)
    base = np.log(duration_s(pieces.take(places), hertz)[:, 0])
    bands = np.array([member.band for member in every])
    center = times + bands.mean(axis=1)[:, None] - base
    scale = (bands[:, 1] - bands[:, 0])[:, None] / 2.0 / np.log(19.0)
    low, high = (_quantile(center, scale, weight, share) for share in (0.05, 0.95))
    if not few:
        low = np.full(len(rows), np.quantile(low, _OUTER))
        high = np.full(len(rows), np.quantile(high, 1.0 - _OUTER))
    return pieces, low, high


def _weighted_middle(times: Floats, weight: Floats) -> Ints:
    """Return which candidate's time is the weighted median of each row, (k, n) to (n,)."""
    order = np.argsort(times, axis=0, kind="stable")
    place = (np.cumsum(weight[order], axis=0) < 0.5).sum(axis=0)
    return np.asarray(np.take_along_axis(order, place[None], axis=0)[0], dtype=np.int64)


def _quantile(center: Floats, scale: Floats, weight: Floats, share: float) -> Floats:
    """Return a quantile of mixtures of logistic distributions: (k, n), (k, 1) and (k,) to (n,)."""
    low, high = (center - 12.0 * scale).min(axis=0), (center + 12.0 * scale).max(axis=0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = 0.5 * (1.0 + weight @ np.tanh((middle - center) / (2.0 * scale)))
        low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
    return np.asarray((low + high) / 2.0)
