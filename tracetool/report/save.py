"""Write a table or a report to a file, by its extension, whole or not at all."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.core.paths import text_name
from tracetool.core.registry import members
from tracetool.report.renderer import Renderer
from tracetool.report.view import View
from tracetool.tables.write import aside_file


@cache
def _renderers() -> dict[str, Renderer]:
    renderers = members("tracetool.report.renderers", "RENDERER", Renderer).values()
    return {r.suffix: r for r in renderers}


def output_suffixes(*, judged: bool = True) -> list[str]:
    """Return the file extensions that can be written; without ``judged`` those of any report."""
    return sorted(suffix for suffix, one in _renderers().items() if judged or not one.judged)


def check_output(path: str | os.PathLike[str], *, judged: bool = True) -> Path:
    """Return the path of an output file; call it before long work.

    ``judged`` says whether the report judges figures by limits.

    Raises
    ------
    BadInput
        If its extension is not known, its folder is absent, or it is a folder.
    """
    target = text_name(path, "choose another name")
    suffixes = output_suffixes(judged=judged)
    if target.suffix.lower() not in suffixes:
        raise BadInput.in_file(
            target,
            f"no output of kind {target.suffix!r}" if target.suffix else "has no extension",
            f"known: {' '.join(suffixes)}",
        )
    if target.is_dir():
        raise BadInput.in_file(target, "is a folder", "name a file")
    if not target.absolute().parent.is_dir():
        raise BadInput.in_file(target, "its folder does not exist", f"make it: mkdir -p {target.parent}")
    return target


def save_view(view: View, path: str | os.PathLike[str]) -> Path:
    """Write a report to ``path``; the extension decides the format.

    Raises
    ------
    BadInput
        If the extension is not known, the report has nothing of that kind, or the folder cannot be written.
    """
    target = check_output(path)
    with aside_file(target) as temporary:
        _renderers()[target.suffix.lower()].write(view, temporary)
    return target
