"""Identify a GPU's power sensor: a square wave of load, its log, and what the log tells of the sensor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput, Interrupted, MissingPart
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.characterize import Characterized, characterize
from tracetool.measure.power_log import power_logs
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.record import square_wave
from tracetool.record.child import run_child
from tracetool.sources.format import ReadOptions
from tracetool.tables.scratch import temporary_folder
from tracetool.tables.stopping import patient
from tracetool.tables.write import aside_file

#: A burst's written start and end differ from the GPU's own by about this. [s]
MARK_JITTER_S = 2e-4
#: Sensors are read this often, so that their updates are seen. [ms]
POLL_MS = 4.0
REST_S = 1.5


@dataclass(frozen=True)
class SensorCheck:
    """What one field of one GPU turned out to be."""

    field: str
    found: Characterized
    nominal: Sensor

    @property
    def sensor(self) -> Sensor:
        """The nominal sensor with what was identified."""
        return self.found.sensor(self.nominal)


def check_sensor(
    *,
    vendor: str | None = None,
    device: int = 0,
    seconds: float = 20.0,
    python: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[str, list[SensorCheck]]:
    """Run the wave beside the sampler and return the GPU's name and what each power field is.

    Parameters
    ----------
    vendor : str, optional
        ``nvidia`` or ``amd``, by default whichever answers.
    device : int
        The GPU, as the driver numbers it.
    seconds : float
        Length of the wave. [s]
    python : str, optional
        A Python with PyTorch, CuPy or Numba and a GPU; by default this one.
    say : callable
        Told each step.

    Raises
    ------
    MissingPart
        If no GPU, or no package that can load it, is here.
    BadInput
        If the log tells nothing.
    """
    from tracetool.api.record import RecordPlan, start_sampler

    with patient(), temporary_folder() as scratch:
        log, marks = scratch / "power.log", scratch / "marks"
        chosen = {"nvidia": "nvidia", "amd": "amd"}.get(vendor or "")
        plan = RecordPlan((), Path(), vendor=chosen, devices=(device,), poll_ms=POLL_MS)  # type: ignore[arg-type]
        sampler = start_sampler(log, plan)
        try:
            name = str(sampler.facts["devices"][0]["name"])
            say(f"a square wave of load on {name}, {seconds:g} s")
            wave = [python or sys.executable, str(Path(square_wave.__file__)), "--marks", str(marks),
                    "--seconds", str(seconds), "--device", str(device)]  # fmt: skip
            ended = run_child(wave, output=sys.stderr)
            run_child([sys.executable, "-c", f"import time; time.sleep({REST_S})"])
        finally:
            sampler.stop()
        if ended.interrupted:
            raise Interrupted("interrupted; nothing was kept", signal_number=ended.stop_signal)
        if ended.exit_code:
            raise MissingPart(
                "the load could not be started", "name a Python with PyTorch and a GPU: -- /path/to/python"
            )
        return name, _identify(log, marks, name, str(sampler.facts.get("driver") or ""))


def _identify(log: Path, marks: Path, name: str, driver: str) -> list[SensorCheck]:
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
    board = load_gpu(model, part="sensor") if model else None
    made = []
    for one in power_logs(telemetry, int(telemetry["device"][0]), origin):
        nominal = candidate_sensors(board, one.field, driver or None)[0]
        made.append(SensorCheck(one.field, characterize(one, timeline, nominal), nominal))
    return made


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
