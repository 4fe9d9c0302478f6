"""Jobs from files: the traces of a folder that are ranks of one another, with their power logs."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.core.escape import visible
from tracetool.core.number_text import counted
from tracetool.fleet.storage import Item, Place
from tracetool.sources.detect import detect
from tracetool.sources.io.text import HEAD_BYTES
from tracetool.sources.source_description import run_name
from tracetool.tables.scratch import temporary_folder

#: Ends of names that traces and power logs have; what else lies in a folder is not looked into.
_TRACES: Final = (
    ".nsys-rep", ".sqlite", ".db", ".json", ".json.gz", ".pftrace", ".perfetto-trace", ".xplane.pb", ".csv",
    ".tar.gz",
)  # fmt: skip
#: Ends of names that power logs have; a file whose name holds no word of logs is recognized by its content.
_TEXTS: Final = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".log")
#: Ends of names of traces' operators, which are read beside them.
_OPERATORS: Final = (".et",)
_JSON: Final = (".json", ".json.gz")
#: JSON files whose names differ in digits alone: of more than these the first tells what all are. [1] For
#: speed: each is opened.
_OPENED_ALIKE: Final = 8
#: JSON files of a folder that are opened; the rest are traces, as ranks of one job in a bucket are. [1] For
#: speed.
_OPENED: Final = 256
#: Words in the names of power logs, which go with the traces beside them.
_LOGS: Final = (
    "power",
    "telemetry",
    "nvidia-smi",
    "nvidia_smi",
    "dcgm",
    "rocm-smi",
    "amd-smi",
    "energy",
    "metrics",
)
_GLOB: Final = frozenset("*?[")
#: Longest name of a job: with a sum and an ending it names files, of at most 255 bytes. [characters] A prior.
_LONGEST_NAME: Final = 150
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True)
class Job:
    """One run to make: its name, the location of its files, traces and logs, and the values in its path.

    ``beside`` are files read beside traces: counters of launches, operators of an execution trace.
    """

    name: str
    where: str
    traces: tuple[Item, ...]
    logs: tuple[Item, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[Item, ...] = ()

    @property
    def files(self) -> tuple[Item, ...]:
        """All files of the job, traces first."""
        return (*self.traces, *self.beside, *self.logs)

    @property
    def marks(self) -> str:
        """A sum over names, sizes and times of its files: changed files are read anew."""
        text = "\n".join(f"{i.path}\0{i.size}\0{i.mark}" for i in self.files)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def find_jobs(
    sources: Sequence[str], labels: str = "", *, each: bool = False
) -> tuple[list[Job], tuple[str, ...]]:
    """Return the jobs whose files are under folders, globs and addresses, and a sentence on repeated traces.

    A trace that several sources hold, or several names of it, counts once: in the first job that it is of.

    Parameters
    ----------
    sources : sequence of str
        Folders, files, globs, addresses of buckets.
    labels : str
        Folders of a path from the source down by name: ``{team}/{model}``; ``*`` names none.
    each : bool
        Whether every trace is a job of its own; else traces of a folder whose names differ in one number are
        the ranks of one job.

    Raises
    ------
    BadInput
        If a source holds nothing, or cannot be read.
    """
    names = (
        [label.strip("{}") if label.startswith("{") else "" for label in labels.split("/")] if labels else []
    )
    jobs: dict[str, Job] = {}
    taken: set[str] = set()
    repeated: list[str] = []
    unnamed: list[str] = []
    for source in sources:
        for job in _of_source(source, names, unnamed, each=each):
            new = []
            for trace in job.traces:
                if (identity := file_identity(job.where, trace.path)) in taken:
                    repeated.append(trace.path)
                else:
                    taken.add(identity)
                    new.append(trace)
            if new:
                name = unique_name(job, jobs)
                jobs[name] = replace(job, name=name, traces=tuple(new))
    if not jobs:
        raise BadInput("no trace in " + ", ".join(sources), "tracetool formats lists what can be read")
    return list(jobs.values()), (*_repeats(repeated), *_left_out(unnamed))


def file_identity(where: str, path: str) -> str:
    """Return what one file has once, however it is named: its address, or its path without links."""
    scheme, remote, rest = where.partition("://")
    options = rest.partition("?")[2]
    return f"{scheme}://{path}?{options}" if remote else os.path.realpath(path)


def _repeats(paths: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence on the traces that are left out because they are taken already; none without any."""
    if not paths:
        return ()
    if len(paths) == 1:
        return (f"{paths[0]} is named more than once: it counts once",)
    return (f"{len(paths):,} traces, first {paths[0]}, are named more than once: each counts once",)


def _left_out(paths: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence on the traces whose names are no text, which no table can hold; none without any."""
    if not paths:
        return ()
    first = visible(os.fsencode(paths[0]).decode("utf-8", "backslashreplace"))
    count = counted(len(paths), "trace is", "traces are")
    return (f"{count} left out, first {first}: no name in UTF-8 (rename them)",)


def _is_text(path: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in path)


def unique_name(job: Job, taken: Container[str]) -> str:
    """Return a job's name, with a sum over its first trace's path where another job has the name."""
    path = job.traces[0].path
    short, whole = (hashlib.sha256(t.encode()).hexdigest() for t in (path, f"{job.where}\0{path}"))
    candidates = (job.name, f"{job.name}-{short[:8]}")
    return next((name for name in candidates if name not in taken), f"{job.name}-{whole}")


def _of_source(source: str, names: Sequence[str], unnamed: list[str], *, each: bool) -> Iterable[Job]:
    """Yield the jobs of a source; traces whose names are no text are added to ``unnamed``."""
    base, pattern = _split_glob(source)
    place = Place(base)
    alone = place.item(place.root)
    files = [alone] if alone else [i for i in place.items() if _considered(i.path)]
    if pattern:
        files = [i for i in files if fnmatch(i.path.removeprefix(f"{place.root}/"), pattern)]
    unnamed += [i.path for i in files if _readable(i.path) and not _is_text(i.path)]
    files = [i for i in files if _is_text(i.path)]
    if not any(_readable(i.path) for i in files):
        raise BadInput.in_file(source, "holds no trace", "name a folder, a glob or a bucket that does")
    folders: dict[str, list[Item]] = defaultdict(list)
    for item in files:
        folders[item.path.rsplit("/", 1)[0]].append(item)
    for folder, items in folders.items():
        below = folder.removeprefix(place.root).strip("/")
        folder_names = [p for p in below.split("/") if p]
        labels = {n: p for n, p in zip(names, folder_names, strict=False) if n}
        logs, beside, traces = _separated(place, items)
        if not traces:
            continue
        groups = list(_ranks(traces, each=each))
        for group in groups:
            own_logs, own_beside = (_of_group(more, traces, group, groups) for more in (logs, beside))
            name = _name(below, group)
            yield Job(name, base, tuple(group), tuple(own_logs), labels, tuple(own_beside))


def _of_group(
    more: Sequence[Item], traces: Sequence[Item], group: Sequence[Item], groups: Sequence[object]
) -> list[Item]:
    """Return the files that go with traces: all where they are the only ones, else by how names begin."""
    if len(groups) == 1:
        return list(more)
    own = {t.path for t in group}
    return [i for i in more if _begins(i, traces) & own]


def _split_glob(source: str) -> tuple[str, str]:
    """Return the folder before the first part with a wildcard, and the pattern below it."""
    segments = source.split("/")
    for n, segment in enumerate(segments):
        pattern = "://" not in source and _GLOB & set(segment)
        if pattern and not os.path.lexists("/".join(segments[: n + 1])):  # a name that is there is no pattern
            return "/".join(segments[:n]) or ".", "/".join(segments[n:])
    return source, ""


def _considered(path: str) -> bool:
    name = path.rsplit("/", 1)[-1].lower()
    return not name.startswith(".") and name.endswith((*_TRACES, *_TEXTS, *_OPERATORS))


def _readable(path: str) -> bool:
    return path.lower().endswith(_TRACES)


def _separated(place: Place, items: Sequence[Item]) -> tuple[list[Item], list[Item], list[Item]]:
    """Return the power logs of a folder, what is read beside a trace, and the traces."""
    named = [i for i in items if is_log(i.path)]
    others = [i for i in items if not is_log(i.path)]
    if not any(_readable(i.path) for i in others):
        return named, [], []
    kinds = _kinds(place, others)
    logs = [i for i in others if kinds.get(i.path) == "telemetry"]
    beside = [i for i in others if kinds.get(i.path) == "beside"]
    apart = {i.path for i in (*logs, *beside)}
    return [*named, *logs], beside, [i for i in others if i.path not in apart and _readable(i.path)]


def _kinds(place: Place, items: Sequence[Item]) -> dict[str, str]:
    """Return what files hold whose ends of names do not say it.

    Of JSON files, which may be thousands of ranks, those whose names differ in digits alone are alike.
    """
    kinds: dict[str, str] = {}
    alike: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        name = item.path.rsplit("/", 1)[-1].lower()
        if name.endswith(_JSON):
            alike[_squeezed(name)].append(item)
        elif name.endswith((*_TEXTS, *_OPERATORS)):
            kinds[item.path] = _kind(place, item)
    opened = 0
    for group in alike.values():
        first = group if len(group) <= _OPENED_ALIKE else group[:1]
        if opened + len(first) > _OPENED:
            break
        opened += len(first)
        found = [_kind(place, item) for item in first]
        kinds |= {i.path: found[min(n, len(found) - 1)] for n, i in enumerate(group)}
    return kinds


def is_log(path: str) -> bool:
    """Whether a file's name alone says that it is a power log."""
    name = path.rsplit("/", 1)[-1].lower()
    return name.endswith((".csv", ".json", ".jsonl")) and any(word in name for word in _LOGS)


def _kind(place: Place, item: Item) -> str:
    """Return what a file is to a run, as ``ingest`` takes it, by its first bytes; empty where unknown."""
    try:
        if place.local:
            return detect(Path(item.path))[1].kind
        with temporary_folder() as folder:
            start = folder / Path(item.path).name
            start.write_bytes(place.head(item.path, HEAD_BYTES))
            return detect(start)[1].kind
    except BadInput:
        return ""


def _digits_out(name: str) -> str:
    return "".join("#" if c.isdigit() else c for c in name)


def _squeezed(name: str) -> str:
    """Return a name with one mark in place of each number.

    >>> _squeezed("rank0.1700000000.json"), _squeezed("gpu.json")
    ('rank#.#.json', 'gpu.json')
    """
    squeezed = _digits_out(name)
    while "##" in squeezed:
        squeezed = squeezed.replace("##", "#")
    return squeezed


def _ranks(traces: Sequence[Item], *, each: bool) -> Iterable[list[Item]]:
    """Group the traces of a folder: those whose names differ in their digits alone, each once."""
    if each:
        yield from ([t] for t in traces)
        return
    alike: dict[str, list[Item]] = defaultdict(list)
    for trace in traces:
        name = trace.path.rsplit("/", 1)[-1]
        squeezed = _squeezed(name)
        alike[squeezed if "rank" in squeezed.lower() else name].append(trace)
    yield from alike.values()


def _begins(log: Item, traces: Sequence[Item]) -> set[str]:
    """Return the paths of the traces that a log's name begins as, of ``step`` and ``step.1`` the longer.

    Where none is, of names cut at their first dot: ``host_power.csv`` beside ``host.1700.pt.trace.json``.
    """
    name = log.path.rsplit("/", 1)[-1].lower()
    for short in (False, True):
        stems = [(_stem(t.path, short=short).lower(), t.path) for t in traces]
        begun = [(stem, path) for stem, path in stems if _is_start(stem, name)]
        if begun:
            longest = max(len(stem) for stem, _ in begun)
            return {path for stem, path in begun if len(stem) == longest}
    return set()


def _is_start(stem: str, name: str) -> bool:
    """Whether a name begins as a trace's, whole: not ``step10`` as ``step1``."""
    rest = name[len(stem) :]
    return name.startswith(stem) and not (stem[-1:].isdigit() and rest[:1].isdigit())


def _stem(path: str, *, short: bool = False) -> str:
    name = path.rsplit("/", 1)[-1]
    return name.split(".", 1)[0] if short else run_name(name)


def _name(below: str, traces: Sequence[Item]) -> str:
    """Return a job's name: its folder below the source, and its trace's name without numbers of ranks."""
    stem = _name_of_ranks([_stem(t.path) for t in traces])
    text = "/".join(p for p in (below, stem) if p) or "job"
    name = "".join(c if c in _SAFE else "-" for c in text.replace("/", "--")).strip("-.") or "job"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _name_of_ranks(stems: Sequence[str]) -> str:
    """Return the name that differs among ranks in numbers alone, without those numbers.

    >>> _name_of_ranks(["Qwen1.5_rank0", "Qwen1.5_rank10"]), _name_of_ranks(["Qwen1.5_rank0"])
    ('Qwen1.5_rank', 'Qwen1.5_rank0')
    """
    pieces = [["".join(run) for _, run in groupby(stem, str.isdigit)] for stem in stems]
    if len({len(p) for p in pieces}) > 1:
        return _digits_out(stems[0]).replace("#", "")
    return "".join(p if len({q[i] for q in pieces}) == 1 else "" for i, p in enumerate(pieces[0]))
