"""Attributed energy as tables, records and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.activity_energy import with_own_waits
from tracetool.measure.attributed_work import Work
from tracetool.measure.class_energy import ClassEnergy
from tracetool.measure.observe import Observation
from tracetool.measure.throttled_share import ThrottleLog, throttle_record, throttled_time
from tracetool.measure.timeline import ACTIVE_IDLE, IDLE
from tracetool.measure.windows import WindowEnergy
from tracetool.tables.schema import load_schema

_NS = 1e-9


def of_signatures(work: Work, class_energy: ClassEnergy) -> ClassEnergy:
    """Return the energies of whole activities: waits for other ranks go to the collectives that waited."""
    return class_energy if work.waited_ns is None else with_own_waits(class_energy, work.waited_ns)


def energy_table(work: Work, class_energy: ClassEnergy, device: int) -> pl.DataFrame:
    """Return one row per class, then active idle and idle, nearly in the ``energy`` schema."""
    waits = _wait_columns(work, class_energy)
    names, family, signature = work.names, work.family, work.signature
    if work.waited_ns is not None:
        names, family, signature = names[:-1], family[:-1], signature[:-1]
    class_energy = of_signatures(work, class_energy)
    low, high = class_energy.interval()
    group, group_sd = class_energy.group_energy()
    seconds = np.where(class_energy.seconds > 0, class_energy.seconds, np.nan)
    nothing = np.isnan(class_energy.power_w)
    hide = np.where(nothing, np.nan, 0.0)
    frame = pl.DataFrame(
        {
            "class": [*names, ACTIVE_IDLE, IDLE],
            "family": pl.Series([*family, None, None], dtype=pl.String),
            "signature": pl.Series([*signature, None, None], dtype=pl.Int64),
            "device": device,
            "launches": class_energy.launches.astype(np.int64),
            "duration_ns": np.round(class_energy.seconds / _NS).astype(np.int64),
            "power_w": class_energy.power_w,
            "power_low_w": low / seconds,
            "power_high_w": high / seconds,
            "energy_j": class_energy.energy_j + hide,
            "energy_low_j": low + hide,
            "energy_high_j": high + hide,
            "coverage": class_energy.identification.coverage,
            "prior_share": class_energy.prior_share,
            "identified": class_energy.identification.identified,
            "reason": class_energy.identification.reason.tolist(),
            "group": class_energy.identification.group,
            "group_energy_j": group,
            "group_low_j": np.maximum(group - Z90 * group_sd, 0.0),
            "group_high_j": group + Z90 * group_sd,
            **waits,
        }
    )
    floats = [c for c, t in frame.schema.items() if t == pl.Float64]
    return frame.with_columns(
        pl.col(floats).fill_nan(None),
        pl.when(pl.col("reason") == "").then(None).otherwise(pl.col("reason")).alias("reason"),
        pl.when(pl.col("group") < 0).then(None).otherwise(pl.col("group")).alias("group"),
    )


def with_throttled(
    table: pl.DataFrame, work: Work, log: ThrottleLog, observation: Observation
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return a GPU's energy table with throttled shares, and the record of its kernels, empty if open."""
    k = table.height - 2
    throttled = throttled_time(log, observation.timeline)
    columns = [
        pl.Series(f"throttled_share{end}", [*values[:k], np.nan, np.nan], dtype=pl.Float64).fill_nan(None)
        for end, values in (("", throttled.share), ("_low", throttled.low), ("_high", throttled.high))
    ]
    waited_ns = table["wait_ns"].fill_null(0.0).to_numpy()[:k]
    seconds = (table["duration_ns"].to_numpy()[:k] - waited_ns) * _NS
    if work.waited_ns is not None:  # the last class of work
        seconds = np.append(seconds, waited_ns.sum() * _NS)
    record = throttle_record(log, throttled, np.where(work.copies, 0.0, seconds))
    return table.with_columns(columns), record or {}


def _wait_columns(work: Work, class_energy: ClassEnergy) -> dict[str, Floats]:
    """Return time and energy that each class waited for other ranks, NaN where none did. [ns], [J]"""
    names = ("wait_ns", "wait_energy_j", "wait_energy_low_j", "wait_energy_high_j")
    if work.waited_ns is None:
        return {name: np.full(len(work.names) + 2, np.nan) for name in names}
    k = len(work.waited_ns)
    low, high = class_energy.interval()
    waited = np.concatenate([work.waited_ns, [0, 0]])
    share = np.where(waited > 0, waited / waited.sum(), np.nan)
    columns = (class_energy.seconds[k] / _NS, class_energy.energy_j[k], low[k], high[k])
    return {name: share * wait_total for name, wait_total in zip(names, columns, strict=True)}


def window_table(windows: pl.DataFrame, device_windows: Sequence[WindowEnergy]) -> pl.DataFrame:
    """Return the requested windows with the energy of all devices together."""
    energy = np.sum([of_device.energy_j for of_device in device_windows], axis=0)
    down = np.sqrt(
        np.sum([(of_device.energy_j - of_device.low_j) ** 2 for of_device in device_windows], axis=0)
    )
    up = np.sqrt(
        np.sum([(of_device.high_j - of_device.energy_j) ** 2 for of_device in device_windows], axis=0)
    )
    frame = windows.with_columns(
        energy_j=pl.Series(energy).fill_nan(None),
        energy_low_j=pl.Series(energy - down).fill_nan(None),
        energy_high_j=pl.Series(energy + up).fill_nan(None),
        coverage=pl.Series(np.mean([of_device.coverage for of_device in device_windows], axis=0)),
    )
    return load_schema("windows").conform(frame)


def alignment_record(observation: Observation) -> dict[str, Any]:
    """Return the offset of the timeline, in milliseconds."""
    a = observation.alignment
    return {
        "offset_ms": a.offset_s * 1e3,
        "low_ms": a.low_s * 1e3,
        "high_ms": a.high_s * 1e3,
        "drift_ppm": a.drift * 1e6,
    }


def sensor_record(observation: Observation) -> dict[str, Any]:
    """Return the sensor behind a log as plain values."""
    s = observation.sensor
    return {
        "field": observation.field,
        "kind": s.kind,
        "window_ms": None if not np.isfinite(s.window_s) else s.window_s * 1e3,
        "window_sd_ms": observation.window_sd_s * 1e3,
        "lag_ms": s.lag_s * 1e3,
        "update_ms": observation.readings.update_s * 1e3,
        "gain": s.gain,
        "gain_low": s.gain - Z90 * s.gain_sd,
        "gain_high": s.gain + Z90 * s.gain_sd,
        "offset_w": s.offset_w,
        "basis": s.basis,
        "source": s.source,
    }


def gain_basis(sensor: Sensor) -> str:
    """Return the basis of a sensor's gain, in words."""
    if sensor.source == "calibration file":
        return "calibration file"
    gain_measured = sensor.gain != 1.0 or sensor.offset_w != 0.0
    return (
        f"other GPUs of this model, {sensor.source}"
        if gain_measured
        else f"spread of GPU models, {sensor.source}"
    )


def attribution_notes(observation: Observation, gpu_spec: Gpu | None) -> list[str]:
    """Return notes on a log: its sensor and alignment."""
    s, a = observation.sensor, observation.alignment
    window = f"{s.window_s * 1e3:.0f} ms window" if s.kind == "boxcar" else f"{s.lag_s * 1e3:.0f} ms lag"
    title = gpu_spec.title if gpu_spec is not None else "an unnamed GPU"
    sensor_note = (
        f"{observation.field} of {title}: {window},"
        f" an update every {observation.readings.update_s * 1e3:.1f} ms,"
        f" gain {s.gain:.3f} ± {Z90 * s.gain_sd:.3f} (90 %: {gain_basis(s)})"
    )
    moved = (
        f"timeline shifted by {a.offset_s * 1e3:+.1f} ms (90 %: {a.low_s * 1e3:+.1f} to"
        f" {a.high_s * 1e3:+.1f}) to align it with the log"
    )
    return [sensor_note, moved]


def class_notes(class_energy: ClassEnergy) -> list[str]:
    """Return notes on classes that are not identifiable, and on the joint energy of their groups."""
    unknown = int((~class_energy.identification.identified & (class_energy.seconds > 0)).sum())
    if not unknown:
        return []
    classes = int((class_energy.seconds > 0).sum())
    return [f"{unknown} of {classes} classes not identifiable from this log", *_groups(class_energy)]


def _groups(class_energy: ClassEnergy, most: int = 3) -> list[str]:
    """State the joint energy of classes that never separate, the largest groups first."""
    energy, deviation = class_energy.group_energy()
    member = class_energy.identification.group
    first = [int(np.flatnonzero(member == g)[0]) for g in np.unique(member[member >= 0])]
    first.sort(key=lambda i: -energy[i])
    group_notes = [
        f"group {member[i]}: {int((member == member[i]).sum())} classes used {energy[i]:.4g} J together"
        f" (90 %: {max(energy[i] - Z90 * deviation[i], 0.0):.4g} to {energy[i] + Z90 * deviation[i]:.4g})"
        for i in first[:most]
    ]
    unlisted = len(first) - most
    return (
        [*group_notes, f"{unlisted} more group{'s' * (unlisted > 1)}: column group of attribute -o FILE"]
        if unlisted > 0
        else group_notes
    )


def prior_note(expected_w: Floats, class_energy: ClassEnergy) -> str:
    """Return the note on the share of the kernels' energy that comes from the prior."""
    k = len(expected_w)
    energy = np.nan_to_num(class_energy.energy_j[:k])
    share = float(energy @ class_energy.prior_share[:k]) / max(float(energy.sum()), 1e-300)
    return (
        f"prior used for {int(np.isfinite(expected_w).sum())} of {k} classes:"
        f" {share:.0%} of the kernels' energy comes from it"
    )
