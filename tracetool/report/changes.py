"""Two sides against each other as a report."""

from __future__ import annotations

import math
from typing import Any, Final

import polars as pl

from tracetool.compare.outcome import Metric, RunDiff, not_comparable, reason, stated_limit
from tracetool.compare.pairing import RELATIONS
from tracetool.compare.significance import Verdict
from tracetool.core.number_text import counted, number
from tracetool.replay.measured_energy import NOT_MEASURED
from tracetool.report.view import Block, Case, Fold, Grid, Line, View
from tracetool.tables.schema import load_schema

WORST: Final = 10
_SYMBOLS: Final[dict[Verdict, str]] = {
    "regressed": "❌", "improved": "✅", "unchanged": "✅", "inconclusive": "❔",
}  # fmt: skip
_OUTCOMES: Final[dict[Verdict, Any]] = {
    "regressed": "failed", "improved": "passed", "unchanged": "passed", "inconclusive": "skipped",
}  # fmt: skip
_PREFIXES: Final = ((1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))
_HEADERS: Final = {
    "name": "kernel",
    "launches": "launches",
    "energy_change_pct": "change [%]",
    "energy_change_j": "change [J]",
    "energy_base_j": "base [J]",
    "energy_head_j": "head [J]",
    "relation": "how",
}
_METHOD: Final = (
    "Regressed: the whole interval lies above the limit; improved: below minus the limit; unchanged: no part"
    " above the limit; inconclusive: the limit lies inside. Intervals of figures judged together (limits on"
    " families and names; the rows of a table of 1 % of the energy or more) hold together (Bonferroni)."
    " The run is the unit of replication. Causes are a logarithmic mean Divisia decomposition: they sum to"
    " the change."
)


def changes_view(diff: RunDiff, place: str = "") -> View:
    """Return the report of a comparison: the verdict first, the worst ten, the rest folded.

    ``place`` is the file that states the limits, for outputs that point at one.
    """
    blocks: list[Block] = [
        Line(headline(diff), "headline", _SYMBOLS[diff.verdict]),
        Line(_setting(diff), "note"),
        *(Line(w, "warning") for w in diff.warnings),
        *(Line(n, "warning") for n in diff.notes if NOT_MEASURED in n),
        *(Line(r, "warning") for r in diff.reasons if diff.keys and r.startswith("the two sides")),
        Grid(_metrics(diff), "", about=("change", "90 % interval", "verdict")),
        *(Line(text, "note") for text in _together(diff)),
        *(Line(text) for text in _modeled(diff)),
        Line(why(diff)),
        Grid(_groups(diff, "family"), "By family", headers=_HEADERS | {"name": "family"}),
    ]
    if diff.level("group").height:
        title = f"By {', '.join(diff.by)}"
        blocks.append(Grid(_groups(diff, "group"), title, headers=_HEADERS | {"name": "group"}))
    kernels = _kernels(diff)
    changed = kernels.filter(pl.col("energy_change_j").abs() > 0)
    blocks.append(Grid(changed.head(WORST), "Kernels, largest change first", headers=_HEADERS))
    blocks += _folds(diff, changed)
    return View(
        title=f"{', '.join(diff.base)} against {', '.join(diff.head)}",
        table=diff.table,
        schema=load_schema("changes"),
        blocks=tuple(blocks),
        document=document(diff),
        cases=_cases(diff, place),
    )


def headline(diff: RunDiff) -> str:
    """Return the first line: what changed, how sure, the verdict and its limit or threshold."""
    energy = diff.metrics[0]
    deciding = next((m for m in diff.metrics if m.has_limit and m.verdict == diff.verdict), energy)
    sentence = f"Energy {_change(energy)}, {number(energy.base)} to {number(energy.head)} J per {diff.unit}"
    if deciding is not energy:
        of = f" of {deciding.scope}" if deciding.scope else ""
        sentence += f"; {deciding.name}{of} {_change(deciding)}"
    return f"{sentence}: {diff.verdict}, {stated_limit(deciding)}"


def _modeled(diff: RunDiff) -> list[str]:
    if diff.modeled_pct is None:
        return []
    return [f"Energy predicted from the recorded times and work: {diff.modeled_pct:+.1f} %"]


def _together(diff: RunDiff) -> list[str]:
    """Return the sentence on intervals that are wider because several limits are judged together."""
    many = max(m.tests for m in diff.metrics)
    if many == 1:
        return []
    return [f"The intervals of the {many} limits on families and names hold jointly (Bonferroni)"]


def _change(metric: Metric) -> str:
    if math.isnan(metric.change):
        return "not comparable"
    text = f"{100 * metric.change:+.1f} %"
    if math.isnan(metric.low):
        return text
    return f"{text} (90 % interval {100 * metric.low:+.1f} to {100 * metric.high:+.1f} %)"


def _setting(diff: RunDiff) -> str:
    energy = diff.metrics[0]
    runs = f"{len(diff.base)} base and {counted(len(diff.head), 'head run')}"
    least = (
        "the energy cannot be compared"
        if math.isnan(energy.detectable)
        else f"smallest detectable change: {100 * energy.detectable:.1f} %"
    )
    return f"{diff.setting} · {runs} · {least}"


def _joules(value: float) -> str:
    return ("+" if value > 0 else "") + number(value, 3) + " J"


def why(diff: RunDiff) -> str:
    """Return the sentence that names the causes and their sum."""
    named, energy = causes(diff), diff.metrics[0]
    return (
        f"Why: {named}"
        if named == _NOTHING
        else f"Why (sums to {_joules(energy.head - energy.base)}): {named}"
    )


#: Share of the energy below which a change is rounding.
_ROUNDING: Final = 1e-9
_NOTHING: Final = "nothing changed"
#: A cause in words, where it saves energy.
_LESS: Final = {
    "more work": "less work",
    "longer duration": "shorter duration",
    "higher power": "lower power",
}


def causes(diff: RunDiff) -> str:
    """Return the causes in one line, largest first, those of no weight left out."""
    largest = max((abs(v) for v in diff.factors.values()), default=0.0)
    sure = _ROUNDING * max(abs(diff.metrics[0].base), abs(diff.metrics[0].head))
    shown = [(k, v) for k, v in diff.factors.items() if largest > sure and abs(v) >= 0.001 * largest]
    shown.sort(key=lambda kv: -abs(kv[1]))
    return " · ".join(f"{cause_in_words(k, v)} {_joules(v)}" for k, v in shown) or _NOTHING


def cause_in_words(cause: str, change_j: float) -> str:
    """Return a cause of a change as what it did: more work that saves energy is less work.

    >>> cause_in_words("more work", -1.0), cause_in_words("idle gaps", -1.0)
    ('less work', 'idle gaps')
    """
    return _LESS.get(cause, cause) if change_j < 0 else cause


def _metrics(diff: RunDiff) -> pl.DataFrame:
    rows = []
    for m in diff.metrics:
        scope = f" of {m.scope}" if m.scope else f" per {diff.unit}" if m.name != "power" else ""
        name = {"power": "mean power", "edp": "energy x time"}.get(m.name, m.name)
        rows.append(
            {
                "figure": name + scope,
                "base": _short(m.base, m.unit),
                "head": _short(m.head, m.unit),
                "change": "?" if math.isnan(m.change) else f"{100 * m.change:+.1f} %",
                "90 % interval": "?" if math.isnan(m.low) else f"{100 * m.low:+.1f} to {100 * m.high:+.1f} %",
                "verdict": m.verdict + (f", {stated_limit(m)}" if m.has_limit else ""),
            }
        )
    return pl.DataFrame(rows)


def _short(value: float, unit: str) -> str:
    """Return a figure with the prefix that keeps it short, so that its interval fits beside it."""
    size = abs(value)
    scale, prefix = next(((s, p) for s, p in _PREFIXES if size >= s), (1.0, ""))
    return f"{number(value / scale)} {prefix}{unit}"


def _groups(diff: RunDiff, level: str) -> pl.DataFrame:
    by_gap = level == "group" and "gap" in diff.by  # then its causes are among the groups
    rows = diff.level(level) if by_gap else pl.concat([diff.level("gap"), diff.level(level)])
    keep = ["name", "energy_base_j", "energy_head_j", "energy_change_j", "energy_change_pct", "verdict",
            "time_base_ms", "time_head_ms", "power_base_w", "power_head_w"]  # fmt: skip
    return rows.sort(pl.col("energy_change_j").abs(), descending=True).select(keep)


def _kernels(diff: RunDiff) -> pl.DataFrame:
    rows = diff.level("kernel")
    launches = [
        f"{_count(a)} → {_count(b)}" for a, b in rows.select("launches_base", "launches_head").iter_rows()
    ]
    return rows.select(
        pl.when(pl.col("head_name").is_null())
        .then("name")
        .otherwise(pl.concat_str("name", pl.lit(" → "), "head_name"))
        .alias("name"),
        "energy_base_j",
        "energy_head_j",
        "energy_change_j",
        "energy_change_pct",
        "verdict",
        "relation",
        pl.Series("launches", launches, dtype=pl.String),
        "family",
    )


def _count(value: float) -> str:
    return f"{round(value):,}" if abs(value - round(value)) < 1e-6 * max(value, 1.0) else number(value, 3)


def _folds(diff: RunDiff, kernels: pl.DataFrame) -> list[Block]:
    counts = dict(diff.level("kernel").group_by("relation", maintain_order=True).len().iter_rows())
    relations_text = ", ".join(f"{counts[r]:,} {r}" for r in RELATIONS if r in counts)
    folds: list[Block] = [
        Fold(f"More kernels · {relations_text}", (Grid(kernels.slice(WORST), "", 60, headers=_HEADERS),))
    ]
    lost = kernels.filter(pl.col("relation").is_in(["added", "removed"]))
    if lost.height:
        folds.append(
            Fold(f"{lost.height:,} unmatched: in one side only", (Grid(lost, "", 60, headers=_HEADERS),))
        )
    for level in ("operator", "range"):
        if diff.level(level).height:
            grid = Grid(_groups(diff, level), "", 40, headers=_HEADERS | {"name": level})
            folds.append(Fold(f"By {level}", (grid,)))
    relations = tuple(Line(f"{r}: {text}") for r, text in RELATIONS.items())
    judged = tuple(Line(n) for n in (*diff.reasons, *diff.notes, _METHOD))
    folds.append(Fold("How this was judged", (*judged, *relations)))
    return folds


def document(diff: RunDiff) -> dict[str, Any]:
    """Return the JSON document; its schema is ``schemas/diff_document.json``."""
    return {
        "schema": "diff/2",
        "verdict": diff.verdict,
        "failed": diff.failed,
        "reasons": list(diff.reasons),
        "headline": headline(diff),
        "base": list(diff.base),
        "head": list(diff.head),
        "unit": diff.unit,
        "energies": diff.basis,
        "modeled_change_pct": diff.modeled_pct,
        "metrics": [_metric(m) for m in diff.metrics],
        "causes_j": dict(diff.factors),
        "not_comparable": {k: list(v) for k, v in diff.keys.items()},
        **{
            key: _rows(diff, level)
            for key, level in (("total", "total"), ("gaps", "gap"), ("families", "family"),
                               ("operators", "operator"), ("ranges", "range"), ("kernels", "kernel"))
        },
        **({"by": list(diff.by), "groups": _rows(diff, "group")} if diff.by else {}),
        "warnings": list(diff.warnings),
        "notes": list(diff.notes),
    }  # fmt: skip


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "scope": metric.scope or None,
        "unit": metric.unit,
        "base": metric.base,
        "head": metric.head,
        "change_pct": 100 * metric.change,
        "low_pct": 100 * metric.low,
        "high_pct": 100 * metric.high,
        "limit_pct": 100 * metric.limit,
        "asked": metric.has_limit,
        "verdict": metric.verdict,
        "detectable_pct": 100 * metric.detectable,
        "p_value": metric.p_value,
        "judged_together": metric.tests,
        "interval_from": metric.basis,
    }


def _rows(diff: RunDiff, level: str) -> list[dict[str, Any]]:
    return diff.level(level).drop("level").to_dicts()


def _cases(diff: RunDiff, place: str) -> tuple[Case, ...]:
    """Return a case per judged figure; without a limit the energy is reported, and nothing fails.

    Between sides that are not comparable an interval beyond the limit decides nothing: the message says why.
    """
    why_not = f"; {not_comparable(diff.keys)}" if diff.keys else ""
    cases = [
        Case(
            m.scope or "whole run",
            m.name,
            _OUTCOMES[m.verdict] if m.has_limit else "passed",
            reason(m) + (why_not if m.has_limit else ""),
            place,
        )
        for m in diff.metrics
    ]
    families = diff.level("family").filter(pl.col("verdict").is_not_null())
    for name, change, verdict in families.select("name", "energy_change_pct", "verdict").iter_rows():
        text = f"energy {change:+.1f} %: {verdict} (not gated)"
        cases.append(Case("by family", str(name), "passed", text))
    return tuple(cases)
