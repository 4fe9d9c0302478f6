"""Manifests of jobs: one small document a job, written last, so that a task is either done or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.fleet.storage import Place

SCHEMA: Final = "fleet/1"
_FOLDER: Final = "manifest"


#: What a document states of its job, where it states it; the first three it must.
_KINDS: Final = {
    "job": str, "state": str, "marks": str, "labels": dict, "gpus": list, "start_ns": int | None,
    "kernels": int | None, "attempts": int, "seconds": int | float, "error": str,
    "no_energy": str, "not_measured": str,
}  # fmt: skip
_MUST: Final = ("job", "state", "marks")


def _is_complete(entry: Mapping[str, Any]) -> bool:
    """Whether a document states its job as this tool writes it."""
    return all(name in entry for name in _MUST) and all(
        isinstance(entry[name], kind) for name, kind in _KINDS.items() if name in entry
    )


class Manifest:
    """Documents of the jobs of a data set, by task.

    ``manifest/<task>/<job>.json`` states ``state`` (done or failed), ``marks`` (what it was made of),
    ``error``, ``attempts``, ``seconds`` and figures of the task.
    """

    def __init__(self, place: Place, task: str) -> None:
        self.place = place
        self.task = task
        self._known: dict[str, dict[str, Any]] = {}
        for item in place.items(_FOLDER, task):
            if item.path.endswith(".json"):
                self._known.update(self._read(item.path))

    def _read(self, path: str) -> dict[str, dict[str, Any]]:
        try:
            entry = json.loads(self.place.read(path) or b"")
        except (ValueError, RecursionError):
            return {}  # cut short: as if it was never done
        if not isinstance(entry, dict) or entry.get("schema") != SCHEMA or not _is_complete(entry):
            raise BadInput.in_file(path, f"is no {SCHEMA} document", "choose another -o, or remove it")
        return {str(entry["job"]): entry}

    def done(self, job: str, marks: str) -> bool:
        """Return whether a job was done with files as they are now."""
        entry = self._known.get(job)
        return entry is not None and entry["state"] == "done" and entry["marks"] == marks

    def write(self, job: str, entry: Mapping[str, Any]) -> None:
        """Record what became of a job."""
        document = {"schema": SCHEMA, "task": self.task, "job": job, **entry}
        self._known[job] = document
        path = self.place.path(_FOLDER, self.task, f"{job}.json")
        self.place.write(path, json.dumps(document, ensure_ascii=False, indent=1).encode())

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the document of each job."""
        return dict(sorted(self._known.items()))

    def frame(self) -> pl.DataFrame:
        """Return the jobs as a table: what became of each, why, after how many attempts and seconds."""
        columns = {
            "job": pl.String, "state": pl.String, "error": pl.String, "attempts": pl.Int64,
            "seconds": pl.Float64, "kernels": pl.Int64,
        }  # fmt: skip
        rows = [[e.get(c) for c in columns] for e in self.entries().values()]
        return pl.DataFrame(rows, schema=columns, orient="row")
