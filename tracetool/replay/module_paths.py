"""Modules as paths: the nesting of their calls, instances of repeated layers folded into one name."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.replay.tree import nested_paths
from tracetool.sources.modules import backward_nodes, runs_backward
from tracetool.tables.run import Run

NO_MODULE: Final = "(no module)"
BACKWARD: Final = "(backward)"
BACKWARD_SUFFIX: Final = " backward"
_INSTANCE: Final = r"_(\d+)$"


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
        In the backward pass with :data:`BACKWARD_SUFFIX`; :data:`BACKWARD` or :data:`NO_MODULE` without one.

    Raises
    ------
    BadInput
        If the run holds no modules.
    """
    modules = run.table("modules")
    if not modules.height:
        raise BadInput.in_file(
            run.path,
            "holds no modules",
            "record with torch.profiler's with_stack=True, then ingest the trace",
        )
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
