"""Doctor: what this machine is missing for recording, each with its fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput, MissingPart
from tracetool.core.paths import PathLike
from tracetool.record.doctor import examine
from tracetool.record.machine import MISSING, Check

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Doctor(Result):
    """Checks of this machine, each with its fix.

    Attributes
    ----------
    can_record : bool
        Whether this machine can record a GPU's trace with its power.
    checks : tuple of Check
        Subject, state, what was found, and the fix.
    """

    checks: tuple[Check, ...]
    can_record: bool

    def raise_if_unable(self) -> None:
        """Raise where this machine cannot record a GPU.

        Raises
        ------
        MissingPart
            With the first fix.
        """
        if not self.can_record:
            missing = next((c for c in self.checks if c.state == MISSING), None)
            raise MissingPart("this machine cannot record a GPU", missing.fix if missing else "")

    def _document(self) -> dict[str, Any]:
        return {"can_record": self.can_record, "checks": [asdict(c) for c in self.checks]}

    def _rows(self) -> list[tuple[str, ...]]:
        return [(c.state, c.subject, c.found, c.fix) for c in self.checks]

    def _view(self) -> View:
        import polars as pl

        from tracetool.report.view import View

        head = ["state", "what", "found", "fix"]
        return View("This machine", pl.DataFrame(self._rows(), schema=head, orient="row"))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the checks and their overall result."""
        from tracetool.report.sentences import open_console, say
        from tracetool.report.terminal.lists import print_list

        print_list(("state", "what", "found", "fix"), self._rows(), prose=("found", "fix"))
        console = open_console()
        console.print()
        say(
            console,
            "This machine can record."
            if self.can_record
            else "This machine reads, predicts and compares; it cannot record a GPU.",
        )


@public
def doctor(folder: PathLike = ".") -> Doctor:
    """Look at drivers, profilers, permissions and sensors of this machine, as ``tracetool doctor``.

    Parameters
    ----------
    folder : path
        Where recordings would go.

    Raises
    ------
    BadInput
        If there is no such folder.

    Examples
    --------
    >>> import tracetool as tt
    >>> "Python" in [check.subject for check in tt.doctor().checks]
    True
    """
    place = Path(folder)
    if not place.is_dir():
        raise BadInput.in_file(place, "no such folder")
    checks, able = examine(place)
    return Doctor(tuple(checks), able)
