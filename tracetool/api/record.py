"""Record: profile a program and log its power together, and make runs of what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput, Interrupted, MissingPart, TracetoolError
from tracetool.core.paths import PathLike
from tracetool.core.stop_signals import Terminated, manner_of, number_of
from tracetool.record.profilers import find_nsys
from tracetool.record.recording import POWER_LOG, SUFFIX, find_traces, read_events
from tracetool.record.session import Recorded, RecordPlan, Vendor, carry_out
from tracetool.tables.stopping import patient

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class FinishedRecording(Result):
    """The runs made of a recording."""

    runs: tuple[Path, ...]

    def _document(self) -> dict[str, Any]:
        return {"runs": [str(run) for run in self.runs]}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Runs", pl.DataFrame({"run": [str(run) for run in self.runs]}))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the runs, a line each."""
        from tracetool.report.sentences import write_line

        write_line("\n".join(map(str, self.runs)))


@dataclass(frozen=True)
class Recording(Result):
    """Result of a recording.

    Attributes
    ----------
    runs : list of Path
        The runs; :func:`tracetool.open` opens one.
    folder : Path
        The raw traces and the power log.
    exit_code : int
        The program's own.
    facts : dict
        Sampler, jitter, idle power, slowdown under the profiler.
    warnings : list of str
        What to know before using it.
    """

    recorded: Recorded = field(repr=False)
    profiler: str | None = None

    @property
    def runs(self) -> list[Path]:
        """The runs."""
        return self.recorded.runs

    @property
    def folder(self) -> Path:
        """The raw traces and the power log."""
        return self.recorded.folder

    @property
    def exit_code(self) -> int:
        """The program's own."""
        return self.recorded.exit_code

    @property
    def facts(self) -> dict[str, Any]:
        """Facts noted while recording."""
        return self.recorded.facts

    @property
    def warnings(self) -> list[str]:
        """Warnings about the recording."""
        return self.recorded.warnings

    def raise_if_stopped(self) -> None:
        """Raise where a signal ended the recording.

        Raises
        ------
        Interrupted
            With what was kept.
        """
        number = self.recorded.stop_signal
        if number:
            raise Interrupted(
                f"{manner_of(number)}; what was recorded until then is in {self.folder}", signal_number=number
            )

    def raise_if_no_run(self) -> None:
        """Raise why no run was made of a trace that was asked for.

        Raises
        ------
        TracetoolError
            The reason.
        """
        if self.recorded.fault is not None and self.profiler != "none":
            raise self.recorded.fault

    def _document(self) -> dict[str, Any]:
        runs = [str(run) for run in self.runs]
        return {**self.facts, "runs": runs, "recording": str(self.folder), "exit_code": self.exit_code,
                "warnings": self.warnings}  # fmt: skip

    def _view(self) -> View:
        from tracetool.report.terminal.runs import recorded_lines
        from tracetool.report.view import Line, View

        lines = tuple(Line(text) for text in recorded_lines(self.recorded))
        return View(str(self.folder), pl.DataFrame({"run": [str(run) for run in self.runs]}), blocks=lines)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print what was recorded, line by line."""
        from tracetool.report.sentences import write_line
        from tracetool.report.terminal.runs import recorded_lines

        write_line("\n".join(recorded_lines(self.recorded)))


@public
def record(
    program: Sequence[str],
    *,
    out: PathLike = "recorded.tracetool",
    profiler: str | None = None,
    vendor: Vendor | None = None,
    devices: Sequence[int] = (),
    interval: float | None = None,
    idle: float = 2.0,
    cool_down: float = 5.0,
    warm_up: int = 0,
    repeat: int = 1,
    slowdown: bool = False,
    option: Sequence[str] = (),
    nsys: PathLike | None = None,
    output: IO[Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Recording:
    """Run a program under its profiler with the power log beside it, as ``tracetool record``.

    Parameters
    ----------
    program : sequence of str
        The command and its arguments.
    out : path
        The run to write; with several repeats, the folder of runs.
    profiler : {"nsys", "torch", "rocprof", "none"}, optional
        By default the GPU vendor's own.
    vendor : {"nvidia", "amd"}, optional
        By default whichever answers.
    devices : sequence of int
        GPUs to log, as the driver numbers them; all by default.
    interval : float, optional
        Time between readings; by default a fifth of the sensor's update period. [ms]
    idle, cool_down : float
        Logged before and after the program. [s]
    warm_up : int
        Runs of the program before the recorded one, unprofiled.
    repeat : int
        Recorded runs, for fine-grain power profiles.
    slowdown : bool
        Run once unprofiled first and compare the time.
    option : sequence of str
        Further options for the profiler.
    nsys : path, optional
        The nsys program or its folder.
    output : file, optional
        Where the program's standard output goes.
    say : callable
        Takes each step as a sentence.

    Returns
    -------
    Recording
        Also of a program that failed or was stopped: ``exit_code``, ``raise_if_stopped``.

    Raises
    ------
    MissingPart
        If a profiler or a GPU library is missing: the program is not started.
    BadInput
        If the recording cannot be carried out as asked.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.record([])
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: no program to record
    """
    from tracetool.record.sampler_process import NOT_ALL_WRITTEN
    from tracetool.record.summary import summarize

    plan = RecordPlan(
        program, Path(out), profiler, vendor, devices, interval, idle, cool_down, warm_up, repeat, slowdown,
        option, None if nsys is None else Path(nsys), output,
    )  # fmt: skip
    with patient():
        recorded = carry_out(plan, say)
        try:
            summary = summarize(
                recorded.folder, disk_full=recorded.facts.get("sampler_exit_code") == NOT_ALL_WRITTEN
            )
            recorded.facts |= summary.facts
            recorded.warnings += summary.warnings
            finished = finish_recording(recorded.folder, out, nsys=nsys, say=say)
            recorded.runs = list(finished.runs)
        except TracetoolError as error:  # what cannot become a run stays in the recording
            recorded.warnings.append(error.line())
            recorded.fault = error
        except (KeyboardInterrupt, Terminated) as error:
            number = number_of(error)
            raise Interrupted(
                f"{manner_of(number)}; what was recorded is in {recorded.folder}",
                f"make its run: tracetool record --finish {recorded.folder}",
                signal_number=number,
            ) from error
    return Recording(recorded, profiler)


@public
def finish_recording(
    folder: PathLike,
    out: PathLike | None = None,
    *,
    nsys: PathLike | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> FinishedRecording:
    """Make a run of every trace in a recording, also of one cut short, as ``tracetool record --finish``.

    Parameters
    ----------
    folder : path
        The recording.
    out : path, optional
        The run, or the folder of runs where the program was run several times.
    nsys : path, optional
        The ``nsys`` program for reports.
    say : callable
        Takes each step as a sentence.

    Raises
    ------
    BadInput
        If it is not a recording or holds no trace with kernels.
    MissingPart
        If the importer of nsys is missing.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.finish_recording("sample_traces")
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: sample_traces: is no recording (no events.jsonl)
    """
    from tracetool.api.ingest import ingest

    place = Path(folder)
    events = read_events(place)
    target = Path(out) if out is not None else place.with_name(place.name.removesuffix(SUFFIX) + ".tracetool")
    begun = [e for e in events if e["what"] == "begin"]
    traces_of_runs = [(e, find_traces(place, e.get("traces") or ())) for e in begun]
    runs_with_traces = [(int(e.get("number") or 1), traces) for e, traces in traces_of_runs if traces]
    log = place / POWER_LOG
    power = [log] if log.is_file() and log.stat().st_size else []
    if not runs_with_traces and (raw := sorted(place.glob("*.qdstrm"))):
        raise MissingPart(
            f"{raw[0]}: nsys left its raw result, since the importer that should come with it is missing",
            f"install NVIDIA's full Nsight Systems package, then: QdstrmImporter -i {raw[0]} and "
            f"tracetool record --finish {folder}",
        )
    if not runs_with_traces:
        log_text = f"; the power log is {log}" if power else ""
        profiled = any(e.get("traces") for e in begun)
        add_trace_hint = f"tracetool ingest TRACE --power {log} adds a trace of the program's own"
        raise BadInput.in_file(
            folder,
            f"holds no trace{log_text}",
            "did the program reach the GPU?" if profiled else add_trace_hint,
        )
    if nsys is None and any(p.suffix == ".nsys-rep" for _, traces in runs_with_traces for p in traces):
        nsys = find_nsys()
    runs = []
    several = len(begun) > 1
    if several:
        target = target.with_name(target.name.removesuffix(".tracetool") + ".runs")
        target.mkdir(exist_ok=True)
    for number, traces in runs_with_traces:
        run = target / f"run-{number:03d}.tracetool" if several else target
        say(f"making {run}")
        runs.append(ingest(traces, power=power, out=run, nsys=nsys).path)
    return FinishedRecording(tuple(runs))
