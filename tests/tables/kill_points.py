"""Replace a run and be killed at the n-th file system call: ``kill_points.py RUN NEW_RUN N exchange|rename``.

Exit code 0 where the work has fewer calls. A program of its own: it dies, and a hook for audit events stays.
"""

from __future__ import annotations

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


def main() -> None:
    """Replace the run; die on the way."""
    run, new, left, manner = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
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
    os._exit(0)


if __name__ == "__main__":
    main()
