"""Readings of a run's GPUs beside what ran on them, and what the checks of the log say of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.kernels.collective_matching import arrivals_ns
from tracetool.measure.attributed_work import Work, work_of_run
from tracetool.measure.power_check.check import check_telemetry
from tracetool.measure.power_log import paired_devices, read_power_logs, telemetry_devices
from tracetool.tables.run import Run


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


def unusable_gpus(
    telemetry: pl.DataFrame,
    work: Mapping[int, Work],
    gpu_specs: Mapping[int, Gpu | None],
    pairs: Mapping[int, int],
) -> Mapping[int, str]:
    """Return the GPUs, as the trace numbers them, whose readings ``check-power`` finds unusable, and why.

    Parameters
    ----------
    telemetry : DataFrame
        Readings of all devices.
    work, gpu_specs : mapping of int
        What ran on each device, and its GPU, by the log's numbers.
    pairs : mapping of int to int
        The trace's number of each of them.
    """
    checked = check_telemetry(
        telemetry.filter(pl.col("device").is_in(list(pairs))),
        {pairs[logged]: of_device for logged, of_device in work.items()},
        {pairs[logged]: gpu for logged, gpu in gpu_specs.items()},
    )
    return checked.unusable


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
