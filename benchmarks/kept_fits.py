"""Fits of implementations that are kept in a folder, so that a benchmark cut short goes on where it was.

Used by held_out_stacks.py, few_rows.py and acceptance_time.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from fit_stacks import FAMILIES, FittedSet, fit_set, group_of, scored
from stack_tables import Cell

from tracetool.calibrate import joint
from tracetool.calibrate.joint import JointFit


def fitted_set(law: str, name: str, of_set: Sequence[Cell], folder: Path | None) -> FittedSet:
    """Return an implementation's fit: from the folder where one is given and holds it, else kept there.

    A kept fit is told by its rows and by the code and the priors of its law: one of other code is not taken.
    """
    if folder is None:
        return fit_set(law, name, of_set)
    path = folder / f"{law}.{name}.{_state(law, of_set)}.json"
    if path.exists():
        kept = json.loads(path.read_text())
        return scored(law, name, of_set, JointFit(kept["values"], kept["by_architecture"]))
    fitted = fit_set(law, name, of_set)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    fit = fitted.fit
    kept = {
        "values": dict(fit.values),
        "by_architecture": {k: dict(v) for k, v in fit.by_architecture.items()},
    }
    unfinished.write_text(json.dumps(kept))
    unfinished.replace(path)
    return fitted


def _state(law: str, of_set: Sequence[Cell]) -> str:
    """Return a digest of what a fit depends on: rows, the law's folder, the fit's code."""
    told = hashlib.sha256()
    group = FAMILIES / group_of(law)
    for path in (Path(joint.__file__), *sorted(group.glob("*.py")), *sorted(group.glob("*.toml"))):
        if path.name != "transfer.toml":
            told.update(path.read_bytes())
    for cell in of_set:
        told.update(f"{cell.part.gpu.name} {cell.stack} {cell.implementation}".encode())
        told.update(cell.part.law_rows.measured_s.tobytes())
    return told.hexdigest()[:12]
