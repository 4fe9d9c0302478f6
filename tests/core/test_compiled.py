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
import resource, sys
import numba, numpy as np
import loop
from tracetool.core.compiled import COMPILE_FROM, compiled
if int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
function = compiled(loop.total, COMPILE_FROM)
assert function is not loop.total
print(function(np.arange(10.0)), function(np.arange(11.0)))
"""


def _called(folder: Path, most_bytes: int = 0) -> subprocess.CompletedProcess[str]:
    (folder / "loop.py").write_text(_LOOP)
    path = os.pathsep.join((str(folder), *sys.path))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kept"), "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-B", "-c", _CALL, str(most_bytes)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("most_bytes", [1, 5000])
def test_a_full_disk_under_what_the_compiler_keeps(most_bytes: int, tmp_path: Path) -> None:
    done = _called(tmp_path, most_bytes)
    assert (done.returncode, done.stdout) == (0, "45.0 55.0\n"), done.stderr


def test_damaged_files_of_the_compiler(tmp_path: Path) -> None:
    assert _called(tmp_path).stdout == "45.0 55.0\n"
    kept = [f for f in (tmp_path / "kept").rglob("*") if f.is_file()]
    assert {f.suffix for f in kept} == {".nbi", ".nbc"}
    for file in kept:
        whole = file.read_bytes()
        for part in (b"", whole[: len(whole) // 2]):
            file.write_bytes(part)
            done = _called(tmp_path)
            assert (done.returncode, done.stdout) == (0, "45.0 55.0\n"), done.stderr
        file.write_bytes(whole)
