"""Identify a GPU's power sensor from the log of a square wave of load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.characterize import Characterized, characterize
from tracetool.measure.power_log import power_logs
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.sources.format import ReadOptions
from tracetool.tables.write import aside_file

#: A burst's written start and end differ from the GPU's own by about this. [s]
MARK_JITTER_S = 2e-4


@dataclass(frozen=True)
class SensorCheck:
    """One power field of one GPU and the sensor identified from it."""

    field: str
    found: Characterized
    nominal: Sensor

    @property
    def sensor(self) -> Sensor:
        """The nominal sensor with what was identified."""
        return self.found.sensor(self.nominal)


def identify_from_wave(log: Path, marks: Path, name: str, driver: str) -> list[SensorCheck]:
    """Return the sensor of each power field of a log, from the wave recorded beside it.

    Parameters
    ----------
    log : Path
        The power log, as ``tracetool record`` writes it.
    marks : Path
        Start and end of each burst, a row each. [ns]
    name, driver : str
        Of the GPU, as its driver states them.

    Raises
    ------
    BadInput
        If there were fewer than five bursts.
    """
    from tracetool.sources.telemetry.formats.tracetool_power import read

    telemetry = read(log, ReadOptions()).telemetry
    spans = np.loadtxt(marks, dtype=np.int64, ndmin=2)
    if len(spans) < 5:
        raise BadInput("the wave had too few bursts", "give --seconds 20 or more")
    origin = int(spans[0, 0])
    times: Floats = (spans - origin).astype(np.float64) * 1e-9
    labels = np.zeros(len(times), np.int64)
    timeline: Timeline = build_timeline(times[:, 0], times[:, 1], labels, 1, MARK_JITTER_S)
    model = match_gpu(name)
    gpu = load_gpu(model, part="sensor") if model else None
    identified = []
    for one in power_logs(telemetry, int(telemetry["device"][0]), origin):
        nominal = candidate_sensors(gpu, one.field, driver or None)[0]
        identified.append(SensorCheck(one.field, characterize(one, timeline, nominal), nominal))
    return identified


def write_sensor_file(path: Path, name: str, checks: Sequence[SensorCheck]) -> None:
    """Write what was identified of the quickest field as a file for ``attribute --sensor``.

    Raises
    ------
    BadInput
        If nothing was identified, or the file cannot be written.
    """
    best = next((c for c in checks if c.found.kind), None)
    if best is None:
        raise BadInput("the sensor was not identified: " + (checks[0].found.reason if checks else "no log"))
    sensor = best.sensor
    lines = [
        f"# {best.field} of {name}, identified with a square wave of load",
        "[sensor]",
        f"update_ms = {1e3 * sensor.update_s:.4g}",
    ]
    if sensor.kind == "lag":
        lines.append(f"lag_ms = {1e3 * sensor.lag_s:.4g}")
    else:
        lines.append(f"window_ms = {1e3 * sensor.window_s:.4g}")
    lines.append(f"delay_ms = {max(0.0, 1e3 * best.found.offset_s.value):.4g}")
    with aside_file(path) as target:
        target.write_text("\n".join(lines) + "\n", "utf-8")
