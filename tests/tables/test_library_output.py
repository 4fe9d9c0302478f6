"""What libraries print while a foreign file is read: panics that are raised are left out, nothing else is."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from tracetool.tables.library_output import muted_panics, release
from tracetool.tables.table_file import read_parquet


class PanicException(BaseException):
    """As polars raises it."""


PANIC = (
    "\nthread 'async-executor-0' (276) panicked at crates/decode.rs:418:9:\n"
    "assertion `left == right` failed\n  left: 100\n right: 4836\n"
)
STACK = "stack backtrace:\n   0: begin_unwind\n             at ./libc-start.c:360:3\n"
NOTES = (
    "",
    "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
    STACK + "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n",
)


def _print(text: str) -> None:
    os.write(2, text.encode())


@pytest.mark.parametrize("note", NOTES)
def test_a_panic_that_is_raised_is_not_printed_and_all_else_is(
    note: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PanicException), muted_panics():
        _print("one\n")
        _print(PANIC + note)
        _print("two\n")
        _print(PANIC + note)
        subprocess.run(["sh", "-c", "printf 'half a line' >&2"], check=True)
        raise PanicException
    _print(" after\n")
    assert capfd.readouterr().err == "one\ntwo\nhalf a line after\n"


def test_a_panic_that_nobody_raised_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with muted_panics():
        _print(PANIC)
    with pytest.raises(ValueError, match="other"), muted_panics():
        _print(PANIC)
        raise ValueError("other")
    assert capfd.readouterr().err == 2 * PANIC


def test_readers_at_once_lose_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Threads that read, one of them a broken file, beside one that prints all the time."""
    printed: list[str] = []
    done = threading.Event()

    def read(number: int) -> None:
        for _ in range(200):
            with contextlib.suppress(PanicException), muted_panics():
                if number == 0:
                    _panic()

    def _panic() -> None:
        _print(PANIC + NOTES[1])
        raise PanicException

    def talk() -> None:
        while not done.is_set():
            printed.append(f"line {len(printed)}\n")
            _print(printed[-1])

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    talker = threading.Thread(target=talk)
    for thread in (talker, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    talker.join()
    lines = capfd.readouterr().err
    assert sorted(lines.splitlines()) == sorted("".join(printed).splitlines())


def test_what_is_held_back_is_given_out_at_an_end_in_the_middle(capfd: pytest.CaptureFixture[str]) -> None:
    with muted_panics():
        pass
    before = _descriptors()
    with muted_panics():
        _print("one\n")
        release()  # as the thread does that ends a process which holds itself up
        _print("two\n")
    release()
    assert capfd.readouterr().err == "one\ntwo\n"
    assert _descriptors() == before


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_a_program_that_outlives_the_reading_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    with muted_panics():
        late = subprocess.Popen(["sh", "-c", "read go; echo late >&2"], stdin=subprocess.PIPE)
    late.communicate(b"go\n")
    release()
    assert capfd.readouterr().err == "late\n"


def _started(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = f"import os, signal, sys\nfrom tracetool.tables.library_output import muted_panics\n{body}"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )


def test_a_crash_is_not_silent() -> None:
    done = _started("with muted_panics(): os.abort()")
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.startswith("Fatal Python error: Aborted")


def test_a_closed_standard_error_is_no_fault() -> None:
    done = _started("os.close(2)\nwith muted_panics(): pass\nprint('on')")
    assert (done.returncode, done.stdout) == (0, "on\n")


def test_a_panic_of_polars_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    pl.DataFrame({"a": range(100)}).write_parquet(good)
    raw, draw, panics = good.read_bytes(), random.Random(3), 0
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    for _ in range(400):
        changed = bytearray(raw)
        for _ in range(draw.choice((1, 2, 5))):
            changed[draw.randrange(footer, len(raw) - 8)] = draw.randrange(256)
        bad.write_bytes(changed)
        try:
            read_parquet(bad)
        except pl.exceptions.PanicException:
            panics += 1
        except Exception:  # noqa: BLE001 - other faults print nothing by themselves
            continue
    assert capfd.readouterr().err == ""
    assert panics
