"""What libraries print past Python: held back while they read a foreign file, and never lost.

At some damaged files polars writes its own panic on the process's standard error before it raises. The
descriptor belongs to the whole process, so whatever else is written to it meanwhile, by other threads and by
programs they start, is written out once the file is read; of a panic that was raised the exception tells.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import Final

#: A panic as Rust prints it: where, what, lines that go on with it, its stack, a word about RUST_BACKTRACE.
_PANIC: Final = re.compile(
    rb"\n?thread '[^'\n]*'(?: \(\d+\))? panicked at [^\n]*\n[^\n]*\n(?:[ \t][^\n]*\n)*"
    rb"(?:stack backtrace:\n(?:[ \t][^\n]*\n)*)?(?:note: [^\n]*RUST_BACKTRACE[^\n]*\n)?"
)
_STANDARD_ERROR: Final = 2
_CHUNK: Final = 1 << 16


class _Held:
    """How many readers are at work, where standard error led before, and what takes its text meanwhile.

    The file is kept: what was on its way into it as a reader left is written out with the next text.
    """

    lock = threading.RLock()  # an interrupt's handler may come while it is held
    readers = 0
    kept = -1
    file = -1
    written_out = 0
    process = 0
    panicked = False
    watches_crashes = False


@contextlib.contextmanager
def muted_panics() -> Iterator[None]:
    """Hold back what is printed within; on leaving, write it out but for panics that were raised.

    Nothing is held back where it cannot be.
    """
    panicked = False
    with _Held.lock:
        _Held.readers += 1
        if _Held.readers == 1:
            _hold_back()
    try:
        yield
    except BaseException as error:
        panicked = type(error).__name__ == "PanicException"
        raise
    finally:
        with _Held.lock:
            _Held.panicked |= panicked
            _Held.readers = max(0, _Held.readers - 1)
            if not _Held.readers:
                release()


def release() -> None:
    """Give standard error back at once and write out what was held back, also where the process ends."""
    with _Held.lock:
        if _Held.watches_crashes:
            faulthandler.disable()
        if _Held.kept >= 0:
            os.dup2(_Held.kept, _STANDARD_ERROR)
            os.close(_Held.kept)
        text = b"" if _Held.file < 0 or _Held.process != os.getpid() else _rest(_Held.file)
        text = _PANIC.sub(b"", text) if _Held.panicked else text
        _Held.kept, _Held.panicked, _Held.watches_crashes = -1, False, False
        with contextlib.suppress(OSError):  # nobody reads it, or a full disk
            while text:
                text = text[os.write(_STANDARD_ERROR, text) :]


def _hold_back() -> None:
    with contextlib.suppress(OSError):  # no standard error at all, or no place for what it would take
        _Held.kept = os.dup(_STANDARD_ERROR)
        try:
            if _Held.process != os.getpid():
                _Held.file, _Held.written_out, _Held.process = _memory_file(), 0, os.getpid()
                atexit.register(release)
            if not faulthandler.is_enabled():  # a crash must not be silent
                faulthandler.enable(_Held.kept)
                _Held.watches_crashes = True
            os.dup2(_Held.file, _STANDARD_ERROR)
        except OSError:
            release()


def _memory_file() -> int:
    """Return a file without a name that takes each text behind the last, whoever writes it."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("held-back")
    else:
        number, name = tempfile.mkstemp()
        os.unlink(name)  # noqa: PTH108 - a name of the system's own
    try:
        import fcntl  # noqa: PLC0415 - not on Windows

        fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_APPEND)
    except ImportError:
        pass
    return number


def _rest(number: int) -> bytes:
    """Return what came into the file since it was last asked."""
    parts = []
    while part := os.pread(number, _CHUNK, _Held.written_out):
        parts.append(part)
        _Held.written_out += len(part)
    return b"".join(parts)
