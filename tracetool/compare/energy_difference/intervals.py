"""Causes of a change at energies drawn within their errors: their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.decomposition import log_mean
from tracetool.compare.energy_difference.classes import WorkClasses
from tracetool.compare.energy_difference.factors import CAUSES, MatchedWork, split
from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90

_DRAWS: Final = 400
_SEED: Final = 20260101


@dataclass(frozen=True)
class NamedIntervals:
    """Idle time or waits by name: energies and errors of the two runs. Shape (k,) each."""

    rows: pl.DataFrame  # name, and launches, time and energy of each run
    base: Floats  # [J]
    head: Floats
    sd: tuple[Floats, Floats]


def side_by_side(base: pl.DataFrame, head: pl.DataFrame, level: str) -> NamedIntervals:
    """Return idle time or waits of one name side by side."""
    columns = [c for c in ("launches", "time_s", "energy_j", "sd") if c in base.columns]
    sides = [
        frame.select("name", *(pl.col(c).alias(f"{c}_{s}") for c in columns))
        for s, frame in (("base", base), ("head", head))
    ]
    rows = sides[0].join(sides[1], on="name", how="full", coalesce=True).sort("name")
    rows = rows.with_columns(pl.exclude("name").fill_null(0.0), pl.lit(level).alias("level"))
    energies = [rows[f"energy_j_{s}"].to_numpy() for s in ("base", "head")]
    errors = rows["sd_base"].to_numpy(), rows["sd_head"].to_numpy()
    return NamedIntervals(rows.rename({"name": "name_base"}), energies[0], energies[1], errors)


def all_parts(
    pairs: MatchedWork,
    idle: NamedIntervals,
    waiting: NamedIntervals,
    clock_idle: float,
    errors: Floats | None = None,
) -> dict[str, Floats]:
    """Return each row's change by cause: matched work, then idle time, then waits."""
    matched = split(pairs, errors)
    between = np.log(clock_idle)
    positive = (idle.base > 0) & (idle.head > 0)
    mean = log_mean(np.where(positive, idle.head, 1.0), np.where(positive, idle.base, 1.0))
    by_clock = np.where(positive, mean * between, 0.0)
    nothing, no_wait = np.zeros(len(idle.base)), np.zeros(len(waiting.base))
    tails = dict.fromkeys(CAUSES, (nothing, no_wait))
    tails["clock"] = (by_clock, no_wait)
    tails["idle"] = (idle.head - idle.base - by_clock, no_wait)
    tails["waiting"] = (nothing, waiting.head - waiting.base)
    return {cause: np.concatenate([matched[cause], *tails[cause]]) for cause in CAUSES}


def drawn_parts(
    sides: Sequence[WorkClasses],
    joined: pl.DataFrame,
    pairs: MatchedWork,
    apart: tuple[NamedIntervals, NamedIntervals],
    clock_idle: float,
    *,
    foreign: bool,
) -> dict[str, Floats]:
    """Return causes of the change at energies drawn within their errors. Shape (draws,) each.

    Errors of a log are those of one kernel against another, within a sum that is better known: energies drawn
    apart are brought to a sum drawn of its own. The model's are those of a family, the same on each side of
    one GPU.
    """
    random = np.random.default_rng(_SEED)
    family, of_family = np.unique(
        joined.select(pl.coalesce("family_base", "family_head").fill_null(""))["family_base"]
        .to_numpy()
        .astype(str),
        return_inverse=True,
    )
    whole_j = {n: joined[f"energy_j_{n}"].to_numpy() for n in ("base", "head")}
    sd = {n: joined[f"sd_{n}"].to_numpy() for n in ("base", "head")}
    common = not foreign and not any(side.cut.measured for side in sides)
    collected: dict[str, list[float]] = {cause: [] for cause in (*CAUSES, "difference")}
    for _ in range(_DRAWS):
        shared = random.standard_normal(len(family) + 1)
        energies = []
        for side, name, of in zip(sides, ("base", "head"), range(2), strict=True):
            normal = shared if common else random.standard_normal(len(family) + 1)
            each = random.standard_normal(joined.height) if side.cut.measured else normal[:-1][of_family]
            work = whole_j[name] * np.exp(sd[name] * each)
            apart_j = [(one.base, one.head)[of] * np.exp(one.sd[of] * normal[-1]) for one in apart]
            if side.cut.measured:
                drawn_total_j = float(work.sum() + sum(r.sum() for r in apart_j))
                target = side.energy_j + side.half_width_j / Z90 * random.standard_normal()
                factor = max(target, 0.0) / drawn_total_j if drawn_total_j > 0 else 1.0
                work, apart_j = work * factor, [r * factor for r in apart_j]
            energies.append((work, apart_j))
        (work_base, apart_base), (work_head, apart_head) = energies
        sample = replace(pairs, energy_base=work_base, energy_head=work_head)
        errors = np.repeat(random.standard_normal((2, 1)), joined.height, axis=1)
        redrawn = [
            replace(one, base=b, head=h) for one, b, h in zip(apart, apart_base, apart_head, strict=True)
        ]
        changes = all_parts(sample, redrawn[0], redrawn[1], clock_idle, errors)
        for cause in CAUSES:
            collected[cause].append(float(changes[cause].sum()))
        collected["difference"].append(float(sum(change.sum() for change in changes.values())))
    return {cause: np.array(values) for cause, values in collected.items()}
