"""A run predicted window by window: each is replayed alone, and times and energies are added.

Signatures are modeled once a window from what was measured there; a window's replay is done when the next
begins, so memory does not grow with the run. Windows meet where no GPU works
(:mod:`tracetool.tables.windows`): the idle time between two is kept as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import ENDS
from tracetool.core.number_text import counted
from tracetool.replay.gap_causes import NAMES, Gap
from tracetool.replay.scope_totals import IDLE_ERROR
from tracetool.tables.run import Run
from tracetool.tables.windows import Window, activities_of


class PredictedWindow(Protocol):
    """Sums of a predicted window."""

    @property
    def signatures(self) -> pl.DataFrame:
        """One row per signature and clock."""

    @property
    def totals(self) -> list[dict[str, Any]]:
        """One record per clock."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the basis of the figures."""


#: Figures of a total that are not sums over windows.
_SAME: Final = ("clock_mhz", "anchored", "idle_power_w", "idle_power_low_w", "idle_power_high_w")
_HIGHEST: Final = ("peak_power_w", "peak_power_low_w", "peak_power_high_w")
#: Mean powers: what they are the mean of, and over which time.
_MEANS: Final = {
    "kernel_power": ("kernel_energy", "kernel_time_ms"),
    "copy_power": ("copy_energy", "copy_time_ms"),
    "mean_power": ("energy", "makespan_ms"),
}
#: Columns of signatures that are means over launches.
_EACH: Final = ("measured_duration_us", "duration_us", "energy_mj")


def added(
    windows: Sequence[tuple[Window, PredictedWindow]], infos: Sequence[Mapping[str, Any]], run: Run
) -> dict[str, Any]:
    """Return signatures, totals, notes and info of a run from those of its windows.

    Parameters
    ----------
    windows : sequence of (Window, PredictedWindow)
        All windows of the run in order, predicted alike. At least one.
    infos : sequence of mapping
        How each was predicted.
    run : Run
        The run.

    Notes
    -----
    All windows rest on one model, so half widths add up, as those of a family's kernels do.
    """
    first = windows[0][1]
    idle_s = np.array([w.idle_before_ns for w, _ in windows]) * 1e-9
    launched = all(info["edges"].get("launch") for info in infos)
    totals = [
        _added_totals(
            [p.totals[j] for _, p in windows],
            _not_hidden([p.totals[j] for _, p in windows], infos, idle_s),
            Gap.HOST if launched else Gap.UNKNOWN,
        )
        for j in range(len(first.totals))
    ]
    edges: dict[str, int] = {}
    for info in infos:
        for kind, count in info["edges"].items():
            edges[kind] = edges.get(kind, 0) + count
    added_up = {
        **infos[0],
        "coverage": _mean_coverage([i["coverage"] for i in infos], [p.totals[0] for _, p in windows]),
        "recorded_makespan_ms": sum(i["recorded_makespan_ms"] for i in infos) + 1e3 * float(idle_s.sum()),
        "unexplained_idle_ms": sum(i["unexplained_idle_ms"] for i in infos),
        "activities": activities_of(run),
        "edges": edges,
        "edges_inferred": sum(i["edges_inferred"] for i in infos),
        "windows": len(windows),
    }
    frames = [_with_numbers(p.signatures, w) for w, p in windows]
    notes = [n for n in first.notes if not n.startswith("replayed ")]
    notes.append(
        f"replayed {counted(activities_of(run), 'activity', 'activities')} in {len(windows)} windows cut"
        f" where no GPU works; {1e3 * float(idle_s.sum()):.4g} ms between windows kept as recorded"
    )
    return {"signatures": added_signatures(frames), "totals": totals, "notes": tuple(notes), "info": added_up}


def _not_hidden(
    totals: Sequence[Mapping[str, Any]], infos: Sequence[Mapping[str, Any]], idle_s: Floats
) -> Floats:
    """Return the idle time before each window that is not hidden by work launched before it. [s]

    A host that waits for nothing issues on while kernels last longer than recorded; one that waits is late
    by as much as they are.
    """
    if any(i["edges"].get("sync") for i in infos) or not any(i["edges"].get("launch") for i in infos):
        return idle_s
    behind_s, shown = 0.0, idle_s.copy()
    for k, (total, info) in enumerate(zip(totals, infos, strict=True)):
        shown[k] = max(0.0, idle_s[k] - behind_s)
        behind_s = max(0.0, behind_s - idle_s[k])
        behind_s += max(0.0, 1e-3 * (total["makespan_ms"] - info["recorded_makespan_ms"]))
    return shown


def bare(window: Window) -> Window:
    """Return a window without the tables it has read; it still knows its signatures."""
    fresh = Window(
        window.path, window.info, window.stamps, window.first_ns, window.until_ns, window.idle_before_ns,
        window.number, window.followed,
    )  # fmt: skip
    fresh.__dict__["numbers"] = window.numbers
    return fresh


def _with_numbers(signatures: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return a window's signatures under the run's own numbers."""
    run_numbers = window.numbers.gather(signatures["signature"].cast(pl.Int64))
    return signatures.with_columns(run_numbers.cast(signatures.schema["signature"]).alias("signature"))


def _mean_coverage(
    coverages: Sequence[Mapping[str, float]], totals: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    weight = np.array([t["kernel_time_ms"] for t in totals])
    weight = weight if weight.sum() > 0 else np.ones(len(coverages))
    return {
        key: float(np.average([coverage[key] for coverage in coverages], weights=weight))
        for key in coverages[0]
    }


def _added_totals(
    window_records: Sequence[dict[str, Any]], idle_s: Floats, idle_reason: Gap
) -> dict[str, Any]:
    """Return one clock's record from those of the windows and the idle time before each, with its reason."""
    total = {
        key: _sum([record[key] for record in window_records]) for key in window_records[0] if key != "devices"
    }
    for key in _SAME:
        total[key] = window_records[0][key]
    for key in _HIGHEST:
        total[key] = max(record[key] for record in window_records)
    weights = [record["kernel_time_ms"] for record in window_records]
    for key in (k for k in window_records[0] if k.startswith("throttled_share")):
        total[key] = (
            float(np.average([record[key] for record in window_records], weights=weights))
            if sum(weights) > 0
            else 0.0
        )
    gpus = max(1, len(window_records[0].get("devices", ())))
    idle_ms = 1e3 * float(idle_s.sum())
    idle_j = gpus * total["idle_power_w"] * 1e-3 * idle_ms
    for end in ENDS:
        wrong = {"": 1.0, "_low": 1.0 - IDLE_ERROR, "_high": 1.0 + IDLE_ERROR}[end]
        total[f"makespan{end}_ms"] += idle_ms
        total[f"gap{end}_ms"] += gpus * idle_ms
        total[f"gap_energy{end}_j"] += wrong * idle_j
        total[f"energy{end}_j"] += wrong * idle_j
    total["energy_parts_j"]["gaps"] += idle_j
    reason = NAMES[idle_reason]
    total["gaps_ms"][reason] += gpus * idle_ms
    total["gaps_j"][reason] += idle_j
    total["gap_counts"][reason] += gpus * int((idle_s > 0).sum())
    for stem, (energy, time) in _MEANS.items():
        seconds = 1e-3 * total[time]
        mean_w = total[f"{energy}_j"] / seconds if seconds > 0 else 0.0
        if seconds > 0:  # errors of power alone: the mean of the windows' own, by time
            spans = np.array([record[time] for record in window_records])
            for end in ("_low", "_high"):
                apart = np.average(
                    [record[f"{stem}{end}_w"] - record[f"{stem}_w"] for record in window_records],
                    weights=spans,
                )
                total[f"{stem}{end}_w"] = max(0.0, mean_w + float(apart))
        total[f"{stem}_w"] = mean_w
    total["devices"] = _added_devices(
        [record.get("devices", []) for record in window_records], total, idle_j / gpus
    )
    return total


def _sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        return {key: _sum([v[key] for v in values]) for key in values[0]}
    return sum(values)


def _added_devices(
    window_devices: Sequence[Sequence[Mapping[str, Any]]], total: Mapping[str, Any], idle_j: float
) -> list[dict[str, Any]]:
    merged: dict[int, dict[str, Any]] = {}
    for record in (r for devices in window_devices for r in devices):
        into = merged.setdefault(record["device"], {"device": record["device"]})
        for key, value in record.items():
            if key == "peak_power_w":
                into[key] = max(into.get(key, 0.0), value)
            elif key != "device":
                into[key] = into.get(key, 0.0) + value
    seconds = 1e-3 * total["makespan_ms"]
    for record in merged.values():
        record["energy_j"] += idle_j
        record["mean_power_w"] = record["energy_j"] / seconds if seconds > 0 else 0.0
    return [merged[device] for device in sorted(merged)]


def added_signatures(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return one row per signature and clock from the rows of the windows: means by launches.

    Parameters
    ----------
    frames : sequence of DataFrame
        ``signatures`` of predictions, under the run's own numbers.
    """
    rows = pl.concat(frames, how="vertical_relaxed")
    each = pl.col("launches")
    sums = each.sum()
    means = [c for c, t in rows.schema.items() if t == pl.Float64 and c != "clock_mhz"]
    weighted = [
        pl.when(sums > 0).then((pl.col(c) * each).sum() / sums).otherwise(pl.col(c).first()).alias(c)
        for c in means
        if "power" not in c
    ]
    busy = each * pl.col("duration_us")
    watts = [
        pl.when(busy.sum() > 0)
        .then((pl.col(c) * busy).sum() / busy.sum())
        .otherwise(pl.col(c).first())
        .alias(c)
        for c in means
        if "power" in c
    ]
    keys = ["signature", "clock_mhz"]
    firsts = [pl.col(c).first() for c in rows.columns if c not in (*means, *keys, "launches", "throttled")]
    added = rows.group_by(keys, maintain_order=True).agg(
        sums.alias("launches"), *weighted, *watts, *firsts, pl.col("throttled").any()
    )
    return added.select(rows.columns).sort("signature", maintain_order=True)
