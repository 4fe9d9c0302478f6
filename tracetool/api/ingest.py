"""Any mix of traces and power logs into one run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.figures import counted
from tracetool.core.progress import Progress, Silent
from tracetool.hardware.names import match_gpu
from tracetool.sources.assemble import assemble, check_trace
from tracetool.sources.clocks import Source, align_sources, uncovered
from tracetool.sources.columns import rejected_count
from tracetool.sources.detect import detect, readable
from tracetool.sources.format import ReadOptions
from tracetool.sources.io.text import content_bytes
from tracetool.sources.telemetry.readings import tidy_readings
from tracetool.tables.memory import check_memory, ratio_cap, share_arenas
from tracetool.tables.run import file_sha256, write_run
from tracetool.tables.run_folder import check_replaceable
from tracetool.tables.scratch import temporary_folder

_ENDINGS = re.compile(
    r"(?:\.nsys-rep|\.qdrep|\.sqlite|\.pt\.trace\.json|\.trace\.json|\.json|\.csv|\.db|\.rpd|\.pftrace|\.parquet)?(?:\.gz)?$"
)


def default_out(trace: Path) -> Path:
    """Return where a run goes when nobody says: beside the trace.

    >>> default_out(Path("a/run.nsys-rep")).as_posix(), default_out(Path("t.pt.trace.json.gz")).as_posix()
    ('a/run.tracetool', 't.tracetool')
    """
    stem = _ENDINGS.sub("", trace.name) or trace.name
    return trace.parent / f"{stem}.tracetool"


def ingest(
    traces: Sequence[Path],
    power: Sequence[Path] = (),
    *,
    tz: str | None = None,
    gpu: str | None = None,
    out: Path | None = None,
    nsys: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Read traces and power logs and write one run.

    Parameters
    ----------
    traces : sequence of Path
        Profiler files of any known format; power logs may stand among them.
    power : sequence of Path
        Power or clock logs.
    tz : str, optional
        Zone of logs in local time: an offset (``+02:00``) or a name (``Europe/Berlin``).
    gpu : str, optional
        Model of every GPU, where the trace does not name it.
    out : Path, optional
        The run; by default beside the first trace.
    nsys : Path, optional
        The ``nsys`` program for Nsight Systems reports.
    progress : Progress, optional
        Told what is being done.

    Returns
    -------
    Path
        The run directory.

    Raises
    ------
    BadInput
        If a file cannot be used: nothing is written.
    MissingPart
        If a program needed to read a report is not installed or too old.
    """
    if not traces and not power:
        raise BadInput("nothing to ingest", "name a trace: tracetool ingest TRACE")
    said = progress or Silent()
    share_arenas()
    for path in [*traces, *power]:
        _check_name(Path(path))
    model = _model(gpu) if gpu else None
    target = out or default_out(Path([*traces, *power][0]))
    _check_target(target)
    paths = [(Path(p), None) for p in traces] + [(Path(p), "telemetry") for p in power]
    with temporary_folder() as scratch, _Beside(1) as beside:
        options = ReadOptions(nsys, ratio_cap(), said, scratch)
        sources = []
        sums = []
        for path, holds in paths:
            real = readable(path, options)
            name, found = detect(real, holds)
            if path.is_file():
                sums.append(beside.submit(file_sha256, path))  # hashed while it is read
            else:
                sums.append(beside.submit(_folder_sha256, path))
            if found.memory_ratio and real.is_file():
                check_memory(path, found.memory_ratio * content_bytes(real), "its contents")
            sources.append(Source(path, name, found.read(real, options)))
        checked = [check_trace(s.trace, s.path) for s in sources]
        clock = align_sources(sources, tz)
        for source in sources:
            tidy_readings(source.trace)
        if not all(entry["placed"] for entry in clock["alignment"]):
            from tracetool.measure.source_alignment import fit_unplaced

            said.step("fitting clocks")
            fit_unplaced(sources, clock, model)
        said.step("linking kernels to their launches")
        missed = uncovered(sources, clock["alignment"])
        described = [_describe(s) for s in sources]  # assembling empties them
        made = assemble(checked)
        made.tables["devices"] = _name_gpus(made.tables["devices"], model)
        from tracetool.kernels.refine import families_of  # the grammars: not for a read that fails

        signatures = made.tables["signatures"]
        made.tables["signatures"] = signatures.with_columns(families_of(signatures).alias("family"))
        info = {
            "clock": clock,
            "sources": [{**d, "sha256": h.result()} for d, h in zip(described, sums, strict=True)],
            "warnings": _warnings(sources, [*missed, *made.warnings], clock, made.tables),
        }
        said.step(f"writing {target}")
        return write_run(target, made.tables, info)


class _Beside(ThreadPoolExecutor):
    """Work beside the reading that nobody waits for once the reading has failed or was stopped."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(wait=kind is None, cancel_futures=True)


def _model(gpu: str) -> str:
    """Return the name of a GPU the user calls by one of its names."""
    from tracetool.hardware.load import load_gpu  # knows every number of it, and starts as slowly

    return load_gpu(gpu, part="sensor").name


def _check_name(path: Path) -> None:
    """Refuse a name that no table and no ``run.json`` can hold."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise BadInput.in_file(path, "has a name that is not UTF-8", "rename it") from error


def _check_target(target: Path) -> None:
    """Fail before the work, not after it."""
    check_replaceable(target)
    if not target.absolute().parent.is_dir():
        raise BadInput.in_file(target, "cannot be written: its folder does not exist", "make it or choose -o")


def _folder_sha256(folder: Path) -> str:
    """Return one sum over the files of an export of many files, by name."""
    import hashlib

    total = hashlib.sha256()
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        total.update(file.name.encode() + b"\0" + file_sha256(file).encode())
    return total.hexdigest()


def _name_gpus(devices: pl.DataFrame, model: str | None) -> pl.DataFrame:
    stated = devices.select("name", "memory_bytes").iter_rows()
    names = [model or (match_gpu(name, memory_bytes) if name else None) for name, memory_bytes in stated]
    return devices.with_columns(pl.Series("gpu", names, dtype=pl.String))


def _describe(source: Source) -> dict[str, Any]:
    trace = source.trace
    kernels = int((trace.activities["kind"] == "kernel").sum()) if trace.activities.height else 0
    return {
        "path": str(source.path),
        "sha256": "",  # summed meanwhile
        "bytes": source.path.stat().st_size if source.path.is_file() else None,
        "format": source.format,
        "profiler": trace.profiler,
        "profiler_version": trace.profiler_version,
        "schema_version": trace.schema_version,
        "kernels": kernels,
        "activities": trace.activities.height,
        "readings": trace.telemetry.height,
        "rejected": rejected_count(trace.rejected),
        **({"details": trace.details} if trace.details else {}),
    }


def _warnings(
    sources: Sequence[Source],
    made: Sequence[str],
    clock: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
) -> list[str]:
    said = [f"{s.path.name}: {w}" for s in sources for w in s.trace.warnings]
    said += [
        f"{s.path.name}: {counted(lost, 'row')} could not be used (rejected.parquet has them)"
        for s in sources
        if (lost := rejected_count(s.trace.rejected))
    ]
    said += [
        f"{entry['source']}: its clock is not tied to the others: times are left as they are"
        for entry in clock["alignment"]
        if not entry["placed"]
    ]
    said += [
        f"{entry['source']}: {entry['basis'].removeprefix('fitted: ')}"
        for entry in clock["alignment"]
        if entry.get("ambiguous")
    ]
    unknown = tables["devices"].filter(pl.col("gpu").is_null())["name"].to_list()
    said += [
        f"GPU {name or 'without a name'} is not known: predictions need --gpu"
        for name in dict.fromkeys(unknown)
    ]
    return [*said, *made]
