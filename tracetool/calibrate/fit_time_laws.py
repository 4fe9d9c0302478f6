"""Fit the time coefficients of a GPU from measured operators: law by law, many rows or few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from tracetool.calibrate.few_rows import fit_few, fit_from_known
from tracetool.calibrate.law_fit import (
    FEWEST_ROWS,
    LEAST_ROWS,
    SHAPE_COLUMNS,
    LawFit,
    LawRows,
    shape_groups,
)
from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.law import Law
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.registry import known_shape
from tracetool.hardware.gpu import Gpu
from tracetool.model.calibration_scope import ran_by
from tracetool.model.implementations import split_by_implementation
from tracetool.model.profiler_overhead import law_in_trace, traced
from tracetool.model.time_calibration import TimeCalibration, spread_key


@dataclass(frozen=True)
class TimeFit:
    """The fit of a GPU."""

    gpu: str
    laws: Mapping[str, LawFit] = field(default_factory=dict)
    traces: bool = False  # whether rows were kernels of traces
    ran_by: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by law, where rows state it

    def calibration(self) -> TimeCalibration:
        """Return the coefficients as the model takes them."""
        return TimeCalibration(
            MappingProxyType({k: f.values for k, f in self.laws.items()}),
            MappingProxyType(
                {spread_key(k, kind): b for k, f in self.laws.items() for kind, b in f.spread.items()}
            ),
            "prior",
            MappingProxyType(dict.fromkeys(self.laws, "calibrated")),
            frozenset(self.laws) if self.traces else frozenset(),
            fitted_to=self.ran_by,
        )


def fit_time(
    rows: OperatorColumns,
    measured_s: Floats,
    gpu: Gpu,
    clock_mhz: Floats | None = None,
    start: TimeCalibration | None = None,
    around: Mapping[str, Law] | None = None,
) -> TimeFit:
    """Fit every law that has enough rows.

    Parameters
    ----------
    rows : OperatorColumns
        n operators of known shape.
    measured_s : array, shape (n,)
        Their durations. [s]
    gpu : Gpu
        The GPU they ran on.
    clock_mhz : array, shape (n,), optional
        Clock each ran at; by default the boost clock. A row that was throttled by the power cap ran
        at less: give what the power model says, else its coefficients absorb the difference. [MHz]
    start : TimeCalibration, optional
        Coefficients to start and be pulled towards; by default the laws' priors.
    around : mapping of str to Law, optional
        Laws to fit in place of those of the same name: of the loop rows were measured in, for one.

    Returns
    -------
    TimeFit
        Final coefficients rest on all rows; the errors and bands stated, on shape groups held back: each
        of three parts is predicted by a fit to the other two. Sizes and habits of the library are chosen
        once, on the first two.
    """
    clock = (
        np.full(len(rows), gpu.clock_boost_mhz) if clock_mhz is None else np.asarray(clock_mhz, np.float64)
    )
    usable = known_shape(rows) & np.isfinite(measured_s) & (measured_s > 0)
    around = around or {}
    if traces := bool(traced(rows).any()):
        around = {name: law_in_trace(law) for name, law in {**laws(), **around}.items()}
    fits: dict[str, LawFit] = {}
    stated: dict[str, frozenset[str]] = {}
    for family in sorted(set(rows.family[usable].astype(str))):
        places = np.flatnonzero(usable & (rows.family == family))
        for law, inside in split_by_law(family, rows.take(places), gpu):
            law_rows = places[inside]
            if law.name in fits or law_rows.size < FEWEST_ROWS:
                continue
            rows_of_law = rows.take(law_rows)
            pairs = [(stack, name) for stack, name, _ in split_by_implementation(rows_of_law)]
            stated[law.name] = frozenset(ran_by(*pair) for pair in pairs)
            group = shape_groups(rows_of_law, SHAPE_COLUMNS)
            law_data = LawRows(rows_of_law, measured_s[law_rows], clock[law_rows, None] * 1e6, group)
            start_values = start.coefficients.get(law.name, {}) if start else {}
            fitted = around.get(law.name, law)
            if law_rows.size < LEAST_ROWS:
                spread = start.spread.get(law.name, law.spread) if start else law.spread
                fits[law.name] = fit_few(fitted, law_data, gpu, start_values, spread)
            else:
                fits[law.name] = fit_from_known(fitted, law_data, gpu, start_values)
    fitted_to = {law: names for law, names in stated.items() if "" not in names}
    return TimeFit(gpu.name, fits, traces, fitted_to)
