"""Traces that a data set holds already, under another name or as a copy: each counts once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tracetool.core.number_text import counted
from tracetool.fleet.jobs import Job, file_identity, is_log, unique_name
from tracetool.fleet.manifest import Manifest
from tracetool.fleet.run_jobs import Work
from tracetool.fleet.storage import Place
from tracetool.fleet.tasks import RUNS, TASKS, key

#: State of a job whose traces another job of the data set holds.
REPEATED: Final = "repeated"
#: Folders of what tasks make of a job.
_TABLES: Final = ("energy", "families", "predictions")

_Entries = Mapping[str, Mapping[str, Any]]


def named_as_before(jobs: Sequence[Job], entries: _Entries) -> list[Job]:
    """Return the jobs under the names that the data set has for their traces, and new ones under free names.

    A job that was read from another source, or was named by another rule, is the same job: its name stays. A
    name that is another job's, of other files, gets a sum over the path appended.

    Parameters
    ----------
    jobs : sequence of Job
        What sources hold.
    entries : mapping of str to mapping
        Documents of the jobs that were read before, by name.
    """
    known: dict[str, Any] = {name: files for name, e in entries.items() if (files := _files(e))}
    by_files = {files: name for name, files in sorted(known.items(), reverse=True)}
    wanted = [_identities(j.where, (t.path for t in j.traces)) for j in jobs]
    named: dict[str, Job] = {by_files[w]: j for j, w in zip(jobs, wanted, strict=True) if w in by_files}
    kept = {id(job) for job in named.values()}
    for job, files in zip(jobs, wanted, strict=True):
        if id(job) not in kept:
            free = job.name not in named and not known.get(job.name, files).isdisjoint(files)
            named[job.name if free else unique_name(job, ChainMap(named, known))] = job
    return [_with_logs(replace(job, name=name), entries.get(name, {})) for name, job in named.items()]


def _with_logs(job: Job, entry: Mapping[str, Any]) -> Job:
    """Return a job with the logs that it was read with and that are still there: a source may name less."""
    traces, own = {t.path for t in job.traces}, {i.path for i in (*job.beside, *job.logs)}
    sources = [p for p in entry.get("sources") or () if isinstance(p, str)]
    noted = traces <= set(sources)  # else of a job that was read from elsewhere
    lacking = [p for p in sources if noted and p not in traces | own and not _is_trace(p, entry)]
    if not lacking:
        return job
    place = Place(job.where)
    there = {p: item for p in lacking if (item := place.item(p)) is not None}
    stated = entry.get("beside")
    beside_before = stated if isinstance(stated, list) else []
    order = list(dict.fromkeys((*sources, *own)))
    logs = {i.path: i for i in job.logs} | {p: i for p, i in there.items() if p not in beside_before}
    beside = {i.path: i for i in job.beside} | {p: i for p, i in there.items() if p in beside_before}
    return replace(
        job,
        logs=tuple(logs[p] for p in order if p in logs),
        beside=tuple(beside[p] for p in order if p in beside),
    )


def _is_trace(path: str, entry: Mapping[str, Any]) -> bool:
    files = entry.get("traces")
    return path in files if isinstance(files, list) else not is_log(path)


def _files(entry: Mapping[str, Any]) -> frozenset[str]:
    """Return the identities of the traces of a job that was read; none where nobody noted them."""
    files, where = entry.get("traces"), entry.get("from", "")
    if not isinstance(files, list) or not isinstance(where, str):
        sources = [p for p in entry.get("sources") or () if isinstance(p, str)]  # of an earlier version
        files, where = [p for p in sources if p.startswith("/") and not is_log(p)], ""
    return _identities(where, map(str, files))


def _identities(where: str, paths: Iterable[str]) -> frozenset[str]:
    """Return what files have once; options of an address, such as its endpoint and keys, do not count."""
    return frozenset(file_identity(where.partition("?")[0], path) for path in paths)


def without_repeated(works: Sequence[Work], entries: _Entries) -> list[Work]:
    """Return the jobs to read: all but those, unchanged, whose traces another job was found to hold."""
    anew = {w.job for w in works if entries.get(w.job, {}).get("marks") != w.marks}
    return [w for w in works if w.job in anew or not _is_held(entries.get(w.job, {}), entries, anew)]


def _is_held(entry: Mapping[str, Any], entries: _Entries, read_anew: Container[str]) -> bool:
    of = str(entry.get("of"))
    other = entries.get(of, {})
    held = entry.get("state") == REPEATED and other.get("state") == "done" and of not in read_anew
    return held and set(_sums(entry)) <= set(_held_sums(other))


def _sums(entry: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of a job's traces; of its logs too where an earlier version read it."""
    return [str(s) for s in entry.get("trace_sha256") or entry.get("sha256") or ()]


def _held_sums(entry: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of all files of a job, traces and logs."""
    return [str(s) for s in entry.get("sha256") or ()]


def set_aside(place: Place, before: Container[str]) -> None:
    """Leave one job of those that hold the same traces, byte for byte: what others hold would count twice.

    The job of most traces stays, of equal ones the one that was there ``before``, then the first by name. The
    tables of the others are removed before their documents say so: stopped between, the next call goes on.
    """
    manifest = Manifest(place, "ingest")
    entries = manifest.entries()
    done = [name for name, entry in entries.items() if entry["state"] == "done"]
    owners: dict[str, str] = {}
    for job in sorted(done, key=lambda name: (-len(_files(entries[name])), name not in before, name)):
        sums = _sums(entries[job])
        if sums and all(s in owners for s in sums):
            _remove(place, job)
            manifest.write(job, {**entries[job], "state": REPEATED, "of": owners[sums[0]]})
            place.remove(RUNS, key(job))
        else:
            owners |= {s: job for s in _held_sums(entries[job]) if s not in owners}


def _remove(place: Place, job: str) -> None:
    for task in TASKS:
        place.remove_file("manifest", task, f"{job}.json")
    for table in _TABLES:
        place.remove(table, key(job))


def repeated_note(jobs: Sequence[str], entries: _Entries) -> tuple[str, ...]:
    """Return a sentence on the jobs that repeat others; none without any."""
    if not jobs:
        return ()
    first = f"{jobs[0]} holds the traces of {entries[jobs[0]]['of']}"
    if len(jobs) == 1:
        return (f"{first}: they count once",)
    return (f"{counted(len(jobs), 'job')} hold traces of others, first {first}: they count once",)
