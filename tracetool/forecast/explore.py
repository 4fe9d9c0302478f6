"""Many cases of one model: their costs, the Pareto-optimal ones, and the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats
from tracetool.core.errors import BadInput
from tracetool.replay.operating_points import front, least

#: Time that a mode is judged by, beside energy per token or item.
_LATENCY: Final = {"prefill": "ttft_ms", "decode": "itl_ms", "serve": "itl_ms"}
_OTHERWISE: Final = "step_ms"
#: Names of times in goals.
_SHORT: Final = {"ttft_ms": "TTFT", "itl_ms": "ITL"}
#: Columns an exploration adds to those of a table of forecasts.
RATE: Final = "throughput_per_gpu"
BY_LATENCY, BY_THROUGHPUT = "pareto_latency", "pareto_throughput"
GOALS: Final = "goals"


@dataclass(frozen=True)
class Explored:
    """Forecasts of many cases of one model.

    Parameters
    ----------
    frame : DataFrame, shape (cases, columns)
        A table of forecasts, with throughput of one GPU [1/s], whether no other case has both less energy
        and less latency, or less energy and more throughput, and the goals it is the best of.
    best : DataFrame, shape (goals, columns)
        The case of each goal.
    varied : tuple of str
        Columns that differ between cases.
    latency, energy : str
        Columns the cases are judged by.
    slowdown : float
        Slowdown the goals within it allow. [1]
    """

    frame: pl.DataFrame
    best: pl.DataFrame
    varied: tuple[str, ...]
    latency: str
    energy: str
    slowdown: float
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Unit of throughput."""
        if self.energy != "energy_per_token_j":
            return "items"
        return "prompts" if self.latency == _LATENCY["prefill"] else "tokens"


def explored(
    frame: pl.DataFrame, gpus: Sequence[int | None], varied: Sequence[str], slowdown: float
) -> Explored:
    """Return forecasts of a grid with fronts and goals.

    Cases whose batch does not fit the memory are on no front and the best of nothing, unless all are such.

    Parameters
    ----------
    frame : DataFrame, shape (cases, columns)
        Cases and their forecasts; at least one has one.
    gpus : sequence of int, shape (cases,)
        GPUs of each case, None where it has no forecast.
    varied : sequence of str
        Columns that differ.
    slowdown : float
        Slowdown that goals allow: 0.05 is 5 %. [1]

    Raises
    ------
    BadInput
        If the cases are of several modes, whose energies have nothing in common.
    """
    valid = frame["error"].is_null().to_numpy()
    modes = frame["mode"].filter(frame["error"].is_null()).unique().to_list()
    if len(modes) > 1:
        raise BadInput(f"mode: {', '.join(sorted(modes))} have no energy in common", "ask for one mode")
    latency = _LATENCY.get(modes[0], _OTHERWISE)
    if frame[latency].is_null().all():  # one token of each request: none follows another
        latency = _LATENCY["prefill"]
    energy = "energy_per_item_j" if modes[0] in {"generate", "pass"} else "energy_per_token_j"
    joules, times = (_floats(frame[name]) for name in (energy, latency))
    count = np.array([np.nan if n is None else n for n in gpus], np.float64)
    rate = _floats(frame["power_w"]) / joules / count
    fits, timed = _fits(frame), valid & np.isfinite(times)
    judged = timed & fits if (timed & fits).any() else timed
    usual = "batch time" if modes[0] == "generate" else "step time"
    places = _goals(judged, joules, times, rate, _SHORT.get(latency, usual), slowdown)
    reached = [", ".join(goal for goal, at in places.items() if at == row) for row in range(len(valid))]
    frame = frame.with_columns(
        pl.Series(RATE, rate).fill_nan(None),
        pl.Series(BY_LATENCY, _front(judged, times, joules)),
        pl.Series(BY_THROUGHPUT, _front(judged, 1.0 / np.where(judged, rate, 1.0), joules)),
        pl.Series(GOALS, reached),
    )
    best = pl.concat([pl.DataFrame({"goal": list(places)}), frame[list(places.values())]], how="horizontal")
    failed = int((~valid).sum())
    notes: tuple[str, ...] = ()
    if failed:
        first = frame["error"].drop_nulls()[0]
        notes = (f"{failed} of {frame.height} cases cannot run; the first: {first}",)
    if beyond := int((valid & ~fits).sum()):
        which = "are on no front" if judged is not timed else "are compared all the same"
        notes += (
            f"{beyond} of {frame.height} cases do not fit the memory (bs above largest_batch) and {which}",
        )
    return Explored(frame, best, tuple(varied), latency, energy, slowdown, notes)


def _fits(frame: pl.DataFrame) -> Bools:
    """Return whether the batch of each case is no more than what the memory holds; where not known, yes."""
    batch = pl.col("bs").cast(pl.Float64).fill_null(1.0) if "bs" in frame.columns else pl.lit(1.0)
    return frame.select((batch <= pl.col("largest_batch")).fill_null(value=True).alias("fits"))[
        "fits"
    ].to_numpy()


def _floats(column: pl.Series) -> Floats:
    return np.asarray(column.cast(pl.Float64).fill_null(np.nan).to_numpy(), np.float64)


def _front(valid: Bools, time: Floats, energy: Floats) -> Bools:
    """Return which cases no other beats in both; none without a forecast."""
    marks = np.zeros(len(valid), np.bool_)
    marks[valid] = front(time[valid], energy[valid])
    return marks


def _goals(
    valid: Bools, energy: Floats, time: Floats, rate: Floats, short: str, slowdown: float
) -> Mapping[str, int]:
    """Return the place of the best case of each goal; ``short`` is the name of the time."""
    places = np.flatnonzero(valid)
    joules, times, rates = energy[places], time[places], rate[places]
    within = f"within {100 * slowdown:g} %"
    quick = np.flatnonzero(times <= times.min() * (1.0 + slowdown))
    busy = np.flatnonzero(rates >= rates.max() / (1.0 + slowdown))
    chosen = {
        "least energy": least(joules, times),
        f"least energy x {short}": least(joules * times, times),
        f"least energy, {short} {within}": quick[least(joules[quick], times[quick])],
        f"least energy, throughput {within}": busy[least(joules[busy], times[busy])],
    }
    return {goal: int(places[place]) for goal, place in chosen.items()}
