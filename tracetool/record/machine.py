"""Checks of this machine for recording: its parts, those missing, and the fix for each."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tracetool.core.errors import MissingPart
from tracetool.core.number_text import counted
from tracetool.record.clocks import read_pair
from tracetool.record.meter import Device, Meter, MeterLost
from tracetool.record.profilers import find_nsys, find_rocprof
from tracetool.record.update_period import find_updates, poll_period_s

OK, WARN, MISSING, NOTE = "ok", "warn", "missing", "note"
_LEAST_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found and, where something is wanting, its fix."""

    subject: str
    state: str
    found: str
    fix: str = ""


def first_version(program: Path | str, *arguments: str) -> str:
    """Return the first line with a digit that a program prints about itself, empty where it fails."""
    try:
        done = subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout + "\n" + done.stderr).splitlines()
    return next((" ".join(line.split())[:80] for line in lines if re.search(r"\d", line)), "")


def check_python() -> Check:
    """Return the check of Python, which states its version and path."""
    return Check("Python", OK, f"{platform.python_version()} at {sys.executable}")


def check_nsys() -> Check:
    """Return whether Nsight Systems is here."""
    nsys = find_nsys()
    if nsys is None:
        fix = "apt-get install nsight-systems (non-free component), or NVIDIA's developer site"
        return Check("nsys", MISSING, "not installed: no NVIDIA traces, no .nsys-rep files", fix)
    version = first_version(nsys, "--version")
    year = re.search(r"(\d{4})\.\d", version)
    if year and int(year[1]) < 2021:
        return Check(
            "nsys", WARN, f"{version} at {nsys}", "install 2021.5 or newer: graph nodes are not seen"
        )
    return Check("nsys", OK, f"{version or 'version unknown'} at {nsys}")


def check_rocprof() -> Check:
    """Return whether rocprofv3 is here."""
    rocprof = find_rocprof()
    if rocprof is None:
        return Check("rocprofv3", MISSING, "not installed: no AMD traces", "apt-get install rocprofiler-sdk")
    return Check("rocprofv3", OK, f"{first_version(rocprof, '--version') or 'version unknown'} at {rocprof}")


def check_torch() -> Check:
    """Return whether PyTorch is in this Python (a program may bring its own)."""
    if find_spec("torch") is None:
        return Check(
            "PyTorch", NOTE, "not in this environment; --profiler torch uses the program's own Python"
        )
    return Check("PyTorch", OK, "in this environment")


def check_perf() -> Check:
    """Return whether the kernel lets users count CPU events, which nsys's CPU sampling needs."""
    try:
        level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text("ascii"))
    except (OSError, ValueError):
        return Check("perf counters", NOTE, "state not known")
    if level > 2 and os.geteuid():
        fix = "sudo sysctl kernel.perf_event_paranoid=2 (only for CPU sampling; record does not need it)"
        return Check("perf counters", NOTE, f"perf_event_paranoid is {level}", fix)
    return Check("perf counters", OK, f"perf_event_paranoid is {level}")


def check_ptrace() -> Check:
    """Return whether a profiler may attach to a running program."""
    try:
        level = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text("ascii"))
    except (OSError, ValueError):
        return Check("ptrace", OK, "not restricted")
    if level >= 2 and os.geteuid():
        return Check("ptrace", WARN, f"ptrace_scope is {level}", "sudo sysctl kernel.yama.ptrace_scope=1")
    return Check("ptrace", OK, f"ptrace_scope is {level}: programs that record starts can be profiled")


def check_gpu_counters() -> Check | None:
    """Return whether users may read GPU performance counters; None where there is no NVIDIA driver."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text("ascii", "replace")
    except OSError:
        return None
    setting = re.search(r"RmProfilingAdminOnly:\s*(\d)", text)
    if setting and setting[1] != "0" and os.geteuid():
        return Check(
            "GPU counters", NOTE, "for administrators only (nsys --gpu-metrics-devices will be refused)",
            "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot",
        )  # fmt: skip
    return Check("GPU counters", OK, "open to this user")


def check_disk(folder: Path) -> Check:
    """Return whether there is space for a recording."""
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE_BYTES:
        return Check(
            "disk", WARN, f"{free / 2**30:.1f} GiB free here", "a report may need several: free some"
        )
    return Check("disk", OK, f"{free / 2**30:.0f} GiB free here")


def check_clock() -> Check:
    """Return how tightly boot time and UTC can be read together."""
    pair = read_pair()
    return Check("clocks", OK, f"boot time and UTC tied within {pair.half_width_ns / 1e3:.1f} µs")


def _clocks_lockable(device: Device, vendor: str) -> Check:
    """Return whether clocks could be locked; nothing is tried: it would change the card."""
    subject = f"GPU {device.index} clocks"
    if os.geteuid() == 0:
        return Check(
            subject, NOTE, "this user may be able to lock them (not tried: it would change the card)"
        )
    how = "sudo nvidia-smi -lgc MHZ" if vendor == "nvidia" else "sudo amd-smi set --clk-limit"
    return Check(subject, NOTE, "cannot be locked by this user", f"where wanted: {how}")


def _check_device(meter: Meter, device: Device, seconds: float) -> list[Check]:
    subject = f"GPU {device.index}"
    limit = f", limit {device.limit_mw / 1e3:g} W" if device.limit_mw else ""
    checks = [Check(subject, OK, f"{device.name}{limit}")]
    if not device.fields:
        checks.append(
            Check(
                f"{subject} power",
                MISSING,
                "no power field answers",
                "install a newer driver, or use another GPU",
            )
        )
        return checks
    try:
        updates = find_updates(meter, device.index, seconds)
    except MeterLost as error:
        checks.append(
            Check(f"{subject} power", MISSING, f"does not answer: {error}", "reset the GPU or reboot")
        )
        return checks
    fields = []
    for name in device.fields:
        update = updates.update_s.get(name)
        fields.append(
            f"{name.rsplit('_', 1)[0]} (every {1e3 * update:.0f} ms)" if update else name.rsplit("_", 1)[0]
        )
    poll_ms = 1e3 * poll_period_s([updates])
    power_note = (
        f"{', '.join(fields)}; read in {1e3 * updates.read_s:.2f} ms; would poll every {poll_ms:.1f} ms"
    )
    missing = [f for f in ("instant_mw", "energy_uj") if f not in device.fields]
    state = WARN if len(missing) == 2 else OK
    fix = "only averaged power: short kernels are separated by longer runs" if state == WARN else ""
    checks += [Check(f"{subject} power", state, power_note, fix), _clocks_lockable(device, meter.vendor)]
    return checks


def check_meter(make: Callable[[], Meter], label: str, seconds: float) -> tuple[list[Check], bool]:
    """Return what one vendor's library shows, and whether a GPU with power was found."""
    meter = make()
    try:
        devices: Sequence[Device] = meter.open()
    except MissingPart as error:
        return [Check(label, MISSING, error.message, error.fix)], False
    checks = [Check(label, OK, f"driver {meter.driver or 'version unknown'}, {counted(len(devices), 'GPU')}")]
    for device in devices:
        checks += _check_device(meter, device, seconds)
    meter.close()
    return checks, any(d.fields for d in devices)
