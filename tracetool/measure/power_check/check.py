"""Check a run's power log against its trace: every GPU, every check, one verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted, of_gpus
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.measure.attributed_work import Work, work_of_activity, work_of_run
from tracetool.measure.counter import counter_readings
from tracetool.measure.observe import as_boxcar, choose_sensor
from tracetool.measure.power_check import clocks, conditions, extent, values
from tracetool.measure.power_check.finding import Finding, LogCase, worst
from tracetool.measure.power_check.other_gpus import renumbered
from tracetool.measure.power_log import (
    logs_beside_activity,
    paired_devices,
    power_logs,
    read_power_logs,
    telemetry_devices,
)
from tracetool.measure.readings import query_times, resolve_updates
from tracetool.measure.sampled_activity import sampled_activity
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.sources.telemetry.logs import read_log, to_utc
from tracetool.sources.telemetry.readings import reject_impossible
from tracetool.tables.activity_table import read_activity
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.scopes import device_readings, gpu_readings

#: Checks in the order they are reported.
CHECKS: Final[tuple[Callable[[LogCase], Finding], ...]] = (
    extent.coverage, extent.gaps, extent.polling, extent.stamps, values.readings_range, values.stuck,
    values.quantization, conditions.sensor, clocks.clock, clocks.drift, clocks.beat, conditions.idle,
    extent.outside, conditions.throttling, values.counter,
)  # fmt: skip


@dataclass(frozen=True)
class CheckedPower:
    """Verdict on a power log.

    Parameters
    ----------
    verdict : str
        ``good``, ``usable`` or ``unusable``: that of the worst check.
    findings : DataFrame
        One row per GPU and check: the ``power_check`` table.
    unusable : mapping of int to str
        The GPUs whose energies would be wrong, as the trace numbers them, and why. A beat is none of it: it
        makes integrated power wrong, and attribution does not integrate.
    """

    verdict: str
    findings: pl.DataFrame
    unusable: Mapping[int, str] = field(default_factory=dict)

    @property
    def reasons(self) -> list[str]:
        """Reasons why the log is not good, worst first."""
        rows = [r for r in self.findings.iter_rows(named=True) if r["verdict"] != "good"]
        rows.sort(key=lambda r: r["verdict"] != "unusable")
        several = self.findings["device"].drop_nulls().n_unique() > 1
        return of_gpus(
            [
                (f"GPU {r['device']}: " if several and r["device"] is not None else "")
                + f"{r['check']}: {r['reason']}"
                for r in rows
            ]
        )

    def results(self) -> list[tuple[str, str, str]]:
        """Return verdict, check and result, the worst first; GPUs with the same result share one row."""
        several = self.findings["device"].drop_nulls().n_unique() > 1
        rank = pl.col("verdict").replace_strict({"unusable": 0, "usable": 1, "good": 2}, return_dtype=pl.Int8)
        of_checks = self.findings.group_by("verdict", "check", maintain_order=True).agg("device", "reason")
        rows = []
        for verdict, check, devices, reasons in of_checks.sort(rank, maintain_order=True).iter_rows():
            said = [
                f"GPU {device}: {reason}" if several and device is not None else reason
                for device, reason in zip(devices, reasons, strict=True)
            ]
            rows += [(verdict, check, text) for text in of_gpus(said)]
        return rows

    def covered(self) -> dict[int, float]:
        """Return the share of its work's time that the log covers, of each GPU by the log's number. [1]"""
        rows = self.findings.filter((pl.col("check") == "coverage") & pl.col("value").is_not_null())
        return {d: float(pct) / 100.0 for d, pct in rows.select("device", "value").iter_rows()}

    def sentence(self) -> str:
        """Return verdict and reasons in one line."""
        return f"power log: {self.verdict}" + (f" ({'; '.join(self.reasons)})" if self.reasons else "")


#: Checks of what integrating the readings would miss.
_OF_INTEGRALS: Final = frozenset({"beat"})


def check_telemetry(
    telemetry: pl.DataFrame,
    work: Mapping[int, Work],
    gpus: Mapping[int, Gpu | None],
    *,
    ran: Collection[int] = (),
    others: pl.DataFrame | None = None,
) -> CheckedPower:
    """Check the readings of each GPU against what ran on it.

    Parameters
    ----------
    telemetry : DataFrame
        The ``telemetry`` table.
    work : mapping of int to Work
        What ran, by GPU; empty where there is no trace.
    gpus : mapping of int to Gpu or None
        The GPUs: they determine the sensor and the limit.
    ran : collection of int, optional
        All GPUs that worked, where ``work`` is that of those in the log alone.
    others : DataFrame, optional
        Readings of all GPUs of the log, where ``telemetry`` is that of those that worked alone.

    Raises
    ------
    BadInput
        If the log holds no power reading at all.
    """
    logged = telemetry_devices(telemetry)
    if not logged:
        raise BadInput("the log holds no power readings", "give a log: --power LOG")
    origin = int(telemetry["time_ns"].min() or 0)  # type: ignore[arg-type]
    pairs = paired_devices(logged, sorted(work))
    beside = telemetry if others is None else others
    packages = _shared_packages(sorted({*ran, *work}), gpus)
    identity = _package_identity(packages, gpus) or _identity(telemetry, logged, sorted(work), pairs)
    rows = [identity.row(None)]
    unusable = {pairs.get(d, d): _reason(identity.row(None)) for d in _copies_of(telemetry, logged)}
    unusable |= {d: _reason(identity.row(None)) for package in packages for d in package}
    for device in logged:
        if work and device not in pairs:
            continue
        own = pairs.get(device, device)
        case = _case(telemetry, device, origin, work.get(own), gpus.get(own))
        if case is None:
            of_device = [Finding("polling", "unusable", "fewer than three readings").row(device)]
        else:
            of_device = [check(case).row(device) for check in _applicable(case)]
            failed = [row for row in of_device if row["verdict"] == "unusable"]
            if other := renumbered(case, failed, lambda: _without_work(beside, pairs, origin)):
                of_device = [other.row(device), *of_device]
        rows += of_device
        wrong = [
            row for row in of_device if row["verdict"] == "unusable" and row["check"] not in _OF_INTEGRALS
        ]
        reasons = [_reason(row) for row in wrong]
        if reasons:
            unusable[own] = "; ".join([*([unusable[own]] if own in unusable else []), *reasons])
    findings = load_schema("power_check").conform(pl.DataFrame(rows, infer_schema_length=None))
    return CheckedPower(worst(findings["verdict"].to_list()), findings, unusable)


def _without_work(telemetry: pl.DataFrame, pairs: Mapping[int, int], origin: int) -> list[LogCase]:
    """Return the GPUs of a log that the trace does not name."""
    unnamed = [device for device in telemetry_devices(telemetry) if device not in pairs]
    cases = [_case(telemetry, device, origin, None, None) for device in unnamed]
    return [case for case in cases if case is not None]


def _reason(row: Mapping[str, object]) -> str:
    return f"{row['check']}: {row['reason']}"


def _applicable(case: LogCase) -> tuple[Callable[[LogCase], Finding], ...]:
    """Return the checks that mean something: of a log beside the trace only where it does not overlap."""
    first = extent.coverage(case)
    if first.value is not None and first.value <= 0.0:
        return (lambda _: first,)
    return (*CHECKS, conditions.activity) if sampled_activity(case.frame) else CHECKS


def _identity(
    telemetry: pl.DataFrame, logged: list[int], ran: list[int], pairs: Mapping[int, int]
) -> Finding:
    """Which GPUs of the trace are in the log, and whether two of its GPUs are one."""
    missing = [d for d in ran if d not in pairs.values()]
    if ran and missing:
        names = ", ".join(map(str, missing))
        reason = (
            f"the log holds {counted(len(pairs), 'GPU')} of the {len(ran)} that worked; without GPU {names}"
        )
        return Finding("identity", "unusable", reason, float(len(pairs)), "1")
    copies = _copied(telemetry, logged)
    if copies:
        first, second = copies[0]
        reason = f"GPU {first} and GPU {second} have the same readings: one GPU logged twice"
        return Finding("identity", "unusable", reason, float(len(logged)), "1")
    extra = len(logged) - len(ran) if ran else 0
    reason = f"{counted(len(logged), 'GPU')} in the log" + (f", {extra} without work" if extra > 0 else "")
    return Finding("identity", "good", reason, float(len(logged)), "1")


def _shared_packages(ran: list[int], gpus: Mapping[int, Gpu | None]) -> list[list[int]]:
    """Return the GPUs that worked beside others whose power the same reading holds, by package."""
    together = max((gpu.metered_gpus for gpu in gpus.values() if gpu is not None), default=1)
    packages: dict[int, list[int]] = {}
    for device in ran if together > 1 else []:
        packages.setdefault(device // together, []).append(device)
    return [package for package in packages.values() if len(package) > 1]


def _package_identity(packages: list[list[int]], gpus: Mapping[int, Gpu | None]) -> Finding | None:
    """Return that several GPUs of a package worked, whose energies one reading does not separate."""
    if not packages:
        return None
    gpu = max((gpu for gpu in gpus.values() if gpu is not None), key=lambda gpu: gpu.metered_gpus)
    shared = ", ".join(" and ".join(map(str, package)) for package in packages)
    reason = (
        f"one reading holds the power of the {gpu.metered_gpus} GPUs of a package of {gpu.name}, and GPUs"
        f" {shared} worked at once: record a run on one GPU of each package (ROCR_VISIBLE_DEVICES=0)"
    )
    return Finding("identity", "unusable", reason, float(len(packages)), "1")


def _copied(telemetry: pl.DataFrame, logged: list[int]) -> list[tuple[int, int]]:
    """Return pairs of GPUs whose readings are all equal."""
    if len(logged) < 2:
        return []
    powers = telemetry.select("device", "power_w").filter(pl.col("power_w").is_not_null())
    series = {d: powers.filter(pl.col("device") == d)["power_w"].to_numpy() for d in logged}
    return [
        (a, b)
        for i, a in enumerate(logged)
        for b in logged[i + 1 :]
        if len(series[a]) == len(series[b]) > 10
        and np.ptp(series[a]) > 0
        and bool((series[a] == series[b]).all())
    ]


def _copies_of(telemetry: pl.DataFrame, logged: list[int]) -> list[int]:
    """Return the GPUs whose readings are those of another one, too."""
    return sorted({d for pair in _copied(telemetry, logged) for d in pair})


def _case(
    telemetry: pl.DataFrame, device: int, origin: int, work: Work | None, gpu: Gpu | None
) -> LogCase | None:
    logs = power_logs(telemetry, device, origin)
    if not logs or len(logs[0].time_s) < 3:
        return None
    log = logs[0]
    timeline = None
    if work is not None:
        timeline = work.timeline(origin)
    query_s = query_times(log.time_s)
    sensors = candidate_sensors(gpu, log.field, None)
    empty = build_timeline(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), 1)
    candidates = len({(s.kind, s.field) for s in sensors})
    counted = counter_readings(log, sensors[0].update_s) if log.field == "counter" else None
    if counted is not None and len(counted) > 2:
        readings, sensor = counted, as_boxcar(sensors[0], counted)
        log = replace(log, time_s=readings.time_s, power_w=readings.power_w)
    else:
        sensor = choose_sensor(query_s, log.power_w, timeline or empty, sensors)
        readings = resolve_updates(query_s, log.power_w, sensor.update_s)
    if len(readings) < 2:
        return None
    frame = device_readings(telemetry, device)
    return LogCase(device, frame, log, readings, sensor, gpu, timeline, candidates)


def check_run(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
) -> CheckedPower:
    """Check the power log of a run, or another one beside it.

    Raises
    ------
    BadInput
        If the run has no readings.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    telemetry = read_power_logs(power, tz) if power else opened.telemetry
    if not telemetry_devices(telemetry):
        raise BadInput.in_file(opened.path, "holds no power readings", "give a log: --power LOG")
    kernels = opened.kernels
    names = {
        r["device"]: gpu or r["gpu"] or match_gpu(r["name"] or "")
        for r in opened.devices.iter_rows(named=True)
    }
    gpus = {d: load_gpu(n, part="sensor") if n else None for d, n in names.items()}
    if gpu and not gpus:
        gpus = dict.fromkeys(telemetry_devices(telemetry), load_gpu(gpu, part="sensor"))
    work = {
        d: work_of_run(opened, kernels.filter(pl.col("device") == d))
        for d in sorted(kernels["device"].unique().to_list())
    }
    return check_telemetry(telemetry, work, gpus)


def check_activity(
    activity: str | os.PathLike[str],
    *,
    power: Sequence[Path],
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
) -> CheckedPower:
    """Check a power log against a table of activities.

    Raises
    ------
    BadInput
        If a file cannot be used.
    """
    work = work_of_activity(read_activity(activity))
    telemetry, chosen = logs_beside_activity(activity, power, tz, device)
    spec = load_gpu(gpu, part="sensor") if gpu else None
    device_log = telemetry.filter(pl.col("device") == chosen)
    return check_telemetry(device_log, {chosen: work}, {chosen: spec})


def check_log(log: Path, *, tz: str | None = None, gpu: str | None = None) -> CheckedPower:
    """Check a power log alone: all that takes no trace. Without ``gpu`` the GPUs are those the log names.

    Raises
    ------
    BadInput
        If it is no log, or holds no power of a GPU.
    """
    trace = to_utc(reject_impossible(read_log(log), log), log, tz or "UTC")  # its zone changes no check
    readings = load_schema("telemetry").conform(trace.telemetry.with_columns(source=pl.lit(log.name)))
    telemetry = gpu_readings(readings).sort("device", "time_ns", maintain_order=True)
    logged = telemetry_devices(telemetry)
    if not logged:
        fix = "give a log of one: tracetool formats"
        raise BadInput.in_file(log, "holds no power readings of a GPU", fix)
    titles = trace.devices["name"].to_list() if "name" in trace.devices.columns else []
    names = {d: gpu or match_gpu(str(titles[d] or "") if d < len(titles) else "") for d in logged}
    specs = {d: load_gpu(name, part="sensor") if name else None for d, name in names.items()}
    return check_telemetry(telemetry, {}, specs)
