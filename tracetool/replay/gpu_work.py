"""The GPUs of a run against each other: energy at equal work, waits, and which GPU was waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import ENDS, Z90
from tracetool.kernels.collective_matching import run_meetings
from tracetool.measure.sensors import GPU_TO_GPU_GAIN_SD
from tracetool.replay.group_energy import GroupEnergy, GroupTimes, RunEnergies
from tracetool.replay.time_parts import TimeParts, activity_kinds
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Deviation of a median of n equal normal variables over that of one, times the root of n (large n). [1]
_MEDIAN: Final = 1.2533
_WHOLE, _WAIT, _WORK = 0, 1, 2  # sets of every GPU; then what each GPU was waited for


def gpu_work(run: Run, energies: RunEnergies, time_parts: Sequence[TimeParts]) -> pl.DataFrame:
    r"""Return the ``gpu_work`` table: a row per GPU, highest energy at equal work first.

    Parameters
    ----------
    run : Run
        The run.
    energies : RunEnergies
        What is known of its energies.
    time_parts : sequence of TimeParts
        Its GPUs' time.

    Notes
    -----
    Equal work is what all GPUs did: with :math:`n_{ds}` launches of signature s on GPU d and :math:`\bar n_s`
    their mean, :math:`E_d = \sum_s (\bar n_s / n_{ds}) E_{ds}` over the computing signatures that all ran. A
    wait is charged to the GPU that came last. Energies of one GPU model are compared with the deviation of
    one GPU's gain from another's, as the rest of their sensors' error is common to all.
    """
    kernels = run.kernels
    kind = activity_kinds(run, kernels)
    last = _waited_for(run, kernels)
    weight = _equal_work(kernels, kind)
    devices = [one.device for one in time_parts]
    tables = []
    for one in time_parts:
        sets = _sets(one, weight, last, devices)
        if (outside := one.idle.outside_s(energies.covered(one.device))) is not None:
            whole = np.zeros(len(sets.gap_s))
            whole[_WHOLE] = 1.0
            sets = replace(sets, outside_s=(outside[0].sum() * whole, outside[1].sum() * whole))
        measured = energies.measured_of(one.device, sets)
        if measured is not None and not np.isfinite(measured.energy_j[_WHOLE]):
            measured = None
        predicted = None if energies.predicted is None else energies.predicted.of(sets)
        tables.append((one, sets, measured, predicted))
    rows = [_row(*table, equal=weight is not None) for table in tables]
    _add_caused(rows, tables)
    _compare(rows, _own_errors(energies, tables))
    total = sum(r["energy_j"] or 0.0 for r in rows)
    ranks = run.devices.select("device", "rank")
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        (pl.col("energy_j") / total if total else pl.lit(None, dtype=pl.Float64)).alias("share")
    )
    ranked = frame.join(ranks, on="device", how="left").sort(
        "work_energy_j", "energy_j", descending=True, nulls_last=True, maintain_order=True
    )
    return load_schema("gpu_work").conform(ranked)


def _waited_for(run: Run, kernels: pl.DataFrame) -> Ints:
    """Return the GPU that came last to the collective each activity is, -1 where it waited for none."""
    last = np.full(kernels.height, -1, np.int64)
    met = run_meetings(run)
    if len(met.member):
        start = kernels["start_ns"].to_numpy()[met.member]
        order = np.lexsort((start, met.meeting))
        final = np.append(np.flatnonzero(np.diff(met.meeting[order])), len(order) - 1)
        latest = kernels["device"].to_numpy()[met.member[order[final]]]
        last[met.member] = latest[met.meeting]
    return last


def _equal_work(kernels: pl.DataFrame, kind: Ints) -> Floats | None:
    """Return how often each activity counts as part of equal work; None where the GPUs share none. (n,)"""
    launches = kernels.select("device", "signature").with_columns(computes=pl.Series(kind == 0))
    counts = launches.filter("computes").group_by("device", "signature", maintain_order=True).len("launches")
    gpus = kernels["device"].n_unique()
    shared = counts.group_by("signature", maintain_order=True).agg(
        pl.len().alias("gpus"), pl.col("launches").mean().alias("mean")
    )
    weights = counts.join(shared.filter(pl.col("gpus") == gpus), on="signature", how="inner").select(
        "device", "signature", (pl.col("mean") / pl.col("launches")).alias("weight")
    )
    if not weights.height:
        return None
    joined = launches.join(weights, on=["device", "signature"], how="left", maintain_order="left")
    return joined.select(pl.when("computes").then("weight").fill_null(0.0)).to_series().to_numpy()


def _sets(one: TimeParts, weight: Floats | None, last: Ints, devices: Sequence[int]) -> GroupTimes:
    """Return the sets of one GPU: all of it, its waits, equal work, and what it waited for each GPU."""
    pieces = one.pieces
    n = len(pieces.rows)
    share = np.zeros((_WORK + 1 + len(devices), n))
    share[_WHOLE] = 1.0
    share[_WAIT] = pieces.waits
    if weight is not None:
        share[_WORK] = np.where(pieces.waits, 0.0, weight[pieces.rows])
    for i, device in enumerate(devices):
        share[_WORK + 1 + i] = pieces.waits & (last[pieces.rows] == device)
    gap_s, idle_s = np.zeros(len(share)), np.zeros(len(share))
    gap_s[_WHOLE], idle_s[_WHOLE] = one.gap_s.sum(), one.idle_s.sum()
    shared_s = one.shared_s.sum(axis=0)
    return GroupTimes(pieces.rows, share, shared_s, gap_s, idle_s, pieces.part, pieces.waits)


_Table = tuple[TimeParts, GroupTimes, GroupEnergy | None, GroupEnergy | None]


def _row(
    one: TimeParts,
    sets: GroupTimes,
    measured: GroupEnergy | None,
    predicted: GroupEnergy | None,
    *,
    equal: bool,
) -> dict[str, Any]:
    best = measured or predicted
    source = None if best is None else best.sources()[_WHOLE]
    share = np.asarray(sets.share)
    row: dict[str, Any] = {
        "device": one.device,
        "source": source,
        "wait_ms": 1e3 * float(share[_WAIT] @ sets.shared_s),
        "work_ms": 1e3 * float(share[_WORK] @ sets.shared_s) if equal else None,
    }
    for stem, place in (("energy", _WHOLE), ("wait_energy", _WAIT), ("work_energy", _WORK)):
        stated = best is not None and (equal or place != _WORK)
        row |= _ends(stem, best if stated else None, place)
    return row


def _ends(stem: str, energy: GroupEnergy | None, place: int) -> dict[str, float | None]:
    if energy is None or not np.isfinite(energy.energy_j[place]):
        return {f"{stem}{end}_j": None for end in ENDS}
    values = (energy.energy_j[place], energy.low_j[place], energy.high_j[place])
    return {f"{stem}{end}_j": float(v) for end, v in zip(ENDS, values, strict=True)}


def _add_caused(rows: list[dict[str, Any]], tables: Sequence[_Table]) -> None:
    """Add what the other GPUs waited for each; errors of GPUs are independent."""
    for i, row in enumerate(rows):
        place = _WORK + 1 + i
        row["caused_wait_ms"] = 1e3 * sum(
            float(np.asarray(s.share)[place] @ s.shared_s) for _, s, _, _ in tables
        )
        each = [_ends("wait", measured or predicted, place) for _, _, measured, predicted in tables]
        stem = "caused_wait_energy"
        if any(one["wait_j"] is None for one in each):
            row |= {f"{stem}{end}_j": None for end in ENDS}
            continue
        middle, low, high = (
            np.array([one[f"wait{end}_j"] for one in each], dtype=np.float64) for end in ENDS
        )
        total = float(middle.sum())
        down, up = (float(np.sqrt(((middle - edge) ** 2).sum())) for edge in (low, high))
        row |= {f"{stem}_j": total, f"{stem}_low_j": max(total - down, 0.0), f"{stem}_high_j": total + up}


def _own_errors(energies: RunEnergies, tables: Sequence[_Table]) -> Floats:
    """Return the deviation of each GPU's energy at equal work that its peers do not share. (g,) [1]"""
    models = set(energies.run.devices.filter(pl.col("device").is_in([t[0].device for t in tables]))["gpu"])
    deviations = np.full(len(tables), np.nan)
    for i, (one, sets, measured, predicted) in enumerate(tables):
        best = measured or predicted
        if best is None or not best.energy_j[_WORK] > 0:
            continue
        joules = float(best.energy_j[_WORK])
        deviation = float(best.high_j[_WORK] - joules) / (Z90 * joules)
        if measured is not None and energies.measured is not None and len(models) == 1:
            sensor = energies.measured.observations[one.device].sensor
            seconds = float(np.asarray(sets.share)[_WORK] @ sets.shared_s)
            gain = sensor.gain_sd / sensor.gain * (1.0 - sensor.pivot_w * seconds / joules)
            shift = sensor.offset_sd_w / sensor.gain * seconds / joules
            unexplained_variance = max(deviation**2 - gain**2 - shift**2, 0.0)
            deviation = float(np.sqrt(unexplained_variance + min(sensor.gain_sd, GPU_TO_GPU_GAIN_SD) ** 2))
        deviations[i] = deviation
    return deviations


def _compare(rows: list[dict[str, Any]], deviation: Floats) -> None:
    """Set each GPU's energy and time at equal work against the median of the others."""
    joules = np.array([np.nan if r["work_energy_j"] is None else r["work_energy_j"] for r in rows])
    took_ms = np.array([np.nan if r["work_ms"] is None else r["work_ms"] for r in rows])
    for i, row in enumerate(rows):
        peers = np.flatnonzero(np.isfinite(joules) & (np.arange(len(rows)) != i))
        time = np.median(np.delete(took_ms, i)) if len(rows) > 1 else np.nan
        row["work_time_more_pct"] = 100.0 * (took_ms[i] / time - 1.0) if time > 0 else None
        if not len(peers) or not np.isfinite(joules[i]) or not np.median(joules[peers]) > 0:
            continue
        ratio = float(joules[i] / np.median(joules[peers]))
        of_median = float(np.median(deviation[peers])) * (
            _MEDIAN / np.sqrt(len(peers)) if len(peers) > 2 else 1.0 / np.sqrt(len(peers))
        )
        half = Z90 * ratio * float(np.hypot(deviation[i], of_median))
        more, edge = 100.0 * (ratio - 1.0), 100.0 * half
        row |= {
            "work_energy_more_pct": more,
            "work_energy_more_low_pct": more - edge,
            "work_energy_more_high_pct": more + edge,
            "outlier": bool(abs(more) > edge),
        }
