"""Run the README's two commands on a machine that has nothing but what the README asks for.

``python nightly/fresh_machine.py [--suite bookworm sid] [--tests tests/core tests/cli]``: debootstrap makes the
smallest Debian of each suite with Python, its venv, git, make and certificates; there the project is cloned,
``make demo`` and ``make test`` run as the README writes them, and the wheel is installed with ``pip`` into an empty
environment and used. ``--tests`` names the tests that ``make test`` is cut to (pytest's own ``PYTEST_ADDOPTS``);
without it all run. Needs Linux, root (``chroot``, mounts of its own), debootstrap, and ``build`` (extra ``release``).
Prints a line each; exit 1 where one failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MIRROR = "http://deb.debian.org/debian"
#: What the README asks for; make says itself that Debian keeps venv in a package of its own.
ASKED_FOR = ("python3", "python3-venv", "git", "make", "ca-certificates")
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
#: Mounts of a namespace of its own: they end with the command, whatever becomes of it.
_ENTER = (
    'mount --bind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/dev/shm" && mount --bind /dev/pts "$0/dev/pts"'
    ' && mount -t proc proc "$0/proc"'
    ' && exec chroot "$0" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root'
    f' LANG=C.UTF-8 SSL_CERT_FILE=/{CERTIFICATES} PIP_CERT=/{CERTIFICATES} PYTEST_ADDOPTS="$2" bash -eo pipefail -c "$1"'
)
_WHEEL = (
    "python3 -m venv /empty && /empty/bin/python -m pip install -q --disable-pip-version-check /*.whl && cd /"
    " && /empty/bin/tracetool --version && /empty/bin/python -c 'import tracetool, pathlib;"
    ' place = pathlib.Path(tracetool.__file__).parent; assert place.is_relative_to("/empty"), place;'
    ' assert (place / "py.typed").is_file(); assert (place / "hardware/gpus/h100-sxm.toml").is_file()\''
    " && /empty/bin/python /tracetool/sample_traces/demo.py --tool /empty/bin/tracetool --out /demo | tail -1"
)


def bare_root(root: Path, suite: str) -> None:
    """Make the smallest Debian of a suite, with this machine's name servers and certificates."""
    words = ["debootstrap", "--variant=minbase", f"--include={','.join(ASKED_FOR)}", suite, root, MIRROR]
    done = subprocess.run([*map(str, words)], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"debootstrap {suite}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    shutil.copy("/etc/resolv.conf", root / "etc")
    shutil.copy(os.environ.get("SSL_CERT_FILE", f"/{CERTIFICATES}"), root / CERTIFICATES)
    refs = [
        "HEAD",
        *subprocess.check_output(["git", "-C", ROOT, "branch", "--show-current"], text=True).split(),
    ]
    subprocess.run(
        ["git", "-C", ROOT, "bundle", "create", "-q", root / "tracetool.bundle", *refs], check=True
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", root, ROOT], check=True, stdout=subprocess.DEVNULL
    )


def ran(root: Path, name: str, command: str, options: str = "") -> bool:
    """Run a command in a root; print how it ended, its last lines and how long it took."""
    start = time.monotonic()
    words = ["unshare", "--mount", "--fork", "sh", "-c", _ENTER, str(root), command, options]
    done = subprocess.run(words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    text = "\n".join(lines[-60:] if done.returncode else lines[-2:])
    print(f"{name}: exit {done.returncode} [{time.monotonic() - start:.0f} s]\n{text}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Try each suite; return 1 where a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", nargs="*", default=["bookworm"])
    parser.add_argument("--tests", nargs="*", default=[], help="cut the tests to these")
    chosen = parser.parse_args()
    if os.name == "nt" or os.geteuid() or not shutil.which("debootstrap"):
        sys.exit("error: needs root and debootstrap (Debian, Ubuntu: apt-get install debootstrap)")
    passed = True
    for suite in chosen.suite:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / suite
            bare_root(root, suite)
            print(f"== {suite}, minbase with {', '.join(ASKED_FOR)}", flush=True)
            passed &= ran(
                root, "git clone", "python3 --version; cd /; git clone -q tracetool.bundle tracetool"
            )
            passed &= ran(root, "make demo", "cd /tracetool; make demo")
            passed &= ran(root, "wheel in an empty environment", _WHEEL)
            options = " ".join(chosen.tests)
            passed &= ran(root, f"make test {options}", "cd /tracetool; make test", options)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
