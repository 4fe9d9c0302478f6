"""Rows of every family, for tests of time and work."""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns

#: One piece of work of each family that has a shape of its own.
SHAPES: dict[str, dict[str, float]] = {
    "gemm": {"m": 512, "n": 1024, "k": 2048, "batch": 2},
    "gemv": {"m": 1, "n": 4096, "k": 4096},
    "conv": {
        "batch": 8, "channels": 64, "height": 56, "width": 56, "filters": 128, "kernel_h": 3, "kernel_w": 3,
        "stride": 1, "padding": 1,
    },
    "moe": {"tokens": 512, "hidden": 2048, "intermediate": 1024, "top_k": 4, "experts": 32},
    "norm": {"rows": 4096, "cols": 1024},
    "softmax": {"rows": 4096, "cols": 2048},
    "collective": {"bytes": 1e7, "ranks": 8},
    "memcpy": {"bytes": 1e7},
    "memset": {"bytes": 1e7},
}  # fmt: skip
PREFILL = {
    "batch": 4,
    "q_len": 1024,
    "kv_len": 1024,
    "heads": 16,
    "kv_heads": 4,
    "head_dim": 128,
    "causal": 1,
}
DECODE = {"batch": 16, "q_len": 1, "kv_len": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "causal": 1}


def rows_of(family: str, dtype: str = "bf16", phase: str = "", **columns: object) -> OperatorColumns:
    """Return rows of one family; each column a number or one number a row."""
    width = max((np.size(v) for v in columns.values()), default=1)
    numbers = {k: np.broadcast_to(np.asarray(v, np.float64), (width,)).copy() for k, v in columns.items()}
    texts = {"dtype": dtype, "phase": phase, "shape_source": "operator"}
    return OperatorColumns(
        np.full(width, family, dtype=object),
        {**numbers, **{k: np.full(width, v, dtype=object) for k, v in texts.items()}},
    )


#: Sizes of a family that has no shape here, by column; any other is 64.
USUAL = {"elements": 1e6, "rows": 4096, "cols": 512, "state": 16}


def shape_of(family: str) -> dict[str, float]:
    """Return a shape of a family: that above, else usual sizes for what it needs."""
    from tracetool.families.registry import families

    needed = families()[family].needs[0]
    return SHAPES.get(family) or {"cols": 512.0, **{c: USUAL.get(c, 64.0) for c in needed}}


def every_family() -> dict[str, OperatorColumns]:
    """Return one row of every family whose work can be known, attention in both phases."""
    from tracetool.families.registry import families

    made = {name: rows_of(name, **shape_of(name)) for name, family in families().items() if family.needs}
    made["attention"] = rows_of("attention", phase="prefill", **PREFILL)
    made["attention decode"] = rows_of("attention", phase="decode", **DECODE)
    return made
