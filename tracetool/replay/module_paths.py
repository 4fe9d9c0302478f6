"""Modules as paths: the nesting of their calls, instances of repeated layers folded into one name."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.replay.range_tree import DEEPEST, STEP, nested_paths
from tracetool.sources.modules import backward_nodes, runs_backward
from tracetool.tables.run import Run

NO_MODULE: Final = "(no module)"
BACKWARD: Final = "(backward)"
BACKWARD_SUFFIX: Final = " backward"
_INSTANCE: Final = r"_(\d+)$"
#: What layerwise markers of serving engines write of a module.
_MARKER: Final = r"^\{'Module': '([^']+)'"
#: A number that stands alone in a name, and what stands around it.
_NUMBERED: Final = r"(^|[._ /#:\[-])\d+($|[._ /\]-])"
_DOTTED: Final = re.compile(r"[\w*]+(\.[\w*]+)+")


def module_names(run: Run, kernels: pl.DataFrame, depth: int | None = None) -> pl.Series:
    """Return the path of the module of each activity, e.g. ``Model_0.Layer_*.Linear_*[1]``.

    Parameters
    ----------
    run : Run
        The run.
    kernels : DataFrame, shape (n, columns)
        With ``module`` and ``operator``.
    depth : int, optional
        Levels kept; activities of modules below count as their ancestor's.

    Returns
    -------
    Series of str, shape (n,)
        In the backward pass of ``nn.Module`` calls with :data:`BACKWARD_SUFFIX`; :data:`BACKWARD` or
        :data:`NO_MODULE` without one.

    Raises
    ------
    BadInput
        If the run holds no modules and no ranges that name any.

    Notes
    -----
    Without ``nn.Module`` calls modules are the ranges that a program marked (:func:`range_modules`).
    """
    modules = run.table("modules")
    if not modules.height:
        ranges = run.table("ranges")
        if kernels["range"].is_null().all():
            raise BadInput.in_file(
                run.path,
                "holds no modules",
                "record with torch.profiler's with_stack=True, or mark them: NVTX or roctx ranges",
            )
        return range_modules(ranges, kernels["range"], depth)
    operators = run.table("operators", ["operator", "name", "parent", "start_ns"])
    node = backward_nodes(operators).gather(kernels["operator"])
    module = kernels["module"]
    frame = pl.DataFrame(
        {
            "path": _paths(modules, depth).gather(module),
            "module_start": modules["start_ns"].gather(module),
            "node_start": operators["start_ns"].gather(node),
        }
    )
    path = pl.col("path")
    named = (
        pl.when(runs_backward(pl.col("module_start"), pl.col("node_start")))
        .then((path + BACKWARD_SUFFIX).fill_null(BACKWARD))
        .otherwise(path.fill_null(NO_MODULE))
    )
    return frame.select(named.alias("module")).to_series()


def range_modules(ranges: pl.DataFrame, of: pl.Series, depth: int | None = None) -> pl.Series:
    """Return the path of the ranges around each activity, e.g. ``model.layers.*.mlp``; steps left out.

    Parameters
    ----------
    ranges : DataFrame
        The ``ranges`` table.
    of : Series of int, shape (n,)
        Innermost range of each activity, null where it has none.
    depth : int, optional
        Levels kept: parts of dotted names, and ranges inside one another.

    Notes
    -----
    Numbers that stand alone are folded. A range called by a whole path, as hooks on modules write it (also
    as ``{'Module': 'model.layers.0.mlp', ...}``), is not repeated by those inside it.
    """
    text = pl.col("name").str.extract(_MARKER).fill_null(pl.col("name"))
    for _ in range(2):  # numbers beside each other share their separator
        text = text.str.replace_all(_NUMBERED, "${1}*${2}")
    named = ranges.select(
        "range", "parent", text.alias("name"), pl.col("name").str.contains(STEP).alias("step")
    )
    placed = nested_paths(_without_steps(named), "range")
    distinct = placed.unique("node").sort("node")
    labels: list[list[str]] = []
    full_names: list[str] = []
    for above, name in distinct.select("above", "name").iter_rows():
        outer, start = (labels[above], full_names[above]) if above >= 0 else ([], "")
        inside = bool(start) and name.startswith(f"{start}.")
        label = name[len(start) + 1 :] if inside else name
        labels.append(outer + (label.split(".") if _DOTTED.fullmatch(label) else [label]))
        full_names.append(name)
    paths = pl.Series("path", [".".join(p[:depth]) for p in labels], dtype=pl.String)
    inner = pl.DataFrame({"range": of.cast(pl.Int64)}).join(
        _nearest(named).join(placed.select("range", "node"), on="range", how="left"),
        left_on="range",
        right_on="inner",
        how="left",
        maintain_order="left",
    )
    return paths.gather(inner["node"]).fill_null(NO_MODULE).alias("module")


def _nearest(named: pl.DataFrame) -> pl.DataFrame:
    """Return the innermost range that is no step at or around each range, null where all are steps."""
    above = named.select(pl.col("range").alias("at"), pl.col("parent").alias("outer"), "step")
    nearest = named.select(pl.col("range").alias("inner"), "range")
    for _ in range(DEEPEST):
        joined = nearest.join(above, left_on="range", right_on="at", how="left", maintain_order="left")
        if not joined["step"].any():
            break
        nearest = joined.select("inner", pl.when("step").then("outer").otherwise("range").alias("range"))
    return nearest


def _without_steps(named: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges that are no steps, each inside the next that is none."""
    outer = _nearest(named).rename({"inner": "parent", "range": "outer"})
    joined = named.join(outer, on="parent", how="left", maintain_order="left")
    return joined.filter(~pl.col("step")).select("range", pl.col("outer").alias("parent"), "name")


def _paths(modules: pl.DataFrame, depth: int | None) -> pl.Series:
    """Return the path of each row of ``modules``. Shape (r,)."""
    placed = nested_paths(modules, "module")
    nodes = _folded(placed.unique("node").sort("node"))
    text: list[str] = []
    for above, label, level in nodes.select("above", "label", "depth").iter_rows():
        outer = text[above] if above >= 0 else ""
        deeper = depth is not None and level >= depth
        text.append(outer if deeper else f"{outer}.{label}" if outer else label)
    paths = pl.Series("path", text, dtype=pl.String)
    return paths.gather(
        modules.select("module").join(placed, on="module", how="left", maintain_order="left")["node"]
    )


def _folded(nodes: pl.DataFrame) -> pl.DataFrame:
    """Add ``label``: the class and its instance, ``*`` where the run has several of the class.

    Notes
    -----
    Instances without modules of their own that stand beside each other in one module (query, key and value)
    stay apart, by their order: ``Linear_*[0]``, ``Linear_*[1]``.
    """
    named = nodes.with_columns(
        pl.col("name").str.replace(_INSTANCE, "").alias("class"),
        pl.col("name").str.extract(_INSTANCE).cast(pl.Int64, strict=False).fill_null(-1).alias("instance"),
    )
    containers = named.filter(pl.col("node").is_in(named["above"].implode()))["class"].unique()
    beside = pl.col("instance").n_unique().over("above", "class") > 1
    leaf = ~pl.col("class").is_in(containers.implode())
    folded = pl.col("class") + "_*"
    place = (pl.col("instance").rank("dense").over("above", "class") - 1).cast(pl.String)
    several = pl.col("instance").n_unique().over("class") > 1
    label = (
        pl.when(~several).then("name").when(leaf & beside).then(folded + "[" + place + "]").otherwise(folded)
    )
    return named.with_columns(label.alias("label"))
