"""A square wave of load on one GPU, with its power log beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracetool.core.errors import Interrupted, MissingPart
from tracetool.record import square_wave
from tracetool.record.child import run_child
from tracetool.record.session import RecordPlan, start_sampler

#: Sensors are read this often, so that their updates are seen. [ms]
POLL_MS = 4.0
#: The log goes on this long after the last burst: slow sensors still answer. [s]
REST_S = 1.5


@dataclass(frozen=True)
class RecordedWave:
    """The log of a wave, and the start and end of each burst."""

    log: Path
    marks: Path
    gpu_name: str
    driver: str


def record_wave(
    folder: Path,
    *,
    vendor: Literal["nvidia", "amd"] | None,
    device: int,
    seconds: float,
    python: str | None,
    say: Callable[[str], None],
) -> RecordedWave:
    """Run the wave beside the sampler and leave log and marks in ``folder``.

    Parameters
    ----------
    folder : Path
        An empty folder.
    vendor : {"nvidia", "amd"}, optional
        By default whichever answers.
    device : int
        The GPU, as the driver numbers it.
    seconds : float
        Length of the wave. [s]
    python : str, optional
        A Python with PyTorch, CuPy or Numba and a GPU; by default this one.
    say : callable
        Takes each step as a sentence.

    Raises
    ------
    MissingPart
        If no GPU, or no package that can load it, is available.
    Interrupted
        If it was stopped.
    """
    log, marks = folder / "power.log", folder / "marks"
    plan = RecordPlan((), Path(), vendor=vendor, devices=(device,), poll_ms=POLL_MS)
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
    return RecordedWave(log, marks, name, str(sampler.facts.get("driver") or ""))
