"""Run one task over many jobs: bounded in flight, tried again after growing waits, failures recorded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from typing import Any, Final

from tracetool.core.errors import TracetoolError
from tracetool.core.progress import Progress
from tracetool.fleet.engine import Engine
from tracetool.fleet.manifest import Manifest

#: First wait before a task is tried again, doubled each time. [s]
_WAIT_S: Final = 0.5
#: What another try may get past: the network, a server, a worker that died. What a file holds it does not.
_PASSING: Final = (OSError, BrokenExecutor)


@dataclass
class Work:
    """A job to run: its name, the marks of its inputs, and the arguments of the task."""

    job: str
    marks: str
    arguments: tuple[Any, ...]
    attempts: int = 0
    not_before_s: float = 0.0
    alone: bool = False


@dataclass
class Tally:
    """Outcome of the jobs: names done now, done before, and failed with the reason."""

    done: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    kernels: int = 0
    seconds: float = 0.0


def run_jobs(
    task: Callable[..., dict[str, Any]],
    works: Sequence[Work],
    engine: Engine,
    manifest: Manifest,
    *,
    retries: int,
    progress: Progress,
) -> Tally:
    """Run a task over jobs and record each one's end in the manifest.

    Parameters
    ----------
    task : callable
        Runs in a worker; returns the figures that the manifest keeps.
    works : sequence of Work
        Jobs; those whose files are as they were when they were done are skipped.
    engine : Engine
        Where tasks run.
    manifest : Manifest
        What was done before; written as jobs end.
    retries : int
        Further tries of a job that failed for a reason that may pass. One whose worker died is tried again
        alone, when it has all of the machine's memory.
    progress : Progress
        Told after every job.
    """
    tally = Tally()
    waiting: deque[Work] = deque()
    for work in works:
        if manifest.done(work.job, work.marks):
            tally.skipped.append(work.job)
        else:
            waiting.append(work)
    total, start = len(waiting), time.monotonic()
    running: dict[Future[dict[str, Any]], Work] = {}
    while waiting or running:
        _fill(task, waiting, running, engine)
        if not running:
            time.sleep(max(min(w.not_before_s for w in waiting) - time.monotonic(), 0.01))
            continue
        ended, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
        finished = [(future, running.pop(future)) for future in ended]
        _fill(task, waiting, running, engine)  # no process waits while what ended is written down
        for future, work in finished:
            work.attempts += 1
            error = BrokenExecutor("stopped") if future.cancelled() else future.exception()
            if error is None:
                figures = future.result()
                tally.done.append(work.job)
                tally.kernels += int(figures.get("kernels", 0))
                manifest.write(
                    work.job, {"state": "done", "marks": work.marks, "attempts": work.attempts, **figures}
                )
            elif isinstance(error, _PASSING) and work.attempts <= retries:
                work.not_before_s = time.monotonic() + _WAIT_S * 2.0 ** (work.attempts - 1)
                # killed for want of memory it has more when it runs alone
                work.alone = isinstance(error, BrokenExecutor)
                waiting.append(work)
            else:
                text = _reason(error)
                tally.failed[work.job] = text
                entry = {"state": "failed", "marks": work.marks, "attempts": work.attempts, "error": text}
                manifest.write(work.job, entry)
        _report(progress, tally, total, start)
    tally.seconds = time.monotonic() - start
    return tally


def _fill(
    task: Callable[..., dict[str, Any]],
    waiting: deque[Work],
    running: dict[Future[dict[str, Any]], Work],
    engine: Engine,
) -> None:
    """Submit tasks to the engine; one that must run alone waits until nothing else runs."""
    for _ in range(len(waiting)):
        if len(running) >= engine.workers or any(w.alone for w in running.values()):
            return
        work = waiting.popleft()
        if work.not_before_s > time.monotonic() or (work.alone and running):
            waiting.append(work)
            continue
        running[engine.submit(task, *work.arguments)] = work


def _reason(error: BaseException) -> str:
    if isinstance(error, TracetoolError):
        return error.line()
    if isinstance(error, MemoryError):
        return "needs more memory than a task may take (--memory)"
    if isinstance(error, BrokenExecutor):
        return "its process was killed (out of memory?)"
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def _report(progress: Progress, tally: Tally, total: int, start: float) -> None:
    ended = len(tally.done) + len(tally.failed)
    if not ended:
        return
    spent = time.monotonic() - start
    remaining_s = spent / ended * (total - ended)
    progress.step(
        f"{ended:,} of {total:,} jobs, {ended / spent:.1f} jobs/s, {tally.kernels / spent:,.0f} kernels/s,"
        f" {remaining_s:,.0f} s left",
        ended / total,
    )
