"""The plain tables of a fine-grain campaign: executions, samples and sync points."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.measure.fingrav.campaign_runs import activities_of
from tracetool.measure.fingrav.executions import Executions, in_runs
from tracetool.measure.fingrav.interleaving import Activities
from tracetool.measure.fingrav.kernel_choice import chosen_kernel
from tracetool.measure.fingrav.stitch import Samples
from tracetool.sources.telemetry.readings import RANGES, check_watts
from tracetool.tables.table_file import stored_table


@dataclass(frozen=True)
class ClockMap:
    """Host time as a straight line of GPU time."""

    pivot_gpu_s: float  # GPU time the line is given at [s]
    pivot_host_s: float  # host time there [s]
    drift: float  # host seconds per GPU second, minus 1 [1]
    pivot_sd_s: float  # standard error at the pivot [s]
    drift_sd: float  # standard error of the drift [1]
    points: int

    def host(self, gpu_s: Floats) -> Floats:
        """Return host time of GPU stamps, shape of ``gpu_s``. [s]"""
        away = np.asarray(gpu_s, dtype=np.float64) - self.pivot_gpu_s
        return np.asarray(self.pivot_host_s + away * (1.0 + self.drift))

    def error(self, gpu_s: Floats) -> Floats:
        """Return the standard error of ``host``, shape of ``gpu_s``. [s]"""
        away = np.asarray(gpu_s, dtype=np.float64) - self.pivot_gpu_s
        return np.asarray(np.hypot(self.pivot_sd_s, self.drift_sd * away))


def fit_clock(host_s: Floats, gpu_s: Floats, delay_s: Floats, *, drift_sd: float = 1e-4) -> ClockMap:
    r"""Return the map from sync points.

    Parameters
    ----------
    host_s : array, shape (p,)
        Host time just before each read of the GPU's timestamp counter. [s]
    gpu_s : array, shape (p,)
        What the read returned. [s]
    delay_s : array, shape (p,)
        How long each read took on the host; or one delay benchmarked apart, repeated. [s]
    drift_sd : float
        Drift assumed possible where one point leaves it open. [1]

    Notes
    -----
    The counter is read about halfway through the call, so :math:`t = t_c + d/2` with a standard error
    of :math:`d/\sqrt{12}`; slow reads count little. Two points or more give the drift, which a single
    point leaves open.

    Raises
    ------
    BadInput
        If there is no sync point.
    """
    if not len(host_s):
        raise BadInput(
            "there is no sync point", "read the GPU's timestamp at least twice, with the host time"
        )
    middle = host_s + 0.5 * delay_s
    error = np.maximum(delay_s / np.sqrt(12.0), 1e-7)
    weight = 1.0 / error**2
    pivot = float(weight @ gpu_s / weight.sum())
    shift = middle - gpu_s
    base = float(weight @ shift / weight.sum())
    away = gpu_s - pivot
    lever = float(weight @ away**2)
    prior = 1.0 / drift_sd**2
    drift = float(weight @ (away * (shift - base))) / (lever + prior) if len(host_s) > 1 else 0.0
    miss = (shift - base - drift * away) / error
    spare = max(len(host_s) - 2, 1)
    worse = max(1.0, float(miss @ miss) / spare) if len(host_s) > 2 else 1.0
    return ClockMap(
        pivot,
        pivot + base,
        drift,
        float(np.sqrt(worse / weight.sum())),
        float(np.sqrt(worse / (lever + prior))),
        len(host_s),
    )


_US = 1e-6
#: Beyond these a float64 does not hold every microsecond. [us] By definition.
_LATEST_US = 2**53
#: No execution lasts longer: 30 days, as for kernels of traces. [us] A prior.
_LONGEST_US = 30 * 86_400 * 1_000_000
#: Clocks that differ by more were read in different units: quartz keeps to a ten thousandth. [1] A prior.
_MOST_DRIFT = 0.01


def _read(path: str | os.PathLike[str]) -> pl.DataFrame:
    file = Path(path)
    frame = stored_table(file, lambda raw: pl.read_csv(raw, infer_schema_length=None))
    if not frame.height:
        raise BadInput.in_file(file, "holds no rows", "give a row for each below its header")
    return frame


def _numbers(frame: pl.DataFrame, names: Sequence[str], path: str | os.PathLike[str]) -> dict[str, Floats]:
    out = {}
    for name in names:
        if name not in frame.columns:
            raise BadInput.in_file(path, f"missing column {name}", f"give {', '.join(names)}")
        column = frame[name].cast(pl.Float64, strict=False)
        good = column.is_finite().fill_null(value=False)
        if not good.all():
            raise BadInput.in_file(path, f"line {int((~good).arg_true()[0]) + 2}: {name} is not a number")
        if name.endswith("_us") and not (good := column.abs() < _LATEST_US).all():
            raise BadInput.in_file(path, f"line {int((~good).arg_true()[0]) + 2}: {name} is no time")
        out[name] = column.to_numpy()
    return out


def read_executions(
    path: str | os.PathLike[str], kernel: str | None = None
) -> tuple[Executions, str, Activities]:
    """Return the executions of one kernel of a table, its name, and all activities of the table.

    Parameters
    ----------
    path : path
        ``start_us``, ``end_us`` (host clock), optionally ``run`` and ``kernel``.
    kernel : str
        Part of the name where there are several; by default the kernel with most time.

    Raises
    ------
    BadInput
        If it cannot be used or holds no such kernel.
    """
    frame = _read(path)
    times_us = _numbers(frame, ("start_us", "end_us"), path)
    lengths_us = times_us["end_us"] - times_us["start_us"]
    for bad, fault in (
        (lengths_us <= 0.0, "ends before it starts"),
        (lengths_us > _LONGEST_US, "lasts more than 30 days"),
    ):
        if bad.any():
            raise BadInput.in_file(path, f"line {int(np.argmax(bad)) + 2}: the execution {fault}")
    start, end = times_us["start_us"] * _US, times_us["end_us"] * _US
    run = _numbers(frame, ("run",), path)["run"].astype(np.int64) if "run" in frame.columns else None
    names = _kernel_names(frame, path)
    spent = _times(names, end - start)
    chosen = chosen_kernel(spent, kernel)
    if chosen is None:
        raise BadInput.in_file(path, f"holds no kernel called {kernel!r}", "give part of a name it holds")
    own_rows = np.array([n == chosen for n in names])
    executions = in_runs(start[own_rows], end[own_rows], None if run is None else run[own_rows])
    return executions, chosen, activities_of(start, end, names, chosen)


def table_kernel_times(path: str | os.PathLike[str]) -> dict[str, float]:
    """Return the time of each kernel of a table of executions. [us]

    Raises
    ------
    BadInput
        If it cannot be used.
    """
    frame = _read(path)
    times_us = _numbers(frame, ("start_us", "end_us"), path)
    return _times(_kernel_names(frame, path), times_us["end_us"] - times_us["start_us"])


def _kernel_names(frame: pl.DataFrame, path: str | os.PathLike[str]) -> list[str]:
    """Return the kernel of each execution: the file's name where there is no such column."""
    if "kernel" not in frame.columns:
        return [Path(path).stem] * frame.height
    return frame["kernel"].cast(pl.String).fill_null("?").to_list()


def _times(names: Sequence[str], lengths: Floats) -> dict[str, float]:
    times: dict[str, float] = {}
    for name, length in zip(names, lengths.tolist(), strict=True):
        times[name] = times.get(name, 0.0) + length
    return times


def read_sync(path: str | os.PathLike[str]) -> ClockMap:
    """Return the clock map of a table ``host_us``, ``gpu_us``, ``delay_us``: one row per sync point.

    Raises
    ------
    BadInput
        If it cannot be used.
    """
    sync_us = _numbers(_read(path), ("host_us", "gpu_us", "delay_us"), path)
    if (late := sync_us["delay_us"] < 0.0).any():
        raise BadInput.in_file(path, f"line {int(np.argmax(late)) + 2}: delay_us is below 0")
    clock = fit_clock(sync_us["host_us"] * _US, sync_us["gpu_us"] * _US, sync_us["delay_us"] * _US)
    if abs(clock.drift) > _MOST_DRIFT:
        raise BadInput.in_file(
            path,
            f"its host's clock goes {1.0 + clock.drift:.3g} times as fast as its GPU's",
            "state host_us and gpu_us in microseconds, both as they rise",
        )
    return clock


def read_samples(
    path: str | os.PathLike[str], clock: ClockMap | None = None, window_s: float = 0.0
) -> Samples:
    """Return samples of a table with ``gpu_us`` or ``time_us``, ``power_w`` and any further ``*_w``.

    Parameters
    ----------
    path : path
        The table.
    clock : ClockMap, optional
        Maps ``gpu_us`` to the host's clock.
    window_s : float
        Averaging window of the sampler; 0 where instantaneous. [s]

    Raises
    ------
    BadInput
        If it cannot be used, its power is in another unit than watts, or it is on the GPU's clock and no sync
        points are given.
    """
    frame = _read(path)
    if clock is not None or "gpu_us" in frame.columns:
        if clock is None:
            raise BadInput.in_file(path, "is on the GPU's clock", "give the sync points: --sync SYNC.csv")
        gpu = _numbers(frame, ("gpu_us",), path)["gpu_us"] * _US
        time, error = clock.host(gpu), float(clock.error(gpu).max())
    else:
        time, error = _numbers(frame, ("time_us",), path)["time_us"] * _US, 0.0
    component_columns = [c for c in frame.columns if c.endswith("_w") and c != "power_w"]
    power = _numbers(frame, ("power_w", *component_columns), path)
    most_w = RANGES["power_w"][1]
    for name, values in power.items():
        check_watts(pl.Series(values), Path(path))
        least_w = 0.0 if name == "power_w" else -most_w  # a component's may be noise about nothing
        if (odd := (values < least_w) | (values > most_w)).any():
            row = int(np.argmax(odd))
            raise BadInput.in_file(path, f"line {row + 2}: no GPU draws {values[row]:g} W ({name})")
    order = np.argsort(time, kind="stable")
    named = {"total": power["power_w"][order], **{c[:-2]: power[c][order] for c in component_columns}}
    steps = np.diff(time[order])
    period = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1e-3
    return Samples(time[order], named, window_s, period, error)
