"""Scratch files and folders: each names its process, so that those a killed one left are recognized.

Names look like ``.NAME.PID-START-MACHINE.new-RANDOM``: START is the process's start in clock ticks since boot
(a number given to a later process has another start), MACHINE a digest of host name and PID namespace (a
container's numbers mean nothing outside it).
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tracetool.core.errors import BadInput, system_fault

Role = Literal["new", "old"]
#: What a folder for temporary files stands beside, in place of a target.
TEMPORARY: Final = "tracetool-temporary"
#: Where this process has put scratch.
own_folders: set[Path] = set()
#: The last file or folder that this process put in its place, whole; none until one was.
put_in_place: list[Path] = []
_NAME: Final = re.compile(
    r"\.(?P<target>.+)\.(?P<pid>\d+)-(?P<start>\d+)-(?P<machine>[0-9a-f]{8})\.(?P<role>new|old)-\w+(?:\..*)?",
    re.DOTALL,
)
#: What a disk without space, a quota and a limit of size say.
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Scratch of another machine or container on a shared disk counts as left behind after this long. [s]
FOREIGN_AGE_S: Final = 7 * 86_400.0


@dataclass(frozen=True)
class Scratch:
    """One scratch file or folder: the path it is beside and the process that owns it."""

    path: Path
    target: Path
    role: Role
    pid: int
    start_ticks: int
    machine: str

    @classmethod
    def of(cls, path: Path) -> Scratch | None:
        """Return the parts of a scratch path's name, None where it is no scratch of this tool."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        role: Role = "new" if match["role"] == "new" else "old"
        target = path.with_name(match["target"])
        return cls(path, target, role, int(match["pid"]), int(match["start"]), match["machine"])

    @property
    def own(self) -> bool:
        """Whether it is this process's."""
        return self.pid == os.getpid() and self.machine == _machine()

    def abandoned(self) -> bool:
        """Return whether its process has ended; never true of a living one."""
        if self.machine == _machine() and self.start_ticks and _start_ticks(os.getpid()):
            return _start_ticks(self.pid) != self.start_ticks
        try:
            return time.time() - self.path.lstat().st_mtime > FOREIGN_AGE_S
        except OSError:
            return False


def scratch_prefix(target: Path, role: Role = "new") -> str:
    """Return the first part of the name of this process's scratch beside ``target``."""
    own_folders.add(target.parent)
    pid, name = os.getpid(), target.name
    return f".{name}.{pid}-{_start_ticks(pid) or 0}-{_machine()}.{role}-"


def scratch_in(folder: Path) -> list[Scratch]:
    """Return the scratch in a folder that belongs to this user; none where the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            paths = [Path(e.path) for e in entries if e.name.startswith(".") and _is_ours(e)]
    except OSError:
        return []
    return [scratch for path in sorted(paths) if (scratch := Scratch.of(path))]


def clear_temporary(parent: Path) -> None:
    """Remove the temporary folders in one whose processes have ended."""
    for scratch in scratch_in(parent):
        if scratch.target.name == TEMPORARY and scratch.abandoned():
            shutil.rmtree(scratch.path, ignore_errors=True)


@contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[Path]:
    """Give an empty folder, of the system's for temporary files or ``within``; remove it, and abandoned ones.

    Raises
    ------
    OSError
        If none can be made.
    BadInput
        If no more can be written there.
    """
    parent = within or Path(tempfile.gettempdir())
    clear_temporary(parent)
    folder = Path(tempfile.mkdtemp(prefix=scratch_prefix(parent / TEMPORARY), dir=parent))
    try:
        yield folder
    except Exception as error:
        if getattr(error, "filename", None) is None and system_fault(error) in _NO_SPACE:
            instead = "set TMPDIR to another folder" if within is None else "choose another place"
            raise BadInput.unwritable(parent, error, instead) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def note_in_place(path: Path) -> None:
    """Note that a file or folder stands in its place now: a later interrupt takes nothing back."""
    put_in_place[:] = [path]


def sync_file(path: Path) -> None:
    """Bring a file or folder to the disk: after a power cut a new name must not be an empty file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    return False


def _machine() -> str:
    """Return a digest of the host and the PID namespace: where a process number means something."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path
    return hashlib.sha256(f"{os.uname().nodename} {namespace}".encode()).hexdigest()[:8]


def _start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None where it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(fields[18])
