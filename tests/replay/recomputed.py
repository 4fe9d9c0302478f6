"""What sentences of a diagnosis must state: from trace events, log lines and the log's covariance.

Nothing here asks the code that writes the sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tests.replay.raw_files import COLLECTIVE, EXPOSED, POLL_MS, WAITING, WINDOW_MS, Raw, caused, gaps_of
from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.predict_run import predict_run


def reach(raw: Raw, source: Ledger, cause: str, model_error: float) -> tuple[float, float]:
    """Return what a cause's 90 % interval reaches down and up, from the covariance of the log's classes. [J]

    A cause has a part of each class's joules, and the same part of its errors; GPUs err by themselves, and
    on none is it less than 0 J.
    """
    measured = source.energies.measured
    assert measured is not None
    down, up = 0.0, 0.0
    for device, rank in enumerate(raw.ranks):
        classes = measured.classes[device]
        names = _signatures(source, device)
        part = np.zeros(len(classes.seconds))
        rows = source.rows.filter(pl.col("device") == device, pl.col("signature").is_not_null())
        work = rows.filter(pl.col("cause") != WAITING)
        whole = dict(work.group_by("signature").agg(pl.col("energy_j").sum()).iter_rows())
        for signature, energy_j in (
            work.filter(pl.col("cause") == cause).select("signature", "energy_j").iter_rows()
        ):
            part[names.index(signature)] = energy_j / whole[signature]
        if cause == WAITING and len(part) > len(names) + 2:
            part[len(names)] = 1.0
        part[-2:] = _idle_parts(gaps_of(rank)[caused(rank, cause)], classes.seconds)
        half = Z90 * float(np.sqrt(part @ classes.covariance @ part))
        mine = source.rows.filter(pl.col("device") == device, pl.col("cause") == cause)["energy_j"].sum()
        down, up = float(np.hypot(down, min(half, mine))), float(np.hypot(up, half))
    total = float(source.rows.filter(pl.col("cause") == cause)["energy_j"].sum())
    return float(np.hypot(down, model_error * total)), float(np.hypot(up, model_error * total))


@dataclass(frozen=True)
class Without:
    """A run without a cause: its makespan [ms], what it saves and half the 90 % interval of that. [J]"""

    makespan_ms: float
    saving_j: float
    half_j: float


def without(raw: Raw, source: Ledger, cause: str, model_error: float) -> Without:
    """Return what a run takes without a cause: launches shorter or idle times closed, at the log's watts."""
    table = source.energies.run.table("kernels", ("device", "start_ns", "signature")).sort("start_ns")
    rows = source.rows.filter(pl.col("signature").is_not_null())
    idle = source.rows.filter(pl.col("signature").is_null())
    idle_w = 1e3 * idle["energy_j"].sum() / idle["time_ms"].sum()
    count = int(table["signature"].max()) + 1  # type: ignore[arg-type]
    energy_j, part_j, part_ms, whole_ms = np.zeros((4, count))
    mine = rows.filter(pl.col("cause") == cause)
    np.add.at(energy_j, rows["signature"].to_numpy(), rows["energy_j"].to_numpy())
    np.add.at(whole_ms, rows["signature"].to_numpy(), rows["time_ms"].to_numpy())
    np.add.at(part_j, mine["signature"].to_numpy(), mine["energy_j"].to_numpy())
    np.add.at(part_ms, mine["signature"].to_numpy(), mine["time_ms"].to_numpy())
    if cause in ("tail", "slower than attainable"):  # SMs that wait: the joules are those of their time
        part_ms = np.minimum(1e3 * part_j / idle_w, whole_ms)
    if cause in (WAITING, EXPOSED):
        part_ms = np.zeros(count)
    factor = 1.0 - np.divide(part_ms, whole_ms, out=np.zeros(count), where=whole_ms > 0)
    factors = [
        factor[one["signature"].to_numpy()] for _, one in table.group_by("device", maintain_order=True)
    ]
    makespan_ms, waits_ms = raw.replayed(factors, cause, even=cause == WAITING)
    idle_saved_j = float(idle.filter(pl.col("cause") == cause)["energy_j"].sum())
    waits_j = rows.filter(pl.col("cause") == WAITING)
    waited = np.zeros(count)
    np.add.at(waited, waits_j["signature"].to_numpy(), waits_j["energy_j"].to_numpy())
    saved_j = np.where(cause == WAITING, 0.0, part_j)
    if waited.any():
        saved_j += waited * (1.0 - waits_ms / raw.waits().sum()) * (1.0 - saved_j / energy_j)
    if cause == EXPOSED:  # beside computation as far as there is any: idle SMs' power is paid once
        hidden_ms = part_hidden(raw)
        makespan_ms = raw.span_ms - hidden_ms
        saved_j = np.zeros(count)
        saved_j[_collective(source)] = 1e-3 * idle_w * hidden_ms * len(raw.ranks)
    saving_j = float(saved_j.sum()) + idle_saved_j
    whole = source.totals.row(-1, named=True)
    log = (whole["energy_high_j"] - whole["energy_low_j"]) / 2 / whole["energy_j"]
    mean = 1.0 - saving_j / whole["energy_j"]
    of_kernel, of_idle = _deviations(raw, source, count)
    split = (1.0 - saved_j / np.maximum(energy_j, 1e-300) - mean) * of_kernel
    idle_left = 1.0 - idle_saved_j / idle["energy_j"].sum()
    half = [model_error * saving_j, log * saving_j, *split, (idle_left - mean) * of_idle]
    return Without(makespan_ms, saving_j, float(np.linalg.norm(half)))


def part_hidden(raw: Raw) -> float:
    """Return how much moving of data fits beside the kernels of the ranks. [ms]"""
    moved = [rank.filter(pl.col("name").str.starts_with(COLLECTIVE)) for rank in raw.ranks]
    moving = [float((one["end"] - one["start"]).sum()) for one in moved]
    waits = raw.waits().sum(axis=1)
    return float(min(m - w for m, w in zip(moving, waits, strict=True)))


def _deviations(raw: Raw, source: Ledger, count: int) -> tuple[Floats, float]:
    """Return half the 90 % interval of each signature's joules and of idle time's, GPUs added up. [J]"""
    measured = source.energies.measured
    assert measured is not None
    of_kernel, of_idle = np.zeros(count), 0.0
    for device, classes in measured.classes.items():
        names = _signatures(source, device)
        half = Z90 * np.sqrt(np.diagonal(classes.covariance))
        of_kernel[names] += half[: len(names)]
        of_kernel[_collective(source)] += half[len(names) : -2].sum()
        part = np.zeros(len(half))
        part[-2:] = _idle_parts(gaps_of(raw.ranks[device]), classes.seconds)
        of_idle += float(Z90 * np.sqrt(part @ classes.covariance @ part))
    return of_kernel, of_idle


def _collective(source: Ledger) -> list[int]:
    rows = source.rows.filter(pl.col("name").str.starts_with(COLLECTIVE))
    return rows["signature"].unique().to_list()


def _signatures(source: Ledger, device: int) -> list[int]:
    measured = source.energies.measured
    assert measured is not None
    return measured.energy.filter(pl.col("device") == device)["signature"].drop_nulls().to_list()


def _idle_parts(gaps_ms: Floats, seconds: Floats) -> Floats:
    """Return which part of the two classes of idle time, up to a second and longer, some idle times are."""
    gaps = gaps_ms[gaps_ms > 0] * 1e-3
    return np.array([np.minimum(gaps, 1.0).sum(), np.maximum(gaps - 1.0, 0.0).sum()]) / seconds[-2:]


def at_clock(source: Ledger, mhz: float, *, cap_w: float | None = None) -> Without:
    """Return what a run takes at another clock: the log's joules at the ratio of two predictions."""
    plain, then = (
        predict_run(source.energies.run, clocks_mhz=clocks, power_cap_w=w)
        for clocks, w in ((None, None), ([mhz], cap_w))
    )
    each = [p.signatures.sort("signature") for p in (plain, then)]
    model_j = [(e["energy_mj"] * e["launches"]).to_numpy() for e in each]
    gaps = [p.totals[0]["gap_energy_j"] for p in (plain, then)]
    work = source.rows.drop_nulls("signature").group_by("signature").agg(pl.col("energy_j").sum())
    recorded_j = work.sort("signature")["energy_j"].to_numpy()
    idle_j = float(source.rows.filter(pl.col("signature").is_null())["energy_j"].sum())
    then_j = recorded_j * model_j[1] / model_j[0]
    whole = source.totals.row(-1, named=True)
    saving_j = whole["energy_j"] - float(then_j.sum()) - idle_j * gaps[1] / gaps[0]
    clocks = [e["clock_actual_mhz"].to_numpy() for e in each]
    octaves = np.abs(np.log2(clocks[1] / clocks[0]))
    spread = Z90 * np.sqrt((0.042 * octaves) ** 2 + 0.07**2 * octaves)  # docs/power.md
    log = (whole["energy_high_j"] - whole["energy_low_j"]) / 2 / whole["energy_j"]
    half = [0.25 * saving_j, float((spread * then_j).sum()), log * saving_j]
    return Without(then.totals[0]["makespan_ms"], saving_j, float(np.linalg.norm(half)))


def notes(raw: Raw, source: Ledger) -> list[list[float]]:
    """Return the numbers of a diagnosis's notes, GPU by GPU."""
    measured = source.energies.measured
    assert measured is not None
    several = len(measured.classes) > 1
    throttled: dict[tuple[float, ...], list[float]] = {}
    rest: list[list[float]] = []
    for device, classes in measured.classes.items():
        told: list[list[float]] = []
        log = raw.log.filter(pl.col("gpu") == device)
        top = log["clock"].max()
        slowed = 100.0 * float((log.filter(pl.col("utilization") > 50)["clock"] < top).mean())  # type: ignore[arg-type]
        throttled.setdefault((slowed, slowed, -slowed, float(log.height)), []).append(float(device))
        one = measured.observations[device]
        changed = np.flatnonzero(np.diff(log["power"].to_numpy()))
        update_ms = float(np.median(np.diff(changed))) * POLL_MS
        told.append([WINDOW_MS, update_ms, 1.0, Z90 * one.sensor.gain_sd])
        moved = 1e3 * np.array([one.alignment.offset_s, one.alignment.low_s, one.alignment.high_s])
        told.append(moved.tolist())
        hard = classes.identification.reason != ""
        if (hard & (classes.seconds > 0)).any():
            told.append([float((hard & (classes.seconds > 0)).sum()), float((classes.seconds > 0).sum())])
            groups = []
            for group in np.unique(classes.identification.group):
                member = classes.identification.group == group
                if group >= 0:
                    energy = float(classes.energy_j[member].sum())
                    half = Z90 * float(np.sqrt(classes.covariance[np.ix_(member, member)].sum()))
                    groups.append(
                        [float(group), float(member.sum()), energy, max(energy - half, 0.0), energy + half]
                    )
            told += sorted(groups, key=lambda one: -one[2])[:3]
        rest += [[float(device), *note] for note in told] if several else told
    # what is the same of several GPUs is said once
    return [[*devices, *figures] for figures, devices in throttled.items()] + rest
