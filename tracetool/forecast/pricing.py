"""Time and energy of the operator rows of many passes: every distinct row is priced once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.model.hypothetical import TIME_SPREAD, hypothetical_power, is_hypothetical
from tracetool.model.predict import predict_rows
from tracetool.model.unmeasured_libraries import without_waits
from tracetool.replay.operator_tables import InputTable, read_table

#: A cap no GPU reaches: the mean power of a whole pass is held under the cap, not each row's. [W]
_NO_CAP_W: Final = 1e9
#: Core clocks a capped pass is priced at beside the one asked for, as shares of it. [1] By definition of
#: the grid, down to the GPU's lowest clock: figures between two of them are interpolated.
_LADDER: Final = (1.0, 0.93, 0.86, 0.78, 0.7, 0.6, 0.5, 0.4, 0.32, 0.26, 0.21, 0.17, 0.14, 0.11, 0.09, 0.07)

#: A row of an operator table, with ``module`` and ``count``.
Row = Mapping[str, float | str | bool]


class Pricer(Protocol):
    """A method that prices a pass by itself."""

    def __call__(self, one: PassRows, *, ladder: bool) -> PricedPass:
        """Return the pass priced at its clock, with ``ladder`` at lower ones too."""


@dataclass(frozen=True)
class PassRows:
    """The operator rows one GPU runs in one pass, in order, and where.

    ``clock_mhz`` is the core clock asked for [MHz]; ``stack`` names the library of rows that state none;
    ``pricer`` prices the pass in place of the kernels' laws.
    """

    rows: Sequence[Row]
    gpu: Gpu
    stack: str
    clock_mhz: float
    mem_clock_mhz: float | None = None
    pricer: Pricer | None = None


@dataclass(frozen=True)
class PricedPass:
    """Time and energy of each of r rows of a pass at c core clocks, falling, one launch of it.

    ``low``/``high`` bound the times and ``power_low``/``power_high`` the powers at 90 %, as factors.
    """

    rows: Sequence[Row]
    counts: Floats  # (r,) launches of each row
    family: Texts  # (r,)
    basis: Texts  # (r,)
    clocks_mhz: Floats  # (c,)
    idle_w: Floats  # (c,)
    duration_s: Floats  # (r, c)
    energy_j: Floats  # (r, c)
    base_j: Floats  # (r, c) part of the energy that is drawn with nothing running
    low: Floats  # (r,)
    high: Floats  # (r,)
    power_low: Floats  # (r, c)
    power_high: Floats  # (r, c)
    bound: Ints  # (r, c) index into BOUNDS

    def scaled(self, slower: Floats, power: Floats | float) -> PricedPass:
        """Return the pass with times ``slower`` (r, 1) as long, and energy above idle times ``power``.

        Of the same work that takes longer idle energy alone grows.
        """
        base = self.base_j * slower
        above = power * np.maximum(self.energy_j - self.base_j, 0.0)
        return replace(self, duration_s=self.duration_s * slower, energy_j=base + above, base_j=base)

    def extrapolated(self, gpu: str) -> PricedPass:
        """Return the pass for hypothetical hardware derived from a GPU: its times have wider bounds."""
        more = float(np.exp(TIME_SPREAD))
        basis = np.full(len(self.basis), f"extrapolated from {gpu}")
        return replace(self, low=self.low / more, high=self.high * more, basis=basis)


def price(passes: Sequence[PassRows], *, ladder: bool = False) -> list[PricedPass]:
    """Return the rows of each pass priced at its clock, uncapped.

    Parameters
    ----------
    passes : sequence of PassRows
        Those of one GPU, clock and memory clock are priced together.
    ladder : bool
        Price lower clocks too, for passes whose power is above a cap.

    Raises
    ------
    BadInput
        If a row cannot be priced: its number counts the rows of all passes of that GPU and clock.
    """
    priced: list[PricedPass | None] = [
        None if one.pricer is None else one.pricer(one, ladder=ladder) for one in passes
    ]
    for places in _together(passes, ladder=ladder):
        for place, priced_pass in _price(passes, places, ladder=ladder):
            priced[place] = priced_pass
    return [one for one in priced if one is not None]


def _together(passes: Sequence[PassRows], *, ladder: bool) -> list[list[list[int]]]:
    """Return places of passes to price in one table: for each table its distinct passes' places.

    Equal rows asked for at the same several clocks are one entry of one table, priced at all of them at once.
    """
    alike: dict[object, list[int]] = {}
    for place, one in enumerate(passes):
        if one.pricer is not None:
            continue
        where = (id(one.gpu), one.mem_clock_mhz)
        rows = (place,) if ladder else (one.stack, tuple(tuple(row.items()) for row in one.rows))
        alike.setdefault((where, rows), []).append(place)
    tables: dict[object, list[list[int]]] = {}
    for places in alike.values():
        one = passes[places[0]]
        clocks = tuple(sorted({passes[place].clock_mhz for place in places}))
        tables.setdefault((id(one.gpu), one.mem_clock_mhz, clocks), []).append(places)
    return list(tables.values())


def ladder_mhz(gpu: Gpu, clock_mhz: float) -> Floats:
    """Return the clocks a capped pass is priced at, down to the GPU's lowest. Shape (c,), falling. [MHz]"""
    lowest = min(gpu.clock_min_mhz, clock_mhz)
    return np.unique(np.maximum(clock_mhz * np.array((*_LADDER, 0.0)), lowest))[::-1]


def _price(
    passes: Sequence[PassRows], places: Sequence[Sequence[int]], *, ladder: bool
) -> Iterator[tuple[int, PricedPass]]:
    """Yield the priced passes of one table, each with its place."""
    entries = [passes[same[0]] for same in places]
    gpu = entries[0].gpu
    clocks_mhz = sorted({passes[place].clock_mhz for place in places[0]}, reverse=True)
    clocks = ladder_mhz(gpu, clocks_mhz[0]) if ladder else np.array(clocks_mhz, np.float64)
    table = operator_table([(one.rows, one.stack) for one in entries])
    predicted = predict_rows(
        _in_a_pass(table.rows), gpu, clocks, mem_clock_mhz=entries[0].mem_clock_mhz, power_cap_w=_NO_CAP_W,
        power_calibration=hypothetical_power(gpu) if is_hypothetical(gpu) else None,
    )  # fmt: skip
    ends = np.cumsum([len(one.rows) for one in entries])
    for same, one, end in zip(places, entries, ends.tolist(), strict=True):
        pass_rows = slice(end - len(one.rows), end)
        for place in same:
            at = (
                slice(None)
                if ladder
                else slice(column := clocks_mhz.index(passes[place].clock_mhz), column + 1)
            )
            priced_pass = _cut(predicted, table, pass_rows, passes[place].rows, at)
            yield place, priced_pass.extrapolated(gpu.name) if is_hypothetical(gpu) else priced_pass


def _in_a_pass(rows: OperatorColumns) -> OperatorColumns:
    """Return rows that state what is so in a pass, and not in a loop that measures one operator.

    It uses each weight once: none is still in L2 from the pass before. The host's time is counted by
    itself, so that no kernel waits for the host of the loop it was measured in, and so are the products
    about latent attention, which a library's layer may include.
    """
    once = {name: np.full(len(rows), np.inf) for name in ("weight_sets", "loop_operators")}
    once["products_apart"] = np.ones(len(rows))
    return without_waits(OperatorColumns(rows.family, {**rows.columns, **once}))


def operator_table(passes: Sequence[tuple[Sequence[Row], str]]) -> InputTable:
    """Return rows of several passes as one checked operator table, each with the stack it ran in."""
    columns = list(dict.fromkeys(key for rows, _ in passes for row in rows for key in row))
    values: dict[str, list[object]] = {name: [] for name in (*columns, "stack")}
    for rows, stack in passes:
        for row in rows:
            for name in columns:
                if name != "stack":
                    values[name].append(row.get(name))
            values["stack"].append(row.get("stack") or stack or None)
    frame = pl.DataFrame({k: pl.Series(k, v, strict=False) for k, v in values.items()})
    return read_table(frame.with_columns(pl.col("stack").cast(pl.String)), of_means=True)


def _cut(
    predicted: Prediction, table: InputTable, pass_rows: slice, rows: Sequence[Row], clocks: slice
) -> PricedPass:
    """Return the prediction of the rows of one pass at some of the clocks."""
    place = table.index[pass_rows]
    timing = predicted.timing
    of_power = predicted.power_half[place, clocks]
    return PricedPass(
        rows=rows,
        counts=np.asarray(table.counts[pass_rows], np.float64),
        family=table.rows.family[place],
        basis=timing.basis[place],
        clocks_mhz=predicted.requested_mhz[clocks],
        idle_w=predicted.idle_w[clocks],
        duration_s=timing.duration_s[place, clocks],
        energy_j=predicted.energy_j[place, clocks],
        base_j=predicted.parts_j["base"][place, clocks],
        low=timing.low[place, 0],
        high=timing.high[place, 0],
        power_low=np.exp(-of_power),
        power_high=np.exp(of_power),
        bound=timing.bound[place, clocks],
    )
