"""Results of ``tracetool fleet``: outcomes of tasks, answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.result import Result
from tracetool.core.paths import PathLike
from tracetool.fleet.run_jobs import Tally

if TYPE_CHECKING:
    from tracetool.report.view import Block, View


@dataclass(frozen=True)
class FleetJobs(Result):
    """Outcome of a task, job by job.

    Attributes
    ----------
    frame : DataFrame
        One row per job of the data set: ``job``, ``state`` (done, failed, repeated), ``error``, ``attempts``,
        ``seconds``, ``kernels``.
    done, skipped : int
        Jobs done now, and those whose files had not changed since they were done.
    failed : mapping
        Reason by job.
    without_energy : mapping
        Of ``attribute``: why a job has no energy, and the fix, by job.
    not_measured : mapping
        Of ``attribute``: why a job's power log measured nothing, and the fix, by job.
    notes : tuple of str
        Of ``ingest``: traces named more than once, and jobs that hold the traces of others (repeated).
    """

    where: str
    task: str
    table: pl.DataFrame = field(repr=False)
    tally: Tally = field(repr=False)
    without_energy: Mapping[str, str] = field(default_factory=dict, repr=False)
    not_measured: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        """Jobs done now."""
        return len(self.tally.done)

    @property
    def skipped(self) -> int:
        """Jobs done before."""
        return len(self.tally.skipped)

    @property
    def failed(self) -> dict[str, str]:
        """Reason of each failed job."""
        return self.tally.failed

    def _document(self) -> dict[str, Any]:
        more: dict[str, Any] = {"notes": list(self.notes)} if self.task == "ingest" else {}
        if self.task == "attribute":
            more = {"without_energy": dict(self.without_energy), "not_measured": dict(self.not_measured)}
        return {
            "where": self.where, "task": self.task, "done": self.done, "skipped": self.skipped,
            "failed": self.failed, "seconds": self.tally.seconds, "kernels": self.tally.kernels,
            "jobs": self.table.to_dicts(), **more,
        }  # fmt: skip

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(f"Jobs of {self.task}", self.table)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print how many jobs were done, and the failed ones with the reason."""
        from tracetool.report.terminal.fleet import print_jobs, print_notes, print_reasons

        t = self.tally
        print_jobs(self.where, self.task, self.done, self.skipped, t.failed, t.kernels, t.seconds)
        print_notes(self.notes)
        print_reasons({"no energy": self.without_energy, "predicted": self.not_measured}, written)


@dataclass(frozen=True)
class FleetTable(Result):
    """The answer to a question about a data set: ``frame``, and what it is called."""

    title: str
    table: pl.DataFrame = field(repr=False)
    blocks: tuple[Block, ...] = field(default=(), repr=False)

    def _document(self) -> dict[str, Any]:
        return {"title": self.title, "rows": self.table.to_dicts()}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View(self.title, self.table, None, self.blocks)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the first rows."""
        from tracetool.report.terminal.fleet import print_answer

        print_answer(self.title, self.table, written)
