"""What a comparison decides: the part that ``diff`` and ``check`` share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracetool.api.result import Charted
from tracetool.core.errors import CheckFailed
from tracetool.core.paths import PathLike

if TYPE_CHECKING:
    from tracetool.report.view import View


class Comparison(Charted):
    """A comparison with limits that it may break."""

    @property
    @abstractmethod
    def failed(self) -> bool:
        """Whether a limit that was asked for is broken."""

    @property
    def undecided(self) -> bool:
        """Whether a limit that was asked for could not be judged."""
        return False

    @property
    @abstractmethod
    def reasons(self) -> Sequence[str]:
        """One sentence per figure that decided it."""

    @abstractmethod
    def _view(self) -> View:
        """Return the report."""

    def raise_if_failed(self, *, strict: bool = False) -> None:
        """Raise where a limit is broken; with ``strict`` also where one could not be judged.

        Raises
        ------
        CheckFailed
            With the first reason.
        """
        if self.failed or (strict and self.undecided):
            reasons = self.reasons
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            raise CheckFailed((reasons[0] if reasons else "a limit could not be judged") + more)

    def annotations(self) -> list[str]:
        """Return workflow commands that a CI runner shows beside the change, worst first."""
        from tracetool.report.console import annotation_lines

        return annotation_lines(self._view())

    def _document(self) -> Any:
        return self._view().document

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the report."""
        from tracetool.report.console import show_view

        show_view(self._view())
