"""Many jobs as one data set: read, attributed, predicted and asked about, as ``tracetool fleet``."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput, Interrupted
from tracetool.core.number_text import counted
from tracetool.core.paths import PathLike
from tracetool.core.progress import Progress, Silent
from tracetool.core.stated_share import stated_share
from tracetool.core.stop_signals import Terminated, manner_of, number_of
from tracetool.core.version import __version__
from tracetool.fleet import queries, report
from tracetool.fleet.engine import started
from tracetool.fleet.jobs import find_jobs
from tracetool.fleet.manifest import Manifest
from tracetool.fleet.repeated import (
    REPEATED,
    named_as_before,
    repeated_note,
    set_aside,
    without_repeated,
)
from tracetool.fleet.run_jobs import Tally, Work, run_jobs
from tracetool.fleet.storage import Place
from tracetool.fleet.tasks import TASKS, ingest_job, remove_scratch
from tracetool.tables.stopping import keeping

if TYPE_CHECKING:
    from tracetool.report.view import Block, View


@dataclass(frozen=True)
class FleetJobs(Result):
    """Outcome of a task for each job.

    Attributes
    ----------
    frame : DataFrame
        One row per job of the data set: ``job``, ``state`` (done, failed, repeated), ``error``, ``attempts``,
        ``seconds``, ``kernels``.
    done, skipped : int
        Jobs done now, and those whose files had not changed since they were done.
    failed : mapping
        Reason by job.
    without_energy : mapping
        Of ``attribute``: why a job has no energy, and the fix, by job.
    not_measured : mapping
        Of ``attribute``: why a job's power log measured nothing, and the fix, by job.
    notes : tuple of str
        Of ``ingest``: traces that were named more than once, jobs that hold the traces of others (repeated).
    """

    where: str
    task: str
    table: pl.DataFrame = field(repr=False)
    tally: Tally = field(repr=False)
    without_energy: Mapping[str, str] = field(default_factory=dict, repr=False)
    not_measured: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        """Jobs done now."""
        return len(self.tally.done)

    @property
    def skipped(self) -> int:
        """Jobs done before."""
        return len(self.tally.skipped)

    @property
    def failed(self) -> dict[str, str]:
        """Reason of each failed job."""
        return self.tally.failed

    def _document(self) -> dict[str, Any]:
        more: dict[str, Any] = {"notes": list(self.notes)} if self.task == "ingest" else {}
        if self.task == "attribute":
            more = {"without_energy": dict(self.without_energy), "not_measured": dict(self.not_measured)}
        return {
            "where": self.where, "task": self.task, "done": self.done, "skipped": self.skipped,
            "failed": self.failed, "seconds": self.tally.seconds, "kernels": self.tally.kernels,
            "jobs": self.table.to_dicts(), **more,
        }  # fmt: skip

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Jobs of {self.task}", self.table)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print how many jobs were done, and the failed ones with the reason."""
        from tracetool.report.terminal.fleet import print_jobs, print_notes, print_reasons

        t = self.tally
        print_jobs(self.where, self.task, self.done, self.skipped, t.failed, t.kernels, t.seconds)
        print_notes(self.notes)
        print_reasons({"no energy": self.without_energy, "predicted": self.not_measured}, written)


@dataclass(frozen=True)
class FleetTable(Result):
    """The answer to a question about a data set: ``frame``, and what it is called."""

    title: str
    table: pl.DataFrame = field(repr=False)
    blocks: tuple[Block, ...] = field(default=(), repr=False)

    def _document(self) -> dict[str, Any]:
        return {"title": self.title, "rows": self.table.to_dicts()}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(self.title, self.table, None, self.blocks)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the first rows."""
        from tracetool.report.terminal.fleet import print_answer

        print_answer(self.title, self.table, written)


@public
def fleet_ingest(
    sources: str | PathLike | Sequence[str | PathLike],
    out: str | PathLike,
    *,
    labels: str = "",
    each: bool = False,
    tz: str | None = None,
    gpu: str | None = None,
    engine: str = "local",
    workers: int = 0,
    memory_gib: float | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> FleetJobs:
    """Read the traces of folders and buckets into one data set, as ``tracetool fleet ingest``.

    Parameters
    ----------
    sources : str, path or sequence of them
        Folders, globs, ``s3://``, ``gs://`` or ``abfs://`` addresses.
    out : str or path
        Folder or address of the data set; jobs it holds already are skipped if their files have not changed.
    labels : str
        What folders of a path are: ``{team}/{model}``.
    each : bool
        Every trace is a job of its own; else traces of a folder named as ranks are one job.
    tz, gpu : str, optional
        As for ``ingest``.
    engine : {"local", "ray"}
        Where tasks run.
    workers : int
        Tasks at a time; as many as processors where 0.
    memory_gib : float, optional
        Most memory of a task [GiB]; one that needs more fails alone.
    retries : int
        Further tries where the network, a server or a worker failed.

    Raises
    ------
    BadInput
        If no source holds a trace, a place cannot be read, or every job failed.
    Interrupted
        If Ctrl-C or SIGTERM stopped it; the jobs done until then are kept.
    MissingPart
        If the engine's package is not installed.
    """
    listed = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    place = Place(out)
    place.require_folder()
    found, repeats = find_jobs([os.fspath(s) for s in listed], labels, each=each)
    before = Manifest(place, "ingest").entries()
    jobs = named_as_before(found, before)
    options = {"tz": tz, "gpu": gpu}
    marks = json.dumps([__version__, options], sort_keys=True)
    every = [Work(j.name, _sum(j.marks, marks), (j, place.where, options)) for j in jobs]
    works = without_repeated(every, before)
    try:
        done = _run(place, "ingest", ingest_job, works, engine, workers, memory_gib, retries, progress)
    finally:
        set_aside(place, before)
    done = _without_copies(done, Manifest(place, "ingest"), [w.job for w in every], repeats)
    table = BytesIO()
    queries.jobs(place).write_parquet(table)
    place.write(place.path("jobs.parquet"), table.getvalue())
    return done


def _without_copies(
    done: FleetJobs, manifest: Manifest, jobs: Sequence[str], notes: Sequence[str]
) -> FleetJobs:
    """Return the outcome without the jobs that were read and turned out to hold what others hold."""
    entries = manifest.entries()
    repeated = [job for job in jobs if entries.get(job, {}).get("state") == REPEATED]
    copies = [job for job in done.tally.done if job in repeated]
    tally = replace(
        done.tally,
        done=[job for job in done.tally.done if job not in copies],
        kernels=done.tally.kernels - sum(int(entries[job].get("kernels", 0)) for job in copies),
    )
    return replace(
        done, table=manifest.frame(), tally=tally, notes=(*notes, *repeated_note(repeated, entries))
    )


@public
def fleet_run(
    task: str,
    where: str | PathLike,
    *,
    options: dict[str, Any] | None = None,
    engine: str = "local",
    workers: int = 0,
    memory_gib: float | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> FleetJobs:
    """Attribute, classify or predict every job of a data set, as the commands of ``tracetool fleet``.

    Parameters
    ----------
    task : {"attribute", "classify", "predict"}
        What to do; jobs done with the same options since they were read are skipped.
    where : str or path
        The data set.
    options : dict, optional
        Options of that command.

    Raises
    ------
    BadInput
        If there is no such task or data set, or every job failed.
    """
    if task not in TASKS:
        raise BadInput(f"no task {task!r}", f"known: {', '.join(TASKS)}")
    place = Place(where)
    place.require()
    entries = {j: e for j, e in Manifest(place, "ingest").entries().items() if e["state"] == "done"}
    if not entries:
        raise BadInput.in_file(place.name, "holds no jobs", "make them: tracetool fleet ingest SRC -o DST")
    chosen = options or {}
    marks = json.dumps([__version__, chosen], sort_keys=True, default=str)
    works = [Work(j, _sum(str(e["marks"]), marks), (j, place.where, chosen)) for j, e in entries.items()]
    return _run(place, task, TASKS[task], works, engine, workers, memory_gib, retries, progress)


@public
def fleet_ask(
    question: str,
    where: str | PathLike,
    *,
    by: str = "job",
    slowdown: float | str = queries.SLOWDOWN,
    head: str | PathLike | None = None,
) -> FleetTable:
    """Ask a data set: jobs, energy, outliers, savings, diff or report, as the commands of those names.

    Parameters
    ----------
    question : {"jobs", "energy", "outliers", "savings", "diff", "report"}
        What to ask.
    where : str or path
        The data set.
    by : str
        What energy is summed by: job, gpu, family, kernel, uuid, rank, month or a label.
    slowdown : float or str
        How much longer a job may take for savings, a fraction or a text in per cent: 0.03 is ``"3%"``. [1]
    head : str or path, optional
        The data set that ``diff`` compares with this one.

    Raises
    ------
    BadInput
        If the data set does not hold what the question needs.
    """
    place = Place(where)
    allowed = stated_share(slowdown, "--slowdown")
    answers: dict[str, tuple[str, Callable[[], pl.DataFrame]]] = {
        "jobs": ("Jobs", lambda: queries.jobs(place)),
        "energy": (f"Energy by {by}", lambda: queries.energy(place, by)),
        "outliers": ("GPUs by energy at equal work", lambda: queries.outliers(place)),
        "savings": (report.savings_title(allowed), lambda: queries.savings(place, allowed)),
    }
    if question == "report":
        return FleetTable("Fleet", *report.page(place))
    if question == "diff":
        if head is None:
            raise BadInput(
                "one data set only", "name the one to compare with: tracetool fleet diff BASE HEAD"
            )
        title = f"Energy by {by} of {Place(head).name} against {place.name}"
        return FleetTable(title, report.changes(place, Place(head), by))
    if question not in answers:
        raise BadInput(f"no question {question!r}", f"known: {', '.join((*answers, 'diff', 'report'))}")
    title, answer = answers[question]
    return FleetTable(title, answer())


def _sum(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _kept(manifest: Manifest, works: Sequence[Work]) -> str:
    """Return what a stopped task has kept, in words."""
    done = sum(manifest.done(work.job, work.marks) for work in works)
    return f"{done} of {counted(len(works), 'job')} done; the same command again goes on with the others"


def _run(
    place: Place,
    name: str,
    task: Any,
    works: Sequence[Work],
    engine: str,
    workers: int,
    memory_gib: float | None,
    retries: int,
    progress: Progress | None,
) -> FleetJobs:
    absent = place.local and not Path(place.root).exists()
    manifest = Manifest(place, name)
    limit = None if memory_gib is None else int(memory_gib * 2**30)
    kept = partial(_kept, manifest, works)
    try:
        with keeping(kept), started(engine, workers, limit) as running:
            tally = run_jobs(task, works, running, manifest, retries=retries, progress=progress or Silent())
    except (KeyboardInterrupt, Terminated) as error:
        number = number_of(error)
        raise Interrupted(f"{manner_of(number)}; {kept()}", signal_number=number) from error
    except (BadInput, OSError) as error:  # a full disk, say: what was done is kept
        if absent and not any(e["state"] == "done" for e in Manifest(place, name).entries().values()):
            shutil.rmtree(place.root, ignore_errors=True)
        if isinstance(error, OSError):
            raise BadInput.unwritable(place.name, error) from error
        raise
    finally:
        remove_scratch(place)
    if tally.failed and not tally.done and not tally.skipped:
        if absent:
            shutil.rmtree(place.root, ignore_errors=True)
        job, reason = next(iter(tally.failed.items()))
        raise BadInput(f"no job of {len(tally.failed)} succeeded; first {job}: {reason}", "")
    wanted = {work.job for work in works}
    without, not_measured = (
        {j: str(e[key]) for j, e in manifest.entries().items() if j in wanted and key in e}
        for key in ("no_energy", "not_measured")
    )
    return FleetJobs(place.name, name, manifest.frame(), tally, without, not_measured)
