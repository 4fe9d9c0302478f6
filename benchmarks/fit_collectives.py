"""Fit the habits of collectives' libraries and the factors of each GPU, over all measured tables together.

Habits hold on every GPU; factors hold on one and are drawn to 1. ``collectives.py`` judges and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.law import Law
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.transfers import collective
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import as_columns


def lru_by_identity(function: Callable[[OperatorColumns], Any]) -> Callable[[OperatorColumns], Any]:
    """Return a function that remembers its answer for rows it has had, which must stay alive."""
    answers: dict[int, tuple[OperatorColumns, Any]] = {}

    def asked(rows: OperatorColumns) -> Any:
        if id(rows) not in answers:
            answers[id(rows)] = (rows, function(rows))
        return answers[id(rows)][1]

    return asked


FOLDER = Path("../shared/data/stacks")
LAWS = ("collective", "collective_host")
#: How far a GPU's factor usually is from 1, ln; and the error beyond which a row counts less, ln.
FACTOR_SPREAD, ROBUST = 0.35, 0.08
#: Step of a derivative, ln.
_STEP = 1e-5
#: No part of a collective scales with the core clock.
_HERTZ = 1.5e9

# a fit asks thousands of times for the same texts
collective.message_of = lru_by_identity(collective.message_of)  # type: ignore[assignment]
collective.implementations_of = lru_by_identity(collective.implementations_of)  # type: ignore[assignment]

Factors = Mapping[str, Mapping[str, Mapping[str, float]]]  # by GPU and law


@dataclass(frozen=True)
class Rows:
    """Collectives of one GPU timed by one law."""

    gpu: Gpu
    law: Law
    columns: OperatorColumns
    measured_us: Floats
    frame: pl.DataFrame

    def take(self, rows: Bools) -> Rows:
        """Return the chosen rows."""
        return Rows(
            self.gpu,
            self.law,
            self.columns.take(rows),
            self.measured_us[rows],
            self.frame.filter(pl.Series(rows)),
        )

    def predicted_us(self, c: Mapping[str, float]) -> Floats:
        """Return the predicted time. Shape (n,). [us]"""
        pieces = self.law.pieces(self.columns, self.gpu, c)
        return duration_s(pieces, np.full((len(self.columns), 1), _HERTZ))[:, 0] * 1e6

    def errors(self, c: Mapping[str, float]) -> Floats:
        """Return ln(predicted / measured). Shape (n,)."""
        return np.log(self.predicted_us(c) / self.measured_us)


def load_rows(folder: Path = FOLDER) -> list[Rows]:
    """Return every measured collective, by GPU and law."""
    texts = ("gpu", "stack", "implementation", "kind", "dtype")
    files = sorted([*folder.glob("*_collective.parquet"), *folder.glob("*_allreduce.parquet")])
    frame = pl.concat([pl.read_parquet(f, columns=[*texts, "ranks", "bytes", "measured_us"]) for f in files])
    found = []
    for (name,), part in frame.group_by("gpu", maintain_order=True):
        gpu = load_gpu(str(name))
        columns = as_columns(part.drop("measured_us"), pl.Series(["collective"] * part.height))
        for law, places in split_by_law("collective", columns, gpu):
            chosen = part[places]
            found.append(Rows(gpu, law, columns.take(places), chosen["measured_us"].to_numpy(), chosen))
    return found


@dataclass(frozen=True)
class Fit:
    """Habits by law, and factors by GPU and law."""

    habits: Mapping[str, Mapping[str, float]]
    factors: Factors

    def of(self, rows: Rows) -> Mapping[str, float]:
        """Return the coefficients of some rows."""
        return {**self.habits[rows.law.name], **self.factors.get(rows.gpu.name, {}).get(rows.law.name, {})}


class Parameters:
    """Places of the coefficients in one vector of logarithms."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self.parts = parts
        self.names: list[tuple[str, str, str]] = []
        for law in dict.fromkeys(part.law.name for part in parts):
            of_law = [part for part in parts if part.law.name == law]
            for key, one in laws()[law].priors.items():
                if one.kind == "datasheet" or one.high <= one.low:
                    continue
                if one.fitted:
                    self.names += [(p.gpu.name, law, key) for p in of_law if self._moves(p, law, key)]
                else:
                    self.names.append(("", law, key))

    @staticmethod
    def _moves(part: Rows, law: str, key: str) -> bool:
        """Whether a factor changes the time of any row of a GPU."""
        one = laws()[law].priors[key]
        more = min(one.high, one.value * 3.0)
        return bool(np.ptp(part.predicted_us({key: more}) - part.predicted_us({})) > 0)

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Bounds of the vector."""
        ones = [laws()[law].priors[key] for _, law, key in self.names]
        low = np.array([max(one.low, 1e-3 * one.high) for one in ones])
        return np.log(low), np.log([one.high for one in ones])

    @cached_property
    def start(self) -> Floats:
        """Values to start from."""
        low, high = self.bounds
        values = [laws()[law].priors[key].value for _, law, key in self.names]
        return np.clip(np.log(np.maximum(values, 1e-9)), low + 1e-6, high - 1e-6)

    def fit_of(self, vector: Floats) -> Fit:
        """Return what a vector says."""
        habits: dict[str, dict[str, float]] = {law: {} for law in LAWS}
        factors: dict[str, dict[str, dict[str, float]]] = {}
        for (gpu, law, key), value in zip(self.names, np.exp(vector).tolist(), strict=True):
            of = factors.setdefault(gpu, {}).setdefault(law, {}) if gpu else habits[law]
            of[key] = value
        return Fit(habits, factors)

    def residuals(self, vector: Floats) -> Floats:
        """Return errors of rows, and how far factors are from 1."""
        fit = self.fit_of(vector)
        errors = [part.errors(fit.of(part)) for part in self.parts]
        drawn = [
            ROBUST * (value - begin) / FACTOR_SPREAD
            for (gpu, _, key), value, begin in zip(self.names, vector, self.start, strict=True)
            if gpu and key.endswith("factor")
        ]
        return np.concatenate([*errors, drawn])

    def slopes(self, vector: Floats) -> Floats:
        """Return the derivative of each residual by each coefficient, from the rows it moves alone."""
        before = self.fit_of(vector)
        ends = np.cumsum([0, *(part.measured_us.size for part in self.parts)])
        base = [part.errors(before.of(part)) for part in self.parts]
        factors = [i for i, (gpu, _, key) in enumerate(self.names) if gpu and key.endswith("factor")]
        found = np.zeros((int(ends[-1]) + len(factors), len(vector)))
        for column, (gpu, law, key) in enumerate(self.names):
            for place, part in enumerate(self.parts):
                if part.law.name == law and gpu in ("", part.gpu.name):
                    moved = {**before.of(part)}
                    moved[key] *= np.exp(_STEP)
                    found[ends[place] : ends[place + 1], column] = (part.errors(moved) - base[place]) / _STEP
        for row, column in enumerate(factors, int(ends[-1])):
            found[row, column] = ROBUST / FACTOR_SPREAD
        return found


def fit(parts: Sequence[Rows], start: Fit | None = None, nfev: int = 40) -> Fit:
    """Return the least-squares fit, rows that are far off counting less."""
    parts = [part for part in parts if part.measured_us.size]
    places = Parameters(parts)
    begin = places.start
    if start is not None:
        known = {**{("", law, k): v for law, of in start.habits.items() for k, v in of.items()}}
        known |= {
            (g, law, k): v for g, by in start.factors.items() for law, of in by.items() for k, v in of.items()
        }
        begin = np.clip(
            [
                np.log(known[name]) if name in known else at
                for name, at in zip(places.names, begin, strict=True)
            ],
            places.bounds[0] + 1e-6,
            places.bounds[1] - 1e-6,
        )
    found = least_squares(
        places.residuals,
        begin,
        jac=places.slopes,
        bounds=places.bounds,
        loss="soft_l1",
        f_scale=ROBUST,
        max_nfev=nfev,
    )
    return places.fit_of(found.x)


def folds(rows: Rows, count: int = 5) -> Ints:
    """Return the fold of each row: all dtypes and launches of one kind, size and number of ranks together."""
    sizes = (
        rows.frame.select("kind", "ranks", "bytes").unique(maintain_order=True).sort("kind", "ranks", "bytes")
    )
    numbered = sizes.with_columns((pl.int_range(pl.len()) * 7 % count).alias("fold"))
    return rows.frame.join(numbered, on=["kind", "ranks", "bytes"], how="left", maintain_order="left")[
        "fold"
    ].to_numpy()
