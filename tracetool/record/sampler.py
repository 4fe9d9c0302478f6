"""The sampler: a process of its own beside the program, so that neither waits for the other.

``python -m tracetool.record.sampler --log FILE --vendor nvidia``. It reads until its standard input ends:
that happens when the recorder says so and also when it is killed, so that no sampler outlives its use.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tracetool.core.errors import MissingPart
from tracetool.record.clocks import boot_ns, read_pair
from tracetool.record.log_file import LogFile
from tracetool.record.meter import Device, Meter, MeterLost, Values
from tracetool.record.update_period import find_updates, poll_period_s
from tracetool.tables.power_log import COLUMNS

_MOST = 65_536


class Spread:
    """Collects times and returns their quantiles; beyond 65,536 every second one is kept, and so on."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[int] = []
        self._every = 1

    def add(self, value_ns: int) -> None:
        """Take one time. [ns]"""
        if self.count % self._every == 0:
            self._kept.append(value_ns)
            if len(self._kept) >= _MOST:
                self._kept = self._kept[::2]
                self._every *= 2
        self.count += 1

    def summary(self, divide_by: float = 1.0) -> Mapping[str, float | int]:
        """Return count, median, 95th percentile and largest kept, divided by ``divide_by``.

        Examples
        --------
        >>> spread = Spread()
        >>> for value in range(1, 101):
        ...     spread.add(value)
        >>> spread.summary()
        {'count': 100, 'p50': 51.0, 'p95': 96.0, 'max': 100.0}
        """
        if not self._kept:
            return {"count": 0}
        ordered = sorted(self._kept)

        def at(share: float) -> float:
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / divide_by

        return {"count": self.count, "p50": at(0.5), "p95": at(0.95), "max": ordered[-1] / divide_by}


#: Clocks, temperature and reasons change slowly and are slow to read; a reading repeats the last ones.
STATE_PERIOD_S = 0.1
PAIR_PERIOD_S = 1.0
#: How often a lost GPU is asked again.
RETRY_S = 0.5
FIND_S = 1.2


def meter_for(vendor: str) -> Meter:
    """Return the meter of a vendor."""
    if vendor == "amd":
        from tracetool.record.amd import AmdSmi

        return AmdSmi()
    from tracetool.record.nvml import Nvml

    return Nvml()


class Sampling:
    """Reads chosen GPUs into a log at a steady rhythm."""

    def __init__(self, meter: Meter, devices: Sequence[Device], log: LogFile, poll_s: float) -> None:
        self.meter, self.devices, self.log, self.poll_s = meter, devices, log, poll_s
        self.jitter, self.delay = Spread(), Spread()
        self.readings = 0
        self._state: dict[int, Values] = {d.index: {} for d in devices}
        self._lost: set[int] = set()
        self._state_due = self._pair_due = self._retry_due = 0

    def run(self, wait: Callable[[float], bool]) -> None:
        """Read until ``wait(seconds)`` returns true."""
        period = round(self.poll_s * 1e9)
        due = boot_ns()
        while True:
            now = boot_ns()
            self.jitter.add(now - due)
            self._round(now)
            if now >= self._pair_due:
                self._pair()
                self._pair_due = now + round(PAIR_PERIOD_S * 1e9)
            due += period
            late = boot_ns() - due
            if late > period:  # the machine stood still: keep the rhythm, do not catch up
                due += (late // period) * period
            if wait(max(0.0, (due - boot_ns()) / 1e9)):
                return

    def _round(self, now: int) -> None:
        state_due, retry_due = now >= self._state_due, now >= self._retry_due
        for device in self.devices:
            if device.index in self._lost and not retry_due:
                continue
            try:
                self._read(device, fresh=state_due)
            except MeterLost as error:
                if device.index not in self._lost:
                    self.log.note("lost", boot_ns=now, device=device.index, error=str(error))
                    self._lost.add(device.index)
                self._retry_due = now + round(RETRY_S * 1e9)
        if state_due:
            self._state_due = now + round(STATE_PERIOD_S * 1e9)
        if self._lost and retry_due and len(self._lost) == len(self.devices):
            self._open_again()

    def _read(self, device: Device, *, fresh: bool) -> None:
        before = boot_ns()
        power = self.meter.read_power(device.index)
        after = boot_ns()
        if device.index in self._lost:
            self._lost.discard(device.index)
            self.log.note("back", boot_ns=after, device=device.index)
        if fresh:
            self._state[device.index] = self.meter.read_state(device.index)
        self.delay.add(after - before)
        self.log.reading(
            (before + after) // 2, after - before, device.index, {**self._state[device.index], **power}
        )
        self.readings += 1

    def _open_again(self) -> None:
        """Start the library anew: after a driver reset the old session never answers again."""
        self.meter.close()
        with suppress(MissingPart):
            self.meter.open()

    def _pair(self) -> None:
        pair = read_pair(4)
        self.log.note("clock", **asdict(pair))
        self.log.sync()


def stdin_ended(seconds: float) -> bool:
    """Wait ``seconds``, or less if standard input ends; return whether it did."""
    try:
        ready, _, _ = select.select([0], [], [], seconds)
        return bool(ready) and not os.read(0, 4096)
    except (OSError, ValueError):
        return True


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tracetool.record.sampler", description=__doc__.splitlines()[0])
    parser.add_argument("--log", type=Path, required=True, help="power log to append to")
    parser.add_argument("--vendor", choices=("nvidia", "amd"), required=True)
    parser.add_argument("--devices", default="", help="positions of the GPUs to read, all by default")
    parser.add_argument("--poll-ms", type=float, default=0.0, help="time between readings; found by default")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample until standard input ends and return the exit code.

    One line goes to standard output when sampling begins: a JSON object with ``ready`` or ``missing``.
    """
    options = _arguments(arguments)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # the recorder ends us through stdin
        signal.signal(number, signal.SIG_IGN)
    meter = meter_for(options.vendor)
    try:
        devices = list(meter.open())
    except MissingPart as error:
        _print_document(missing=error.message, fix=error.fix)
        return 3
    if options.devices:
        chosen = {int(n) for n in options.devices.split(",")}
        devices = [d for d in devices if d.index in chosen]
    devices = [d for d in devices if d.fields]
    if not devices:
        _print_document(missing="no GPU asked for reports its power", fix="see: tracetool doctor")
        return 3
    try:
        updates = [find_updates(meter, d.index, FIND_S / len(devices)) for d in devices]
    except MeterLost as error:
        _print_document(missing=f"a GPU does not answer: {error}", fix="check it with nvidia-smi or amd-smi")
        return 3
    poll_s = options.poll_ms / 1e3 if options.poll_ms > 0 else poll_period_s(updates)
    log = LogFile(options.log)
    start = read_pair()
    facts = {
        "vendor": meter.vendor,
        "library": meter.library,
        "driver": meter.driver,
        "host": os.uname().nodename,
        "poll_s": poll_s,
        "columns": list(COLUMNS),
        "local_offset_s": time.localtime(start.utc_ns / 1e9).tm_gmtoff,
        "devices": [
            {**asdict(d), "update_s": dict(f.update_s), "read_s": f.read_s}
            for d, f in zip(devices, updates, strict=True)
        ],
    }
    log.note("start", **asdict(start), **facts)
    sampling = Sampling(meter, devices, log, poll_s)
    with suppress(OSError):
        os.nice(-5)  # where it may: a busy machine must not make it late
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would show as jitter; the loop makes no cycles
    began, cpu = boot_ns(), _cpu_s()
    _print_document(ready=True, **facts)
    sampling.run(stdin_ended)
    wall_s = (boot_ns() - began) / 1e9
    log.note(
        "end",
        **asdict(read_pair()),
        readings=sampling.readings,
        wall_s=wall_s,
        cpu_s=_cpu_s() - cpu,
        jitter_us=sampling.jitter.summary(1e3),
        read_delay_us=sampling.delay.summary(1e3),
        refused=log.refused,
        dropped=log.dropped,
    )
    meter.close()
    log_complete = log.flush()
    log.close()
    return 0 if log_complete else 2


def _print_document(**document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
