"""Energy measured by a run's power log, where it has one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracetool.core.errors import BadInput
from tracetool.measure.power_log import telemetry_devices
from tracetool.tables.run import Run
from tracetool.tables.windows import activities_of, is_large

if TYPE_CHECKING:
    from tracetool.measure.attribution import Attribution


#: Of a run without a power log.
_NO_READINGS: Final = "no power readings"
_PREDICTED: Final = f"{_NO_READINGS}: energies are predicted"
#: How the note begins on a run whose log was not used.
NOT_MEASURED: Final = "not measured: "


def attribute_or_note(
    run: Run,
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
) -> tuple[Attribution | None, list[str]]:
    """Return the energies that a run's log measured, None where there are none, and notes with the reason.

    GPUs whose readings ``check-power`` finds unusable are left out, whatever command asks.

    Raises
    ------
    BadInput
        If the run holds no activity, or a log that was given cannot be used.
    """
    if not activities_of(run):
        raise BadInput.in_file(run.path, "holds no activities", "ingest a trace with GPU activity")
    if not power and not telemetry_devices(run.telemetry):
        return None, [_PREDICTED]
    key = ("attributed", gpu, tuple(map(Path, power)), tz, sensor_file and os.fspath(sensor_file))
    if key not in run.memo:
        # solvers: not for a run without a log
        from tracetool.measure.attribute import attribute_run
        from tracetool.measure.logged_work import UnusableLog

        try:
            attributed = attribute_run(
                run, gpu=gpu, power=power, tz=tz, sensor_file=sensor_file, usable_only=True
            )
            run.memo[key] = attributed, []
        except BadInput as error:
            if power and not isinstance(error, UnusableLog):
                raise
            run.memo[key] = None, [f"{NOT_MEASURED}{error.line()}"]
    attribution, notes = run.memo[key]
    return attribution, list(notes)


def why_unusable(run: Run) -> str:
    """Return why no GPU's readings of a run are usable, as ``check-power`` judges; empty where some are.

    Of a large run, and of one whose log does not fit the trace, nothing is said here.
    """
    if is_large(run) or not telemetry_devices(run.telemetry):
        return ""
    key = ("why unusable",)
    if key not in run.memo:
        from tracetool.measure.logged_work import (
            checked_run,
            telemetry_of_run,
            verdict_line,
            work_of_devices,
        )

        try:
            telemetry = telemetry_of_run(run, (), None)
            work, gpus, pairs = work_of_devices(run, telemetry, None)
            unusable = checked_run(run, telemetry, work, gpus, pairs).unusable
            run.memo[key] = verdict_line(unusable, len(work)) if len(unusable) == len(work) else ""
        except BadInput:
            run.memo[key] = ""
    return str(run.memo[key])


def without_prediction(notes: Sequence[str], error: BadInput) -> list[str]:
    """Return the notes of :func:`attribute_or_note` for a run that cannot be predicted either, and why.

    >>> without_prediction([], BadInput("the trace names no GPU", "name it: --gpu h100-sxm"))
    ['not predicted: the trace names no GPU (name it: --gpu h100-sxm)']
    """
    unmeasured = _PREDICTED in notes
    other_notes = [note for note in notes if note != _PREDICTED]
    start = f"no energies: {_NO_READINGS}, and not predicted" if unmeasured else "not predicted"
    return [*other_notes, f"{start}: {error.line()}"]
