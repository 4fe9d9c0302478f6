"""Kill commands at random points, fill the disk, take rights and inputs away: what is left must be whole.

``python nightly/faults.py [--kills 200] [--seed 1] [--only WORDS ...]``: every command that writes is killed (SIGKILL) at points
drawn over its whole time, on a new target and on one that is there already. The target must then be absent,
what it was, or whole; and one more call must leave nothing but its result. Then each command meets a full disk
(a small tmpfs, where this may mount one), a folder it may not write to (as nobody, where this is root), an
input that shrinks while it is read, a reader that leaves, and a clock that jumps. Prints a line each; exit 1 on a fault.

``--only`` takes calls whose line holds one of these texts, such as ``forecast``. Not here: ``record``, which needs a
GPU (``tests/record/`` kills it), and calls whose ``-o`` is written by the same lines as that of ``classify``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_traces"
TOOL = (sys.executable, "-m", "tracetool")
TRACE, LOG = SAMPLES / "h100_training.sqlite", SAMPLES / "h100_training_power.csv"


@dataclass(frozen=True)
class Writer:
    """A command that writes: its words, with RUN and OUT to fill in, what OUT is called, and what fills it first."""

    words: str
    out: str
    first: str = ""

    @property
    def shown(self) -> str:
        """Return the call in few words."""
        return " ".join([*self.words.replace(f"{SAMPLES}/", "").split()[:2], "->", self.out])


WRITERS = (
    Writer(f"ingest {TRACE} --power {LOG} -q -o OUT", "new.tracetool"),
    Writer(f"ingest {SAMPLES / 'mi300x_kernel_trace.csv'} --gpu mi300x -q -o OUT", "mi.tracetool"),
    Writer("classify RUN -q -o OUT", "classified.csv"),
    Writer("predict RUN --clock 1200 -q -o OUT", "predicted.parquet"),
    Writer("sweep RUN --clock 1200,1755 -q -o OUT", "sweep.csv"),
    Writer("attribute RUN -q -o OUT", "attributed.json"),
    Writer("diff RUN -q -o OUT", "diff.md"),
    Writer("report RUN -q -o OUT", "report.html"),
    Writer("export RUN -q -o OUT", "run.pftrace"),
    Writer("export RUN -q -o OUT", "run.prom"),
    Writer("baseline add OUT RUN -q", "store"),
    Writer("forecast llama-3.1-8b --gpu h100-sxm --mode decode --bs 4 --isl 128 --osl 16 -q -o OUT", "forecast.csv"),
    Writer("calibrate RUN --gpu h100-sxm -q -o OUT", "mine.power.toml"),
    Writer("sensor identify RUN -q -o OUT", "sensor.toml"),
    Writer("check RUN --base RUN --exit-zero -q -o OUT", "check.sarif"),
    Writer("diagnose RUN -q -o OUT", "diagnosis.html"),
    Writer("attribute RUN -q --bars OUT", "bars.html"),
    Writer(f"fleet ingest {SAMPLES} -q -o OUT", "fleet"),
    Writer("fleet classify OUT -q", "fleet", first=f"fleet ingest {SAMPLES} -q -o OUT"),
)  # fmt: skip


def words_of(writer: Writer, run: Path, out: Path) -> list[str]:
    """Return the command line."""
    names = {"RUN": str(run), "OUT": str(out)}
    return [*TOOL, *(names.get(w, w) for w in writer.words.split())]


def filled(writer: Writer, out: Path) -> Path:
    """Make what a call adds to, where it adds to something; return where."""
    if writer.first:
        words = words_of(Writer(writer.first, writer.out), out, out)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return out


def put(source: Path, out: Path) -> None:
    """Let a target be what a source is: absent where that is."""
    if out.exists():
        shutil.rmtree(out) if out.is_dir() else out.unlink()
    if source.exists():
        shutil.copytree(source, out) if source.is_dir() else shutil.copy(source, out)


def fault_in(out: Path, reference: Path) -> str:
    """Return what is wrong with a target beside a whole one, nothing if it is whole."""
    if reference.is_dir():
        return _fault_in_folder(out, reference)
    text = out.read_bytes()
    if abs(len(text) - reference.stat().st_size) > 0.01 * reference.stat().st_size + 64:
        return f"{len(text)} bytes, {reference.stat().st_size} when whole"
    if out.suffix == ".json":
        json.loads(text)
    if out.suffix == ".parquet":
        import polars as pl

        pl.read_parquet(out)
    return ""


def _fault_in_folder(out: Path, reference: Path) -> str:
    """Look at every file of a run, of the runs and tables of a data set, or of a store, but at no scratch."""
    import polars as pl

    from tracetool.tables.run import Run

    files = [[p for p in folder.rglob("*") if p.is_file() and not _is_scratch(p.relative_to(folder))]
             for folder in (out, reference)]  # fmt: skip
    names = [sorted({p.suffix for p in inside}) for inside in files]
    if out.name != reference.name or not set(names[0]) <= set(names[1]):
        return f"holds {names[0]}, not {names[1]}"
    for file in files[0]:
        if file.name == "run.json":
            run = Run.open(file.parent)
            for table in run.info["tables"]:
                run.table(table)
        elif file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".parquet":
            pl.read_parquet(file, glob=False, hive_partitioning=False)
    return ""


def _is_scratch(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def scratch_in(folder: Path, out: Path) -> list[str]:
    """Return what lies beside and in a target that no user put there."""
    inside = out.rglob(".*") if out.is_dir() else ()
    around = [p for p in folder.iterdir() if p.name.startswith(".")]
    return sorted(p.name for p in (*around, *inside) if p.name not in (out.name, ".scratch"))


def kills(
    writer: Writer, run: Path, folder: Path, tries: int, draw: random.Random
) -> tuple[Counter[str], list[str]]:
    """Kill a command at random points; return what was left how often, and the faults."""
    for name in ("begun", "reference"):
        (folder / name).mkdir()
    begun = filled(writer, folder / "begun" / writer.out)
    reference = folder / "reference" / writer.out
    put(begun, reference)
    start = time.monotonic()
    subprocess.run(words_of(writer, run, reference), check=True, stdout=subprocess.DEVNULL)
    whole_s = time.monotonic() - start
    target = folder / "kills"
    target.mkdir()
    out, left, faults = target / writer.out, Counter[str](), []
    for number in range(tries):
        before = number % 2 == 1 or bool(writer.first)
        put(reference if number % 2 == 1 else begun, out)
        process = subprocess.Popen(
            words_of(writer, run, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # half of them late, where the writing is
        after_s = whole_s * (draw.uniform(0.0, 1.1) if draw.random() < 0.5 else draw.uniform(0.7, 1.1))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        process.kill()
        process.wait()
        try:
            fault = "what stood there is gone" if before and not out.exists() else ""
            fault = fault or (fault_in(out, reference) if out.exists() else "")
        except Exception as error:  # noqa: BLE001 - any way of being broken
            fault = f"{type(error).__name__}: {error}"
        left["killed" if process.returncode == -9 else "done before"] += 1
        if fault:
            faults.append(f"killed after {after_s:.2f} s: {fault}")
    done = subprocess.run(words_of(writer, run, out), check=False, capture_output=True, text=True)
    if done.returncode:
        faults.append(f"the next call ends with {done.returncode}: {done.stderr.strip()}")
    elif fault := fault_in(out, reference):
        faults.append(f"after the next call: {fault}")
    if scratch := scratch_in(target, out):
        faults.append(f"the next call leaves {scratch[:3]}")
    return left, faults


def refused(
    words: list[str], folder: Path, out: Path, codes: tuple[int, ...] = (2, 3), **more: object
) -> str:
    """Run a command that cannot do its work; return what is wrong with how it ends."""
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd="/", **more)  # type: ignore[call-overload]
    if done.returncode not in codes:
        return f"exit {done.returncode}: {done.stderr.strip()[-200:]}"
    if done.returncode and (len(done.stderr.splitlines()) != 1 or not done.stderr.startswith("error: ")):
        return f"says {done.stderr!r}"
    if done.returncode and out.exists():
        return "leaves its target"
    scratch = scratch_in(folder, out) if folder.exists() else []
    return f"leaves {scratch}" if scratch else ""


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path | None]:
    """Mount a tmpfs of so many kilobytes; None where this may not."""
    place = folder / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place]
    mounted = (
        os.name != "nt"
        and os.geteuid() == 0
        and not subprocess.run(words, check=False, capture_output=True).returncode
    )
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", place], check=True)


def full_disk(writer: Writer, run: Path, folder: Path) -> str | None:
    """Let a command write where there is room for a few kilobytes."""
    with small_disk(folder, 16) as disk:
        if disk is None:
            return None
        (disk / "ballast").write_bytes(b"x" * 12_000)
        out = disk / writer.out
        done = subprocess.run(words_of(writer, run, out), check=False, capture_output=True, text=True)
        if done.returncode == 0:  # a small result may fit
            return "" if out.exists() else "exit 0 and no result"
        if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
            return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
        stays = [p.name for p in disk.iterdir() if p.name != "ballast"]
        return f"leaves {stays}" if stays and not (out.is_dir() and not any(out.rglob("*.json"))) else ""


_START = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True, stderr=-3)"


def not_allowed(writer: Writer, run: Path, folder: Path, *, read_only_disk: bool) -> str | None:
    """Let a command write where it may not: a folder of somebody else's, or a disk mounted read-only."""
    if os.geteuid():
        place = folder / "closed"
        place.mkdir(mode=0o500)
        return refused(words_of(writer, run, place / writer.out), place, place / writer.out)
    with small_disk(folder, 64) as disk:
        if disk is None:
            return None
        if read_only_disk:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            return refused(words_of(writer, run, disk / writer.out), disk, disk / writer.out)
        disk.chmod(0o755)
        nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
        probe = subprocess.run([*nobody, sys.executable, "-c", _START], check=False, capture_output=True)
        if "fleet" in writer.words and probe.returncode:
            return None  # nobody may not start this interpreter, and workers are its own
        words = [*nobody, *words_of(writer, run, disk / writer.out)]
        return refused(words, disk, disk / writer.out, env=os.environ | {"HOME": "/nonexistent"})


def vanishing(writer: Writer, run: Path, folder: Path, draw: random.Random) -> str:
    """Take a command's input away while it works: its result, or one line."""
    place = folder / "vanishing"
    place.mkdir()
    if "RUN" in writer.words.split():
        given = place / "given.tracetool"
        shutil.copytree(run, given)
        words = words_of(writer, given, place / writer.out)
    else:
        given = place / TRACE.name
        shutil.copy(TRACE, given)
        words = [str(given) if w == str(TRACE) else w for w in words_of(writer, run, place / writer.out)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(draw.uniform(0.1, 1.2))
    shutil.rmtree(given) if given.is_dir() else os.truncate(given, 5000)
    said = process.communicate()[1]
    if process.returncode not in (0, 2) or "Traceback" in said or "internal fault" in said:
        return f"exit {process.returncode}: {said[-300:]}"
    if process.returncode and (place / writer.out).exists():
        return "leaves its target"
    return f"leaves {scratch_in(place, place / writer.out)}" if scratch_in(place, place / writer.out) else ""


_JUMP = """
import time, random, sys
real, draw = time.time, random.Random(1)
time.time = lambda: real() + draw.choice((-1e6, 0.0, 1e6))
time.time_ns = lambda: int(time.time() * 1e9)
time.monotonic = lambda: real()  # and this one with the wall clock
from tracetool.__main__ import main
main()
"""


def jumping_clock(writer: Writer, run: Path, folder: Path) -> str:
    """Run a command under a clock that goes days back and forth between two looks at it."""
    place = folder / "clock"
    place.mkdir()
    words = [sys.executable, "-c", _JUMP, *words_of(writer, run, filled(writer, place / writer.out))[3:]]
    return refused(words, place, place / writer.out, codes=(0,))


def main() -> int:
    """Try every command; print a line for each kind of fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[""], help="texts of the calls to try; all by default")
    chosen = parser.parse_args()
    writers = [w for w in WRITERS if any(text in f"{w.words} {w.out}" for text in chosen.only)]
    draw, bad = random.Random(chosen.seed), 0
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        run = Path(base) / "run.tracetool"
        subprocess.run([*TOOL, *f"ingest {TRACE} --power {LOG} -q -o {run}".split()], check=True)
        each = -(-chosen.kills // len(WRITERS))
        for number, writer in enumerate(writers):
            folder = Path(base) / str(number)
            folder.mkdir(mode=0o755)
            left, faults = kills(writer, run, folder, each, draw)
            tried = {"kill -9": "; ".join(faults), "clock jumps": jumping_clock(writer, run, folder)}
            if {"RUN", str(TRACE)} & set(writer.words.split()):
                tried["vanishing input"] = vanishing(writer, run, folder, draw)
            ways = (("full disk", full_disk), ("no rights", None), ("read-only", None))
            for name, way in ways if not writer.first else ():
                with tempfile.TemporaryDirectory() as inner:
                    Path(inner).chmod(0o755)
                    if way:
                        tried[name] = way(writer, run, Path(inner))  # type: ignore[assignment]
                    else:
                        tried[name] = not_allowed(
                            writer, run, Path(inner), read_only_disk=name == "read-only"
                        )  # type: ignore[assignment]
            skipped = [name for name, fault in tried.items() if fault is None]
            wrong = {name: fault for name, fault in tried.items() if fault}
            bad += len(wrong)
            print(f"{writer.shown}: {dict(left)}, {len(tried) - len(skipped)} kinds of faults: {wrong or 'fine'}"
                  + (f"; could not be tried here: {skipped}" if skipped else ""), flush=True)  # fmt: skip
    print(
        f"{each * len(writers)} kills of {len(writers)} calls: {'all whole' if not bad else f'{bad} faults'}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
