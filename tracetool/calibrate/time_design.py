"""Groups of rows that share a shape: what is held back together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns

#: Columns that make a shape; formats and clocks are not among them, so that one shape in two formats
#: is held back in both.
SHAPE_COLUMNS: Final = (
    "batch", "m", "n", "k", "channels", "height", "width", "filters", "kernel_h", "kernel_w", "q_len",
    "kv_len", "heads", "kv_heads", "tokens", "hidden", "intermediate", "top_k", "experts", "rows", "cols",
    "elements", "reads", "bytes", "ranks",
)  # fmt: skip


def shape_groups(rows: OperatorColumns, columns: Sequence[str] = SHAPE_COLUMNS) -> Ints:
    """Return a number per row, the same for rows whose shape columns agree. Shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> table = OperatorColumns(np.array(["gemm"] * 3, dtype=object), {"m": np.array([1.0, 2.0, 1.0])})
    >>> shape_groups(table).tolist()
    [0, 1, 0]
    """
    table = np.stack([np.nan_to_num(rows.number(c), nan=-1.0) for c in columns], axis=1)
    _, group = np.unique(table, axis=0, return_inverse=True)
    return np.asarray(group.reshape(-1), dtype=np.int64)
