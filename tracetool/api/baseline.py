"""Baselines: runs kept to compare later ones with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.compare import baseline
from tracetool.compare.baseline_store import Store
from tracetool.compare.run_options import RunOptions, basis_named
from tracetool.core.number_text import counted
from tracetool.core.paths import PathLike, paths_of

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class AddedBaselines(Result):
    """The files of runs that were stored."""

    files: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def _document(self) -> dict[str, Any]:
        return {"schema": "baseline-added/1", "files": list(self.files), "notes": list(self.notes)}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Baselines", pl.DataFrame({"file": list(self.files)}))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the files."""
        from tracetool.core.escape import terminal
        from tracetool.report.sentences import write_line

        for file in self.files:
            write_line(file)
        for note in self.notes:
            write_line(terminal(note))


@dataclass(frozen=True)
class Baselines(Result):
    """Stored baselines, oldest first.

    Attributes
    ----------
    frame : DataFrame
        One row per baseline: GPU, branch, commit, energy [J] and time [s].
    trends : mapping of str to str
        By GPU and branch, a drift or a step of the energies, in a sentence.
    """

    entries: pl.DataFrame = field(repr=False)
    trends: Mapping[str, str] = field(default_factory=dict)
    filtered: bool = False

    def _document(self) -> dict[str, Any]:
        return {"schema": "baseline-list/1", "baselines": self.entries.to_dicts(), "trends": self.trends}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Baselines", self.entries)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the list and the trends."""
        from tracetool.core.escape import terminal
        from tracetool.report.sentences import write_line

        if not self.entries.height:
            of = " of this GPU and branch" if self.filtered else " in this folder"
            write_line(f"no baselines{of}")
            return
        from tracetool.report.console import show_table

        show_table(self.entries, limit=None)
        for key, text in self.trends.items():
            write_line(terminal(f"{key}: {text}"))


@dataclass(frozen=True)
class PrunedBaselines(Result):
    """The files of baselines that were deleted."""

    files: tuple[str, ...]

    def _document(self) -> dict[str, Any]:
        return {"schema": "baseline-pruned/1", "deleted": list(self.files)}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Deleted baselines", pl.DataFrame({"file": list(self.files)}))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print how many."""
        from tracetool.report.sentences import write_line

        write_line(f"deleted {counted(len(self.files), 'baseline')}")


@public
def add_baseline(
    store: PathLike,
    runs: PathLike | Sequence[PathLike],
    *,
    branch: str = "main",
    commit: str | None = None,
    reason: str | None = None,
    energy: str = "auto",
    gpu: str | None = None,
    clock: float | None = None,
) -> AddedBaselines:
    """Store runs as baselines, as ``tracetool baseline add``.

    Parameters
    ----------
    store : path or URL
        Folder, or ``s3://`` or ``gs://`` bucket.
    runs : run, path or sequence of them
        Runs or folders of runs.
    branch : str
        Branch the runs were made of.
    commit : str, optional
        By default the one the CI states.
    reason : str, optional
        Why a higher level is accepted.
    energy : {"auto", "measured", "anchored", "predicted"}
        Which energies to store.
    gpu : str, optional
        The GPU, where the run does not say.
    clock : float, optional
        Core clock of predicted energies. [MHz]

    Raises
    ------
    BadInput
        If a run cannot be read or holds no kernel, or the store cannot be written.

    Examples
    --------
    >>> import tracetool as tt
    >>> len(tt.add_baseline(folder / "kept", run).files)
    1
    """
    options = RunOptions(basis_named(energy), gpu, clock)
    files, notes = baseline.add_baseline(
        store, paths_of(runs), branch=branch, commit=commit, reason=reason, options=options
    )
    return AddedBaselines(tuple(files), notes)


@public
def list_baselines(store: PathLike, *, gpu: str | None = None, branch: str | None = None) -> Baselines:
    """Return the stored baselines, oldest first, with drifts and steps, as ``tracetool baseline list``.

    Parameters
    ----------
    store : path or URL
        Folder or bucket.
    gpu, branch : str, optional
        Only these.

    Raises
    ------
    BadInput
        If there is no such store.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.list_baselines(folder).frame.height
    0
    """
    baselines = Store(store)
    baselines.require()
    entries = [e for e in baselines.entries(gpu or None) if not branch or e.branch == branch]
    trends = {" ".join(key): t.sentence() for key, t in baseline.trends(entries).items() if t.sentence()}
    return Baselines(baseline.listed(entries), trends, bool(gpu or branch))


@public
def prune_baselines(store: PathLike, keep: int = 30) -> PrunedBaselines:
    """Delete all but the newest baselines of every GPU and branch, as ``tracetool baseline prune``.

    Parameters
    ----------
    store : path or URL
        Folder or bucket.
    keep : int
        Baselines to keep of every GPU and branch, 1 or more.

    Raises
    ------
    BadInput
        If there is no such store, or none were to be kept.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.prune_baselines(folder).files
    ()
    """
    return PrunedBaselines(tuple(entry.path for entry in baseline.prune(store, keep)))
