"""The functions of ``tracetool fleet``: read many jobs into one data set, process and query it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.api.public import public
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
from tracetool.fleet.results import FleetJobs, FleetTable
from tracetool.fleet.run_jobs import Work, run_jobs
from tracetool.fleet.storage import Place
from tracetool.fleet.tasks import TASKS, ingest_job, remove_scratch
from tracetool.tables.stopping import keeping


@dataclass(frozen=True)
class _Workers:
    """Where and how the jobs of a task run."""

    engine: str  # local or ray
    at_once: int  # tasks at a time; 0: one a processor
    memory_gib: float | None  # limit of a task [GiB]
    retries: int  # further tries where network or worker failed
    progress: Progress | None


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
    progress : Progress, optional
        Is told of each job.

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
    jobs_found, repeats = find_jobs([os.fspath(s) for s in listed], labels, each=each)
    before = Manifest(place, "ingest").entries()
    jobs = named_as_before(jobs_found, before)
    options = {"tz": tz, "gpu": gpu}
    marks = json.dumps([__version__, options], sort_keys=True)
    all_works = [Work(j.name, _digest(j.marks, marks), (j, place.where, options)) for j in jobs]
    works = without_repeated(all_works, before)
    try:
        done = _run(
            place, "ingest", ingest_job, works, _Workers(engine, workers, memory_gib, retries, progress)
        )
    finally:
        set_aside(place, before)
    done = _without_copies(done, Manifest(place, "ingest"), [w.job for w in all_works], repeats)
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
    engine, workers, memory_gib, retries, progress : optional
        As for :func:`fleet_ingest`.

    Raises
    ------
    BadInput
        If there is no such task or data set, or every job failed.
    Interrupted
        If Ctrl-C or SIGTERM stopped it; the jobs done until then are kept.
    MissingPart
        If the engine's package is not installed.
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
    works = [Work(j, _digest(str(e["marks"]), marks), (j, place.where, chosen)) for j, e in entries.items()]
    return _run(place, task, TASKS[task], works, _Workers(engine, workers, memory_gib, retries, progress))


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


def _digest(*texts: str) -> str:
    """Return one mark of several texts: a job with the mark it was done with is skipped."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _kept(manifest: Manifest, works: Sequence[Work]) -> str:
    """Return what a stopped task has kept, in words."""
    done = sum(manifest.done(work.job, work.marks) for work in works)
    return f"{done} of {counted(len(works), 'job')} done; the same command again goes on with the others"


def _run(
    place: Place, name: str, task: Callable[..., Any], works: Sequence[Work], workers: _Workers
) -> FleetJobs:
    """Run a task over its jobs and return their outcome; a stop or a fault keeps the jobs done until then.

    Raises
    ------
    BadInput
        If every job failed, or the data set cannot be written; a data set begun by this call is removed.
    Interrupted
        If Ctrl-C or SIGTERM stopped it.
    """
    new_here = place.local and not Path(place.root).exists()
    manifest = Manifest(place, name)
    limit_bytes = None if workers.memory_gib is None else int(workers.memory_gib * 2**30)
    kept = partial(_kept, manifest, works)
    try:
        with keeping(kept), started(workers.engine, workers.at_once, limit_bytes) as running:
            tally = run_jobs(
                task,
                works,
                running,
                manifest,
                retries=workers.retries,
                progress=workers.progress or Silent(),
            )
    except (KeyboardInterrupt, Terminated) as error:
        number = number_of(error)
        raise Interrupted(f"{manner_of(number)}; {kept()}", signal_number=number) from error
    except (BadInput, OSError) as error:  # a full disk, say: what was done is kept
        if new_here and not any(e["state"] == "done" for e in Manifest(place, name).entries().values()):
            shutil.rmtree(place.root, ignore_errors=True)
        if isinstance(error, OSError):
            raise BadInput.unwritable(place.name, error) from error
        raise
    finally:
        remove_scratch(place)
    if tally.failed and not tally.done and not tally.skipped:
        if new_here:
            shutil.rmtree(place.root, ignore_errors=True)
        job, reason = next(iter(tally.failed.items()))
        raise BadInput(f"no job of {len(tally.failed)} succeeded; first {job}: {reason}", "")
    wanted = {work.job for work in works}
    without, not_measured = (
        {j: str(e[key]) for j, e in manifest.entries().items() if j in wanted and key in e}
        for key in ("no_energy", "not_measured")
    )
    return FleetJobs(place.name, name, manifest.frame(), tally, without, not_measured)
