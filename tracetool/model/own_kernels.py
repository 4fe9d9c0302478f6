r"""Kernels that were not measured, from those of the same run or table that were.

What the model errs by is partly the machine's: its clocks, its profiler, the library that ran there. Kernels
measured beside therefore constrain the others. The error of a kernel, :math:`\ln(t_{measured} /
t_{model})` over the standard deviation behind its law's band, is a sum of four parts: the law's, that of its
kind at such durations, that of the kernel's name among those, and that of its shape. Each is normal with a
share of the variance; what measured shapes say of the parts of another is the posterior mean of this
hierarchical model, which draws the mean of few to that of the level above (James and Stein),

.. math:: E[u_k] = \frac{W_k \bar e_k + u_{law} / \tau^2}{W_k + 1 / \tau^2}

and what is left of the variance, scaled by how well the same rule predicts the measured shapes from each
other, is the new band. A kernel whose size was inferred from its own time says nothing of the model's error.

References
----------
Gelman et al., Bayesian Data Analysis, 3rd edition, 2013, section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Texts
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns, distinct_texts
from tracetool.families.pricing import split_by_law
from tracetool.families.registry import groups, known_shape
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.anchor import Anchor
from tracetool.model.time_calibration import spread_key
from tracetool.model.timing import RowPieces, row_pieces, time_rows

#: Shares of a band's variance that rows of a law, of a kind and size, and of a name have in common. [1]
_SHARES: Final = tuple(prior_number(f"own_kernels.share_{level}") for level in ("law", "kind", "name"))
#: Measured rows the spread before them counts for. [rows]
PRIOR_ROWS: Final = prior_number("own_kernels.prior_rows")
#: An error counts for at most this many of its band's standard deviations: shapes may be wrong. [1]
_MOST_SD: Final = prior_number("own_kernels.most_sd")
#: Durations that part kernels that are mostly start and end from longer ones. [us]
_SIZES_US: Final = tuple(sorted(prior_table("own_kernels.sizes").values()))
#: Steps of ln(time) by which rows of a name are of one shape. [1]
_SAME_SHAPE: Final = prior_number("own_kernels.shape_steps")
#: End of the basis of a time that measured kernels of other shapes corrected.
FROM_OWN: Final = "; own kernels"
#: Least variance of a band and least precision of a group. [1] By definition: a floor of rounding.
_LEAST_VARIANCE: Final = float(np.sqrt(np.finfo(np.float64).eps))


def shrunk_variance(prior: Floats | float, squares: Floats | float, rows: Floats | float) -> Floats:
    """Return the variance of errors: of ``rows`` with this sum of squares, and of what was known before.

    Examples
    --------
    >>> float(shrunk_variance(0.04, 0.0, 0)), round(float(shrunk_variance(0.04, 1.0, 1000)), 4)
    (0.04, 0.0012)
    """
    return np.asarray((PRIOR_ROWS * prior + squares) / (PRIOR_ROWS + rows))


def band_names(rows: OperatorColumns, gpu: Gpu) -> Texts:
    """Return the name of each row's band: its law's, or that of the kind of its rows. Shape (n,)."""
    names = np.full(len(rows), "", dtype=object)
    for family, places in groups(rows):
        for law, inside in split_by_law(family, rows.take(places), gpu):
            chosen = places[inside]
            kinds = law.kind(rows.take(chosen))
            names[chosen] = [spread_key(law.name, law.kinds[kind] if law.kinds else "") for kind in kinds]
    return names


def with_own_kernels(
    rows: OperatorColumns, gpu: Gpu, pieces: RowPieces, anchor: Anchor, *, leave_out: bool = False
) -> RowPieces:
    """Return the rows' parts and bounds, those of unmeasured rows corrected by the measured ones.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of one run or table.
    gpu : Gpu
        The GPU they run on.
    pieces : RowPieces
        The model's own.
    anchor : Anchor
        What was measured.
    leave_out : bool
        Predict measured rows too, each from the others: those of the same name and shape left out with it.
        Of its own measurement the band alone learns, by the errors of the others that it helped predict.
    """
    shaped = known_shape(rows)
    usual = np.isclose(anchor.mem_clock_mhz, gpu.memory_clock_mhz, rtol=0.02)
    measured = np.asarray(anchor.measured & shaped & usual & ~_sized_by_time(rows), dtype=np.bool_)
    corrected = shaped if leave_out else shaped & ~anchor.measured
    if not (measured.any() and corrected.any()):
        return pieces
    clock = np.where(measured, anchor.clock_mhz, gpu.clock_boost_mhz)[:, None]
    model_s = np.maximum(time_rows(rows, gpu, clock, pieces=pieces).duration_s[:, 0], 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(measured, np.log(anchor.duration_s / model_s), 0.0)
    sd = np.maximum((np.log(pieces.high) - np.log(pieces.low)) / (2.0 * Z90), _LEAST_VARIANCE**0.5)
    error = np.clip(error, -_MOST_SD * sd, _MOST_SD * sd)
    pooled = _pooled(_levels(rows, gpu, model_s), measured, error / sd)
    factor = np.where(corrected, np.exp(sd * pooled.shift), 1.0)
    scale = np.where(corrected & pooled.informed, np.sqrt(pooled.variance), 1.0)
    basis = np.where(corrected & pooled.informed, pieces.basis + FROM_OWN, pieces.basis)
    return RowPieces(pieces.pieces.times(factor), pieces.low**scale, pieces.high**scale, basis.astype(object))


def _sized_by_time(rows: OperatorColumns) -> Bools:
    """Return which rows' sizes were inferred from their own time: they show no error of the model. (n,)"""
    return np.asarray(np.isfinite(rows.number("inferred_low")), dtype=np.bool_)


@dataclass(frozen=True)
class LeftOut:
    """Errors of measured kernels predicted by the others: of the median kernel, left out with its shape."""

    kernels: int
    error_pct: float
    model_error_pct: float  # of the model alone, over the same kernels


def left_out(rows: OperatorColumns, gpu: Gpu) -> LeftOut | None:
    """Return the errors of a run's or table's measured kernels, each predicted from the others.

    Parameters
    ----------
    rows : OperatorColumns
        n rows with what was measured of them. Counted are those whose sizes are stated and that others of
        their law help predict.
    gpu : Gpu
        The GPU they ran on.

    Returns
    -------
    LeftOut or None
        None where no kernel helps predict another.
    """
    anchor, pieces = Anchor.of(rows, gpu), row_pieces(rows, gpu)
    cross_predicted = with_own_kernels(rows, gpu, pieces, anchor, leave_out=True)
    used = anchor.measured & known_shape(rows) & (rows.text("inferred") == "")
    used &= (cross_predicted.basis != pieces.basis) & ~_sized_by_time(rows)
    if not used.any():
        return None
    clock = np.where(anchor.measured, anchor.clock_mhz, gpu.clock_boost_mhz)[:, None]
    error, model_error = (
        100.0 * float(np.median(np.abs(time_s[used] / anchor.duration_s[used] - 1.0)))
        for time_s in (
            time_rows(rows, gpu, clock, pieces=p).duration_s[:, 0] for p in (cross_predicted, pieces)
        )
    )
    return LeftOut(int(used.sum()), error, model_error)


@dataclass(frozen=True)
class _Levels:
    """Numbers of the groups a row belongs to, each inside the one before; shape (n,) each."""

    law: Ints
    kind: Ints
    name: Ints
    shape: Ints


def _levels(rows: OperatorColumns, gpu: Gpu, model_s: Floats) -> _Levels:
    bands = band_names(rows, gpu).astype(str)
    library = np.char.add(rows.text("stack").astype(str), rows.text("implementation").astype(str))
    law = np.char.add(np.char.partition(bands, "/")[:, 0], library)
    size = np.digitize(model_s * 1e6, _SIZES_US).astype(str)
    kind = np.char.add(np.char.add(bands, library), size)
    # a run numbers its signatures behind their names, which may be thousands of characters long
    names, place = rows.distinct("name")
    of_name = distinct_texts(np.array([name.partition(" #")[0] for name in names], dtype=object))[1][place]
    of_law, of_kind = (distinct_texts(key.astype(object))[1] for key in (law, kind))
    of_name = _pairs(of_kind, of_name)
    step = np.round(np.log(model_s) * _SAME_SHAPE).astype(np.int64)
    return _Levels(of_law, of_kind, of_name, _pairs(of_name, step - step.min()))


def _pairs(first: Ints, second: Ints) -> Ints:
    """Return the number of each pair, of numbers from 0, in the order of their first rows. Shape (n,)."""
    pairs = first * (int(second.max()) + 1) + second
    _, row, place = np.unique(pairs, return_index=True, return_inverse=True)
    rank = np.empty(len(row), np.int64)
    rank[np.argsort(row)] = np.arange(len(row))
    return np.asarray(rank[place])


@dataclass(frozen=True)
class _Group:
    """Precisions of a group's members summed, and precision times mean summed; (k,) or (n,) each."""

    weight: Floats
    total: Floats

    @property
    def mean(self) -> Floats:
        """Mean of the members, 0 of none."""
        return self.total / np.where(self.weight > 0, self.weight, 1.0)

    def within(self, share: float) -> Floats:
        """Return the precision of the mean as one of the level above, whose members differ by ``share``."""
        return np.asarray(self.weight / (1.0 + share * self.weight))

    def take(self, places: Ints) -> _Group:
        return _Group(self.weight[places], self.total[places])

    def replaced(self, old: _Group, new: _Group, share: float) -> _Group:
        """Return the group with one member in another state."""
        before, after = old.within(share), new.within(share)
        weight = self.weight - before + after
        weight = np.where(weight > _LEAST_VARIANCE, weight, 0.0)
        return _Group(weight, np.where(weight > 0, self.total - before * old.mean + after * new.mean, 0.0))

    def below(self, above: Floats, variance: Floats, share: float) -> tuple[Floats, Floats]:
        """Return mean and variance of the group's part, given those of the level above."""
        precision = self.weight + 1.0 / share
        return (self.total + above / share) / precision, 1.0 / precision + variance / (share * precision) ** 2


def _gathered(members: _Group, parent: Ints, share: float) -> _Group:
    """Return groups of groups: ``parent`` (k,) is where each member belongs."""
    weight = members.within(share)
    weights, totals = (np.bincount(parent, one).astype(np.float64) for one in (weight, weight * members.mean))
    return _Group(weights, totals)


@dataclass(frozen=True)
class _Pooled:
    """Shift and variance of rows, in standard deviations of their bands, and whether rows inform them."""

    shift: Floats
    variance: Floats
    informed: Bools


def _pooled(levels: _Levels, measured: Bools, error: Floats) -> _Pooled:
    """Return each row's error expected from the measured rows; of a measured row, from other shapes.

    ``error`` (n,) is in standard deviations of each row's band.
    """
    by_law, by_kind, by_name = _SHARES
    unshared = 1.0 - sum(_SHARES)
    rows_of_shape = np.bincount(levels.shape, measured)
    mean = np.bincount(levels.shape, np.where(measured, error, 0.0)) / np.maximum(rows_of_shape, 1.0)
    weight = (rows_of_shape > 0) / unshared
    shapes = _Group(weight, weight * mean)
    names = _gathered(shapes, _parents(levels.shape, levels.name), 0.0)
    kinds = _gathered(names, _parents(levels.name, levels.kind), by_name)
    laws = _gathered(kinds, _parents(levels.kind, levels.law), by_kind)
    # each row's groups without its own shape, from the shape up
    own_shape = shapes.take(levels.shape)
    unmeasured_shape = _Group(
        np.where(measured, 0.0, own_shape.weight), np.where(measured, 0.0, own_shape.total)
    )
    name, kind, law = names.take(levels.name), kinds.take(levels.kind), laws.take(levels.law)
    name_left = name.replaced(own_shape, unmeasured_shape, 0.0)
    kind_left = kind.replaced(name, name_left, by_name)
    law_left = law.replaced(kind, kind_left, by_kind)
    shift, variance = law_left.below(np.zeros(len(error)), np.zeros(len(error)), by_law)
    shift, variance = kind_left.below(shift, variance, by_kind)
    shift, variance = name_left.below(shift, variance, by_name)
    variance = variance + unshared
    squares = np.where(measured, (error - shift) ** 2 / variance, 0.0)
    of_law, of_shape = (
        [_sums(group, values) for values in (squares, measured)] for group in (levels.law, levels.shape)
    )
    squares, number = (
        law - np.where(measured, shape, 0.0) for law, shape in zip(of_law, of_shape, strict=True)
    )
    return _Pooled(shift, variance * shrunk_variance(1.0, squares, number), law_left.weight > 0)


def _sums(group: Ints, values: Floats | Bools) -> Floats:
    """Return the sum of each row's group. Shape (n,)."""
    return np.bincount(group, values)[group].astype(np.float64)


def _parents(child: Ints, parent: Ints) -> Ints:
    """Return the group of the level above of each group. Shape (k,)."""
    of_child = np.zeros(int(child.max(initial=-1)) + 1, dtype=np.int64)
    of_child[child] = parent
    return of_child
