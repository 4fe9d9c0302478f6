"""Families: the taxonomy of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetool.api.result import Result
from tracetool.core.paths import PathLike
from tracetool.kernels.classify import FAMILIES

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Families(Result):
    """The families that kernels fall into: ``frame`` has a row each with meaning and example."""

    def _document(self) -> list[dict[str, Any]]:
        return [{"family": f.name, "meaning": f.meaning, "example": f.example} for f in FAMILIES]

    def _view(self) -> View:
        import polars as pl

        from tracetool.report.view import View

        return View("Families of kernels", pl.DataFrame(self._document()))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the list."""
        from tracetool.report.terminal.lists import print_list

        rows = [(f.name, f.meaning, f.example) for f in FAMILIES]
        print_list(("family", "what it does", "example"), rows, prose=("what it does",))


def families() -> Families:
    """Return the families kernels fall into, as ``tracetool families``.

    Examples
    --------
    >>> import tracetool as tt
    >>> "gemm" in tt.families().frame["family"]
    True
    """
    return Families()
