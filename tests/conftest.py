"""What every test may use: the checkout, the sample traces, the measured data where it is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# as the command itself does, before numpy is read: small matrices, and a worker for each core
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

#: Whether all combinations are tried, as ``make fuzz`` asks: else a part of the repeats, always the same.
NIGHTLY = "TRACETOOL_RANDOM" in os.environ

# a busy machine takes any time over an example
# One commit, one verdict: examples are the same in every run, and new ones are drawn by `make fuzz`.
settings.register_profile(
    "patient", deadline=None, derandomize=not NIGHTLY, max_examples=100 if NIGHTLY else 25
)
settings.load_profile("patient")

ROOT = Path(__file__).resolve().parents[1]


def _data() -> Path:
    return Path(os.environ.get("TRACETOOL_DATA") or ROOT / ".." / "shared" / "data").resolve()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what reads the measured data where it is absent."""
    if _data().is_dir():
        return
    absent = pytest.mark.skip(reason=f"measured data not found at {_data()} (set TRACETOOL_DATA)")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(absent)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of measured data; the test is skipped where it is absent."""
    folder = _data()
    if not folder.is_dir():
        pytest.skip(f"measured data not found at {folder} (set TRACETOOL_DATA)")
    return folder


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def samples() -> Path:
    """Return the folder of sample traces."""
    return ROOT / "sample_traces"


@pytest.fixture(scope="session")
def sample_run(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run of the H100 sample and its power log, read once: tests leave it as it is."""
    from tracetool.api.ingest import ingest

    out = tmp_path_factory.mktemp("sample") / "run.tracetool"
    return ingest(samples / "h100_training.sqlite", samples / "h100_training_power.csv", out=out).path


Tool = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def tool() -> Tool:
    """Return a function that runs ``tracetool ARGUMENTS`` in a process of its own, as a user does."""

    def run(
        *arguments: str | os.PathLike[str], cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {
            k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TRACETOOL_DEBUG")
        }
        return subprocess.run(
            [sys.executable, "-m", "tracetool", *map(os.fspath, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
            cwd=cwd,
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Return what ``tool`` does, in this process: where it is not asked how a process starts and ends."""
    from tracetool.cli.app import run as run_here

    def run(
        *arguments: str | os.PathLike[str], cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        words = [os.fspath(a) for a in arguments]
        with monkeypatch.context() as patch:
            for name in ("NO_COLOR", "FORCE_COLOR", "TRACETOOL_DEBUG"):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            if cwd is not None:
                patch.chdir(cwd)
            capfd.readouterr()
            code = run_here(words)
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(words, code, out, err)

    return run


@pytest.fixture(scope="module")
def each_run_opened_once() -> Iterator[None]:
    """Let commands of a module that open the same run share it and what it holds worked out.

    For tests of what is printed: a run that was written anew is another.
    """
    from tracetool.tables.run import Run

    opened: dict[tuple[object, ...], Run] = {}
    open_run = Run.open.__func__  # type: ignore[attr-defined]

    def open_once(cls: type[Run], path: str | os.PathLike[str]) -> Run:
        folder = Path(path).resolve()
        if not (folder / "run.json").is_file():
            return open_run(cls, path)  # type: ignore[no-any-return]
        state = (folder / "run.json").stat()
        key = (cls, os.fspath(path), folder, state.st_ino, state.st_mtime_ns)
        if key not in opened:
            opened[key] = open_run(cls, path)
        return opened[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "open", classmethod(open_once))
        yield


@pytest.fixture
def fleet_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tasks of ``fleet`` in this process: where it is not asked how processes begin and end."""
    from tests.fleet.here import HereOfCopies
    from tracetool.fleet.engine import ENGINES

    monkeypatch.setitem(ENGINES, "local", HereOfCopies)


@pytest.fixture
def heeds_hang_up() -> Iterator[None]:
    """Let programs that a test starts heed a hang-up, which they ignore where nohup runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
