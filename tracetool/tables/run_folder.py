"""Replacing a run folder: at every moment the old run or the new one is in its place, whole."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.core.paths import text_name
from tracetool.tables.scratch import (
    TEMPORARY,
    Scratch,
    note_in_place,
    own_folders,
    scratch_in,
    scratch_prefix,
    sync_file,
)

RUN_FILE: Final = "run.json"
#: The tables an ingest may write.
RUN_TABLES: Final = (
    "kernels", "signatures", "devices", "operators", "ranges", "modules", "host_calls", "telemetry",
    "measured_work", "rejected",
)  # fmt: skip
_OWN_FILES: Final = frozenset({RUN_FILE, *(f"{name}.parquet" for name in RUN_TABLES)})
#: A reader waits this long for a run that is just being replaced. [s]
_PATIENCE_S: Final = 2.0
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # <fcntl.h>, <linux/fs.h>


def check_place(target: Path) -> None:
    """Check that another folder can take the place of ``target``.

    Raises
    ------
    BadInput
        If none can: a mount point, and the working folder or one above it by the name of ``.`` or ``..``.
    """
    if target.name in ("", "..") or os.path.ismount(os.path.realpath(target)):
        fix = f"name one in it: -o {target / 'run'}"
        raise BadInput.in_file(target, "cannot be replaced: a run takes the place of a folder", fix)


def check_replaceable(target: Path) -> None:
    """Check that a run may be written to ``target``.

    Raises
    ------
    BadInput
        If it exists and is neither a run nor an empty folder, or if no folder can take its place.
    """
    check_place(text_name(target, "choose another name"))
    if Path(os.path.realpath(target)).is_symlink():  # what remains of links that lead around
        raise BadInput.in_file(target, "is a link that leads to itself", "remove it, or choose another -o")
    if target.exists() and not (
        target.is_dir() and ((target / RUN_FILE).is_file() or not any(target.iterdir()))
    ):
        raise BadInput.in_file(target, "exists and is not a run", "choose another folder with -o")


@contextmanager
def replaced_run(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a scratch folder beside ``path``; on success it takes that place, on failure it is removed.

    Files of the user's own in the old run are carried over. What killed processes left in the same folder is
    restored or removed first.

    Raises
    ------
    BadInput
        If ``path`` exists and is neither a run nor an empty folder, or cannot be replaced or written.
    """
    target = Path(path)
    if target.is_symlink():  # the run it points to is replaced, the link stays
        target = Path(os.path.realpath(target))
    clean_up(target.parent)
    check_replaceable(target)
    try:
        new = Path(tempfile.mkdtemp(prefix=scratch_prefix(target), dir=target.parent))
    except OSError as error:
        raise BadInput.unwritable(target, error) from error
    old = new.with_name(new.name.replace(".new-", ".old-"))
    try:
        yield new
        mask = os.umask(0)
        os.umask(mask)
        new.chmod(0o777 & ~mask)
        _sync(new)
        _put_in_place(new, target, old)
    except OSError as error:
        raise BadInput.unwritable(target, error) from error
    finally:
        if not target.exists() and old.exists():  # stopped between two renames
            old.rename(target)
        for leftover in (new, old):
            _discard(leftover, target)


def put_folder(new: Path, target: Path) -> None:
    """Let a folder of the same file system take a place, in one step; what stood there is removed.

    Raises
    ------
    OSError
        If it cannot.
    """
    if not target.exists():
        new.rename(target)
        return
    old = new
    if not _exchange(new, target):  # a file system that cannot, as some network ones
        old = new.with_name(f"{new.name}.old")
        target.rename(old)
        new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def clean_up(folder: Path) -> None:
    """Restore the runs and remove the scratch that killed processes left in a folder."""
    for scratch in scratch_in(folder):
        if scratch.abandoned():
            _settle(scratch)


def clean_up_own() -> None:
    """Restore the runs and remove the scratch of this process, whose work is cut off."""
    for scratch in [s for folder in own_folders for s in scratch_in(folder)]:
        if scratch.own:
            _settle(scratch)


def _settle(scratch: Scratch) -> None:
    with suppress(OSError):
        if scratch.role == "old" and not scratch.target.exists():
            scratch.path.rename(scratch.target)
        elif scratch.target.name == TEMPORARY:
            shutil.rmtree(scratch.path, ignore_errors=True)
        else:
            _discard(scratch.path, scratch.target)


def is_run_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder, a run that is being replaced or was cut short in it included."""
    wait_for_run(Path(path))
    return Path(path).is_dir()


def wait_for_run(folder: Path) -> None:
    """Let a run that is just being replaced come back, or restore it where its process was killed."""
    deadline = time.monotonic() + _PATIENCE_S
    while not folder.exists() and (waiting := _set_aside(folder)):
        if any(scratch.abandoned() for scratch in waiting):
            clean_up(folder.parent)
            return
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _set_aside(folder: Path) -> list[Scratch]:
    return [s for s in scratch_in(folder.parent) if s.role == "old" and s.target.name == folder.name]


def _put_in_place(new: Path, target: Path, old: Path) -> None:
    if not (target / RUN_FILE).is_file():  # nothing, or an empty folder, which a rename replaces
        new.rename(target)
    elif not _exchange(new, target):  # a file system that cannot, as some network ones
        target.rename(old)
        new.rename(target)
    note_in_place(target)
    with suppress(OSError):  # not every file system can, and the run is there
        sync_file(target.parent)


def _exchange(one: Path, another: Path) -> bool:
    """Let two folders swap their names in one step; return whether the system could."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    paths = (os.fsencode(one.absolute()), os.fsencode(another.absolute()))
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def _discard(folder: Path, target: Path) -> None:
    """Remove scratch; what no ingest writes into a run is the user's and moves to the new run."""
    if not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    for entry in folder.iterdir():
        with suppress(OSError):
            if entry.name in _OWN_FILES:
                entry.unlink()
            elif target.is_dir() and not (target / entry.name).exists():
                entry.rename(target / entry.name)
    with suppress(OSError):  # holds a file that has no other place
        folder.rmdir()


def _sync(folder: Path) -> None:
    for file in folder.iterdir():
        sync_file(file)
    with suppress(OSError):  # not every file system can sync a folder
        sync_file(folder)
