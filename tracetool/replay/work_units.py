"""Work that a run's own step annotations state: tokens, requests and steps, prefill and decode separately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.replay.iterations import run_steps
from tracetool.tables.run import Run

#: Units that annotations can state.
UNITS: Final = ("tokens", "requests", "steps")
#: vLLM: requests and query tokens of prompts, then of generation.
_COUNTS: Final = r"context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)"
#: SGLang: mode, requests, and tokens where it says.
_MODE: Final = r"^step\[(\w+) bs=(\d+)(?: toks?=(\d+))?"


def step_work(names: list[str]) -> pl.DataFrame:
    """Return the work of each step, as its name states it.

    Parameters
    ----------
    names : list of str
        Names of steps.

    Returns
    -------
    DataFrame, shape (len(names), columns)
        ``name``, ``phase`` (null for steps of other programs), ``tokens`` and ``requests``, those whose
        prompt ran in it; null where the name states none.

    Examples
    --------
    >>> step_work(["execute_9_context_1(sq8sk8)_generation_1(sq1sk40)"]).row(0)[1:]
    ('mixed', 9, 1)
    """
    text = pl.col("name")
    count = [text.str.extract(_COUNTS, i).cast(pl.Int64, strict=False) for i in range(1, 5)]
    mode = text.str.extract(_MODE, 1).str.to_lowercase()
    batch, stated = (text.str.extract(_MODE, i).cast(pl.Int64, strict=False) for i in (2, 3))
    decodes = mode.str.contains("decode|verify")
    phase = (
        pl.when((count[0] > 0) & (count[2] > 0) | (mode == "mixed"))
        .then(pl.lit("mixed"))
        .when((count[0] > 0) | mode.str.contains("extend|prefill"))
        .then(pl.lit("prefill"))
        .when((count[2] > 0) | decodes)
        .then(pl.lit("decode"))
    )
    return pl.DataFrame({"name": pl.Series(names, dtype=pl.String)}).select(
        "name",
        phase.alias("phase"),
        pl.coalesce(count[1] + count[3], stated, pl.when(decodes).then(batch)).alias("tokens"),
        pl.coalesce(count[0], pl.when(decodes).then(0).otherwise(batch)).alias("requests"),
    )


def phase_names(run: Run, kernels: pl.DataFrame) -> pl.Series:
    """Return the phase of the step that launched each activity: prefill, decode, mixed or (none). (n,)

    Raises
    ------
    BadInput
        If no step of the run states its phase.
    """
    number, names = run_steps(run, kernels)
    phases = step_work(names)["phase"]
    if number is None or phases.null_count() == len(phases):
        raise BadInput.in_file(
            run.path, "holds no steps that state their phase", "vLLM and SGLang mark them where they profile"
        )
    named = pl.concat([phases.fill_null("(none)"), pl.Series("phase", ["(none)"])])
    return named.gather(np.where(number < 0, len(names), number)).alias("phase")


@dataclass(frozen=True)
class Work:
    """Units of work: of the whole run, and of groups where these are steps or phases."""

    unit: str
    whole: float
    groups: Mapping[str, float]


def annotated_work(run: Run, unit: str, keys: tuple[str, ...]) -> Work:
    """Return the work that the run's step annotations state.

    Parameters
    ----------
    run : Run
        The run.
    unit : str
        One of :data:`UNITS`.
    keys : tuple of str
        What energies are grouped by.

    Raises
    ------
    BadInput
        If the annotations state no such unit.
    """
    number, names = run_steps(run, run.kernels)
    if unit not in UNITS:
        raise BadInput(
            f"--work {unit}: annotations state {', '.join(UNITS)}", f"give its amount: --work {unit}=N"
        )
    if number is None:
        raise BadInput.in_file(run.path, "holds no named steps to count", f"give the amount: --work {unit}=N")
    launched = np.unique(number[number >= 0])
    steps = step_work(names)[launched].with_columns(pl.lit(1).alias("steps"))
    if steps[unit].null_count() == steps.height or not steps[unit].sum():
        raise BadInput.in_file(run.path, f"its steps state no {unit}", f"give the amount: --work {unit}=N")
    column = {"iteration": "name", "phase": "phase"}.get(keys[0]) if len(keys) == 1 else None
    groups: dict[str, float] = {}
    if column is not None:
        sums = (
            steps.filter(pl.col(column).is_not_null())
            .group_by(column, maintain_order=True)
            .agg(pl.col(unit).sum())
        )
        groups = {str(name): float(amount) for name, amount in sums.iter_rows() if amount}
    return Work(unit, float(steps[unit].sum()), groups)
