"""A stop signal ends the process within seconds, even inside one long call, and scratch is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: What the program below takes for ``GRACE_S``, of which each of its ends takes the whole. [s]
GRACE_S = 0.5
#: A sum over so many pairs is one call into a library that takes minutes.
_LONG_CALL = """
import sys
from contextlib import nullcontext
import polars as pl
from tracetool.tables import stopping
from tracetool.tables.run_folder import replaced_run
from tracetool.tables.scratch import temporary_folder

stopping.GRACE_S = float(sys.argv[3])
stopping.install()
numbers = pl.LazyFrame({"a": range(400_000)})
pairs = numbers.join(numbers, how="cross").select((pl.col("a") * pl.col("a_right")).sum())
how = {
    "patient": stopping.patient, "hasty": nullcontext,
    "keeping": lambda: stopping.keeping(lambda: "2 of 3 done"),
}[sys.argv[2]]()
with how, temporary_folder() as folder, replaced_run(sys.argv[1]) as run:
    (folder / "unpacked").write_text("x")
    (run / "kernels.parquet").write_text("half")
    print("ready", flush=True)
    pairs.collect(engine="streaming")
"""


def _start(folder: Path, manner: str) -> subprocess.Popen[str]:
    job = subprocess.Popen(
        [sys.executable, "-c", _LONG_CALL, folder / "run", manner, str(GRACE_S)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    time.sleep(0.2)
    return job


@pytest.mark.usefixtures("heeds_hang_up")
@pytest.mark.parametrize(
    ("manner", "number", "line"),
    [
        ("hasty", signal.SIGTERM, "terminated; nothing was written"),
        ("hasty", signal.SIGHUP, "hung up; nothing was written"),
        ("keeping", signal.SIGTERM, "terminated; 2 of 3 done"),
    ],
)
def test_a_long_call_is_cut_off_and_cleaned_up_after(
    tmp_path: Path, manner: str, number: signal.Signals, line: str
) -> None:
    job = _start(tmp_path, manner)
    try:
        job.send_signal(number)
        _, said = job.communicate(timeout=200)  # the call alone takes longer
    finally:
        job.kill()
    assert (job.returncode, said) == (128 + number, f"error: {line}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_destructor_is_not_dropped(number: signal.Signals) -> None:
    program = (
        "import signal, time\nfrom tracetool.tables import stopping\nstopping.install()\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"class Late:\n    def __del__(self): signal.raise_signal({int(number)})\n"
        "try:\n    Late()\n    for _ in range(200): time.sleep(0.01)\n"
        "except BaseException as error: print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    expected = "KeyboardInterrupt" if number == signal.SIGINT else "Terminated"
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_a_recording_is_not_cut_off(tmp_path: Path) -> None:
    job = _start(tmp_path, "patient")
    try:
        job.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            job.wait(GRACE_S + 1)
    finally:
        job.kill()
        job.communicate()
