"""Time and energy of ranges, operators and iterations as trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints

#: Names of one step of a loop: instances are separate in the iterations, not in the tree.
STEP: Final = (
    r"(?i)^(profiler ?step|step|iteration|iter|batch|micro_?batch|epoch|forward_step|train(?:ing)?_step)"
    r"\W*_?\d+$"
)
NUMBER: Final = r"\W*_?\d+$"
#: Levels of nesting followed; deeper ones count as their ancestor there.
DEEPEST: Final = 64


@dataclass(frozen=True)
class Costs:
    """Times and energy of each activity at one clock. All of shape (n,)."""

    start_ns: Floats
    end_ns: Floats
    energy_j: Floats


def paths(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    """Give every row of a nested table the path of names that leads to it.

    Parameters
    ----------
    rows : DataFrame, shape (r, columns)
        ``key`` (row number), ``name`` and ``parent`` (row number or null).
    key : str
        Name of the row-number column: ``range`` or ``operator``.

    Returns
    -------
    DataFrame, shape (r, 3)
        ``key``, ``node`` (number of the path) and ``depth``; the paths themselves by :func:`nodes`.
    """
    names = rows.select(
        key,
        "parent",
        pl.when(pl.col("name").str.contains(STEP))
        .then(pl.col("name").str.replace(NUMBER, " *"))
        .otherwise(pl.col("name"))
        .alias("name"),
    )
    return nested_paths(names, key)


def nested_paths(names: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return :func:`paths` with ``above`` and ``name`` of each node; steps stay separate."""
    keys = names[key]
    names = names.with_columns(
        pl.when(pl.col("parent").is_in(keys.implode()) & (pl.col("parent") != pl.col(key)))
        .then(pl.col("parent"))
        .alias("parent")
    )
    level = names.filter(pl.col("parent").is_null()).with_columns(pl.lit(-1, pl.Int64).alias("above"))
    levels: list[pl.DataFrame] = []
    first = 0
    for depth in range(DEEPEST):
        if not level.height:
            break
        distinct = level.select("above", "name").unique(maintain_order=True).with_row_index("node")
        distinct = distinct.with_columns(pl.col("node").cast(pl.Int64) + first)
        first += distinct.height
        placed = level.join(distinct, on=["above", "name"], maintain_order="left").with_columns(
            pl.lit(depth, pl.Int32).alias("depth")
        )
        levels.append(placed.select(key, "node", "above", "name", "depth"))
        level = names.join(
            placed.select(pl.col(key).alias("parent"), pl.col("node").alias("above")),
            on="parent",
            how="inner",
        )
    schema = {key: pl.Int64, "node": pl.Int64, "above": pl.Int64, "name": pl.String, "depth": pl.Int32}
    return pl.concat(levels) if levels else pl.DataFrame(schema=schema)


def tree(
    rows: pl.DataFrame, key: str, of: pl.Series, costs: Costs, sums: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return time and energy of every path of names, its descendants included.

    Parameters
    ----------
    rows : DataFrame
        The ``ranges`` or ``operators`` table.
    key : str
        ``range`` or ``operator``.
    of : Series of int, shape (n,)
        Row of each activity, null where it has none.
    costs : Costs
        What each activity costs.
    sums : DataFrame, shape (n, columns), optional
        What else to add up.

    Returns
    -------
    DataFrame, one row per path, children behind their parent, highest energy first
        ``path``, ``name``, ``depth``, ``launches``, ``device_time_ms``, ``energy_j``,
        ``self_energy_j``, ``share`` (of the energy of all kernels and copies); times and energies of
        kernels and copies. What ran outside any is the path ``(none)``. [ms], [J], [1]
    """
    placed = paths(rows, key)
    node = (
        pl.DataFrame({key: of.cast(pl.Int64)})
        .join(placed.select(key, "node"), on=key, how="left", maintain_order="left")["node"]
        .fill_null(-1)
        .to_numpy()
    )
    distinct = placed.unique("node").sort("node")
    added = pl.DataFrame() if sums is None else sums
    own_sums = _own_sums(node, distinct.height, costs, added)
    path_sums = _with_descendants(own_sums, distinct)
    text, order = _ordered(distinct, path_sums[2, 1:])
    table = pl.DataFrame(
        {
            "path": pl.Series(text, dtype=pl.String),
            "name": distinct["name"],
            "depth": distinct["depth"],
            "launches": path_sums[0, 1:].astype(np.int64),
            "device_time_ms": path_sums[1, 1:],
            "energy_j": path_sums[2, 1:],
            "self_energy_j": own_sums[2, 1:],
            **{c: path_sums[3 + i, 1:] for i, c in enumerate(added.columns)},
        }
    )[order].filter(pl.col("launches") > 0)
    if own_sums[0, 0]:
        table = pl.concat([table, _outside(own_sums[:, 0], added.columns)])
    total_j = float(costs.energy_j.sum())
    share = pl.col("energy_j") / total_j if total_j > 0 else pl.lit(0.0)
    return table.with_columns(share.alias("share"))


def _own_sums(node: Ints, count: int, costs: Costs, added: pl.DataFrame) -> Floats:
    """Return launches, time, energy and the columns of ``added``, summed over activities by node.

    Shape (3 + columns, count + 1); the first column of the result is of activities outside any node, whose
    ``node`` is -1. [1], [ms], [J]
    """
    shift = node + 1
    return np.stack(
        [
            np.bincount(shift, minlength=count + 1).astype(np.float64),
            np.bincount(shift, weights=(costs.end_ns - costs.start_ns) * 1e-6, minlength=count + 1),
            np.bincount(shift, weights=costs.energy_j, minlength=count + 1),
            *(np.bincount(shift, weights=added[c].to_numpy(), minlength=count + 1) for c in added.columns),
        ]
    )


def _with_descendants(own_sums: Floats, distinct: pl.DataFrame) -> Floats:
    """Return the sums of every node with those of its descendants, the deepest level added first."""
    path_sums = own_sums.copy()
    above, depth = distinct["above"].to_numpy(), distinct["depth"].to_numpy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        at_level = np.flatnonzero(depth == level)
        for total in path_sums:
            np.add.at(total, above[at_level] + 1, total[at_level + 1])
    return path_sums


def _outside(sums: Floats, added: Sequence[str]) -> pl.DataFrame:
    """Return the row of the path ``(none)``: activities outside any node, with the columns ``added``."""
    launches, time_ms, energy_j, *added_sums = sums
    return pl.DataFrame(
        {
            "path": ["(none)"],
            "name": ["(none)"],
            "depth": pl.Series([0], dtype=pl.Int32),
            "launches": [int(launches)],
            "device_time_ms": [time_ms],
            "energy_j": [energy_j],
            "self_energy_j": [energy_j],
            **{c: [total] for c, total in zip(added, added_sums, strict=True)},
        }
    )


def _ordered(distinct: pl.DataFrame, energy: Floats) -> tuple[list[str], Ints]:
    """Return the text of every path, and an order: children behind their parent, highest energy first."""
    names = distinct["name"].to_list()
    text: list[str] = []
    children: dict[int, list[int]] = {}
    for i, (name, parent) in enumerate(zip(names, distinct["above"].to_list(), strict=True)):
        text.append(name if parent < 0 else f"{text[parent]} / {name}")
        children.setdefault(parent, []).append(i)
    order: list[int] = []
    stack = sorted(children.get(-1, []), key=lambda i: energy[i])
    while stack:
        i = stack.pop()
        order.append(i)
        stack.extend(sorted(children.get(i, []), key=lambda c: energy[c]))
    return text, np.array(order, np.int64)
