"""Attribute: measured energy per kernel, class and window, from sampled power."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import of_gpus
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.measure.attribute_windows import attributed_windows
from tracetool.measure.attributed_work import Work, work_of_activity
from tracetool.measure.attribution import Attribution
from tracetool.measure.device_attribution import LoggedDevice, attribute_device
from tracetool.measure.energy_tables import (
    alignment_record,
    of_signatures,
    sensor_record,
    window_table,
)
from tracetool.measure.logged_work import (
    UnusableLog,
    checked_log,
    checked_run,
    covered_notes,
    covered_parts,
    telemetry_of_run,
    verdict_line,
    work_of_devices,
)
from tracetool.measure.measured_scopes import measured_scopes
from tracetool.measure.power_log import logs_beside_activity, telemetry_devices
from tracetool.measure.prior_sources import ExpectedPower, PriorSource, expected_power_of
from tracetool.measure.requested_windows import read_requested_windows, windows_note
from tracetool.measure.sensors import read_sensor_file
from tracetool.measure.signature_sums import SignatureSums
from tracetool.tables.activity_table import read_activity
from tracetool.tables.benchmark_windows import holds_windows
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.windows import Window, is_large, refuse_large

#: What to do about an unusable log.
SEE_CHECKS = "tracetool check-power says what to correct"


def attribute_run(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    windows: str | os.PathLike[str] | None = None,
    prior: PriorSource | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
    usable_only: bool = False,
) -> Attribution:
    """Return the measured energy of each kernel signature of a run.

    Parameters
    ----------
    run : Run or path
        The run; its telemetry is used unless ``power`` is given.
    gpu : str, optional
        Name of the GPU; by default the one the run recorded. It determines the sensor.
    power : sequence of path, optional
        Power logs to use in place of the run's; the run must be on UTC.
    tz : str, optional
        Zone of those logs, e.g. ``+02:00``.
    windows : path, optional
        Table of windows (``start_us``, ``end_us``) whose energy is asked.
    prior : mapping, path or "model", optional
        Expected power by signature or name [W], a table of it (``signature`` or ``name``, ``power_w``), or
        the model's own. Without it measured stays independent of any model.
    sensor_file : path, optional
        A calibration of this very GPU's sensor.
    usable_only : bool
        Whether GPUs whose readings are unusable, as ``check-power`` judges, are left out; else their figures
        stand, and the first note says so.

    Raises
    ------
    UnusableLog
        If only usable readings were asked for and there are none.
    BadInput
        If there are no readings or no kernels, or the two do not overlap.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    if is_large(opened):
        if windows is not None:
            refuse_large(opened, "the energy of windows of its own", "leave out --windows")
        return _attribute_in_windows(
            opened,
            lambda window: attribute_run(
                window,
                gpu=gpu,
                power=power,
                tz=tz,
                prior=prior,
                sensor_file=sensor_file,
                usable_only=usable_only,
            ),
        )
    telemetry = telemetry_of_run(opened, power, tz)
    work, gpu_specs, pairs = work_of_devices(opened, telemetry, gpu)
    ran = opened.kernels["device"].unique().to_list()
    checked = (
        checked_log(telemetry, work, gpu_specs, pairs, ran)
        if power
        else checked_run(opened, telemetry, work, gpu_specs, pairs)
    )
    gpus = len(work)
    if usable_only:
        work = {
            logged: of_device for logged, of_device in work.items() if pairs[logged] not in checked.unusable
        }
        if not work:
            raise UnusableLog(verdict_line(checked.unusable, gpus), SEE_CHECKS)
    attribution = _attribute(
        telemetry,
        work,
        gpu_specs,
        windows=windows,
        prior=expected_power_of(prior, opened, gpu),
        sensor_file=sensor_file,
        source=str(opened.path),
        pairs=pairs,
    )
    covered = covered_parts(checked, attribution.observations, pairs, attribution.origin_ns)
    notes = (*covered_notes(covered, gpus), *attribution.notes)
    scopes = measured_scopes(opened, attribution.energy, attribution.sums, covered=covered)
    attribution = replace(attribution, notes=notes, covered=covered, scopes=scopes)
    return _judged(attribution, verdict_line(checked.unusable, gpus), left_out=usable_only)


def _judged(attribution: Attribution, verdict: str, *, left_out: bool) -> Attribution:
    """Return an attribution with the verdict of the checks as its first note, where it is unusable."""
    if not verdict:
        return attribution
    fate = "energies there are predicted" if left_out else "these energies are wrong or mostly missing"
    notes = (f"{verdict}: {fate}; {SEE_CHECKS}", *attribution.notes)
    return replace(attribution, notes=notes, verdict=verdict)


def _attribute_in_windows(run: Run, attribute: Callable[[Window], Attribution]) -> Attribution:
    """Return the measured energy of a large run, whose windows are attributed one after another."""
    added = attributed_windows(run, attribute)
    scopes = measured_scopes(run, added.energy, half_shares=added.half_shares)
    return replace(
        Attribution(added.energy, None, added.notes, added.first.alignment, added.first.sensor),
        origin_ns=added.first.origin_ns, scopes=scopes, half_shares=added.half_shares,
        verdict=added.first.verdict,
    )  # fmt: skip


def attribute_activity(
    activity: str | os.PathLike[str],
    *,
    power: Sequence[Path],
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
    windows: str | os.PathLike[str] | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
    prior: PriorSource | None = None,
) -> Attribution:
    """Return the measured energy of each named activity of a table.

    Parameters
    ----------
    activity : path
        Table of ``name``, ``start_us``, ``end_us`` (UTC epoch), or srt-slurm's windows of benchmarks.
    power : sequence of path
        Power logs.
    tz : str, optional
        Zone of logs in local time, e.g. ``+02:00``.
    gpu : str, optional
        Name of the GPU: it determines the sensor. Without it the log chooses among all classes.
    device : int, optional
        Which GPU of the log ran it; by default its first, of benchmarks all.
    windows, sensor_file, prior : optional
        As for :func:`attribute_run`; a table of activities has no shapes, so no model's prior.

    Raises
    ------
    BadInput
        If a file cannot be used, or log and activity do not overlap.
    """
    if callable(prior):
        raise BadInput.in_file(
            activity, "is a table of activities, whose power cannot be modeled", "give a run, or a table"
        )
    work = work_of_activity(read_activity(activity))
    telemetry, chosen = logs_beside_activity(activity, power, tz, device)
    gpu_spec = load_gpu(gpu, part="sensor") if gpu else None
    # a benchmark runs on every GPU of its package
    on_all_gpus = device is None and holds_windows(Path(activity))
    devices = telemetry_devices(telemetry) if on_all_gpus else [chosen]
    of_device, gpu_specs = dict.fromkeys(devices, work), dict.fromkeys(devices, gpu_spec)
    pairs = {d: d for d in devices}
    attribution = _attribute(
        telemetry,
        of_device,
        gpu_specs,
        windows=windows,
        prior=expected_power_of(prior, None, None),
        sensor_file=sensor_file,
        source=os.fspath(activity),
        pairs=pairs,
    )
    unusable = checked_log(telemetry, of_device, gpu_specs, pairs).unusable
    return _judged(attribution, verdict_line(unusable, len(devices)), left_out=False)


def _attribute(
    telemetry: pl.DataFrame,
    work: Mapping[int, Work],
    gpu_specs: Mapping[int, Gpu | None],
    *,
    windows: str | os.PathLike[str] | None,
    prior: ExpectedPower,
    sensor_file: str | os.PathLike[str] | None,
    source: str,
    pairs: Mapping[int, int],
) -> Attribution:
    requested_windows = read_requested_windows(windows, telemetry) if windows is not None else None
    sensor_values = read_sensor_file(Path(sensor_file)) if sensor_file is not None else {}
    origin = int(telemetry["time_ns"].drop_nulls().min() or 0)  # type: ignore[arg-type]
    of_device = {
        pairs[logged]: attribute_device(
            telemetry,
            device_work,
            LoggedDevice(logged, pairs[logged], gpu_specs[logged]),
            origin_ns=origin,
            windows=requested_windows,
            prior=prior,
            sensor_values=sensor_values,
            source=source,
        )
        for logged, device_work in work.items()
    }
    devices = of_device.values()
    of_windows = [one.windows for one in devices if one.windows]
    windows_j = None if requested_windows is None else window_table(requested_windows, of_windows)
    return Attribution(
        load_schema("energy").conform(pl.concat([one.energy for one in devices], how="diagonal")),
        windows_j,
        (*_notes({gpu: one.notes for gpu, one in of_device.items()}), *windows_note(windows_j)),
        {str(device): alignment_record(one.observation) for device, one in of_device.items()},
        {str(device): sensor_record(one.observation) for device, one in of_device.items()},
        {device: one.observation for device, one in of_device.items()},
        {device: one.classes for device, one in of_device.items()},
        origin,
        {device: one.expected_w for device, one in of_device.items() if one.expected_w is not None},
        throttled={device: one.throttled for device, one in of_device.items() if one.throttled},
        sums=SignatureSums(
            {
                pairs[logged]: np.array([s for s in device_work.signature if s is not None], np.int64)
                for logged, device_work in work.items()
            },
            {
                pairs[logged]: of_signatures(device_work, of_device[pairs[logged]].classes)
                for logged, device_work in work.items()
            },
        ),
        class_notes=_notes({gpu: one.class_notes for gpu, one in of_device.items()}),
    )


def _notes(of_device: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """Return the notes of all GPUs, each with its GPU where there are several."""
    several = len(of_device) > 1
    return tuple(
        of_gpus(
            [
                f"GPU {gpu}: {note}" if several and not note.startswith("GPU ") else note
                for gpu, notes in of_device.items()
                for note in notes
            ]
        )
    )
