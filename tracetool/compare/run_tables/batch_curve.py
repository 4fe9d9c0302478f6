r"""Energy of a unit of work over the batch size: the part that a batch shares, and the part of every unit.

Notes
-----
.. math:: E(B) = \frac{a}{B} + \frac{s}{\sqrt{B}} + c

:math:`a` is paid once a step whatever the batch (weights read, base power of a step that does not grow);
:math:`s` is shared in part, as kernels fill the GPU with the batch and more experts are read the more tokens
ask for them; :math:`c` is what each unit takes itself: its arithmetic, its keys and values. All three are at
least zero (non-negative least squares on relative errors). Where one model ran tasks of several output
lengths, :math:`k N` is added: what each token of context adds, keys and values that grow with a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.run_tables.columns import input_kind
from tracetool.core.arrays import Floats

#: What makes a curve: configurations that differ in their batch alone.
CURVE: Final = ("task", "model", "gpu", "gpus", "precision", "parallel", "unit")
#: Batches a curve needs: three parts, and one batch to check them on.
_LEAST: Final = 4
#: How near to the least energy a batch counts as good. [1]
NEAR: Final = 0.05
#: Curves whose largest batches, left out, state the error beyond the measured ones; fewer take all batches.
_CURVES: Final = 10


def _design(batch: Floats) -> Floats:
    return np.stack([1.0 / batch, batch**-0.5, np.ones_like(batch)], axis=1)


def fit_curve(batch: Floats, energy_j: Floats) -> Floats:
    """Return the three parts of a curve, shape (3,). [J]

    Parameters
    ----------
    batch, energy_j : array, shape (n,)
        Batches, and the energy of a unit at each. [J]

    >>> batch = np.array([1.0, 4.0, 16.0, 64.0])
    >>> fit_curve(batch, 3.0 / batch + 0.5).round(6).tolist()
    [3.0, 0.0, 0.5]
    """
    from scipy.optimize import nnls

    return np.asarray(nnls(_design(batch) / energy_j[:, None], np.ones(batch.size))[0], dtype=float)


def curve_energy(coefficients: Floats, batch: Floats) -> Floats:
    """Return the energy of a unit at batches, shape (n,). [J]"""
    return np.asarray(_design(batch) @ coefficients)


def left_out_errors(batch: Floats, energy_j: Floats) -> Floats:
    """Return ln(predicted / measured) of each batch from a curve through the others, shape (n,)."""
    errors = np.empty(batch.size)
    for i in range(batch.size):
        other_batches = np.arange(batch.size) != i
        errors[i] = np.log(
            curve_energy(fit_curve(batch[other_batches], energy_j[other_batches]), batch[[i]])[0]
            / energy_j[i]
        )
    return errors


@dataclass(frozen=True)
class BatchCurves:
    """Curves of energy over the batch.

    Attributes
    ----------
    frame : DataFrame
        One row per curve: what identifies it (:data:`CURVE`), ``batches``, ``per_step_j`` (a),
        ``partly_shared_j`` (s), ``per_unit_j`` (c), ``shared_pct`` (share of a and s at the largest batch),
        ``least_batch``, ``least_j``, ``good_batch`` (the smallest measured within 5 % of the least) ,
        ``fold`` (largest over least energy), ``next_batch_j`` with ``_low`` and ``_high`` (at twice the
        largest batch), ``left_out_error_pct`` (median).
    errors : array, shape (m,)
        ln(predicted / measured) of every batch left out.
    """

    frame: pl.DataFrame
    errors: Floats


def batch_curves(runs: pl.DataFrame) -> BatchCurves:
    """Return the curves that a table's configurations make.

    Parameters
    ----------
    runs : DataFrame
        Configurations (:class:`tracetool.compare.run_tables.columns.RunTable`).
    """
    fitted = []
    for key, points in runs.group_by(CURVE, maintain_order=True):
        at = points.group_by("batch", maintain_order=True).agg(pl.col("energy_j").mean()).sort("batch")
        if at.height >= _LEAST:
            batch, energy = at["batch"].to_numpy(), at["energy_j"].to_numpy()
            fitted.append((key, batch, energy, fit_curve(batch, energy), left_out_errors(batch, energy)))
    if not fitted:
        return BatchCurves(pl.DataFrame(), np.empty(0))
    errors = np.concatenate([e for *_, e in fitted])
    reach = {
        unit: _reach([left_out for key, *_, left_out in fitted if key[-1] == unit])
        for unit in {key[-1] for key, *_ in fitted}
    }
    rows = [
        _row(key, batch, energy, coefficients, left_out, reach[key[-1]])
        for key, batch, energy, coefficients, left_out in fitted
    ]
    return BatchCurves(pl.DataFrame(rows), errors)


def _reach(left_out: Sequence[Floats]) -> float:
    """Return half the 90 % interval of an energy beyond the largest batch. [ln]"""
    from scipy.stats import t

    many = len(left_out) >= _CURVES
    errors = np.array([e[-1] for e in left_out]) if many else np.concatenate(list(left_out))
    return float(t.ppf(0.95, errors.size - 1) * np.sqrt(np.mean(errors**2)))


def _row(
    key: Sequence[object], batch: Floats, energy: Floats, coefficients: Floats, left_out: Floats, reach: float
) -> dict[str, object]:
    """Return a curve's row; ``reach`` is half the interval of the logarithm beyond the largest batch."""
    least = int(np.argmin(energy))
    good = int(np.argmax(energy <= (1.0 + NEAR) * energy[least]))
    largest = batch[-1:]
    at_largest = float(curve_energy(coefficients, largest)[0])
    doubled = float(curve_energy(coefficients, 2.0 * largest)[0])
    return {
        **dict(zip(CURVE, key, strict=True)),
        "batches": batch.size,
        "smallest_batch": float(batch[0]),
        "largest_batch": float(batch[-1]),
        "per_step_j": float(coefficients[0]),
        "partly_shared_j": float(coefficients[1]),
        "per_unit_j": float(coefficients[2]),
        "shared_pct": 100.0 * (1.0 - float(coefficients[2]) / at_largest),
        "least_batch": float(batch[least]),
        "least_j": float(energy[least]),
        "good_batch": float(batch[good]),
        "fold": float(energy.max() / energy.min()),
        "next_batch_j": doubled,
        "next_batch_j_low": doubled * float(np.exp(-reach)),
        "next_batch_j_high": doubled * float(np.exp(reach)),
        "left_out_error_pct": 100.0 * float(np.median(np.abs(np.expm1(-left_out)))),
    }


#: What makes a model's growth with length: its tasks differ, all else is the same.
_MODEL: Final = tuple(c for c in CURVE if c != "task")


def context_growth(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the energy that a thousand more tokens of output add to a token, by model. [J]

    Of models that ran text tasks of lengths at least a factor of two apart under one configuration: columns
    of a curve but the task, ``shortest`` and ``longest`` (mean tokens of a request), ``growth_j`` (per token
    and thousand tokens), ``configurations``.
    """
    from scipy.optimize import nnls

    rows = []
    text = runs.filter(
        (pl.col("unit") == "token") & pl.col("units_per_request").is_not_null() & (input_kind() == "text")
    )
    for key, points in text.group_by(_MODEL, maintain_order=True):
        lengths = points.group_by("task", maintain_order=True).agg(pl.col("units_per_request").mean())[
            "units_per_request"
        ]
        shortest, longest = float(lengths.to_numpy().min()), float(lengths.to_numpy().max())
        if longest < 2.0 * shortest or points.height <= _LEAST:
            continue
        energy = points["energy_j"].to_numpy()
        length = points["units_per_request"].to_numpy() / 1000.0
        design = np.concatenate([_design(points["batch"].to_numpy()), length[:, None]], axis=1)
        coefficients = nnls(design / energy[:, None], np.ones(energy.size))[0]
        rows.append({
            **dict(zip(_MODEL, key, strict=True)), "configurations": points.height, "shortest": shortest,
            "longest": longest, "growth_j": float(coefficients[3]),
        })  # fmt: skip
    return pl.DataFrame(rows)
