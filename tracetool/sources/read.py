"""One file read by its format, and the checks of every log however it was written."""

from __future__ import annotations

from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.format import Format, ReadOptions, Trace
from tracetool.sources.io.text import unpacked_chunks

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_source(path: Path, form: Format, options: ReadOptions) -> Trace:
    """Return the content of a file.

    Parameters
    ----------
    path : Path
        The file or folder.
    form : Format
        The format it has.
    options : ReadOptions
        What the user says about reading.

    Raises
    ------
    BadInput
        If its format cannot use it, or a log holds no reading.
    """
    trace = form.read(path, options)
    if form.holds == "telemetry":
        nuls = _nul_bytes(path, options)
        torn = f"{counted(nuls, 'NUL byte')} in it, as a crash or a full disk leaves them" if nuls else ""
        if not trace.telemetry.height:
            raise BadInput.in_file(path, f"holds no reading{': ' * bool(torn)}{torn}", "log again")
        if torn:
            trace.warnings.append(f"{torn}: readings on those lines are lost")
    return trace


def _nul_bytes(path: Path, options: ReadOptions) -> int:
    """Return the NUL bytes of a log or a folder of them, all of which are text. UTF-16 has them by rule."""
    if path.is_dir():
        return sum(_nul_bytes(file, options) for file in path.rglob("*") if file.is_file())
    count, first = 0, True
    for chunk in unpacked_chunks(path, options.max_ratio):
        if first and chunk[:2] in _UTF16:
            return 0
        count, first = count + chunk.count(b"\0"), False
    return count
