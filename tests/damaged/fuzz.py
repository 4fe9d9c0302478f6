"""One example: a sample changed by its number, read in this process, and what came of it."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.damaged.mutate import change_files
from tests.record.test_power_log import write as write_recorded_log
from tests.sources.counter_makers import rocpd_with_counters, systems_pftrace, with_counters
from tests.sources.dispatch_counters import work_and_bytes
from tests.sources.execution_files import OBSERVED
from tests.sources.logs import LOGS
from tests.sources.makers import TRACES, nsys_sqlite, rocprofv3_csv
from tests.sources.ncu_pages import PAGES
from tracetool.api.ingest import ingest
from tracetool.core.errors import TracetoolError
from tracetool.tables.run import Run

#: Examples of each format: few at a desk and in CI, where a whole reading costs a tenth of a second of a core
#: each, ``TRACETOOL_FUZZ=5000`` for a night.
EXAMPLES = int(os.environ.get("TRACETOOL_FUZZ", "20"))
#: No sample begins another example once its examples took so much; the processor's time, so that a busy
#: machine tries as many. [s]
MOST_CPU_S = float(os.environ.get("TRACETOOL_FUZZ_CPU_S", "inf"))
#: The number of the first example: an example is its number, so another start draws changes not tried before.
FIRST = int(os.environ.get("TRACETOOL_FUZZ_FROM", "0"))
Make = Callable[[Path], Path]


@dataclass(frozen=True)
class Case:
    """A sample of a format: how its file is made, and whether it is a trace, a log or counters."""

    format: str
    name: str
    holds: str
    make: Make


def _log(text: str, name: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_text(text)
        return path

    return make


def _recorded(folder: Path) -> Path:
    path = folder / "power.log"
    write_recorded_log(path, 4)
    return path


CASES = (
    *(Case(s.format, f"{s.format}-{i}", "trace", s.make) for i, s in enumerate(TRACES)),
    *(Case(log.format, f"{log.format}-{log.name}", "telemetry", _log(log.text, log.name)) for log in LOGS),
    Case("tracetool_power", "tracetool_power", "telemetry", _recorded),
    Case("nsys_sqlite", "nsys_sqlite-counters", "trace", with_counters),
    Case("rocpd", "rocpd-counters", "trace", rocpd_with_counters),
    Case("pftrace", "pftrace-counters", "trace", systems_pftrace),
    *(Case("execution_trace", f"execution_trace-{make.__name__}", "counters", make) for make in OBSERVED),
    *(Case("ncu_csv", f"ncu_csv-{page.__name__}", "counters", page) for page in PAGES),
    Case("rocprofv3_counters", "rocprofv3_counters", "counters", work_and_bytes),
)


def examples_of(case: Case) -> int:
    """Return how many examples a sample gets: those of its format, shared among its samples."""
    return -(-EXAMPLES // sum(other.format == case.format for other in CASES))


def numbers(count: int) -> Iterator[int]:
    """Yield the numbers of so many examples, fewer where they take too long."""
    start_s = time.process_time()
    for number in range(FIRST, FIRST + count):
        if time.process_time() - start_s > MOST_CPU_S:
            return
        yield number


@dataclass(frozen=True)
class Outcome:
    """What came of an example: its changes, and a fault of the tool where there is one."""

    steps: list[str]
    refused: str | None
    fault: str = ""
    run: Path | None = None


@lru_cache(maxsize=1)
def _made(case: Case) -> tuple[Path, tuple[tuple[Path, bytes], ...]]:
    """Return where a sample's file is in its folder, and all files of that, made once for all examples."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = case.make(folder)
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        return path.relative_to(folder), tuple((p.relative_to(folder), p.read_bytes()) for p in files)


def changed_sample(case: Case, number: int, folder: Path) -> tuple[Path, list[str]]:
    """Make the file of an example in an empty folder; return it and what was changed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    named, files = _made(case)
    for name, content in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    path = folder / named
    draw = random.Random(zlib.crc32(f"{case.name} {number}".encode()))
    return path, change_files(folder, draw)


def read_changed(case: Case, path: Path, steps: list[str], out: Path) -> Outcome:
    """Read an example's file; anything but a run or one line is a fault."""
    shutil.rmtree(out, ignore_errors=True)
    try:
        if case.holds == "trace":
            ingest([path], out=out)
        elif case.holds == "counters":
            beside = rocprofv3_csv if case.format == "rocprofv3_counters" else nsys_sqlite
            ingest([beside(out.parent), path], out=out)
        else:
            ingest([], [path], tz="+00:00", out=out)
        return Outcome(steps, None, _run_fault(out), out)
    except TracetoolError as error:
        line = error.line()
        fault = (
            "" if error.exit_code in (2, 3) and line.isprintable() else f"exit {error.exit_code}: {line!r}"
        )
        if out.exists() or list(out.parent.glob(f".{out.name}*")):
            fault = "something half-written stays"
        return Outcome(steps, line, fault)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception
        return Outcome(steps, None, crash(error))


def crash(error: BaseException) -> str:
    """Return an exception nobody foresaw: what, and where in the tool."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tracetool/" in f.filename]
    places = [f"{f.filename.rpartition('/tracetool/')[2]}:{f.lineno} {f.name}" for f in frames]
    what = " ".join(str(error).split())[:200]
    return f"{places[-1] if places else '?'}: {type(error).__name__}: {what}\n    by {' > '.join(places)}"


def _run_fault(out: Path) -> str:
    """Return what is wrong with a run that was written, nothing if it can be read whole."""
    run = Run.open(out)
    for table in run.info["tables"]:
        run.table(table)
    if not (run.kernels["duration_ns"] >= 0).all():
        return "a negative duration was let through"
    if set(run.kernels["signature"]) != set(run.signatures["signature"]):
        return "kernels of a signature that is in no table"
    if not run.kernels["device"].is_in(run.devices["device"].implode()).all():
        return "kernels of a device that is in no table"
    json.dumps(run.info).encode()
    return ""


def accounted(out: Path) -> tuple[int, int, bool]:
    """Return the activities a run holds, the rows it says were rejected, and whether a file was left out."""
    info = Run.open(out).info
    return (
        sum(s["activities"] for s in info["sources"]),
        sum(s["rejected"] for s in info["sources"]),
        any(w.endswith("not the table its name says: left out") for w in info["warnings"]),
    )
