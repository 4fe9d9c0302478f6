"""Toys: what toys there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetool.api.result import Result
from tracetool.core.paths import PathLike

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Toys(Result):
    """The toys: ``frame`` has a row each."""

    def _document(self) -> list[dict[str, Any]]:
        return [{"toy": "ball"}, {"toy": "kite"}]

    def _view(self) -> View:
        import polars as pl

        from tracetool.report.view import View

        return View("Toys", pl.DataFrame(self._document()))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the list."""
        from tracetool.report.terminal.lists import print_list

        print_list(("toy",), [("ball",), ("kite",)])


def toys() -> Toys:
    """Return the toys, as ``tracetool toys``.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.toys().frame["toy"].to_list()
    ['ball', 'kite']
    """
    return Toys()
