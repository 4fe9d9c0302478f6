"""Description of the files a run was read from: names, sums, counts and warnings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.hardware.makers import example_gpu, maker_title
from tracetool.hardware.names import match_gpu
from tracetool.hardware.trace_figures import differing_figures
from tracetool.sources.clocks import Source
from tracetool.sources.columns import rejected_count
from tracetool.tables.run import file_sha256
from tracetool.tables.scopes import other_scopes_notes

_ENDINGS = re.compile(
    r"(?:\.nsys-rep|\.qdrep|\.sqlite|\.pt\.trace\.json|\.trace\.json|\.json|\.csv|\.db|\.rpd|\.pftrace"
    r"|\.perfetto-trace|\.xplane\.pb|\.parquet|\.tar)?(?:\.gz)?$"
)


def default_out(trace: Path) -> Path:
    """Return the default place of a run: beside the trace.

    >>> default_out(Path("a/run.nsys-rep")).as_posix(), default_out(Path("t.pt.trace.json.gz")).as_posix()
    ('a/run.tracetool', 't.tracetool')
    """
    return trace.parent / f"{run_name(trace.name)}.tracetool"


def run_name(file_name: str) -> str:
    """Return what a trace's run is called: its file's name without the endings that formats have.

    >>> run_name("Qwen1.5-0.5B.pt.trace.json.gz"), run_name("step.1700.xplane.pb"), run_name(".json")
    ('Qwen1.5-0.5B', 'step.1700', '.json')
    """
    return _ENDINGS.sub("", file_name) or file_name


def check_name(path: Path) -> None:
    """Refuse a name that no table and no ``run.json`` can contain."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise BadInput.in_file(path, "has a name that is not UTF-8", "rename it") from error


def folder_sha256(folder: Path) -> str:
    """Return one sum over the files of an export of many files, by name."""
    import hashlib

    total = hashlib.sha256()
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        total.update(file.name.encode() + b"\0" + file_sha256(file).encode())
    return total.hexdigest()


def name_gpus(devices: pl.DataFrame, model: str | None) -> tuple[pl.DataFrame, list[str]]:
    """Return the devices with the GPU each is, and sentences on those that are not ``model``.

    ``model``, what the user says they are, counts where the stated name is not a known GPU's, leaves its
    memory open, or is denied by the memory or SMs that are stated with it.

    Raises
    ------
    BadInput
        If ``model`` is of another maker than a GPU whose name is not known.
    """
    stated = list(devices.select("name", "memory_bytes").iter_rows())
    named = [match_gpu(name, memory_bytes) if name else None for name, memory_bytes in stated]
    notes = []
    if model is not None:
        _check_maker(devices.filter(pl.Series([name is None for name in named], dtype=pl.Boolean)), model)
        for i, row in enumerate(devices.iter_rows(named=True)):
            matched = named[i]
            if matched is None or matched == model or _may_be(row, matched, model):
                named[i] = model
            else:
                notes.append(
                    f"--gpu {model} not used: the trace names {row['name']}, which is {matched};"
                    f" to predict it on {model}: tracetool predict RUN --gpu {model}"
                )
    return devices.with_columns(pl.Series("gpu", named, dtype=pl.String)), list(dict.fromkeys(notes))


def _may_be(device: Mapping[str, Any], matched: str, model: str) -> bool:
    """Return whether a GPU may be a variant of its name: of other memory, or with other figures."""
    from tracetool.hardware.load import load_gpu

    memory_bytes, named_gpu = device["memory_bytes"], load_gpu(model, part="sensor")
    if memory_bytes is None and match_gpu(device["name"], named_gpu.memory_bytes) == model:
        return True
    return bool(differing_figures(load_gpu(matched, part="sensor"), memory_bytes, device["sm_count"]))


def _check_maker(unnamed: pl.DataFrame, model: str) -> None:
    """Refuse a GPU of another maker than those a trace does not name."""
    from tracetool.hardware.load import load_gpu  # every number of it: not for every start

    other_makers = unnamed.filter(pl.col("vendor") != load_gpu(model, part="sensor").vendor)["vendor"]
    if len(other_makers):
        raise BadInput(
            f"--gpu {model}: the trace was recorded on a GPU of {maker_title(other_makers[0])}",
            f"name that GPU, e.g. --gpu {example_gpu(other_makers[0])}; the known ones: tracetool gpus",
        )


def described_source(source: Source) -> dict[str, Any]:
    """Return the entry of a source in ``run.json``."""
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
        **({"counted_launches": trace.counted.height} if trace.counted.height else {}),
        **({"details": trace.details} if trace.details else {}),
    }


#: How a reader's note on a file that names no GPU ends.
_UNNAMED = ": name it with --gpu"


def with_named_gpu(warning: str, model: str | None) -> str:
    """Return a reader's note, of a file that names no GPU with the one that the user named.

    >>> with_named_gpu("t.csv: the file does not name its GPU: name it with --gpu", "mi300x")
    't.csv: the file does not name its GPU: taken as mi300x'
    """
    return (
        f"{warning.removesuffix(_UNNAMED)}: taken as {model}"
        if model and warning.endswith(_UNNAMED)
        else warning
    )


def ingest_warnings(
    sources: Sequence[Source],
    made_notes: Sequence[str],
    clock: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    worked: Collection[int],
) -> list[str]:
    """Return warnings about a run: rejected rows, loose clocks, GPUs that ``worked`` without a model.

    Of a log alone nothing worked: then those of every GPU.
    """
    warnings = [f"{s.path.name}: {w}" for s in sources for w in s.trace.warnings]
    warnings += [
        f"{s.path.name}: {counted(lost, 'row')} could not be used (rejected.parquet has them)"
        for s in sources
        if (lost := rejected_count(s.trace.rejected))
    ]
    warnings += [
        f"{entry['source']}: its clock is not tied to the others: times are left as they are"
        for entry in clock["alignment"]
        if not entry["placed"]
    ]
    warnings += [
        f"{entry['source']}: {entry['basis'].removeprefix('fitted: ')}"
        for entry in clock["alignment"]
        if entry.get("ambiguous")
    ]
    warnings += other_scopes_notes(tables.get("telemetry", pl.DataFrame()))
    devices = tables["devices"].filter(pl.col("device").is_in(list(worked))) if worked else tables["devices"]
    unknown = devices.filter(pl.col("gpu").is_null())["name"].to_list()
    # said already by the reader of a file that names none
    said = any(w.endswith(_UNNAMED) for w in (*warnings, *made_notes))
    warnings += [
        f"GPU {name or 'without a name'} is not known: predictions need --gpu"
        for name in dict.fromkeys(unknown)
        if name or not said
    ]
    return [*warnings, *made_notes]
