"""Everything a recording needs, looked at on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracetool.record import machine
from tracetool.record.machine import Check
from tracetool.record.sampler import meter_for

#: How long each sensor is watched for its update period. [s]
_WATCHED_S = 1.0


def examine(folder: Path) -> tuple[Sequence[Check], bool]:
    """Return every check and whether this machine can record a GPU's trace with its power.

    Parameters
    ----------
    folder : Path
        Where recordings would go.
    """
    nvidia, has_nvidia = machine.check_meter(lambda: meter_for("nvidia"), "NVIDIA driver", _WATCHED_S)
    amd, has_amd = machine.check_meter(lambda: meter_for("amd"), "AMD driver", _WATCHED_S)
    nsys, rocprof, torch = machine.check_nsys(), machine.check_rocprof(), machine.check_torch()
    counters = machine.check_gpu_counters()
    checks = [
        machine.check_python(),
        machine.check_disk(folder),
        machine.check_clock(),
        *nvidia,
        *([counters] if counters else []),
        nsys,
        *amd,
        rocprof,
        torch,
        machine.check_perf(),
        machine.check_ptrace(),
    ]
    profiled = torch.state == machine.OK
    able = (has_nvidia and (profiled or nsys.state != machine.MISSING)) or (
        has_amd and (profiled or rocprof.state != machine.MISSING)
    )
    return checks, able
