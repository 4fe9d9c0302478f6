"""Sorts of the vocabulary in a serving engine, as a row of a priced pass: kernels no law times."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.families import names
from tracetool.forecast.engine import Engine
from tracetool.forecast.model import Model
from tracetool.forecast.pricing import PricedPass, Row
from tracetool.forecast.token_sampling import Logits

#: What the time of sorts rests on: it is fitted to whole runs.
BASIS: Final = "fitted to measured runs"
#: 90 % of the time of sorts, as factors. [1] A prior: fits to several kinds of servers lie this far apart.
_LOW: Final = 0.6
_HIGH: Final = 1.6


def with_sorts(priced: PricedPass, model: Model, engine: Engine) -> PricedPass:
    """Return a pass with the sorts of top-p sampling after the softmax of the same numbers.

    Their time is the engine's. They read and write the numbers the softmax does: above idle they draw
    ``engine.sort_power`` times what it draws. A pass that draws no tokens is returned as it is.
    """
    softmax_names = {f"{part.name}.softmax" for part in model.head if isinstance(part, Logits)}
    at = next((i for i, row in enumerate(priced.rows) if row["module"] in softmax_names), None)
    if at is None:
        return priced
    softmax = priced.rows[at]
    seconds = engine.sort_s(float(softmax["rows"]))
    if seconds <= 0.0:
        return priced
    duration = np.full(priced.duration_s.shape[1], seconds)
    above_w = np.maximum(priced.energy_j[at] - priced.base_j[at], 0.0) / priced.duration_s[at]
    base = priced.base_j[at] / priced.duration_s[at] * seconds
    module = str(softmax["module"]).replace(".softmax", ".sort")
    row: Row = {"op": names.SORT, "module": module, "rows": softmax["rows"], "cols": softmax["cols"]}
    return replace(
        priced,
        rows=[*priced.rows, row],
        counts=np.append(priced.counts, 1.0),
        family=np.append(priced.family, names.SORT),
        basis=np.append(priced.basis, BASIS),
        duration_s=np.vstack([priced.duration_s, duration]),
        energy_j=np.vstack([priced.energy_j, base + engine.sort_power * above_w * seconds]),
        base_j=np.vstack([priced.base_j, base]),
        low=np.append(priced.low, _LOW),
        high=np.append(priced.high, _HIGH),
        power_low=np.vstack([priced.power_low, priced.power_low[at]]),
        power_high=np.vstack([priced.power_high, priced.power_high[at]]),
        bound=np.vstack([priced.bound, priced.bound[at]]),
    )
