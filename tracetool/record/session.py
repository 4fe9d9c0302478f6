"""Run a program under a profiler with the power log beside it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from tracetool.core.errors import BadInput, MissingPart, TracetoolError
from tracetool.core.stop_signals import Terminated, number_of
from tracetool.record.child import Ended, run_child
from tracetool.record.profilers import NAMES, WRITE_ON_SIGINT, default_profiler, profiled
from tracetool.record.recording import SUFFIX, Recording
from tracetool.record.sampler_process import Sampler
from tracetool.tables.run_folder import check_place, clean_up

Vendor = Literal["nvidia", "amd"]
#: Repeats begin at moments that the sensor's rhythm does not know: a random share of this is added. [s]
REPEAT_JITTER_S = 0.25


@dataclass(frozen=True)
class RecordPlan:
    """Plan of a recording.

    Parameters
    ----------
    program : sequence of str
        The command, as typed.
    out : Path
        The run; with several repeats, the folder of runs.
    profiler : str, optional
        ``nsys``, ``torch``, ``rocprof`` or ``none``; by default the one of the GPU's vendor.
    vendor : str, optional
        ``nvidia`` or ``amd``; by default the one whose library answers.
    devices : sequence of int
        GPUs to log, all by default.
    poll_ms : float, optional
        Time between readings; by default a fifth of the sensor's update period. [ms]
    idle_s, cool_down_s : float
        Logged before the program and after it. [s]
    warm_up : int
        Runs of the program before the first recorded one, unprofiled.
    repeat : int
        Recorded runs of the program.
    measure_slowdown : bool
        Run the program once unprofiled and unlogged first, to compare its time.
    extra : sequence of str
        Further options for the profiler.
    nsys : Path, optional
        The ``nsys`` program.
    output : file, optional
        Where the program's standard output goes, ours by default.
    """

    program: Sequence[str]
    out: Path
    profiler: str | None = None
    vendor: Vendor | None = None
    devices: Sequence[int] = ()
    poll_ms: float | None = None
    idle_s: float = 2.0
    cool_down_s: float = 5.0
    warm_up: int = 0
    repeat: int = 1
    measure_slowdown: bool = False
    extra: Sequence[str] = ()
    nsys: Path | None = None
    output: IO[Any] | None = None


@dataclass
class Recorded:
    """Result of a recording."""

    folder: Path
    runs: list[Path] = field(default_factory=list)
    exit_code: int = 0
    stop_signal: int = 0  # the SIGINT, SIGTERM or SIGHUP that ended it early, else 0
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    fault: TracetoolError | None = None  # why no run was made

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended it early."""
        return bool(self.stop_signal)


def start_sampler(log: Path, plan: RecordPlan) -> Sampler:
    """Start the sampler of the vendor asked for, else of the first that answers."""
    vendors: tuple[Vendor, ...] = (plan.vendor,) if plan.vendor else ("nvidia", "amd")
    faults = []
    for vendor in vendors:
        try:
            return Sampler.start(log, vendor, devices=plan.devices, poll_ms=plan.poll_ms)
        except MissingPart as error:
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    raise MissingPart(
        "no GPU can be recorded here: " + "; ".join(e.message for e in faults), "see: tracetool doctor"
    )


def carry_out(plan: RecordPlan, say: Callable[[str], None] = lambda _: None) -> Recorded:
    """Run the program beside the sampler and return the recording; no run is made of it yet.

    Parameters
    ----------
    plan : RecordPlan
        What to record.
    say : callable
        Takes each step as a sentence.

    Raises
    ------
    MissingPart
        If a profiler or a GPU library is absent: the program is not started.
    BadInput
        If the plan cannot be carried out.
    """
    _check(plan)
    clean_up(plan.out.absolute().parent)
    if plan.profiler is not None:
        _check_profiler(plan.profiler, plan)
    folder = plan.out.with_name(plan.out.name.removesuffix(".tracetool") + SUFFIX)
    recording = Recording.create(folder)
    recorded = Recorded(folder)
    try:
        sampler = start_sampler(recording.power_log, plan)
    except BaseException:
        recording.discard()
        raise
    try:
        profiler = plan.profiler or default_profiler(str(sampler.facts["vendor"]))
        _check_profiler(profiler, plan)
        recording.take_place()
    except BaseException:
        sampler.stop()
        recording.discard()
        raise
    try:
        _Session(plan, recording, recorded, say).carry_out(sampler, profiler)
    finally:
        recording.event("stop")
        recorded.facts["sampler_exit_code"] = sampler.stop()
        recording.close()
    return recorded


def _check(plan: RecordPlan) -> None:
    if not plan.program:
        raise BadInput("no program to record", "write it after --, e.g. tracetool record -- python train.py")
    if plan.profiler is not None and plan.profiler not in NAMES:
        raise BadInput(f"no profiler called {plan.profiler}", f"known: {', '.join(NAMES)}")
    if plan.repeat < 1 or plan.warm_up < 0 or plan.idle_s < 0 or plan.cool_down_s < 0:
        raise BadInput("--repeat must be at least 1 and times must not be negative")
    check_place(plan.out)
    if not plan.out.absolute().parent.is_dir():
        raise BadInput.in_file(plan.out, "cannot be written: its folder does not exist", "make it first")
    if shutil.which(plan.program[0]) is None:
        fix = "check the command after --"
        raise BadInput(f"{plan.program[0]}: cannot be started: no such program", fix)


def _check_profiler(profiler: str, plan: RecordPlan) -> None:
    """Say what is missing for a profiler before anything runs."""
    if profiler not in ("torch", "none"):
        profiled(profiler, plan.program, Path(), "x", extra=plan.extra, nsys=plan.nsys)


class _Session:
    """One recording under way."""

    def __init__(
        self, plan: RecordPlan, recording: Recording, recorded: Recorded, say: Callable[[str], None]
    ) -> None:
        self.plan, self.recording, self.made, self.say = plan, recording, recorded, say
        self.environment = {**os.environ, "TRACETOOL_RECORDING": str(recording.folder.absolute())}

    def carry_out(self, sampler: Sampler, profiler: str) -> None:
        """Run everything while the sampler reads."""
        plan, recorded = self.plan, self.made
        recorded.facts |= {
            "profiler": profiler,
            "sampler": dict(sampler.facts),
            "program": list(plan.program),
        }
        self.recording.event("plan", program=list(plan.program), profiler=profiler, repeat=plan.repeat)
        try:
            self._run_all(profiler)
        except (KeyboardInterrupt, Terminated) as error:
            recorded.stop_signal = number_of(error)
        if not sampler.alive:
            recorded.warnings.append("the sampler was killed: the power log ends early")

    def _run_all(self, profiler: str) -> None:
        plan, recorded = self.plan, self.made
        plain = self._aside("running once without profiler, to compare") if plan.measure_slowdown else None
        for _ in range(plan.warm_up):
            if not recorded.interrupted:
                self._aside("warming up")
        self._rest("idle_before", plan.idle_s)
        for number in range(1, plan.repeat + 1):
            if recorded.interrupted or (recorded.exit_code and plan.repeat > 1):
                break
            if number > 1:
                self._pause(REPEAT_JITTER_S * int.from_bytes(os.urandom(2)) / 65536)
            ended = self._once(profiler, number)
            if plain is not None and number == 1 and not ended.interrupted:
                recorded.facts["slowdown"] = (ended.end_ns - ended.start_ns) / (plain.end_ns - plain.start_ns)
        self._rest("idle_after", plan.cool_down_s)

    def _aside(self, notice: str) -> Ended:
        """Run the program without its profiler."""
        self.say(notice)
        ended = run_child(self.plan.program, environment=self.environment, output=self.plan.output)
        self.made.stop_signal = self.made.stop_signal or ended.stop_signal
        return ended

    def _once(self, profiler: str, number: int) -> Ended:
        plan, recorded, folder = self.plan, self.made, self.recording.folder.absolute()
        name = f"trace-{number:03d}"
        command = profiled(profiler, plan.program, folder, name, extra=plan.extra, nsys=plan.nsys)
        count = f" ({number} of {plan.repeat})" if plan.repeat > 1 else ""
        self.say(f"recording{count}: {' '.join(plan.program)}")
        facts = {"command": list(command.arguments), "traces": list(command.traces)}
        self.recording.event("begin", number=number, **facts)
        ended = run_child(
            command.arguments,
            environment=self.environment,
            output=plan.output,
            profiler_signal=signal.SIGINT if profiler in WRITE_ON_SIGINT else None,
        )
        self.recording.event("end", number=number, **vars(ended))
        recorded.exit_code = recorded.exit_code or ended.exit_code
        recorded.stop_signal = recorded.stop_signal or ended.stop_signal
        return ended

    def _rest(self, what: str, seconds: float) -> None:
        if seconds and not self.made.interrupted:
            self.say(f"{what.replace('_', ' ')}, {seconds:g} s")
            self.recording.event(f"{what}_begin")
            self._pause(seconds)
            self.recording.event(f"{what}_end")

    def _pause(self, seconds: float) -> None:
        try:
            time.sleep(seconds)
        except (KeyboardInterrupt, Terminated) as error:
            self.made.stop_signal = number_of(error)
