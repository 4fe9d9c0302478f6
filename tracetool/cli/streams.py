"""Standard output and standard error that outlive their reader: what they cannot take changes no verdict."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


#: What stands for signs of this tool's own where the locale's encoding has none.
_PLAIN: Final = {
    "±": "+-", "µ": "u", "°": " ", "…": "...", "·": "-", "×": "x", "²": "2", "\u2013": "-", "→": "->",
    "█": "#",
}  # fmt: skip
_PLAINLY: Final = "tracetool.plainly"


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding is missing in letters that it has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def takes_any_text(encoding: str | None) -> bool:
    """Whether a stream of an encoding takes all letters: that of an old locale (``LANG=de_DE``) does not."""
    try:
        return encoding is None or codecs.lookup(encoding).name.startswith("utf")
    except LookupError:
        return False


class _Tolerant(io.FileIO):
    """A descriptor whose failed writes are remembered and dropped, so that the work reaches its exit code."""

    fault: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # a reader such as `head` left: it has all it wanted
            pass
        except OSError as error:
            self.fault = self.fault or error
        return memoryview(data).nbytes


def tolerate_lost_readers() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr``; what a closed one would take goes to the null device.

    Letters without a place in the locale's encoding are written in others, and end no command.
    """
    codecs.register_error(_PLAINLY, _plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif os.name != "nt" or not stream.isatty():  # consoles of Windows take text, not bytes
            raw = _Tolerant(stream.fileno(), "wb", closefd=False)
            text = io.TextIOWrapper(
                io.BufferedWriter(raw),
                encoding=stream.encoding,
                errors=stream.errors if takes_any_text(stream.encoding) else _PLAINLY,
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, text)


def flush_output() -> OSError | None:
    """Write out what standard output still buffers; return why some could not be written, else None."""
    try:
        sys.stdout.flush()
    except OSError as error:  # a terminal that hung up
        return error
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.fault if isinstance(raw, _Tolerant) else None
