"""Formats: what can be read, and the command that makes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracetool.api.result import Result
from tracetool.core.paths import PathLike
from tracetool.sources.detect import all_formats

if TYPE_CHECKING:
    from tracetool.report.view import View
    from tracetool.sources.format import Format


@dataclass(frozen=True)
class Formats(Result):
    """The trace and telemetry formats: ``frame`` has a row each."""

    @cached_property
    def _formats(self) -> list[tuple[str, Format]]:
        return sorted(all_formats().items(), key=lambda f: (f[1].holds != "trace", f[1].title))

    def _document(self) -> list[dict[str, Any]]:
        return [
            {"format": n, "title": f.title, "holds": f.holds, "made_by": f.made_by, "tried": f.tried,
             "endings": list(f.suffixes), "extra": f.extra or None}
            for n, f in self._formats
        ]  # fmt: skip

    def _view(self) -> View:
        import polars as pl

        from tracetool.report.view import View

        rows = [{**row, "endings": " ".join(row["endings"])} for row in self._document()]
        return View("Formats", pl.DataFrame(rows, infer_schema_length=None))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the list."""
        from tracetool.report.terminal.lists import print_list

        rows = [(f.title, f.holds, f.made_by, f.tried) for _, f in self._formats]
        print_list(("format", "holds", "made by", "tried on"), rows, prose=("made by", "tried on"))


def formats() -> Formats:
    """Return the trace and telemetry formats that can be read, as ``tracetool formats``.

    Examples
    --------
    >>> import tracetool as tt
    >>> sorted(set(tt.formats().frame["holds"]))
    ['counters', 'telemetry', 'trace']
    """
    return Formats()
