"""Two sides against each other: what changed, by how much, how sure, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tracetool.compare.changes_table import change_table
from tracetool.compare.decomposition import FACTORS
from tracetool.compare.matched import CAUSES, matched_pairs, model_error_j
from tracetool.compare.outcome import DEFAULT_LIMIT, Metric, RunDiff, metric_of, not_comparable, reason
from tracetool.compare.scopes import FIGURES, family_figures, scope_figures
from tracetool.compare.sides import Side
from tracetool.compare.significance import Criteria, Verdict, effects_of, judge, with_joint_intervals
from tracetool.compare.spread import PRIOR, Spread, learned, observed_spread, repeated, single_run_prior
from tracetool.compare.steps import within_whole
from tracetool.compare.thresholds import METRICS, Threshold
from tracetool.core.arrays import Floats


@dataclass(frozen=True)
class DiffRequest:
    """Settings of a comparison."""

    basis: str
    thresholds: tuple[Threshold, ...] = ()
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()

    def spread(self, metric: str, scope: str = "") -> Spread:
        """Return the known run-to-run spread of a figure."""
        return self.spreads.get(f"{scope}:{metric}", self.spreads.get(metric, PRIOR))


def compare_sides(
    base: Side,
    head: Side,
    request: DiffRequest,
    *,
    parts: pl.DataFrame,
    clock_ratios: pl.DataFrame,
    **context: Any,
) -> RunDiff:
    """Compare two sides.

    Parameters
    ----------
    base, head : Side
        The two sides, in the same unit.
    request : DiffRequest
        Basis of the energies, thresholds, knowledge of the spread.
    parts : DataFrame
        Which work is which, as :func:`tracetool.compare.pairing.pair_sides` returns.
    clock_ratios : DataFrame
        See :func:`tracetool.compare.matched.matched_pairs`.
    said
        ``setting``, ``notes``, ``warnings`` and ``modeled_pct`` of the result.
    """
    pairs = matched_pairs(parts, base, head, clock_ratios)
    gap = float(np.mean(head.gap_j)) - float(np.mean(base.gap_j))
    factors = {cause: float(pairs[c].sum()) for c, cause in CAUSES.items()} | {"idle gaps": gap}
    differing = {
        k: (base.keys.get(k, ""), head.keys.get(k, ""))
        for k in sorted({*base.keys, *head.keys})
        if base.keys.get(k) and head.keys.get(k) and base.keys.get(k) != head.keys.get(k)
    }
    if request.basis != "predicted":
        request = _learned(_single(request, (base, head)), (base, head))
    model = 0.0 if request.basis == "measured" else model_error_j(pairs)
    figures = {"base": run_figures(base), "head": run_figures(head)}
    limit = next((t.limit for t in request.thresholds if t.metric == "energy" and not t.scope), DEFAULT_LIMIT)
    criteria = Criteria(request.basis, request.spread("energy"), limit, comparable=not differing)
    table = change_table(parts, pairs, (base, head), criteria)
    metrics = _metrics(figures, (base, head), model, request, bool(differing))
    metrics += _scoped((base, head), pairs, request, bool(differing))
    verdict, reasons = overall(metrics, differing)
    spread = observed_spread(figures["base"]["energy"], figures["head"]["energy"])
    if not np.isnan(spread) and request.basis != "predicted":
        context = {
            **context,
            "notes": (f"run-to-run spread of the energy: {100 * spread:.2g} %", *context.get("notes", ())),
        }
    return RunDiff(
        tuple(r.label for r in base.runs),
        tuple(r.label for r in head.runs),
        verdict,
        reasons,
        metrics,
        {f: factors[f] for f in FACTORS},
        table,
        base.unit,
        request.basis,
        keys=differing,
        **context,
    )


def _single(request: DiffRequest, sides: tuple[Side, Side]) -> DiffRequest:
    """Return the request with the spreads assumed of single runs, where that is all there is."""
    if repeated(*(len(s.runs) for s in sides)):
        return request
    return replace(
        request, spreads={**{m: single_run_prior(m, request.basis) for m in METRICS}, **request.spreads}
    )


def _learned(request: DiffRequest, sides: tuple[Side, Side]) -> DiffRequest:
    """Return the request with run-to-run spreads estimated from the families of all runs."""
    figures = family_figures(sides)
    spreads = {m: learned(base, head, request.spread(m), noise) for m, (base, head, noise) in figures.items()}
    return replace(request, spreads={**request.spreads, **spreads})


def run_figures(side: Side) -> Mapping[str, Floats]:
    """Return the whole-run figures of each run of a side: energy, time, power, edp. Shape (runs,) each."""
    sums = side.per_run.group_by("run", maintain_order=True).agg(pl.col("energy_j").sum()).sort("run")
    energy = sums["energy_j"].to_numpy() + np.array(side.gap_j)
    time = np.array(side.span_s)
    power = np.divide(energy, time, out=np.zeros_like(energy), where=time > 0)
    return {"energy": energy, "time": time, "power": power, "edp": energy * time}


def _metrics(
    figures: Mapping[str, Mapping[str, Floats]],
    sides: tuple[Side, Side],
    model_j: float,
    request: DiffRequest,
    incomparable: bool,
) -> tuple[Metric, ...]:
    """Judge the figures of the whole run, each with its own 90 % interval."""
    limits = {t.metric: t.limit for t in request.thresholds if not t.scope}
    base_j = float(figures["base"]["energy"].mean())
    compared = []
    for name in METRICS:
        base, head = figures["base"][name], figures["head"][name]
        # a relative error of energy is one of power and of energy x time; of a modeled time it is a bound
        modeled = name != "time" or request.basis == "predicted"
        error = model_j / base_j if modeled and base_j > 0 else 0.0
        noise = np.array([within_whole(sides, FIGURES[name])])
        criteria = Criteria(request.basis, request.spread(name), within=noise)
        effects = effects_of(base[:, None], head[:, None], criteria, np.array([error]))
        limit = limits.get(name, DEFAULT_LIMIT)
        compared.append((name, base, head, effects, limit, name in limits))
    return tuple(
        metric_of(
            (name, ""),
            (float(base.mean()), float(head.mean())),
            effects,
            "inconclusive" if incomparable else judge(effects, limit)[0],
            limit=limit,
            has_limit=has_limit,
        )
        for name, base, head, effects, limit, has_limit in compared
    )


def _scoped(
    sides: tuple[Side, Side], pairs: pl.DataFrame, request: DiffRequest, incomparable: bool
) -> tuple[Metric, ...]:
    """Judge the families and patterns that have limits of their own by intervals that hold together."""
    scoped_figures = scope_figures(sides, [t for t in request.thresholds if t.scope])
    if not scoped_figures:
        return ()
    groups = [
        effects_of(
            w.base[:, None],
            w.head[:, None],
            Criteria(request.basis, request.spread(w.metric, w.scope), within=np.array([w.within])),
            np.array([w.open_share if request.basis == "measured" else w.model_error(pairs)])
            if request.basis == "predicted" or w.metric != "time"
            else None,
        )
        for w in scoped_figures
    ]
    groups = [with_joint_intervals(g, len(scoped_figures)) for g in groups]
    return tuple(
        metric_of(
            (w.metric, w.scope),
            (float(w.base.mean()), float(w.head.mean())),
            effects,
            "inconclusive" if incomparable else judge(effects, w.limit)[0],
            limit=w.limit,
            has_limit=True,
        )
        for w, effects in zip(scoped_figures, groups, strict=True)
    )


def overall(
    metrics: Sequence[Metric], differing: Mapping[str, tuple[str, str]]
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict of the whole and why."""
    deciding = [m for m in metrics if m.has_limit] or [
        m for m in metrics if m.name == "energy" and not m.scope
    ]
    order: tuple[Verdict, ...] = ("regressed", "inconclusive", "improved", "unchanged")
    verdict = next(v for v in order if any(m.verdict == v for m in deciding))
    advice = (
        "; give more runs a side, or keep baselines" if verdict == "inconclusive" and not differing else ""
    )
    reasons = [reason(m) + advice for m in deciding if m.verdict == verdict]
    if differing:
        reasons.insert(0, not_comparable(differing))
    return verdict, tuple(reasons)
