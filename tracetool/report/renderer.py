"""The shape of an output plug-in: one file of ``renderers/`` writes one file extension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracetool.report.view import View


@dataclass(frozen=True)
class Renderer:
    """Writes a view to a file.

    Parameters
    ----------
    suffix : str
        File extension with its dot, lower case.
    comment : str
        What the file is for, one phrase.
    write : callable
        ``write(view, path)``; the path is a temporary one, renamed by the caller.
    """

    suffix: str
    comment: str
    write: Callable[[View, Path], None]
