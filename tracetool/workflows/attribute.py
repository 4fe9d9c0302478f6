"""Attribute: measured energy per kernel, class and window, from sampled power."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.measure.attribution import ClassEnergy, attribute_classes
from tracetool.measure.counter import check_counter
from tracetool.measure.observe import Observation, observe
from tracetool.measure.power_log import PowerLog, power_logs, telemetry_devices
from tracetool.measure.sensors import calibrated, candidate_sensors, read_sensor_file
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.measure.windows import WindowEnergy, window_energy
from tracetool.sources.telemetry import read_telemetry
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.vocabulary.arrays import Floats, Ints
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.interval import Z90
from tracetool.workflows.activity_files import read_activity, read_windows

_NS = 1e-9
#: How far off the stamps of a profiler, and those a host program takes around its work, may be. [s]
_TRACE_JITTER_S = 2e-5
_HOST_JITTER_S = 3e-4


@dataclass(frozen=True)
class Attribution:
    """Measured energy of a run or an activity table.

    ``energy`` has one row per device and class, ``windows`` one per asked window (or is None).
    """

    energy: pl.DataFrame
    windows: pl.DataFrame | None
    notes: tuple[str, ...]
    alignment: Mapping[str, Any]
    sensor: Mapping[str, Any] = field(default_factory=dict)
    observations: Mapping[int, Observation] = field(default_factory=dict, repr=False)
    classes: Mapping[int, ClassEnergy] = field(default_factory=dict, repr=False)
    origin_ns: int = 0


@dataclass(frozen=True)
class _Work:
    """Activities of one device, times in ns on the log's clock."""

    names: list[str]
    family: list[str | None]
    signature: list[int | None]
    label: Ints
    start_ns: Ints
    end_ns: Ints
    jitter_s: float

    def timeline(self, origin_ns: int) -> Timeline:
        start = (self.start_ns - origin_ns).astype(np.float64) * _NS
        end = (self.end_ns - origin_ns).astype(np.float64) * _NS
        return build_timeline(start, end, self.label, len(self.names), self.jitter_s)


def attribute_run(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    windows: str | os.PathLike[str] | None = None,
    prior: Mapping[int, float] | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
) -> Attribution:
    """Return the measured energy of each kernel signature of a run.

    Parameters
    ----------
    run : Run or path
        The run; its telemetry is used unless ``power`` is given.
    gpu : str, optional
        Name of the GPU; by default the one the run recorded. It tells the sensor.
    power : sequence of path, optional
        Power logs to use in place of the run's; the run must be on UTC.
    tz : str, optional
        Zone of those logs, e.g. ``+02:00``.
    windows : path, optional
        Table of windows (``start_us``, ``end_us``) whose energy is asked.
    prior : mapping of int to float, optional
        Expected power of each signature. Without it measured stays independent of any model. [W]
    sensor_file : path, optional
        A calibration of this very board's sensor.

    Raises
    ------
    BadInput
        If there are no readings or no kernels, or the two do not overlap.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    telemetry = _telemetry(power, tz) if power else opened.telemetry
    domain = str(dict(opened.info.get("clock") or {}).get("domain", "utc"))
    if power and domain != "utc":
        raise BadInput.in_file(
            opened.path, f"is on a {domain} clock, the log on UTC", "ingest them together: --power LOG"
        )
    devices = telemetry_devices(telemetry)
    if not devices:
        raise BadInput.in_file(opened.path, "holds no power readings", "give a log: --power LOG")
    kernels = opened.kernels
    if not kernels.height:
        raise BadInput.in_file(opened.path, "holds no activities", "ingest a trace with GPU activity")
    known = {row["device"]: row for row in opened.devices.iter_rows(named=True)}
    pairs = _pair_devices(devices, sorted(kernels["device"].unique().to_list()))
    if not pairs:
        raise BadInput.in_file(opened.path, "the readings are of other devices than the kernels")
    work, boards = {}, {}
    for logged, device in pairs.items():
        row = known.get(device, {})
        asked = gpu or row.get("gpu") or match_gpu(row.get("name") or "")
        boards[logged] = load_gpu(asked, part="sensor") if asked else None
        work[logged] = _run_work(opened, kernels.filter(pl.col("device") == device))
    return _attribute(
        telemetry,
        work,
        boards,
        windows=windows,
        prior=prior or {},
        sensor_file=sensor_file,
        where=str(opened.path),
        pairs=pairs,
    )


def attribute_activity(
    activity: str | os.PathLike[str],
    *,
    power: Sequence[Path],
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
    windows: str | os.PathLike[str] | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
) -> Attribution:
    """Return the measured energy of each named activity of a table.

    Parameters
    ----------
    activity : path
        Table of ``name``, ``start_us``, ``end_us`` (UTC epoch).
    power : sequence of path
        Power logs.
    tz : str, optional
        Zone of logs in local time, e.g. ``+02:00``.
    gpu : str, optional
        Name of the GPU: it tells the sensor. Without it the log chooses among all classes.
    device : int, optional
        Which GPU of the log ran it; by default its first.
    windows, sensor_file : path, optional
        As for :func:`attribute_run`.

    Raises
    ------
    BadInput
        If a file cannot be used, or log and activity do not overlap.
    """
    if not power:
        raise BadInput.in_file(
            activity, "is a table of activities without a power log", "give one: --power LOG"
        )
    table = read_activity(activity)
    telemetry = _telemetry(power, tz)
    logged = telemetry_devices(telemetry)
    if not logged:
        raise BadInput.in_file(power[0], "holds no power readings")
    chosen = logged[0] if device is None else device
    if chosen not in logged:
        raise BadInput(f"the log has no device {chosen}", f"it has: {', '.join(map(str, logged))}")
    names = table["name"].unique(maintain_order=True).to_list()
    index = {n: i for i, n in enumerate(names)}
    work = _Work(
        names,
        [None] * len(names),
        [None] * len(names),
        table["name"].replace_strict(index, return_dtype=pl.Int64).to_numpy(),
        table["start_us"].to_numpy() * 1000,
        table["end_us"].to_numpy() * 1000,
        _HOST_JITTER_S,
    )
    board = load_gpu(gpu, part="sensor") if gpu else None
    return _attribute(
        telemetry,
        {chosen: work},
        {chosen: board},
        windows=windows,
        prior={},
        sensor_file=sensor_file,
        where=os.fspath(activity),
        pairs={chosen: chosen},
    )


def _telemetry(power: Sequence[Path], tz: str | None) -> pl.DataFrame:
    return pl.concat([read_telemetry(p, tz) for p in power]).sort("device", "time_ns", maintain_order=True)


def _pair_devices(logged: list[int], ran: list[int]) -> dict[int, int]:
    """Log device to run device: the same number, or the only one of each."""
    both = {d: d for d in logged if d in ran}
    return both or ({logged[0]: ran[0]} if len(logged) == len(ran) == 1 else {})


def _run_work(run: Run, kernels: pl.DataFrame) -> _Work:
    from tracetool.classify.classify import classify_names

    ids = kernels["signature"].unique().sort()
    rows = run.signatures.filter(pl.col("signature").is_in(ids.implode())).sort("signature")
    names = rows["name"].to_list()
    said = classify_names(sorted(set(names)))
    family = dict(zip(said["name"].to_list(), said["family"].to_list(), strict=True))
    kinds = rows["kind"].to_list()
    start = kernels["start_ns"].to_numpy()
    return _Work(
        names,
        [family.get(n) if k == "kernel" else k for n, k in zip(names, kinds, strict=True)],
        rows["signature"].to_list(),
        np.searchsorted(rows["signature"].to_numpy(), kernels["signature"].to_numpy()).astype(np.int64),
        start,
        start + kernels["duration_ns"].to_numpy(),
        _TRACE_JITTER_S,
    )


def _check_overlap(work: _Work, log: PowerLog, origin_ns: int, where: str) -> None:
    start = (float(work.start_ns.min()) - origin_ns) * _NS
    end = (float(work.end_ns.max()) - origin_ns) * _NS
    first, last = float(log.time_s[0]), float(log.time_s[-1])
    if start <= last and end >= first:
        return
    hours = round((0.5 * (start + end) - 0.5 * (first + last)) / 900) / 4
    near = abs(hours) <= 15 and hours != 0
    raise BadInput.in_file(
        where,
        f"its activity and the power log do not overlap (the log begins {first - start:+.0f} s after it)",
        f"is the zone right? it would fit if --tz were {abs(hours):g} h {'less' if hours > 0 else 'more'}"
        if near
        else "give the log of the same run",
    )


def _attribute(
    telemetry: pl.DataFrame,
    work: Mapping[int, _Work],
    boards: Mapping[int, Gpu | None],
    *,
    windows: str | os.PathLike[str] | None,
    prior: Mapping[int, float],
    sensor_file: str | os.PathLike[str] | None,
    where: str,
    pairs: Mapping[int, int],
) -> Attribution:
    asked = read_windows(windows) if windows is not None else None
    stated = read_sensor_file(Path(sensor_file)) if sensor_file is not None else {}
    origin = int(telemetry["time_ns"].drop_nulls().min() or 0)  # type: ignore[arg-type]
    tables, notes, aligned, sensors = [], [], {}, {}
    seen: dict[int, Observation] = {}
    classes: dict[int, ClassEnergy] = {}
    sums: list[WindowEnergy] = []
    for logged, mine in work.items():
        log = power_logs(telemetry, logged, origin)[0]
        _check_overlap(mine, log, origin, where)
        board = boards[logged]
        likely = [calibrated(s, stated) for s in candidate_sensors(board, log.field, None)]
        found = observe(log, mine.timeline(origin), likely)
        limit = board.power_limit_w if board is not None else np.nan
        counted = check_counter(log)
        counter = log if counted is not None and counted.usable else None
        expected = _expected(mine, prior)
        made = attribute_classes(found, expected_w=expected, limit_w=limit, counter=counter)
        seen[logged], classes[logged] = found, made
        tables.append(_energy_table(mine, made, pairs[logged]))
        aligned[str(pairs[logged])] = _aligned(found)
        sensors[str(pairs[logged])] = _sensor(found)
        notes += _notes(found, board, made)
        if counted is not None:
            notes.append(counted.say())
        if asked is not None:
            start = (asked["start_us"].to_numpy() * 1000 - origin) * _NS
            end = (asked["end_us"].to_numpy() * 1000 - origin) * _NS
            sums.append(window_energy(found, start, end))
    energy = load_schema("energy").conform(pl.concat(tables))
    table = None if asked is None else _window_table(asked, sums)
    return Attribution(energy, table, tuple(notes), aligned, sensors, seen, classes, origin)


def _expected(work: _Work, prior: Mapping[int, float]) -> Floats | None:
    if not prior:
        return None
    return np.array([np.nan if s is None else prior.get(s, np.nan) for s in work.signature])


def _energy_table(work: _Work, made: ClassEnergy, device: int) -> pl.DataFrame:
    low, high = made.interval()
    group, _ = made.group_energy()
    seconds = np.where(made.seconds > 0, made.seconds, np.nan)
    nothing = np.isnan(made.power_w)
    hide = np.where(nothing, np.nan, 0.0)
    frame = pl.DataFrame(
        {
            "class": [*work.names, "(gap)", "(idle)"],
            "family": pl.Series([*work.family, None, None], dtype=pl.String),
            "signature": pl.Series([*work.signature, None, None], dtype=pl.Int64),
            "device": device,
            "launches": made.launches.astype(np.int64),
            "duration_ns": np.round(made.seconds / _NS).astype(np.int64),
            "power_w": made.power_w,
            "power_low_w": low / seconds,
            "power_high_w": high / seconds,
            "energy_j": made.energy_j + hide,
            "energy_low_j": low + hide,
            "energy_high_j": high + hide,
            "coverage": made.found.coverage,
            "prior_share": made.prior_share,
            "identified": made.found.known,
            "reason": made.found.reason.tolist(),
            "group": made.found.group,
            "group_energy_j": group,
        }
    )
    floats = [c for c, t in frame.schema.items() if t == pl.Float64]
    return frame.with_columns(
        pl.col(floats).fill_nan(None),
        pl.when(pl.col("reason") == "").then(None).otherwise(pl.col("reason")).alias("reason"),
        pl.when(pl.col("group") < 0).then(None).otherwise(pl.col("group")).alias("group"),
    )


def _window_table(asked: pl.DataFrame, parts: Sequence[WindowEnergy]) -> pl.DataFrame:
    energy = np.sum([p.energy_j for p in parts], axis=0)
    down = np.sqrt(np.sum([(p.energy_j - p.low_j) ** 2 for p in parts], axis=0))
    up = np.sqrt(np.sum([(p.high_j - p.energy_j) ** 2 for p in parts], axis=0))
    frame = asked.with_columns(
        energy_j=pl.Series(energy).fill_nan(None),
        energy_low_j=pl.Series(energy - down).fill_nan(None),
        energy_high_j=pl.Series(energy + up).fill_nan(None),
        coverage=pl.Series(np.mean([p.coverage for p in parts], axis=0)),
    )
    return load_schema("windows").conform(frame)


def _aligned(found: Observation) -> dict[str, Any]:
    a = found.alignment
    return {"offset_ms": a.offset_s * 1e3, "low_ms": a.low_s * 1e3, "high_ms": a.high_s * 1e3}


def _sensor(found: Observation) -> dict[str, Any]:
    s = found.sensor
    return {
        "field": found.field,
        "kind": s.kind,
        "window_ms": None if not np.isfinite(s.window_s) else s.window_s * 1e3,
        "lag_ms": s.lag_s * 1e3,
        "update_ms": found.readings.update_s * 1e3,
        "gain": s.gain,
        "gain_low": s.gain - Z90 * s.gain_sd,
        "gain_high": s.gain + Z90 * s.gain_sd,
        "offset_w": s.offset_w,
        "basis": s.basis,
        "source": s.source,
    }


def _notes(found: Observation, board: Gpu | None, made: ClassEnergy) -> list[str]:
    s, a = found.sensor, found.alignment
    window = f"{s.window_s * 1e3:.0f} ms window" if s.kind == "boxcar" else f"{s.lag_s * 1e3:.0f} ms lag"
    title = board.title if board is not None else "a GPU nobody named"
    told = (
        f"{found.field} of {title}: {window}, an update every {found.readings.update_s * 1e3:.1f} ms,"
        f" gain {s.gain:.3f} +- {Z90 * s.gain_sd:.3f} ({s.basis}, {s.source})"
    )
    moved = (
        f"the timeline was moved {a.offset_s * 1e3:+.1f} ms (90 %: {a.low_s * 1e3:+.1f} to"
        f" {a.high_s * 1e3:+.1f}) to meet the log"
    )
    notes = [told, moved]
    unknown = int((~made.found.known & (made.seconds > 0)).sum())
    if unknown:
        notes.append(f"{unknown} of {int((made.seconds > 0).sum())} classes cannot be told apart by this log")
    return notes
