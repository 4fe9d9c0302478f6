"""Module (``nn.Module``) that launched each activity, in the forward pass or for it in the backward pass."""

from __future__ import annotations

import polars as pl

from tracetool.sources.linking import Tree, innermost, number_ranges, thread_of

#: Operators that the autograd engine calls, one per node of the backward pass.
ENGINE = "autograd::engine::evaluate_function"
_SEQUENCE = ("process", "sequence")


def number_modules(modules: pl.DataFrame) -> tuple[pl.DataFrame, Tree | None]:
    """Add ``module`` (row number), ``parent`` and ``depth``; return what encloses what too."""
    numbered, tree = number_ranges(modules)
    return numbered.rename({"range": "module"}), tree


def backward_nodes(operators: pl.DataFrame) -> pl.Series:
    """Return the innermost node of the backward pass that each operator runs in, null for none.

    Parameters
    ----------
    operators : DataFrame, shape (n, columns)
        With ``name`` and ``parent``; rows are numbered by ``operator`` from 0 in this order.

    Returns
    -------
    Series of int, shape (n,)
        Rows of ``operators``: the row itself where it is a node.
    """
    is_node = operators.select(pl.col("name").cast(pl.String).str.starts_with(ENGINE)).to_series()
    parent = operators["parent"]
    node = pl.select(pl.int_range(len(is_node), dtype=pl.Int64)).to_series()
    if not is_node.any():
        return pl.Series(node.name, [None] * len(node), dtype=pl.Int64)
    waiting = (~is_node).arg_true()
    while len(waiting):  # one level of nesting a round
        above = parent.gather(node.gather(waiting))
        node.scatter(waiting, above)
        waiting = waiting.filter((~is_node.gather(above)).fill_null(value=False))
    return node


def runs_backward(module_start_ns: pl.Expr, node_start_ns: pl.Expr) -> pl.Expr:
    """Return whether a launch within a node belongs to the backward pass.

    Notes
    -----
    A module called after the node began, as checkpointing does, runs forward again.
    """
    return node_start_ns.is_not_null() & ~(module_start_ns >= node_start_ns).fill_null(value=False)


def link_modules(
    activities: pl.DataFrame, operators: pl.DataFrame, modules: pl.DataFrame, tree: Tree | None
) -> pl.DataFrame:
    """Add ``module``: the innermost one open on the launching thread at the launch.

    Notes
    -----
    In a backward pass it is the module of the forward operator of the same autograd sequence number, null
    where several threads count alike.
    """
    if tree is None or not activities.height:
        return activities.with_columns(module=pl.lit(None, dtype=pl.Int64))
    opened = innermost(activities, tree).cast(pl.Int64)
    if not operators.height or "sequence" not in operators.columns:
        return activities.with_columns(opened.alias("module"))
    node = backward_nodes(operators)
    forward = _forward_modules(operators, node, tree)
    of_activity = node.gather(activities["operator"].cast(pl.Int64))
    frame = pl.DataFrame(
        {
            "opened": opened,
            "module_start": modules["start_ns"].gather(opened),
            "node_start": operators["start_ns"].gather(of_activity),
            "forward": forward.gather(of_activity),
        }
    )
    backward = runs_backward(pl.col("module_start"), pl.col("node_start"))
    module = frame.select(pl.when(backward).then("forward").otherwise("opened").alias("module"))
    return activities.with_columns(module.to_series())


def _forward_modules(operators: pl.DataFrame, node: pl.Series, tree: Tree) -> pl.Series:
    """Return the module of the forward operator that each operator's sequence number names. Shape (n,).

    Notes
    -----
    Operators that make no node carry the number of the next that does: the last to start made it.
    """
    counted = operators.filter(node.is_null() & (operators["sequence"] >= 0).fill_null(value=False))
    makers = counted.sort("start_ns", maintain_order=True).group_by(_SEQUENCE, maintain_order=True).agg(
        pl.col("thread", "start_ns").last(), pl.col("thread").n_unique().alias("threads")
    )  # fmt: skip
    makers = makers.filter(pl.col("threads") == 1)
    open_module = tree.nest.innermost(thread_of(makers, tree.threads), makers["start_ns"]).cast(pl.Int64)
    keyed = makers.select(_SEQUENCE).with_columns(open_module.alias("module"))
    joined = operators.select(_SEQUENCE).join(
        keyed, on=_SEQUENCE, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["module"]
