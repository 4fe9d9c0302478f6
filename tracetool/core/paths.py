"""Paths as callers give them: one or several, as text or path-like objects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tracetool.core.errors import BadInput

PathLike: TypeAlias = str | os.PathLike[str]


def paths_of(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return one path or several as a list; BadInput where they are none.

    >>> [p.as_posix() for p in paths_of("a.csv")], paths_of([])
    (['a.csv'], [])
    """
    try:
        return [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(p) for p in paths]
    except TypeError:
        raise BadInput(f"{str(paths)[:60]!r} is no path", "give one path, or a list of them") from None
