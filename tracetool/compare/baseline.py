"""Baselines: runs kept to compare later ones with, in a folder or a bucket."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import polars as pl

from tracetool.compare.baseline_store import Entry, Store
from tracetool.compare.requested_runs import chosen_basis, expand
from tracetool.compare.run_options import Basis, RunOptions
from tracetool.compare.run_side import LoadedRun, load_run
from tracetool.compare.trend import Trend, find_trend
from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.tables.run import Run


def add_baseline(
    where: str | os.PathLike[str],
    runs: Sequence[str | os.PathLike[str]],
    *,
    branch: str = "main",
    commit: str | None = None,
    reason: str | None = None,
    options: RunOptions | None = None,
) -> tuple[list[str], tuple[str, ...]]:
    """Store runs as baselines; return their files, and notes on runs that were stored before.

    A run that lies there already is no repeat: counted twice it would narrow the intervals of later
    comparisons. It stays as it is, or takes the place of itself where another reason is given.

    Parameters
    ----------
    where : path or URL
        Folder or bucket (``s3://``, ``gs://``).
    runs : sequence of path
        Run folders or folders of runs.
    branch, commit : str
        What the runs were made of; the commit is taken from the CI's environment where not given.
    reason : str
        Why a higher level is accepted, kept with it.
    options : RunOptions, optional
        Energies, GPU, clocks.

    Raises
    ------
    BadInput
        If a run cannot be read or holds no kernel.
    """
    options = options or RunOptions()
    store = Store(where)
    paths = expand([os.fspath(r) for r in runs])
    opened: dict[Path, Run] = {}
    basis = chosen_basis(paths, options.basis, opened)
    for path in paths:
        _require_kernels(path)
    loaded = [load_run(p, basis, options, opened) for p in paths]
    named = commit or commit_here()
    files, notes = [], []
    for one in loaded:
        before = store.find(one, branch=branch, commit=named)
        if before is not None:
            notes.append(f"{one.classes.label} is stored already for commit {named[:12]}: it counts once")
        if before is not None and reason in (None, before.reason):
            files.append(before.path)
            continue
        files.append(store.add(one, branch=branch, commit=named, reason=reason or ""))
        if before is not None:
            store.remove(before)
    return files, tuple(notes)


def _require_kernels(path: Path) -> None:
    """Refuse a run without kernels: compared with it, every later kernel would be new."""
    if path.is_dir() and "kernel" not in Run.open(path).table("signatures", ("kind",))["kind"]:
        raise BadInput.in_file(path, "holds no kernel to keep as a baseline", "ingest a trace with kernels")


def commit_here() -> str:
    """Return the commit the CI states, else ``none``."""
    for name in ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION"):
        if re.fullmatch(r"[0-9a-fA-F]{7,64}", os.environ.get(name, "")):
            return os.environ[name]
    return "none"


def baseline_sides(
    where: str | os.PathLike[str], *, gpu: str, branch: str, basis: Basis, last: int = 10
) -> list[LoadedRun]:
    """Return the newest baselines of a GPU and branch whose energies have the same basis.

    Raises
    ------
    BadInput
        If there is none; the fix says how to add one.
    """
    store = Store(where)
    entries = [e for e in store.entries(gpu, branch) if e.basis == basis][-last:]
    if not entries:
        raise BadInput.in_file(
            store.where,
            f"holds no {basis} baseline of {gpu} on branch {branch}",
            f"add one: tracetool baseline add {store.where} RUN --branch {branch}",
        )
    return [store.read(e) for e in entries]


def trends(entries: Sequence[Entry], last: int = 30) -> dict[tuple[str, str], Trend]:
    """Return the trend of energies over the last runs, per GPU and branch."""
    groups: dict[tuple[str, str], list[float]] = {}
    for entry in entries:
        groups.setdefault((entry.gpu, entry.branch), []).append(entry.energy_j)
    return {key: find_trend(_array(values[-last:])) for key, values in groups.items() if min(values) > 0}


def _array(values: Sequence[float]) -> Floats:
    return np.asarray(values, dtype=np.float64)


def prune(where: str | os.PathLike[str], keep: int) -> list[Entry]:
    """Delete all but the newest ``keep`` baselines of every GPU and branch; return what was deleted.

    Raises
    ------
    BadInput
        If none were to be kept, or there is no such store.
    """
    if keep < 1:
        raise BadInput(f"--keep {keep} would delete every baseline", "keep 1 or more, or remove the folder")
    store = Store(where)
    store.require()
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in store.entries():
        groups.setdefault((entry.gpu, entry.branch), []).append(entry)
    pruned = [e for entries in groups.values() for e in entries[: max(len(entries) - keep, 0)]]
    for entry in pruned:
        store.remove(entry)
    return pruned


def listed(entries: Sequence[Entry]) -> pl.DataFrame:
    """Return entries as a table, oldest first."""
    return pl.DataFrame(
        {
            "gpu": [e.gpu for e in entries],
            "branch": [unquote(e.branch) for e in entries],
            "commit": [e.commit[:12] for e in entries],
            "run": [e.label for e in entries],
            "added": [time.strftime("%Y-%m-%d %H:%M", time.gmtime(e.time_s)) for e in entries],
            "energies": [e.basis for e in entries],
            "energy_j": [e.energy_j for e in entries],
            "time_s": [e.span_s for e in entries],
            "reason": [e.reason for e in entries],
        }
    )
