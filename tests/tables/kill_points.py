"""Replace a run and be killed at the n-th file system call: a line ``[RUN, NEW_RUN, N, MANNER]`` each.

Each line is done in a child, whose end is answered: 0 where the work has fewer calls. A program of its own: a
hook for audit events stays, and it has no threads that a child would miss.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from tracetool.tables import run_folder

CALLS = {
    "open", "os.chmod", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir",
    "shutil.copyfile",
}  # fmt: skip


def replace(run: Path, new: Path, left: int, manner: str) -> None:
    """Replace the run, ``exchange`` or ``rename``; die on the way."""
    if manner == "rename":  # as on a file system that cannot exchange two names
        run_folder._exchange = lambda *_: False  # type: ignore[assignment]

    def count_down(event: str, _: object) -> None:
        nonlocal left
        if event in CALLS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_down)
    with run_folder.replaced_run(run) as scratch:
        for file in new.iterdir():
            shutil.copyfile(file, scratch / file.name)


def main() -> None:
    """Do each line of standard input in a child; print how it ended."""
    for line in sys.stdin:
        run, new, left, manner = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                replace(Path(run), Path(new), left, manner)
                os._exit(0)
            finally:
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
