"""A forecast against a trace, operator by operator: matched by sizes, then by family, and what is left over.

Kernels of a trace whose sizes are known match operators of the same sizes. Those without (replayed graphs
state none) are compared by family. Names never decide: libraries call the same product differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.families.registry import families_where
from tracetool.families.spec import Sequence
from tracetool.forecast.figures import IDLE, Part
from tracetool.forecast.pricing import Row
from tracetool.tables.run import Run

#: Families whose kernels do the same work under other names: what they are compared as.
_ALIKE: Final = {
    **dict.fromkeys(families_where(lambda family: family.sequence is Sequence.STREAM), names.ELEMENTWISE),
    names.GEMV: names.GEMM,
    names.SPLITK_REDUCE: names.GEMM,
    names.NORM: names.NORM,
    names.OPTIMIZER: names.OPTIMIZER,
}
#: Sizes that make two pieces of work the same, by family.
_SIZES: Final = {
    names.GEMM: ("batch", "m", "n", "k"),
    names.ATTENTION: ("batch", "q_len", "kv_len", "heads", "head_dim"),
    names.CONV: ("batch", "channels", "height", "width", "filters", "kernel_h", "kernel_w"),
    names.NORM: ("rows", "cols"),
    names.SOFTMAX: ("rows", "cols"),
    names.ELEMENTWISE: ("elements",),
    names.COLLECTIVE: ("bytes", "ranks"),
    names.MOE: ("tokens", "hidden", "intermediate", "experts"),
}
#: What a size is where nothing states it.
_USUAL: Final = {"batch": 1.0}
#: Relative difference of two counts of numbers that a kernel's last block explains. [1]
_BLOCK: Final = 0.01
#: A count of steps this near a whole number is that number. [1]
_WHOLE: Final = 0.05
_MATCHES: Final = ("sizes", "family", "forecast only", "trace only")


@dataclass(frozen=True)
class Work:
    """Equal work of one side: launches and time of a step. [s]"""

    name: str
    family: str
    sizes: tuple[float, ...] | None
    launches: float
    time_s: float
    low_s: float = 0.0
    high_s: float = 0.0


@dataclass(frozen=True)
class Compared:
    """A forecast against a trace.

    Parameters
    ----------
    frame : DataFrame, shape (pieces of work, columns)
        ``operator``, ``kernel``, ``family``, ``shape``, ``match`` (``sizes``, ``family``, ``forecast only``,
        ``trace only``), launches and time of a step on both sides, the forecast's 90 % interval, ``ratio`` of
        predicted over measured. [us], [1]
    steps : float
        Steps of the forecast that the trace holds; a trace may begin or end within one.
    """

    frame: pl.DataFrame
    steps: float
    facts: Mapping[str, float] = field(default_factory=dict)


def compare(parts: Several[Part], run: Run, signatures: pl.DataFrame, rows: OperatorColumns) -> Compared:
    """Return the operators of a forecast against the kernels of a run.

    Parameters
    ----------
    parts : sequence of Part
        Operators of one step.
    run : Run
        For messages.
    signatures, rows
        Its kernels, as :func:`tracetool.replay.run_rows.run_rows` returns them.

    Raises
    ------
    BadInput
        If nothing of the two matches.
    """
    predicted = _joined([_of_part(part) for part in parts if part.name != IDLE])
    measured = _joined(_snapped(_of_run(signatures, rows), predicted))
    sized = {(work.family, work.sizes): work for work in measured if work.sizes is not None}
    pairs = [(work, sized[key]) for work in predicted if (key := (work.family, work.sizes)) in sized]
    chosen = {id(work) for pair in pairs for work in pair}
    unmatched = [work for work in predicted if id(work) not in chosen]
    # by family only what the trace states no sizes of: work of other sizes is other work
    groups = _grouped(unmatched), _grouped([work for work in measured if work.sizes is None])
    alike = sorted(groups[0].keys() & groups[1].keys())
    if not pairs and not alike:
        raise BadInput.in_file(
            run.path,
            "no kernel matches an operator of the forecast",
            "is it a trace of this model and batch?",
        )
    steps = _steps(pairs or [(groups[0][family], groups[1][family]) for family in alike])
    records = [
        _record("sizes", predicted_work, measured_work, steps) for predicted_work, measured_work in pairs
    ]
    records += [_record("family", groups[0][family], groups[1][family], steps) for family in alike]
    records += [_record("forecast only", work, None, steps) for work in unmatched if work.family not in alike]
    records += [
        _record("trace only", None, work, steps)
        for work in measured
        if id(work) not in chosen and (work.sizes is not None or work.family not in alike)
    ]
    frame = pl.DataFrame(records, infer_schema_length=None).sort(
        pl.max_horizontal("predicted_us", "measured_us"), descending=True, maintain_order=True
    )
    return Compared(frame, steps, _facts(frame))


def _of_part(part: Part) -> Work:
    family = _ALIKE.get(part.family, part.family)
    value = {name: float(part.row[name]) for name in _SIZES.get(family, ()) if _is_number(part.row, name)}
    time = part.time_s
    return Work(
        part.name, family, _key(family, value), part.launches, time, time * part.low, time * part.high
    )


def _is_number(row: Row, name: str) -> bool:
    return isinstance(row.get(name), int | float)


def _of_run(signatures: pl.DataFrame, rows: OperatorColumns) -> list[Work]:
    """Return each signature of a run as work, its time that of all launches."""
    columns = {name: rows.number(name) for sizes in _SIZES.values() for name in sizes}
    works = []
    records = signatures.select("kind", "name", "operator_name", "launches", "duration_ns")
    for place, (kind, name, operator, launches, duration_ns) in enumerate(records.iter_rows()):
        family = str(rows.family[place])
        family = _ALIKE.get(family, family)
        value = {size: float(columns[size][place]) for size in _SIZES.get(family, ())}
        value = {size: number for size, number in value.items() if np.isfinite(number)}
        sizes = _key(family, value) if kind == "kernel" else ()
        works.append(Work(str(operator or name), family, sizes, float(launches), duration_ns * 1e-9))
    return works


def _snapped(works: Several[Work], predicted: Several[Work]) -> list[Work]:
    """Return elementwise kernels with the nearest size of the forecast: their grids count whole blocks."""
    sizes = np.array(
        sorted({work.sizes[0] for work in predicted if work.family == names.ELEMENTWISE and work.sizes})
    )
    snapped = []
    for work in works:
        one = work
        if sizes.size and work.family == names.ELEMENTWISE and work.sizes:
            near = float(sizes[np.argmin(np.abs(sizes - work.sizes[0]))])
            if abs(near - work.sizes[0]) <= _BLOCK * near:
                one = replace(work, sizes=(near,))
        snapped.append(one)
    return snapped


def _key(family: str, value: Mapping[str, float]) -> tuple[float, ...] | None:
    """Return the sizes that identify a piece of work of a family; None where one is missing."""
    sizes = [value.get(name, _USUAL.get(name)) for name in _SIZES.get(family, ())]
    if not sizes or any(size is None for size in sizes):
        return None
    key = [float(round(size)) for size in sizes if size is not None]
    if family == names.GEMM:  # a product and its transpose are one
        key = [key[0], *sorted(key[1:3]), key[3]]
    return tuple(key)


def _joined(works: Several[Work]) -> list[Work]:
    """Return work with equal sizes together, under the names of all of it."""
    groups: dict[object, list[Work]] = {}
    for work in works:
        key = work.sizes or work.name
        groups.setdefault((work.family, key), []).append(work)
    return [_sum(group) for group in groups.values()]


def _grouped(works: Several[Work]) -> dict[str, Work]:
    """Return work by family."""
    groups: dict[str, list[Work]] = {}
    for work in works:
        groups.setdefault(work.family, []).append(work)
    return {family: replace(_sum(group), sizes=None) for family, group in groups.items()}


def _sum(group: Several[Work]) -> Work:
    order = sorted(group, key=lambda work: -work.time_s)
    name = ", ".join(dict.fromkeys(work.name for work in order))
    launches, time, low, high = (
        sum(getattr(work, column) for work in group) for column in ("launches", "time_s", "low_s", "high_s")
    )
    return Work(name, group[0].family, group[0].sizes, launches, time, low, high)


def _steps(pairs: Several[tuple[Work, Work]]) -> float:
    """Return how many steps are in the trace: the median of launches over launches, by measured time."""
    ratios = np.array([measured.launches / max(predicted.launches, 1e-9) for predicted, measured in pairs])
    weights = np.array(
        [
            measured.time_s * (predicted.family in {names.GEMM, names.ATTENTION})
            for predicted, measured in pairs
        ]
    )
    weights = weights if weights.any() else np.ones(len(pairs))
    order = np.argsort(ratios)
    middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2.0)
    steps = float(ratios[order[min(int(middle), len(order) - 1)]])
    whole_steps = max(round(steps), 1)
    return float(whole_steps) if abs(steps - whole_steps) <= _WHOLE * whole_steps else steps


def _record(match: str, one: Work | None, other: Work | None, steps: float) -> dict[str, object]:
    stated_work = one or other
    assert stated_work is not None
    predicted = None if one is None else one.time_s * 1e6
    measured = None if other is None else other.time_s * 1e6 / steps
    return {
        "operator": None if one is None else one.name,
        "kernel": None if other is None else other.name,
        "family": stated_work.family,
        "shape": " x ".join(f"{size:g}" for size in stated_work.sizes or ()),
        "match": match,
        "predicted_launches": None if one is None else one.launches,
        "measured_launches": None if other is None else other.launches / steps,
        "predicted_us": predicted,
        "predicted_us_low": None if one is None else one.low_s * 1e6,
        "predicted_us_high": None if one is None else one.high_s * 1e6,
        "measured_us": measured,
        "ratio": predicted / measured if predicted and measured else None,
    }


def _facts(frame: pl.DataFrame) -> dict[str, float]:
    """Return sums of both sides: matched by sizes, by family, and left over. [us]"""
    sums = frame.group_by("match", maintain_order=True).agg(pl.col("predicted_us", "measured_us").sum())
    by_match = {row["match"]: row for row in sums.to_dicts()}
    facts = {}
    for side in ("predicted", "measured"):
        facts[f"{side}_us"] = float(frame[f"{side}_us"].sum())
        for match in _MATCHES:
            value = by_match.get(match, {}).get(f"{side}_us") or 0.0
            facts[f"{side}_{match.replace(' ', '_')}_us"] = float(value)
    return facts
