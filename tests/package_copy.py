"""A copy of the package and its tests to add a toy to: what CONTRIBUTING says of adding one, replayed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_package(root: Path) -> Path:
    """Copy package, tests and schemas into a folder and return it."""
    skipped = shutil.ignore_patterns("__pycache__", "*.tracetool", "samples", "damaged")
    for folder in ("tracetool", "tests", "schemas"):
        shutil.copytree(ROOT / folder, root / folder, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def run_in(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy, which stands before the checkout that is installed."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )


def check_use(copy: Path, program: str) -> None:
    """Assert that a program runs with the copy's package."""
    ended = run_in(copy, "-c", f"import tracetool; assert {str(copy)!r} in tracetool.__file__\n{program}")
    assert ended.returncode == 0, ended.stderr[-2000:]


def run_tests(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy, a line for each."""
    return run_in(copy, "-m", "pytest", "-vv", "-p", "no:xdist", "-p", "no:cacheprovider", *arguments)


def check_covered(ended: subprocess.CompletedProcess[str], test: str, case: str) -> None:
    """Assert that every case of a test whose name holds a text ran and passed: one at least."""
    lines = [line for line in ended.stdout.splitlines() if test in line and case in line]
    assert lines, f"{test} did not run over the toy"
    assert all("PASSED" in line for line in lines)
