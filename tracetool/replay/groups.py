"""Names of groups in a run (family, module, range, step, GPU, cause of idling): the one place for ``--by``.

Every activity and every idle time of a run is in one group, so groups sum to the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints
from tracetool.core.errors import BadInput
from tracetool.kernels.refine import families_of
from tracetool.replay.activities import rows_of_devices
from tracetool.replay.iterations import run_steps
from tracetool.replay.module_paths import module_names
from tracetool.replay.range_tree import paths
from tracetool.replay.time_parts import IDLE, IdleTimes, activity_kinds, idle_causes, idle_reasons, idle_times
from tracetool.replay.work_units import phase_names
from tracetool.tables.run import Run

#: What a run can be grouped by.
KEYS: Final = ("signature", "family", "operator", "module", "range", "iteration", "phase", "gpu", "gap")
#: Keys for which the idle time between two activities of one group is the group's own.
_OWN_IDLE: Final = ("module", "range", "iteration", "phase")
NONE: Final = "(none)"
IDLE_ROW: Final = "(idle)"
ACTIVE: Final = "(active)"
JOINT: Final = " / "


@dataclass(frozen=True)
class Groups:
    """The groups of a run.

    Attributes
    ----------
    names : list of str
        Names of the groups, several keys joined by a slash.
    of_activity : array of int, shape (n,)
        Group of each activity.
    idle : mapping of int to IdleTimes
        Idle times of each GPU.
    of_idle : mapping of int to array of int, shape (g,)
        Group of each of them.
    """

    names: list[str]
    of_activity: Ints
    idle: Mapping[int, IdleTimes]
    of_idle: Mapping[int, Ints]

    def of_parts(self, device: int, idle: IdleTimes) -> Ints:
        """Return the group of each idle time of a GPU, which may be cut by cause where these are whole."""
        groups_of_idle = self.of_idle[device]
        return (
            groups_of_idle
            if len(groups_of_idle) == len(idle.whole_index)
            else groups_of_idle[idle.whole_index]
        )


def parse_keys(text: str | Sequence[str]) -> tuple[str, ...]:
    """Return the keys of ``gpu,module``.

    Raises
    ------
    BadInput
        If one is not known or is given twice.

    Examples
    --------
    >>> parse_keys("gpu,module")
    ('gpu', 'module')
    """
    keys = tuple(k.strip() for k in (text.split(",") if isinstance(text, str) else text))
    bad = [k for k in keys if k not in KEYS]
    if bad or not keys:
        raise BadInput(f"--by {','.join(bad)!r} is not known", f"known: {', '.join(KEYS)}")
    if len(set(keys)) < len(keys):
        raise BadInput(f"--by {','.join(keys)} names a key twice", "name each once")
    return keys


def check_depth(keys: Sequence[str], depth: int | None) -> None:
    """Refuse a depth that does not apply.

    Raises
    ------
    BadInput
        If it is no positive number, or nothing nested is asked for.
    """
    if depth is not None and (depth < 1 or "module" not in keys):
        raise BadInput("--depth is a number of levels of --by module", "e.g. --by module --depth 2")


def groups_of(run: Run, keys: Sequence[str], depth: int | None = None) -> Groups:
    """Return which group each activity and each idle time of a run is in.

    Parameters
    ----------
    run : Run
        The run.
    keys : sequence of str
        One or several of :data:`KEYS`.
    depth : int, optional
        Levels of nested modules kept apart, all by default.

    Raises
    ------
    BadInput
        If a key is not known, or the run holds nothing of that kind.

    Notes
    -----
    Idle time between two activities of one module, range, iteration or phase is that group's; by GPU it is
    the GPU's, by gap it is its cause's, else it is ``(idle)``. A key's part of a joint name is the same as by
    that key alone, so that sums over the other keys are the groups of that key alone.
    """
    keys = parse_keys(keys)
    check_depth(keys, depth)
    kernels = run.kernels
    if not kernels.height:
        raise BadInput.in_file(run.path, "holds no activities", "ingest a trace with GPU activity")
    columns = activity_columns(run, keys, depth)
    start = kernels["start_ns"].to_numpy()
    end = start + kernels["duration_ns"].to_numpy()
    device_of = kernels["device"].to_numpy()
    span = int(start.min()), int(end.max())
    why = idle_reasons(run, kernels, activity_kinds(run, kernels)) if "gap" in keys else None
    idle: dict[int, IdleTimes] = {}
    named = [pl.DataFrame(columns)]
    for device, members in rows_of_devices(device_of):
        rows = np.arange(len(device_of)) if members is None else members
        one = idle_times(start[rows], end[rows], rows, span)
        one, causes = (one, None) if why is None else idle_causes(one, *why)
        idle[device] = one
        named.append(_idle_columns(columns, one, device, causes))
    joined = pl.concat(named).select(_joint(keys)).to_series()
    distinct = joined.unique(maintain_order=True)
    place = joined.replace_strict(distinct, pl.Series(range(len(distinct)), dtype=pl.Int64)).to_numpy()
    ends = np.cumsum([len(frame) for frame in named])
    pieces = np.split(place, ends[:-1])
    return Groups(distinct.to_list(), pieces[0], idle, dict(zip(idle, pieces[1:], strict=True)))


def activity_groups(run: Run, keys: Sequence[str], depth: int | None = None) -> pl.Series:
    """Return the group of each activity by one key or several, as :func:`groups_of` names it. Shape (n,).

    Raises
    ------
    BadInput
        If the run holds nothing of that kind, or a depth does not apply.
    """
    return joined_names(pl.DataFrame(activity_columns(run, keys, depth)))


def activity_columns(run: Run, keys: Sequence[str], depth: int | None = None) -> dict[str, pl.Series]:
    """Return the group of each activity by each of several keys."""
    check_depth(keys, depth)
    kernels = run.kernels
    return {key: activity_names(run, kernels, key, depth) for key in keys}


def joined_names(key_columns: pl.DataFrame) -> pl.Series:
    """Return the name of each row's group from its parts, a column a key."""
    return key_columns.select(_joint(key_columns.columns)).to_series()


def idle_groups(columns: Mapping[str, pl.Series], idle: IdleTimes, device: int, causes: Ints) -> pl.Series:
    """Return the group of each idle time of a GPU, from the parts of the activities'. Shape (g,)."""
    return joined_names(_idle_columns(columns, idle, device, causes))


def _idle_columns(
    columns: Mapping[str, pl.Series], idle: IdleTimes, device: int, causes: Ints | None
) -> pl.DataFrame:
    return pl.DataFrame({k: _idle_names(k, names, idle, device, causes) for k, names in columns.items()})


def _joint(keys: Sequence[str]) -> pl.Expr:
    name = pl.concat_str([pl.col(k) for k in keys], separator=JOINT)
    nowhere = pl.all_horizontal(pl.col(k) == IDLE_ROW for k in keys)
    return pl.when(nowhere).then(pl.lit(IDLE_ROW)).otherwise(name).alias("name")


def _idle_names(
    key: str, of_activity: pl.Series, idle: IdleTimes, device: int, causes: Ints | None
) -> pl.Series:
    """Return the group of each idle time of a GPU by one key."""
    count = len(idle.before)
    if key == "gpu":
        return pl.Series(key, [f"GPU {device}"] * count, dtype=pl.String)
    if key == "gap":
        assert causes is not None
        return pl.Series(key, list(IDLE), dtype=pl.String).gather(causes)
    if key not in _OWN_IDLE:
        return pl.Series(key, [IDLE_ROW] * count, dtype=pl.String)
    before, after = (of_activity.gather(np.maximum(side, 0)) for side in (idle.before, idle.after))
    inside = pl.Series((idle.before >= 0) & (idle.after >= 0)) & (before == after)
    beside = pl.DataFrame({"own": before, "inside": inside})
    return beside.select(pl.when("inside").then("own").otherwise(pl.lit(IDLE_ROW)).alias(key)).to_series()


def activity_names(run: Run, kernels: pl.DataFrame, key: str, depth: int | None = None) -> pl.Series:
    """Return the group of each activity by one key. Shape (n,).

    Raises
    ------
    BadInput
        If the run holds nothing of that kind.
    """
    if key == "module":
        return module_names(run, kernels, depth)
    if key == "gpu":
        return kernels.select(pl.format("GPU {}", "device").alias(key)).to_series()
    if key == "gap":
        return pl.select(pl.repeat(ACTIVE, kernels.height).alias(key)).to_series()
    if key in ("signature", "family"):
        rows = run.signatures.sort("signature")
        family = families_of(rows)
        text = (
            family if key == "family" else rows.select(pl.format("{} #{}", "name", "signature")).to_series()
        )
        named = rows.select("signature").with_columns(text.fill_null(NONE).alias("text"))
        joined = kernels.select("signature").join(named, on="signature", how="left", maintain_order="left")
        return joined["text"].alias(key)
    if key == "operator":
        table = run.table("operators", ["operator", "name"]).rename({"name": "text"})
        joined = kernels.select("operator").join(table, on="operator", how="left", maintain_order="left")
        return joined["text"].fill_null(NONE).alias(key)
    if key == "range":
        placed = paths(run.table("ranges"), "range")
        joined = kernels.select("range").join(
            placed.select("range", "name"), on="range", how="left", maintain_order="left"
        )
        return joined["name"].fill_null(NONE).alias(key)
    if key == "phase":
        return phase_names(run, kernels)
    number, names = run_steps(run, kernels)
    if number is None:
        raise BadInput.in_file(
            run.path, "holds no named steps", "mark them: record_function, NVTX or roctx ranges"
        )
    return pl.Series(key, [*names, NONE]).gather(np.where(number < 0, len(names), number))
