"""What timed products say of power: a GPU that ran them drew no more than its limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from fit_time import proved_clock_mhz

from tracetool.calibrate.power_fit import PowerFit, coefficient_vector, fit_power, predicted_w
from tracetool.calibrate.power_rows import PowerRows, rows_of_idle, rows_of_timing
from tracetool.families.registry import count_work
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import prior_calibration
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import read_table

#: The share of a table's rows, the fastest, that is taken for full load.
_FASTEST = 1e-3


def sustained_rows(path: Path, target: Gpu, prior: PowerCalibration, share: float) -> PowerRows:
    """Return the fastest products of a GPU as rows whose power is the most they can have drawn.

    They beat the tensor cores' peak at any clock below the one they prove, and a loop of them runs
    longer than a GPU may exceed its limit. The GPU's own base is exchanged for that of ``prior``,
    so that the rows bear on coefficients of another GPU with the same chip.

    Parameters
    ----------
    path : Path
        Table of products with ``measured_us``.
    target : Gpu
        Where they were timed.
    prior : PowerCalibration
        Whose base the rows are to have.
    share : float
        Share of its limit at which a GPU holds its clock down.
    """
    frame = pl.read_parquet(path)
    table = read_table(frame.drop("measured_us", "gpu", "measured_w", "power_limit_w", strict=False))
    rows, seconds = table.rows.take(table.index), frame["measured_us"].to_numpy() * 1e-6
    clock = proved_clock_mhz(rows, seconds, target)
    speed = count_work(rows, target).useful_flops / seconds
    fastest = np.argsort(-speed)[: max(1, int(_FASTEST * len(rows)))]
    rows, seconds, grid = rows.take(fastest), seconds[fastest], np.full(len(fastest), clock)
    timing = replace(time_rows(rows, target, grid[:, None]), duration_s=seconds[:, None])
    group = np.full(len(fastest), "(sustained)", dtype=object)
    made = rows_of_timing(timing, rows, target, grid, power_w=np.zeros(len(fastest)), group=group)
    own = prior_calibration(target)
    idle = rows_of_idle(grid, np.zeros(len(fastest)))
    bases = [idle.design(target.voltage, c.leakage_per_v) @ coefficient_vector(c) for c in (prior, own)]
    return replace(made, power_w=share * target.power_limit_w + bases[0] - bases[1])


def hold_to(
    limits: PowerRows, rows: PowerRows, prior: PowerCalibration, voltage: VoltageCurve, heating_per_w: float
) -> PowerFit | None:
    """Return the fit to rows and limits together; None where the rows alone stay within the limits."""
    alone = fit_power(rows, prior, voltage, known_base=True, heating_per_w=heating_per_w)
    said = float(predicted_w(limits, alone.calibration, voltage, alone.values).mean())
    most = float(limits.power_w.mean())
    both = PowerRows.concat([rows, limits])
    fit = fit_power(both, prior, voltage, known_base=True, heating_per_w=heating_per_w)
    held = float(predicted_w(limits, fit.calibration, voltage, fit.values).mean())
    at = f"{limits.clock_mhz[0]:.0f} MHz"
    print(f"  full load at {at}: {said:.0f} W by rows alone, at most {most:.0f} W, {held:.0f} W when held")
    return fit if said > most else None
