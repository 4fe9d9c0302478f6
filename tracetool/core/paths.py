"""Paths as callers give them: one or several, as text or path-like objects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]


def paths_of(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return one path or several as a list.

    >>> [p.as_posix() for p in paths_of("a.csv")], paths_of([])
    (['a.csv'], [])
    """
    return [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(p) for p in paths]
