"""Tasks for the tests of engines: they fail, die or need memory on demand. Workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any


def figure(job: str) -> dict[str, Any]:
    return {"kernels": len(job)}


def die_once(job: str, folder: str) -> dict[str, Any]:
    """Kill this worker the first time that a job beginning with ``die`` comes by."""
    mark = Path(folder, job)
    if job.startswith("die") and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"kernels": 1}


def die_always(job: str) -> dict[str, Any]:
    if job.startswith("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"kernels": 1}


def take_memory(size: int) -> dict[str, Any]:
    return {"kernels": len(bytearray(size)) and 1}


def wait_for(path: str) -> dict[str, Any]:
    """Wait for a file."""
    while not Path(path).exists():
        time.sleep(0.01)
    return {"kernels": 1}
