"""Sensor: properties of a power sensor, from a power log or from a square wave of load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.measure.identify_sensor import IdentifiedSensor, save_sensor
from tracetool.measure.identify_sensor import identify_sensor as identify
from tracetool.measure.sensor_from_wave import SensorCheck, identify_from_wave, write_sensor_file

if TYPE_CHECKING:
    from tracetool.report.view import View

#: The shortest wave that a sensor can be identified from. [s]
SHORTEST_WAVE_S = 5.0


@dataclass(frozen=True)
class IdentifiedSensors(Result):
    """The sensor behind each power field of a log.

    Attributes
    ----------
    sensors : DataFrame
        One row per field: window, lag, update period and delay [ms], gain [1] and offset [W], each with its
        90 % interval.
    """

    identified: tuple[IdentifiedSensor, ...] = field(repr=False)
    metered: bool = False

    @cached_property
    def sensors(self) -> pl.DataFrame:
        """One row per field."""
        return pl.DataFrame([one.row() for one in self.identified], infer_schema_length=None)

    def save(self, path: PathLike) -> Path:
        """Write the calibration of the field that attribution uses: ``.toml``.

        Raises
        ------
        BadInput
            If the name does not end in ``.toml``.
        """
        return save_sensor(self.identified[0], check_calibration_name(path))

    def _document(self) -> dict[str, Any]:
        return {"sensors": [one.row() for one in self.identified]}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Power sensors", self.sensors)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the fields beside one another."""
        from tracetool.report.terminal.attribution import print_identified

        print_identified(self.identified, metered=self.metered, written=written)


@dataclass(frozen=True)
class CheckedSensor(Result):
    """The sensor of a GPU, identified with a square wave of load.

    Attributes
    ----------
    gpu : str
        Its name, as the driver states it.
    checks : tuple of SensorCheck
        One per power field.
    """

    gpu: str
    checks: tuple[SensorCheck, ...] = field(repr=False)

    def save(self, path: PathLike) -> Path:
        """Write the quickest field as a calibration: ``.toml``.

        Raises
        ------
        BadInput
            If nothing was identified, or the file cannot be written.
        """
        target = check_calibration_name(path)
        write_sensor_file(target, self.gpu, self.checks)
        return target

    def _document(self) -> dict[str, Any]:
        fields = [{"field": check.field, **asdict(check.found)} for check in self.checks]
        return {"gpu": self.gpu, "fields": fields}

    def _view(self) -> View:
        from tracetool.report.terminal.attribution import sensor_text
        from tracetool.report.view import View

        rows = [{"field": check.field, "sensor": sensor_text(check)} for check in self.checks]
        return View(f"Power sensor of {self.gpu}", pl.DataFrame(rows))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print a line per field."""
        from tracetool.report.sentences import write_line
        from tracetool.report.terminal.attribution import sensor_text

        for check in self.checks:
            write_line(f"{check.field} of {self.gpu}: {sensor_text(check)}")


def check_calibration_name(path: PathLike) -> Path:
    """Return the path of a calibration; call it before long work.

    Raises
    ------
    BadInput
        If the name does not end in ``.toml``.
    """
    if Path(path).suffix.lower() != ".toml":
        raise BadInput.in_file(path, "a calibration is a TOML file", "name it e.g. my-gpu.toml")
    return Path(path)


@public
def identify_sensor(
    source: PathLike,
    *,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
    meter: PathLike | None = None,
) -> IdentifiedSensors:
    """Return the sensor behind each power field of a log, as ``tracetool sensor identify``.

    Parameters
    ----------
    source : run or path
        A run, or a table of activities (``name``, ``start_us``, ``end_us``); best a square wave of loads.
    power : path or sequence of path
        Power logs; a run has its own.
    tz : str, optional
        Zone of logs in local time.
    gpu : str, optional
        The GPU: its file states where the update period is looked for first.
    device : int, optional
        Which GPU of the log; by default the first.
    meter : path, optional
        A reference meter's ``time_us`` (UTC) and ``power_w`` beside the log: it identifies gain and offset.

    Raises
    ------
    BadInput
        If a file cannot be used or the log identifies nothing.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.identify_sensor(run)
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: ...has no power readings beside it
    """
    logs = paths_of(power)
    identified = identify(source, power=logs, tz=tz, gpu=gpu, device=device, meter=meter)
    return IdentifiedSensors(tuple(identified), meter is not None)


@public
def check_sensor(
    *,
    vendor: Literal["nvidia", "amd"] | None = None,
    device: int = 0,
    seconds: float = 20.0,
    python: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CheckedSensor:
    """Identify the power sensor of this machine's GPU with a square wave of load.

    As ``tracetool sensor check``.

    Parameters
    ----------
    vendor : {"nvidia", "amd"}, optional
        By default whichever answers.
    device : int
        The GPU, as the driver numbers it.
    seconds : float
        Length of the wave, at least 5. [s]
    python : str, optional
        A Python with PyTorch, CuPy or Numba and a GPU; by default this one.
    say : callable
        Takes each step as a sentence.

    Raises
    ------
    MissingPart
        If no GPU, or no package that can load it, is available.
    BadInput
        If the wave is too short or the log identifies nothing.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.check_sensor(seconds=1)
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: --seconds: too short to identify a sensor
    """
    from tracetool.record.recorded_wave import record_wave
    from tracetool.tables.scratch import temporary_folder
    from tracetool.tables.stopping import patient

    if seconds < SHORTEST_WAVE_S:
        raise BadInput("--seconds: too short to identify a sensor", "give 10 or more")
    with patient(), temporary_folder() as folder:
        wave = record_wave(folder, vendor=vendor, device=device, seconds=seconds, python=python, say=say)
        checks = identify_from_wave(wave.log, wave.marks, wave.gpu_name, wave.driver)
    return CheckedSensor(wave.gpu_name, tuple(checks))
