"""Loops that are compiled give their result whatever becomes of the compiler's files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

_LOOP = "def total(a):\n    s = 0.0\n    for i in range(a.size):\n        s += a[i]\n    return s\n"
_CALL = """
import importlib, resource, sys
import numba, numpy as np
from tracetool.core.compiled import COMPILE_FROM, compiled
if int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
for name in sys.argv[2:]:
    loop = importlib.import_module(name)
    function = compiled(loop.total, COMPILE_FROM)
    assert function is not loop.total
    print(function(np.arange(10.0)), function(np.arange(11.0)))
"""
_SUMS = "45.0 55.0\n"


def _called(folder: Path, most_bytes: int = 0, loops: int = 1) -> subprocess.CompletedProcess[str]:
    """Call so many loops, each of a module and of files of its own, in a new process."""
    names = [f"loop_{number}" for number in range(loops)]
    for name in names:
        (folder / f"{name}.py").write_text(_LOOP)
    path = os.pathsep.join((str(folder), *sys.path))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kept"), "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-B", "-c", _CALL, str(most_bytes), *names],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("most_bytes", [1, 5000])
def test_a_full_disk_under_what_the_compiler_keeps(most_bytes: int, tmp_path: Path) -> None:
    done = _called(tmp_path, most_bytes)
    assert (done.returncode, done.stdout) == (0, _SUMS), done.stderr


def test_damaged_files_of_the_compiler(tmp_path: Path) -> None:
    """Of each loop another file is damaged: emptied, or cut in half."""
    assert _called(tmp_path, loops=4).stdout == 4 * _SUMS
    kept = [f for f in (tmp_path / "kept").rglob("*") if f.is_file()]
    assert sorted(f.suffix for f in kept) == [".nbc"] * 4 + [".nbi"] * 4
    for number, (suffix, share) in enumerate((s, share) for s in (".nbi", ".nbc") for share in (0.0, 0.5)):
        (file,) = (f for f in kept if f.suffix == suffix and f.name.startswith(f"loop_{number}."))
        whole = file.read_bytes()
        file.write_bytes(whole[: int(share * len(whole))])
    done = _called(tmp_path, loops=4)
    assert (done.returncode, done.stdout) == (0, 4 * _SUMS), done.stderr
