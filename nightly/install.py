"""Build the packages, install them where no source is in sight, and use them there.

``python nightly/install.py [--python python3.12 ...] [--resolution highest lowest-direct] [--tests]``: builds
wheel and sdist, checks what they hold, installs each pair of interpreter and resolution into a new
environment outside the source tree, runs the demonstration and (``--tests``) a quick core of the tests
against the installed package, and prints one line each. Needs ``build`` and ``twine`` (extra ``release``) and ``uv``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What a wheel without it would miss only once somebody asks.
IN_WHEEL = (
    "tracetool/py.typed",
    "tracetool/tables/schemas/kernels.json",
    "tracetool/tables/schemas/commands/predict.json",
    "tracetool/hardware/gpus/h100-sxm.toml",
    "tracetool/hardware/priors.toml",
    "tracetool/families/gemm/law.toml",
)
IN_SDIST = (
    "LICENSE",
    "Makefile",
    "README.md",
    "tests/conftest.py",
    "sample_traces/demo.py",
    "schemas/kernels.json",
)
#: Tests that read every format, table and GPU and start the program, in about a minute.
CORE = (
    "tests/core",
    "tests/tables",
    "tests/hardware",
    "tests/cli/test_app.py",
    "tests/cli/test_every_command.py",
    "tests/sources/test_every_format.py",
    "tests/replay/test_predict.py",
    "tests/measure/test_attribute.py",
    "tests/compare/test_diff_command.py",
    "tests/report/test_pictures.py",
    "tests/record/test_power_log.py",
)
TEST_TOOLS = ("pytest>=8.2", "pytest-timeout>=2.3", "hypothesis>=6.100", "jsonschema>=4.21", "pyyaml>=6")


def call(*words: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program; return what it printed, or leave with it if the program failed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def packages(folder: Path) -> tuple[Path, Path]:
    """Build wheel and sdist and check that nothing is missing in them."""
    call(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    call(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not (missing := [n for n in IN_WHEEL if n not in names]), f"{wheel.name} has no {missing}"
    sources = {
        p.relative_to(ROOT / "tracetool").as_posix()
        for p in (ROOT / "tracetool").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert not (missing := sorted(s for s in sources if f"tracetool/{s}" not in names)), f"no {missing[:5]}"
    stray = [n for n in names if n.split("/")[0] != "tracetool" and ".dist-info/" not in n]
    assert not stray, f"{wheel.name} installs {stray[:5]}"
    with tarfile.open(sdist) as tar:
        inside = {n.partition("/")[2] for n in tar.getnames()}
    assert not (missing := [n for n in IN_SDIST if n not in inside]), f"{sdist.name} has no {missing}"
    print(
        f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB; {sdist.name}: {len(inside)} files"
    )
    return wheel, sdist


def used(package: Path, python: str, resolution: str, folder: Path, *, tests: bool) -> str:
    """Install a package into a new environment, run the demonstration with it; return what was measured."""
    place, samples = folder / "environment", folder / "away"
    call("uv", "venv", "-q", "-p", python, place, cwd=folder)
    inside = place / "bin" / "python"
    # named one by one: what a wheel asks for counts as indirect, and would be the newest
    direct = ("--resolution", resolution, "-r", ROOT / "pyproject.toml")
    call("uv", "pip", "install", "-q", "-p", inside, *direct, cwd=folder)
    call("uv", "pip", "install", "-q", "-p", inside, "--no-deps", package, cwd=folder)
    shutil.copytree(ROOT / "sample_traces", samples / "sample_traces")
    tool = place / "bin" / "tracetool"
    call(inside, "sample_traces/demo.py", "--tool", tool, "--out", "out", cwd=samples)
    assert (samples / "out" / "report.html").stat().st_size > 100_000
    call(
        tool,
        "forecast",
        "llama-3.1-8b",
        "--gpu",
        "h100-sxm",
        "--mode",
        "decode",
        "--bs",
        "8",
        "--isl",
        "512",
        "--osl",
        "128",
        "--json",
        cwd=samples,
    )
    origin = call(inside, "-c", "import tracetool; print(tracetool.__file__)", cwd=samples).strip()
    assert origin.startswith((str(place.resolve()), str(place))), origin
    version = call(inside, "-c", "import platform as p; print(p.python_version())", cwd=samples).strip()
    frozen = dict(
        line.split("==")
        for line in call("uv", "pip", "freeze", "-p", inside, cwd=folder).split()
        if "==" in line
    )
    parts = ", ".join(
        f"{n} {frozen[n]}" for n in ("polars", "numpy", "scipy", "pyarrow", "numba", "typer", "bokeh")
    )
    text = f"{package.suffix[1:]} on Python {version}, {resolution}: demonstration runs ({parts})"
    if tests:
        call("uv", "pip", "install", "-q", "-p", inside, *TEST_TOOLS, cwd=folder)
        for name in ("tests", "schemas", "docs", "ci", "benchmarks"):
            shutil.copytree(ROOT / name, samples / name)
        for name in (
            "conftest.py",
            "pyproject.toml",
            "README.md",
            "CONTRIBUTING.md",
            "Makefile",
            "action.yml",
        ):
            shutil.copy(ROOT / name, samples)
        # What a dependency of another age warns of is its affair: here it must work.
        out = call(
            inside,
            "-m",
            "pytest",
            "-q",
            "-W",
            "default",
            "-p",
            "no:cacheprovider",
            *CORE,
            cwd=samples,
            TRACETOOL_DATA=str(folder / "none"),
        )
        text += f"; {out.strip().splitlines()[-1]}"
    return text


def main() -> int:
    """Build, install and use; print a line for each environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="*", default=[sys.executable])
    parser.add_argument("--resolution", nargs="*", default=["highest"], choices=["highest", "lowest-direct"])
    parser.add_argument("--tests", action="store_true", help="run a core of the tests there")
    parser.add_argument("--sdist", action="store_true", help="install the sdist too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as built:
        wheel, sdist = packages(Path(built))
        for python in chosen.python:
            for resolution in chosen.resolution:
                for package in (wheel, sdist) if chosen.sdist else (wheel,):
                    start = time.monotonic()
                    with tempfile.TemporaryDirectory() as folder:
                        text = used(package, python, resolution, Path(folder), tests=chosen.tests)
                    print(f"{text} [{time.monotonic() - start:.0f} s]", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
