"""Paths as callers give them: one or several, as text or path-like objects."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tracetool.core.errors import BadInput

PathLike: TypeAlias = str | os.PathLike[str]

#: Settings, calibrations and the like are a few kB; a larger file is another one. [bytes] A prior.
MOST_SMALL_BYTES: Final = 64 << 20
#: What the system says of a path under which there is nothing.
_NOTHING: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def paths_of(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return one path or several as a list; BadInput where they are none.

    >>> [p.as_posix() for p in paths_of("a.csv")], paths_of([])
    (['a.csv'], [])
    """
    try:
        return [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(p) for p in paths]
    except TypeError:
        raise BadInput(f"{str(paths)[:60]!r} is no path", "give one path, or a list of them") from None


def regular_file(path: PathLike, fix: str = "check the path") -> Path:
    """Return a path under which there is a file: a pipe would wait forever, a device never ends.

    Parameters
    ----------
    path : path
        What a caller named.
    fix : str
        What to do where there is no file.

    Raises
    ------
    BadInput
        If there is none, or a folder, a pipe or a device.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - follows links and takes any path
        mode = status.st_mode
    except ValueError as error:  # a NUL in it
        raise BadInput.in_file(path, "no such file", fix) from error
    except OSError as error:
        fault = "no such file" if error.errno in _NOTHING else f"cannot be read: {error.strerror or error}"
        raise BadInput.in_file(path, fault, fix) from error
    if stat.S_ISDIR(mode):
        raise BadInput.in_file(path, "is a folder, not a file", fix)
    if not stat.S_ISREG(mode) or (not status.st_size and status.st_dev in _system_devices()):
        raise BadInput.in_file(path, "is a pipe or a device, not a file", "write what it gives to a file")
    return Path(path)


@functools.cache
def _system_devices() -> frozenset[int]:
    """Return where the system shows its state as files of no size, some of which never end."""
    shown = [p for p in ("/proc", "/sys") if os.path.ismount(p)]
    return frozenset(os.stat(p).st_dev for p in shown)  # noqa: PTH116 - as above


def small_text(path: PathLike, fix: str = "check the path") -> str:
    """Return the text of settings, a calibration or the like; a mark of the byte order is left out.

    Raises
    ------
    BadInput
        If it is no file (:func:`regular_file`), larger than :data:`MOST_SMALL_BYTES`, or not UTF-8.
    """
    file = regular_file(path, fix)
    try:
        if (size := file.stat().st_size) > MOST_SMALL_BYTES:
            raise BadInput.in_file(file, f"{size:,} bytes are too many for such a file", fix)
        return file.read_text("utf-8-sig")
    except OSError as error:
        raise BadInput.in_file(file, f"cannot be read: {error.strerror or error}", fix) from error
    except UnicodeDecodeError as error:
        raise BadInput.in_file(file, "is not text in UTF-8", "save it as UTF-8") from error


def text_name(path: PathLike, fix: str = "rename it") -> Path:
    """Return a path whose name is text: polars takes any other for an open file.

    Raises
    ------
    BadInput
        If its bytes are no UTF-8.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise BadInput.in_file(path, "its name is not text in UTF-8", fix) from error
    return Path(path)
