"""Everything that can go wrong, each with its exit code and its fix.

``tracetool.cli.app`` catches these once and prints one line on standard error, the fix in parentheses where
there is one: ``error: <message> (<fix>)``.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from typing import Final

#: What lets a file be written, by what kept it from being; otherwise the rights are at fault.
_FIXES: Final = {
    errno.ENOENT: "make its folder", errno.ENOSPC: "free space there", errno.EDQUOT: "free space there",
    errno.ENOTDIR: "let a folder stand where a file does", errno.ELOOP: "remove the link to itself",
    errno.EFBIG: "allow larger files (ulimit -f)", errno.ENAMETOOLONG: "shorten its name",
    errno.EROFS: "mount it for writing",
}  # fmt: skip
#: How polars and Arrow end what the system refused them.
_OS_ERROR: Final = re.compile(r"\((?:os error|errno) (\d{1,4})\)|\[errno (\d{1,4})\]", re.IGNORECASE)


class TracetoolError(Exception):
    """A failure the user can act on.

    Parameters
    ----------
    message : str
        What is wrong, naming the file and the place in it.
    fix : str, optional
        What to do about it.
    """

    exit_code = 2
    #: The file it is about, where it is about one.
    file: str | None = None

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def line(self) -> str:
        """Return the one line that is printed, control characters made visible."""
        text = f"{self.message} ({self.fix})" if self.fix else self.message
        return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def system_fault(error: BaseException) -> int | None:
    """Return the number of what the system refused, also where a library's text states it, else None."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    stated = None if isinstance(error, TracetoolError) else _OS_ERROR.search(str(error))
    return int(stated[1] or stated[2]) if stated else None


class BadInput(TracetoolError):  # noqa: N818 - reads as what it is at the raise
    """A file or value the tool cannot use: exit 2."""

    @classmethod
    def in_file(cls, path: str | os.PathLike[str], fault: str, fix: str = "") -> BadInput:
        """Return the error for ``path`` with what is wrong in it."""
        error = cls(f"{os.fspath(path)}: {fault}", fix)
        error.file = os.fspath(path)
        return error

    @classmethod
    def unwritable(
        cls, path: str | os.PathLike[str], cause: Exception, instead: str = "choose another place"
    ) -> BadInput:
        """Return the error for a ``path`` that cannot be written."""
        number = system_fault(cause)
        fault = os.strerror(number) if number else str(cause)
        fix = _FIXES.get(number or 0, "allow writing there")
        return cls.in_file(path, f"cannot be written: {fault}", f"{fix}, or {instead}")


class MissingPart(TracetoolError):  # noqa: N818
    """A program or package missing on this machine, with the command that installs it: exit 3."""

    exit_code = 3


class CheckFailed(TracetoolError):  # noqa: N818
    """A requested check failed (a threshold, a regression): exit 1."""

    exit_code = 1


class Interrupted(TracetoolError):  # noqa: N818
    """The work was stopped, and some of it is kept: exit 128 + the signal that stopped it."""

    def __init__(self, message: str, fix: str = "", *, signal_number: int = signal.SIGINT) -> None:
        super().__init__(message, fix)
        self.exit_code = 128 + signal_number
