"""Ingest: any mix of traces and power logs into one run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tracetool.api.arguments import text
from tracetool.api.large_trace import ingest_large, is_large
from tracetool.api.public import public
from tracetool.api.run import Run, open_run
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.core.progress import Progress, Silent
from tracetool.hardware.names import variant_notes
from tracetool.sources.assemble import assemble, check_trace
from tracetool.sources.clocks import Source, align_sources, uncovered
from tracetool.sources.detect import detect, readable
from tracetool.sources.format import Format, ReadOptions
from tracetool.sources.io.text import content_bytes
from tracetool.sources.read import read_source
from tracetool.sources.repeated_files import without_repeats
from tracetool.sources.separate_traces import far_apart
from tracetool.sources.source_description import (
    check_name,
    default_out,
    described_source,
    folder_sha256,
    ingest_warnings,
    name_gpus,
    with_named_gpu,
)
from tracetool.sources.telemetry.readings import tidy_readings
from tracetool.tables.memory import check_memory, ratio_cap, share_arenas
from tracetool.tables.run import file_sha256, write_run
from tracetool.tables.run_folder import check_replaceable
from tracetool.tables.scratch import temporary_folder

#: Size of a trace above which classification is loaded while the trace is read. [B]
_LOADED_BESIDE_BYTES = 32 << 20


@public
def ingest(
    traces: PathLike | Sequence[PathLike],
    power: PathLike | Sequence[PathLike] = (),
    *,
    tz: str | None = None,
    gpu: str | None = None,
    out: PathLike | None = None,
    nsys: PathLike | None = None,
    redact: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Read traces and power logs of any known format and write one run, as ``tracetool ingest``.

    Parameters
    ----------
    traces : path or sequence of path
        Profiler files of any known format; power logs may stand among them.
    power : path or sequence of path
        Power or clock logs.
    tz : str, optional
        Zone of logs in local time: an offset (``+02:00``) or a name (``Europe/Berlin``).
    gpu : str, optional
        Model of every GPU that the trace does not name, or names by a name that is not known. Of one that it
        names only the memory, where it does not state that, and nothing if its own figures deny the name.
    out : path, optional
        The run's folder. Without it one is written beside the first trace, named after it
        (``TRACE.tracetool``), and takes the place of a run of that name.
    nsys : path, optional
        The ``nsys`` program for Nsight Systems reports.
    redact : bool, default False
        Write hashes in place of names of files, ranges, modules, and kernels of no public library.
    progress : Progress, optional
        Receives each step.

    Returns
    -------
    Run
        The run, opened.

    Raises
    ------
    BadInput
        If a file cannot be used: nothing is written.
    MissingPart
        If a program needed to read a report is missing or too old.

    Examples
    --------
    >>> import tracetool as tt
    >>> log = "sample_traces/a100_generation_power.csv"
    >>> trace = "sample_traces/a100_generation.pt.trace.json.gz"
    >>> run = tt.ingest(trace, log, tz="-05:00", out=folder / "a100.tracetool")
    >>> run.telemetry.height > 0, run.devices["gpu"].to_list()
    (True, ['a100-sxm'])
    """
    return open_run(
        _ingest(
            paths_of(traces),
            paths_of(power),
            tz=text("tz", tz),
            gpu=text("gpu", gpu),
            out=None if out is None else Path(out),
            nsys=None if nsys is None else Path(nsys),
            redact=redact,
            progress=progress,
        )
    )


def _ingest(
    traces: Sequence[Path],
    power: Sequence[Path],
    *,
    tz: str | None,
    gpu: str | None,
    out: Path | None,
    nsys: Path | None,
    redact: bool,
    progress: Progress | None,
) -> Path:
    if not traces and not power:
        raise BadInput("nothing to ingest", "name a trace: tracetool ingest TRACE")
    shown = progress or Silent()
    share_arenas()
    for path in [*traces, *power]:
        check_name(Path(path))
    model = _model(gpu) if gpu else None
    target = out or default_out(Path([*traces, *power][0]))
    _check_target(target)
    paths: list[tuple[Path, Literal["telemetry"] | None]] = [(Path(p), None) for p in traces] + [
        (Path(p), "telemetry") for p in power
    ]
    paths, repeats = without_repeats(paths, lambda named: named[0])
    repeats = [*variant_notes(gpu), *repeats]  # notes on what was named
    with temporary_folder() as scratch, _Beside(1) as beside:
        options = ReadOptions(nsys, ratio_cap(), shown, scratch)
        read = _read(paths, options, beside)
        if read.large:
            written = _large(
                read, options, tz=tz, model=model, target=target, at_once=redact, made_notes=repeats
            )
            if written is not None:
                return written
        sources, sums = read.sources, read.sums
        everything = sources
        counters = [s for s in everything if s.trace.counted.height]
        sources = _with_times(everything)
        notes = repeats
        if stated := {s.path.name: s.trace.stated for s in everything if s.trace.stated.height}:
            from tracetool.sources.pytorch.execution import (
                add_stated_shapes,
            )  # decodes JSON: not for every start

            notes = [*repeats, *add_stated_shapes(stated, [s.trace for s in sources])]
        checked = [check_trace(s.trace, s.path) for s in sources]
        clock, aligned = _on_one_clock(sources, tz, model, shown)
        shown.step("linking kernels to their launches")
        missed = [*uncovered(sources, clock["alignment"]), *far_apart(sources, clock["alignment"])]
        described = [described_source(s) for s in everything]  # assembling empties them
        assembled = assemble(checked)
        assembled.tables["devices"], unused = name_gpus(assembled.tables["devices"], model)
        from tracetool.kernels.refine import families_of  # loads every family: not for a read that fails

        signatures = assembled.tables["signatures"]
        assembled.tables["signatures"] = signatures.with_columns(families_of(signatures).alias("family"))
        if counters:
            from tracetool.sources.counted_work import join_counters

            assembled.tables["measured_work"], unmatched = join_counters(assembled.tables, counters)
            assembled.warnings += unmatched
        info = {
            "clock": clock,
            "sources": [{**d, "sha256": h.result()} for d, h in zip(described, sums, strict=True)],
            "warnings": [
                with_named_gpu(warning, model)
                for warning in ingest_warnings(
                    everything,
                    [*unused, *notes, *aligned, *missed, *assembled.warnings],
                    clock,
                    assembled.tables,
                    assembled.tables["kernels"]["device"].unique().to_list(),
                )
            ],
        }
        tables, info = _redacted(assembled.tables, info) if redact else (assembled.tables, info)
        shown.step(f"writing {target}")
        return write_run(target, tables, info)


def _on_one_clock(
    sources: Sequence[Source], tz: str | None, model: str | None, shown: Progress
) -> tuple[dict[str, Any], list[str]]:
    """Bring the times of sources onto one clock, in place; return how, and notes on the clocks of ranks."""
    clock = align_sources(sources, tz)
    for source in sources:
        tidy_readings(source.trace)
    if not all(entry["placed"] for entry in clock["alignment"]):
        from tracetool.measure.source_alignment import fit_unplaced

        shown.step("fitting clocks")
        fit_unplaced(sources, clock, model)
    if sum(s.trace.activities.height > 0 for s in sources) < 2:
        return clock, []
    from tracetool.measure.rank_clocks import align_ranks

    shown.step("aligning the clocks of ranks")
    return clock, align_ranks(sources, clock)


def _redacted(
    tables: dict[str, pl.DataFrame], info: dict[str, Any]
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Return a run's tables and facts without names of its makers."""
    from tracetool.kernels.redact import Redactor, redaction_key

    redactor = Redactor(redaction_key())
    return redactor.tables(tables), redactor.facts(info)  # the names in this order


@dataclass
class _Read:
    """Sources read, the futures of their checksums, and the traces too large to be read whole, by place."""

    sources: list[Source] = field(default_factory=list)
    sums: list[Future[str]] = field(default_factory=list)
    large: dict[int, tuple[Path, Path, tuple[str, Format]]] = field(default_factory=dict)


def _read(
    paths: Sequence[tuple[Path, Literal["telemetry"] | None]], options: ReadOptions, beside: _Beside
) -> _Read:
    read = _Read()
    for place, (path, holds) in enumerate(paths):
        real = readable(path, options)
        name, reader = detect(real, holds)
        # hashed while it is read
        read.sums.append(beside.submit(file_sha256 if path.is_file() else folder_sha256, path))
        if real.is_file() and content_bytes(real) > _LOADED_BESIDE_BYTES:
            beside.submit(_load_families)
        if holds is None and is_large(real, reader):
            read.large[place] = (path, real, (name, reader))
            continue
        if reader.memory_ratio and real.is_file():
            check_memory(path, reader.memory_ratio * content_bytes(real), "its contents")
        read.sources.append(Source(path, name, read_source(real, reader, options)))
    return read


def _load_families() -> None:
    """Load what classifies kernels, while this process waits for what decodes the file."""
    from tracetool.kernels.classify import grammars
    from tracetool.kernels.refine import families_of  # noqa: F401 - loads every family

    grammars()


def _large(
    read: _Read,
    options: ReadOptions,
    *,
    tz: str | None,
    model: str | None,
    target: Path,
    at_once: bool,
    made_notes: Sequence[str],
) -> Path | None:
    """Write the run of one large trace and power logs; else read what is large at once, in its place."""
    logs_only = not any(s.trace.activities.height or s.trace.counted.height for s in read.sources)
    if len(read.large) == 1 and logs_only and not at_once:
        at, trace = next(iter(read.large.items()))
        ordered = [read.sums[at], *read.sums[:at], *read.sums[at + 1 :]]
        written = ingest_large(
            *trace, options, read.sources, tz=tz, model=model, target=target, made_notes=made_notes,
            sums=lambda: [s.result() for s in ordered],
        )  # fmt: skip
        if written is not None:
            return written
    for place, (path, real, (name, form)) in read.large.items():
        check_memory(path, form.memory_ratio * content_bytes(real), "its contents")
        read.sources.insert(place, Source(path, name, read_source(real, form, options)))
    return None


def _with_times(sources: list[Source]) -> list[Source]:
    """Return the sources that have times, which counters of launches have not.

    Raises
    ------
    BadInput
        If there are counters and no kernels to join them to.
    """
    stated = [s for s in sources if s.trace.stated.height]
    if stated and not any(s.trace.activities.height for s in sources):
        raise BadInput.in_file(
            stated[0].path, "states shapes of operators, and no timeline",
            "name the profile of the same run before it: tracetool ingest trace.json et.json",
        )  # fmt: skip
    counters = [s for s in sources if s.trace.counted.height]
    if counters and not any(s.trace.activities.height for s in sources):
        raise BadInput.in_file(
            counters[0].path, "holds counters of launches, and no timeline",
            "name the trace of the same job before it: tracetool ingest run.nsys-rep ncu.csv",
        )  # fmt: skip
    return [s for s in sources if not s.trace.counted.height and not s.trace.stated.height]


class _Beside(ThreadPoolExecutor):
    """Work parallel to the reading, not awaited once the reading has failed or was stopped."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(wait=kind is None, cancel_futures=True)


def _model(gpu: str) -> str:
    """Return the name of a GPU the user calls by one of its names."""
    from tracetool.hardware.load import load_gpu  # knows every number of it, and starts as slowly

    return load_gpu(gpu, part="sensor").name


def _check_target(target: Path) -> None:
    """Fail before the work, not after it."""
    check_replaceable(target)
    if not target.absolute().parent.is_dir():
        raise BadInput.in_file(target, "cannot be written: its folder does not exist", "make it or choose -o")
