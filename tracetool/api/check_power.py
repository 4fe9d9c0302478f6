"""Check a power log: can its energies be trusted?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.arguments import refuse_device
from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput, CheckFailed
from tracetool.core.paths import PathLike, paths_of
from tracetool.measure.power_check.check import CheckedPower, check_activity, check_log, check_run
from tracetool.tables.activity_table import holds_activity
from tracetool.tables.run_folder import is_run_path
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class PowerCheck(Result):
    """Verdict on a power log, and the checks behind it.

    Attributes
    ----------
    verdict : {"good", "usable", "unusable"}
        That of the worst check.
    reasons : list of str
        Why it is not good, worst first.
    findings : DataFrame
        One row per GPU and check, with the figure it rests on.
    """

    checked: CheckedPower = field(repr=False)

    @property
    def verdict(self) -> str:
        """Verdict of the worst check."""
        return self.checked.verdict

    @property
    def reasons(self) -> list[str]:
        """Reasons why the log is not good, worst first."""
        return self.checked.reasons

    @property
    def findings(self) -> pl.DataFrame:
        """One row per GPU and check."""
        return self.checked.findings

    def raise_unless_good(self) -> None:
        """Raise unless the verdict is ``good``, as ``--strict`` does.

        Raises
        ------
        CheckFailed
            With verdict and reasons.
        """
        if self.verdict != "good":
            raise CheckFailed(self.checked.sentence())

    def _document(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "reasons": self.reasons, "findings": self.findings.to_dicts()}

    def _view(self) -> View:
        from tracetool.report.view import Case, Grid, Line, View

        kind = {"good": "passed", "usable": "skipped", "unusable": "failed"}
        cases = tuple(
            Case("check-power", row["check"], kind[row["verdict"]], row["reason"])  # type: ignore[arg-type]
            for row in self.findings.iter_rows(named=True)
        )
        title = f"Power log: {self.verdict}"
        several = self.findings["device"].drop_nulls().n_unique() > 1
        shown = self.findings
        if several:
            shown = pl.DataFrame(self.checked.results(), ["verdict", "check", "result"], orient="row")
        reasons = tuple(Line(reason, "warning") for reason in self.reasons)
        blocks: tuple[Line | Grid, ...] = (Line(title, "headline"), *reasons, Grid(shown))
        return View(title, self.findings, load_schema("power_check"), blocks, cases=cases)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the verdict, its reasons and every check."""
        from tracetool.report.terminal.power_check import print_checked_power

        print_checked_power(self.checked, written)


@public
def check_power(
    source: PathLike,
    *,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
) -> PowerCheck:
    """Return whether a power log can be trusted, and why not, as ``tracetool check-power``.

    Parameters
    ----------
    source : run or path
        A run; a table of ``name``, ``start_us``, ``end_us`` (UTC) beside ``power``; or a power log alone,
        of which all is checked that takes no trace.
    power : path or sequence of path
        Power logs; a run has its own.
    tz : str, optional
        Zone of logs in local time, e.g. ``+02:00``.
    gpu : str, optional
        The GPU, whose file states sensor and power limit; a run knows its own.
    device : int, optional
        Which GPU of the log a table of activities ran on; by default the first.

    Raises
    ------
    BadInput
        If a file cannot be used or there is no power reading.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.check_power("sample_traces/a100_generation_power.csv", gpu="a100-sxm").verdict
    'good'
    """
    logs = paths_of(power)
    if not Path(source).exists():
        raise BadInput.in_file(source, "no such run or file", "make a run: tracetool ingest TRACE -o RUN")
    if is_run_path(source):
        refuse_device(source, device)
        return PowerCheck(check_run(source, gpu=gpu, power=logs, tz=tz))
    if not logs and not holds_activity(Path(source)):
        refuse_device(source, device, "a log alone")
        return PowerCheck(check_log(Path(source), tz=tz, gpu=gpu))
    return PowerCheck(check_activity(source, power=logs, tz=tz, gpu=gpu, device=device))
