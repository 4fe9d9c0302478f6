"""Readings of a run's GPUs with the work that ran on them, and the verdict on each GPU's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.kernels.collective_matching import arrivals_ns
from tracetool.measure.attributed_work import Work, work_of_run
from tracetool.measure.design_matrix import span_of
from tracetool.measure.observe import Observation
from tracetool.measure.power_check.check import CheckedPower, check_telemetry
from tracetool.measure.power_check.extent import UNCOVERED
from tracetool.measure.power_log import paired_devices, read_power_logs, telemetry_devices
from tracetool.tables.run import Run
from tracetool.tables.scopes import rows_where


class UnusableLog(BadInput):
    """No GPU of the power log passed the checks of ``check-power``."""


def telemetry_of_run(run: Run, power: Sequence[Path], tz: str | None) -> pl.DataFrame:
    """Return the readings of the logs given, else those of the run; logs need a run on UTC."""
    telemetry = read_power_logs(power, tz) if power else run.telemetry
    domain = str(dict(run.info.get("clock") or {}).get("domain", "utc"))
    if power and domain != "utc":
        raise BadInput.in_file(
            run.path, f"is on a {domain} clock, the log on UTC", "ingest them together: --power LOG"
        )
    return telemetry


def work_of_devices(
    run: Run, telemetry: pl.DataFrame, gpu: str | None
) -> tuple[dict[int, Work], dict[int, Gpu | None], Mapping[int, int]]:
    """Return work and GPU of each logged device, and the device of the trace that each is."""
    devices = telemetry_devices(telemetry)
    if not devices:
        raise BadInput.in_file(
            run.path,
            "holds no power readings",
            "give a log: --power LOG; predicted energies: --by signature",
        )
    kernels = run.kernels
    if not kernels.height:
        raise BadInput.in_file(run.path, "holds no activities", "ingest a trace with GPU activity")
    device_rows = {row["device"]: row for row in run.devices.iter_rows(named=True)}
    pairs = paired_devices(devices, sorted(kernels["device"].unique().to_list()))
    if not pairs:
        raise BadInput.in_file(run.path, "the readings are of other devices than the kernels")
    work: dict[int, Work] = {}
    gpu_specs: dict[int, Gpu | None] = {}
    arrived_ns = arrivals_ns(run)
    for logged, device in pairs.items():
        row = device_rows.get(device, {})
        gpu_name = gpu or row.get("gpu") or match_gpu(row.get("name") or "")
        gpu_specs[logged] = load_gpu(gpu_name, part="sensor") if gpu_name else None
        on_device = kernels["device"].to_numpy() == device
        work[logged] = work_of_run(run, kernels.filter(pl.Series(on_device)), arrived_ns[on_device])
    return work, gpu_specs, pairs


#: A log that covers at least this share of the work's time covers it: stamps of log and trace are not exact.
#: [1] By definition: what the check of coverage calls good.
COVERED: Final = 1.0 - UNCOVERED[0]


@dataclass(frozen=True)
class Covered:
    """Part of a run that a GPU's log covers."""

    share: float  # of the time in which anything ran [1]
    first_ns: int  # on the trace's clock [ns]
    last_ns: int

    def outside(self, start_ns: Ints, end_ns: Ints) -> Floats:
        """Return the share of each interval that lies outside. Shape (n,). [1]"""
        length = np.asarray(end_ns - start_ns, dtype=np.float64)
        inside = np.minimum(end_ns, self.last_ns) - np.maximum(start_ns, self.first_ns)
        at = np.asarray((start_ns >= self.first_ns) & (start_ns <= self.last_ns), dtype=np.float64)
        return np.asarray(1.0 - np.divide(np.maximum(inside, 0.0), length, out=at, where=length > 0))


def covered_parts(
    checked: CheckedPower, observations: Mapping[int, Observation], pairs: Mapping[int, int], origin_ns: int
) -> dict[int, Covered]:
    """Return what the log covers of each GPU of which it covers a part, by the trace's numbers."""
    shares = {pairs[logged]: share for logged, share in checked.covered().items() if logged in pairs}
    parts = {}
    for device, observation in observations.items():
        if shares.get(device, 1.0) >= COVERED:
            continue
        span_s = span_of(observation.readings, observation.boxes)
        moved_s = observation.alignment.offset_s
        first_ns, last_ns = (origin_ns + round((at_s - moved_s) * 1e9) for at_s in span_s)
        parts[device] = Covered(shares[device], first_ns, last_ns)
    return parts


def covered_notes(covered: Mapping[int, Covered], gpus: int) -> list[str]:
    """Return a note on each GPU whose log covers only a part of the run.

    >>> covered_notes({0: Covered(0.676, 0, 1)}, 1)
    ['the log covers 67.6 % of the time in which anything ran: that much is measured']
    """
    return [
        f"the log covers {100.0 * part.share:.1f} % of the time in which anything ran"
        + (f" on GPU {device}" if gpus > 1 else "")
        + ": that much is measured"
        for device, part in covered.items()
    ]


def checked_log(
    telemetry: pl.DataFrame,
    work: Mapping[int, Work],
    gpu_specs: Mapping[int, Gpu | None],
    pairs: Mapping[int, int],
    ran: Collection[int] = (),
) -> CheckedPower:
    """Return the verdict of ``check-power`` on a log, for the GPUs that ran something.

    Parameters
    ----------
    telemetry : DataFrame
        Readings of all devices.
    work, gpu_specs : mapping of int
        What ran on each device, and its GPU, by the log's numbers.
    pairs : mapping of int to int
        The trace's number of each of them.
    ran : collection of int, optional
        All GPUs that worked, by the trace's numbers: one in no log may share the reading of one that is.
    """
    return check_telemetry(
        rows_where(telemetry, pl.col("device").is_in(list(pairs))),
        {pairs[logged]: of_device for logged, of_device in work.items()},
        {pairs[logged]: gpu for logged, gpu in gpu_specs.items()},
        ran=ran,
        others=telemetry,
    )


def checked_run(
    run: Run,
    telemetry: pl.DataFrame,
    work: Mapping[int, Work],
    gpu_specs: Mapping[int, Gpu | None],
    pairs: Mapping[int, int],
) -> CheckedPower:
    """Return :func:`checked_log` of a run's own log, computed once per run."""
    names = tuple((logged, gpu.name if gpu is not None else "") for logged, gpu in gpu_specs.items())
    key = ("checked log", names)
    if key not in run.memo:
        run.memo[key] = checked_log(
            telemetry, work, gpu_specs, pairs, run.kernels["device"].unique().to_list()
        )
    return cast("CheckedPower", run.memo[key])


def verdict_line(unusable: Mapping[int, str], gpus: int) -> str:
    """Return which GPUs of a log are unusable and why, of as many as the log holds; empty where none is.

    >>> verdict_line({0: "stuck: 9 s at 70.10 W: stuck"}, 1)
    'the power log is unusable (stuck: 9 s at 70.10 W: stuck)'
    >>> verdict_line({1: "range: 9 readings of 0 W"}, 2)
    'the power log is unusable for GPU 1 (range: 9 readings of 0 W)'
    """
    if not unusable:
        return ""
    if gpus == 1:
        return f"the power log is unusable ({next(iter(unusable.values()))})"
    return "the power log is unusable for " + ", ".join(f"GPU {d} ({why})" for d, why in unusable.items())
